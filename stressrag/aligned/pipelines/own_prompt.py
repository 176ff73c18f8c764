"""The prompt of the user's own system, in the place of ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stressrag.errors import StressragError

_FIELDS = re.compile(r"\{(passages|numbered_passages|question)\}")
_BRACES = re.compile(r"\{\{?\s*\w+\s*\}?\}")
WHOLE = "in the reply, which counts whole"
"""How the note on a reply without the mark ends."""


@dataclass(frozen=True)
class OwnPrompt:
    """What a system tells its model, and where in a reply its answer stands.

    Attributes
    ----------
    instruction : str
        The system text; ``""``: ours, or none with a template.
    template : str
        The user text, with ``{passages}`` (the texts as they are, a blank line between them) or
        ``{numbered_passages}`` (each behind ``[1]`` and so on, on lines of their own), and ``{question}``;
        ``""``: ours, of numbered passages.
    answer_after : str
        The answer is what follows the last such mark in a reply, in either case; ``""``: all of it.
    """

    instruction: str = ""
    template: str = ""
    answer_after: str = ""

    def user(self, question: str, texts: Sequence[str]) -> str:
        """The template with its fields filled; braces in passages and question are no fields."""
        numbered = "\n".join(f"[{i}] {text}" for i, text in enumerate(texts, 1))
        fields = {"passages": "\n\n".join(texts), "numbered_passages": numbered, "question": question}
        return _FIELDS.sub(lambda m: fields[m[1]], self.template)

    def answer(self, reply: str) -> tuple[str, str]:
        """The answer in a reply, and a note where the mark is not in it: then all of it counts."""
        if not self.answer_after:
            return reply, ""
        marks = list(re.finditer(re.escape(self.answer_after), reply, re.IGNORECASE))
        if not marks:
            return reply, f"no {self.answer_after!r} {WHOLE}"
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
        When a file cannot be read or is empty, a field is not in the template, or the mark is blank.
    """
    if answer_after and not answer_after.strip():
        raise StressragError("prompt.answer_after is blank; give the mark itself, such as Answer:")
    made = OwnPrompt(
        _text("prompt.instruction", instruction), _text("prompt.template", template), answer_after or ""
    )
    there = set(_FIELDS.findall(made.template))
    if made.template and not ({"passages", "numbered_passages"} & there and "question" in there):
        missing = "{question}" if "question" not in there else "{passages} (or {numbered_passages})"
        found = ", ".join(dict.fromkeys(_BRACES.findall(made.template))) or "no braces"
        raise StressragError(f"prompt.template={template}: {missing} is not in it, but {found}")
    if doubled := re.search(r"\{\{\s*(?:passages|numbered_passages|question)\s*\}\}", made.template):
        raise StressragError(f"prompt.template={template}: write {doubled[0][1:-1]} for {doubled[0]}")
    return None if made == OwnPrompt() else made


def sent_as_they_are(own: OwnPrompt) -> list[str]:
    """What looks like a field of a prompt and is none, such as ``{history}``."""
    here = [x for x in _BRACES.findall(own.template) if not _FIELDS.fullmatch(x)]
    return list(dict.fromkeys([*here, *(m[0] for m in _FIELDS.finditer(own.instruction))]))


def _text(name: str, path: str | None) -> str:
    """What a file says, less the line break at its end."""
    if not path:
        return ""
    try:
        text = Path(path).expanduser().read_text("utf-8-sig")
    except (OSError, ValueError) as e:
        why = getattr(e, "strerror", None) or "it is no UTF-8 text"
        raise StressragError(f"{name}={path}: {why}; give a file that holds the text") from e
    if not text.strip():
        raise StressragError(f"{name}={path}: the file is empty")
    return text.removesuffix("\n")
