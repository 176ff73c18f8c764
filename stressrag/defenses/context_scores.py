"""Scores of one retrieved list by its retrieval scores alone; higher is more anomalous."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stressrag.retrievers.ranking import Floats


def min_score(scores: Floats) -> float:
    """Minus the least retrieval score; an empty context counts as one whose least score is 0."""
    return -float(scores.min()) if len(scores) else 0.0


def gap(scores: Floats) -> float:
    """Greatest less least retrieval score; 0 with fewer than two passages."""
    return float(scores.max() - scores.min()) if len(scores) else 0.0


def dispersion(scores: Floats) -> float:
    """Population standard deviation of the retrieval scores; 0 with fewer than two passages."""
    if not len(scores):
        return 0.0
    # Sorted, so that the order of passages moves no bit; from the least and over the width, so that equal
    # scores give 0 exactly and large ones do not overflow.
    above = np.sort(scores) - scores.min()
    width = float(above[-1])
    # Twelve digits: contexts that differ by a shift tie, whatever the last bits are.
    return float(f"{(above / width).std() * width:.12g}") if width > 0 else 0.0


SCORES: dict[str, Callable[[Floats], float]] = {
    "min_score": min_score,
    "gap": gap,
    "dispersion": dispersion,
}
