"""Score detector: abstain where the scores of a list look poisoned."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stressrag.defenses.base import Evasion, Judges, Pool
from stressrag.defenses.context_scores import SCORES
from stressrag.defenses.filter import threshold
from stressrag.retrievers.ranking import NO_DOC, Floats, Ranking


class ScoreDetector:
    """Returns nothing where the first k candidates' scores are odder than nearly all clean lists.

    The three score detectors of *Prevented is Not Protected* (2026, section 3), with hard abstention. A list
    is flagged when its score lies strictly above the threshold.

    Parameters
    ----------
    score : {"min_score", "gap", "dispersion"}
        See ``context_scores``.
    clean : sequence of float array (k,)
        Scores of clean lists of the same retriever, without other defenses.
    rate : float
        The nominal rate: what percentage of clean lists may be flagged.

    Attributes
    ----------
    threshold : float
        The highest score that is let pass.
    """

    name = "score_detector"
    judges: Judges = "all"

    def __init__(self, score: str, clean: Sequence[Floats], rate: float):
        self.score = score
        self.threshold = threshold(np.array([SCORES[score](row) for row in clean]), rate)

    def evasion(self) -> Evasion:
        """Score just enough to get in, or fill the list: either keeps its scores close together."""
        return Evasion(weaker=True)

    def apply(self, pool: Pool, k: int) -> Ranking:
        docs, scores = pool.candidates.docs, pool.candidates.scores
        flagged = np.zeros(len(docs), bool)
        for row in range(len(docs)):
            seen = scores[row, :k][docs[row, :k] != NO_DOC]
            flagged[row] = SCORES[self.score](seen) > self.threshold
        return Ranking(np.where(flagged[:, None], NO_DOC, docs), np.where(flagged[:, None], -np.inf, scores))
