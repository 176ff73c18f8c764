"""Maximal marginal relevance (Carbonell and Goldstein 1998; retrieval paper, lambda .7 on the 50 pool)."""

from __future__ import annotations

import numpy as np

from stressrag.defenses.base import Evasion, Pool, in_blocks
from stressrag.defenses.similarity import Similarity
from stressrag.retrievers.ranking import NO_DOC, Ranking


class MMR:
    """Picks one candidate after another by ``lambda * relevance - (1 - lambda) * similarity``.

    Relevance is the candidate's score, min-max scaled within its pool (1 where all are equal); similarity is
    the largest cosine to a candidate already picked. Among equals the pool's order decides. Nothing
    is rejected.

    Parameters
    ----------
    similarity : Similarity
        How alike two candidates are.
    trade_off : float
        Lambda.
    """

    name = "mmr"

    def __init__(self, similarity: Similarity, trade_off: float):
        self.similarity, self.trade_off = similarity, trade_off

    def evasion(self) -> Evasion:
        """Word each document differently, so that none is held against the one before it."""
        return Evasion(differing=True)

    def apply(self, pool: Pool, k: int) -> Ranking:
        docs, scores = pool.candidates.docs, pool.candidates.scores
        rows = [self._order(docs[part], scores[part], pool, k) for part in in_blocks(docs)]
        order = np.concatenate(rows) if rows else np.empty((0, min(k, docs.shape[1])), np.int64)
        return Ranking(np.take_along_axis(docs, order, 1), np.take_along_axis(scores, order, 1))

    def _order(self, docs: np.ndarray, scores: np.ndarray, pool: Pool, k: int) -> np.ndarray:
        there = docs != NO_DOC
        low = np.where(there, scores, np.inf).min(1, keepdims=True, initial=np.inf)
        span = np.where(there, scores, -np.inf).max(1, keepdims=True, initial=-np.inf) - low
        with np.errstate(invalid="ignore", divide="ignore"):
            relevance = np.where(there, np.where(span > 0, (scores - low) / span, 1.0), 0.0)
        alike = self.similarity.among(docs, pool)
        picked = np.empty((len(docs), min(k, docs.shape[1])), np.int64)
        free, nearest = np.ones(docs.shape, bool), np.full(docs.shape, -np.inf)
        for step in range(picked.shape[1]):
            novelty = 0.0 if step == 0 else (1 - self.trade_off) * nearest
            value = np.where(free, self.trade_off * relevance - novelty, -np.inf)
            best = np.where(there & free, value, -np.inf).argmax(1)
            # Past the last candidate of a short row, argmax would pick a taken place again.
            spent = ~(there & free).any(1)
            best[spent] = free[spent].argmax(1)
            picked[:, step] = best
            free[np.arange(len(docs)), best] = False
            nearest = np.maximum(nearest, alike[np.arange(len(docs)), best])
        return picked
