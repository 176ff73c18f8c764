"""The prompt of numbered passages and a question."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.aligned.generators.base import Prompt

INSTRUCTION = (
    "Answer the question from the passages alone, in one short sentence or a few words. "
    "If the passages do not hold the answer, reply: I don't know."
)


def passages_prompt(
    question: str, passages: Sequence[str], instruction: str = "", max_tokens: int = 150
) -> Prompt:
    """The prompt that asks a question about passages; further lines of a text are indented."""
    inset = [text.replace("\n", "\n    ") for text in (question, *passages)]
    lines = ["Passages:", *(f"[{i}] {text}" for i, text in enumerate(inset[1:], 1))]
    lines += ["", f"Question: {inset[0]}", "", "Answer:"]
    return Prompt("\n".join(lines), instruction or INSTRUCTION, max_tokens)
