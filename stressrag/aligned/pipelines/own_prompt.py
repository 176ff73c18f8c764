"""The prompt of the user's own system, in the place of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stressrag.errors import StressragError

_FIELDS = re.compile(r"\{(passages|question)\}")


@dataclass(frozen=True)
class OwnPrompt:
    """What a system tells its model, and where in a reply its answer stands.

    Attributes
    ----------
    instruction : str
        The system text; ``""``: ours, or none with a template.
    template : str
        The user text, with ``{passages}`` (the texts as they are, a blank line between them) and
        ``{question}``; ``""``: ours, of numbered passages.
    answer_after : str
        The answer is what follows the last such mark in a reply, in either case; ``""``: all of it.
    """

    instruction: str = ""
    template: str = ""
    answer_after: str = ""

    def user(self, question: str, texts: Sequence[str]) -> str:
        """The template with its fields filled; braces in passages and question are no fields."""
        fields = {"passages": "\n\n".join(texts), "question": question}
        return _FIELDS.sub(lambda m: fields[m[1]], self.template)

    def answer(self, reply: str) -> tuple[str, str]:
        """The answer in a reply, and a note where the mark is not in it: then all of it counts."""
        if not self.answer_after:
            return reply, ""
        marks = list(re.finditer(re.escape(self.answer_after), reply, re.IGNORECASE))
        if not marks:
            return reply, f"no {self.answer_after!r} in the reply, which counts whole"
        return reply[marks[-1].end() :], ""

    def settings(self) -> dict[str, str]:
        """What of it decides the result, beside the instruction."""
        named = {"template": self.template, "answer_after": self.answer_after}
        return {k: v for k, v in named.items() if v}


def own_prompt(
    instruction: str | None = None, template: str | None = None, answer_after: str | None = None
) -> OwnPrompt | None:
    """The prompt of some settings; ``None``: ours.

    Parameters
    ----------
    instruction, template : str, optional
        Files of UTF-8 text.
    answer_after : str, optional
        The mark itself.

    Raises
    ------
    StressragError
        When a file cannot be read or is empty, or a field is not in the template.
    """
    made = OwnPrompt(
        _text("prompt.instruction", instruction), _text("prompt.template", template), answer_after or ""
    )
    there = set(_FIELDS.findall(made.template))
    if made.template and (missing := sorted({"passages", "question"} - there)):
        raise StressragError(f"prompt.template={template}: {{{missing[0]}}} is not in it")
    return None if made == OwnPrompt() else made


def _text(name: str, path: str | None) -> str:
    """What a file says, white space around it aside."""
    if not path:
        return ""
    try:
        text = Path(path).expanduser().read_text("utf-8").strip()
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or "it is no UTF-8 text"
        raise StressragError(f"{name}={path}: {why}; give a file that holds the text") from e
    if not text:
        raise StressragError(f"{name}={path}: the file is empty")
    return text
