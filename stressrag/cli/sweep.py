"""``sweep``: all combinations of lists of settings, in one process, sharing what they share."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.cli.conditions import execute_words

EXAMPLES = (
    "sweep attack=partial retriever=hybrid",
    "sweep retriever=bm25,lsa attack=payload attack.budget=1,3,5 attack.scope=isolated,multi",
    "sweep preset=paper grid=paper",
    "sweep 'defense=[overlap,mmr]' 'defense.tau=[.4,.7]' retriever=hybrid",
)


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    what = """Evaluate every combination of the values given (a,b or [a,b] or range(1,4), for any setting or
group). Quote brackets for your shell. The clean (and undefended) partners that comparison needs are added."""
    return execute_words("sweep", argv, what, EXAMPLES)
