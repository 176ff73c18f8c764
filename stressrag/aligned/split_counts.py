"""Split knowledge in counts: from candidates to what a defense leaves (aligned RAG evaluation paper, 2.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.cells import Cell, Labeler
from stressrag.aligned.controls import co_retrieved, strict_column

COUNTS = (
    "candidates",
    "co_retrieved",
    "positives",
    "strict",
    "strict_newly_induced",
    "strict_suppressed",
    "introduced",
    "final_positives",
)


def split_counts(cell: Cell, labels: Labeler) -> dict[str, int | None] | None:
    """The counts of a cell under a label; ``None`` where the compositions were not answered.

    Returns
    -------
    dict
        ``candidates`` (queries), ``co_retrieved`` (A and B both in the context; ``None`` where contexts
        were not saved), ``positives`` (undefended and poisoned), ``strict`` (positive, and negative with A,
        B or neither beside the rest), ``strict_newly_induced`` (and negative clean); with a defense
        ``strict_suppressed``, ``introduced`` (positive with it alone) and ``final_positives``, else
        ``None``. Unknown labels are in no count.
    """
    if not (cell.has("poison_background", False) and cell.has("background_only", False)):
        return None
    clean, poisoned, defended = (
        cell.column(labels, "target", condition, d)
        for condition, d in (("clean", False), ("poisoned", False), ("poisoned", True))
    )
    together, strict = co_retrieved(cell), strict_column(cell, labels, False)
    out: dict[str, int | None] = {
        "candidates": len(cell.queries),
        "co_retrieved": None if np.isnan(together).all() else _count(together == 1),
        "positives": _count(poisoned == 1),
        "strict": _count(strict == 1),
        "strict_newly_induced": _count((strict == 1) & (clean == 0)),
    }
    with_defense = {
        "strict_suppressed": (strict == 1) & (defended == 0),
        "introduced": (poisoned == 0) & (defended == 1),
        "final_positives": defended == 1,
    }
    there = cell.method != "none"
    return {**out, **{name: _count(x) if there else None for name, x in with_defense.items()}}


def _count(column: NDArray[np.bool_]) -> int:
    return int(column.sum())
