"""Maximal marginal relevance (Carbonell and Goldstein 1998; retrieval paper, lambda .7 on the 50 pool)."""

from __future__ import annotations

import numpy as np

from stressrag.defenses.base import Pool
from stressrag.retrievers.ranking import NO_DOC, Ranking
from stressrag.retrievers.vectors import VectorRetriever

_ROWS = 256


class MMR:
    """Picks one candidate after another by ``lambda * relevance - (1 - lambda) * similarity``.

    Relevance is the candidate's score, min-max scaled within its pool (1 where all are equal); similarity is
    the largest cosine to a candidate already picked. Among equals the pool's order decides. Nothing
    is rejected.

    Parameters
    ----------
    vectors : VectorRetriever
        A fitted retriever whose vectors give the similarity.
    trade_off : float
        Lambda.
    """

    name = "mmr"

    def __init__(self, vectors: VectorRetriever, trade_off: float):
        self.vectors, self.trade_off = vectors, trade_off

    def apply(self, pool: Pool, k: int) -> Ranking:
        docs, scores = pool.candidates.docs, pool.candidates.scores
        bad = self.vectors.prepared(pool.poison, lambda texts: self.vectors.embed(texts, "poison"))
        rows = [
            self._order(docs[s : s + _ROWS], scores[s : s + _ROWS], bad, pool, k)
            for s in range(0, len(docs), _ROWS)
        ]
        order = np.concatenate(rows) if rows else np.empty((0, min(k, docs.shape[1])), np.int64)
        return Ranking(np.take_along_axis(docs, order, 1), np.take_along_axis(scores, order, 1))

    def _order(self, docs: np.ndarray, scores: np.ndarray, bad: np.ndarray, pool: Pool, k: int) -> np.ndarray:
        there = docs != NO_DOC
        low = np.where(there, scores, np.inf).min(1, keepdims=True, initial=np.inf)
        span = np.where(there, scores, -np.inf).max(1, keepdims=True, initial=-np.inf) - low
        with np.errstate(invalid="ignore", divide="ignore"):
            relevance = np.where(there, np.where(span > 0, (scores - low) / span, 1.0), 0.0)
        vectors = self._of(docs, bad, pool)
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
            chosen = vectors[np.arange(len(docs)), best]
            nearest = np.maximum(nearest, np.einsum("rpd,rd->rp", vectors, chosen))
        return picked

    def _of(self, docs: np.ndarray, bad: np.ndarray, pool: Pool) -> np.ndarray:
        out = np.zeros((*docs.shape, self.vectors.vectors_.shape[1]))
        clean, poison = (docs >= 0) & (docs < pool.n_docs), docs >= pool.n_docs
        out[clean] = self.vectors.vectors_[docs[clean]]
        if poison.any():
            out[poison] = bad[pool.poison.slots[docs[poison] - pool.n_docs]]
        return out
