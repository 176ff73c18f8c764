"""``run``: one condition."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.cli.conditions import execute_words

EXAMPLES = (
    "run retriever=lsa attack=query_only attack.budget=5",
    "run attack=partial attack.terms=2 attack.strategy=idf retriever=hybrid",
    "run dataset=folder dataset.path=my-collection retriever=minilm",
)


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    return execute_words("run", argv, "Evaluate one condition; more than one value is refused.", EXAMPLES)
