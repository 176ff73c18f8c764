"""The prompt of numbered passages and a question, and its reader.

::

    Passages:
    [1] The first passage.
        A further line of it.
    [2] The second passage.

    Question: What is asked?

    Answer:

Passages may be hostile. What stands at the beginning of a line is ours alone: all further lines of a passage
or of the question are indented, so that no text can pass for a next passage or for another question. Taking
the indentation away gives the texts back exactly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from stressrag.aligned.generators.base import Prompt

INSTRUCTION = (
    "Answer the question from the passages alone, in one short sentence or a few words. "
    "If the passages do not hold the answer, reply: I don't know."
)
INDENT = "    "
_NUMBERED = re.compile(r"\[(\d+)\] (.*)\Z", re.DOTALL)


def passages_prompt(
    question: str, passages: Sequence[str], instruction: str = "", max_tokens: int = 150
) -> Prompt:
    """The prompt that asks a question about passages.

    Parameters
    ----------
    question : str
        What is asked.
    passages : sequence of str
        In the order in which they are shown; there may be none.
    instruction : str
        The system text; ``""``: :data:`INSTRUCTION`.
    max_tokens : int
        The most tokens of the reply.
    """
    lines = ["Passages:", *(f"[{i}] {_indented(text)}" for i, text in enumerate(passages, 1))]
    lines += ["", f"Question: {_indented(question)}", "", "Answer:"]
    return Prompt("\n".join(lines), instruction or INSTRUCTION, max_tokens)


def read_passages_prompt(prompt: Prompt) -> tuple[str, tuple[str, ...]] | None:
    """The question and the passages of a prompt of :func:`passages_prompt`; ``None`` for any other."""
    blocks = _blocks(prompt.user)
    if len(blocks) < 5 or blocks[0] != "Passages:" or (blocks[-4], *blocks[-2:]) != ("", "", "Answer:"):
        return None
    question = blocks[-3]
    numbered = [_NUMBERED.match(block) for block in blocks[1:-4]]
    if not question.startswith("Question: "):
        return None
    if any(m is None or int(m[1]) != i for i, m in enumerate(numbered, 1)):
        return None
    return question[len("Question: ") :], tuple(m[2] for m in numbered if m)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + INDENT)


def _blocks(text: str) -> list[str]:
    """Lines joined with the indented ones after them, which lose their indentation."""
    blocks: list[str] = []
    for line in text.split("\n"):
        if blocks and line.startswith(INDENT):
            blocks[-1] += "\n" + line[len(INDENT) :]
        else:
            blocks.append(line)
    return blocks
