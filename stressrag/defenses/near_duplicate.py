"""Near-duplicate admission: of texts that are nearly the same only so many get in."""

from __future__ import annotations

import numpy as np

from stressrag.defenses.base import Evasion, Judges, Pool, in_blocks, keep
from stressrag.defenses.similarity import Similarity
from stressrag.retrievers.ranking import NO_DOC, Ranking


class NearDuplicate:
    """Keeps at most ``copies`` candidates of each cluster of near-identical texts.

    Candidates are taken best first. One that is at least ``threshold`` like the first of an earlier cluster
    joins the most similar of these; any other founds its own. Poison of one target shares its anchor, so
    its documents tend to fall into one cluster.

    Parameters
    ----------
    similarity : Similarity
        How alike two candidates are.
    threshold : float
        From which cosine on two texts are near-identical; above 1 nothing is rejected.
    copies : int
        How many of a cluster stay.
    """

    name = "near_duplicate"
    judges: Judges = "above"

    def __init__(self, similarity: Similarity, threshold: float, copies: int):
        self.similarity, self.threshold, self.copies = similarity, threshold, copies

    def evasion(self) -> Evasion:
        """Word each document differently, so that each founds a cluster of its own."""
        return Evasion(differing=True)

    def apply(self, pool: Pool, k: int) -> Ranking:
        docs = pool.candidates.docs
        parts = [self._kept(docs[part], pool) for part in in_blocks(docs)]
        return keep(pool.candidates, np.concatenate(parts) if parts else np.zeros(docs.shape, bool))

    def _kept(self, docs: np.ndarray, pool: Pool) -> np.ndarray:
        alike = self.similarity.among(docs, pool)
        rows = np.arange(len(docs))
        first, size = np.zeros(docs.shape, bool), np.zeros(docs.shape, np.int64)
        kept = np.zeros(docs.shape, bool)
        for place in range(docs.shape[1]):
            to_first = np.where(first, alike[:, place], -np.inf)
            cluster = to_first.argmax(1)
            # Rounding must not part exact copies at threshold 1.
            joins = to_first[rows, cluster] >= self.threshold - 1e-9
            cluster = np.where(joins, cluster, place)
            first[:, place] = ~joins & (docs[:, place] != NO_DOC)
            size[rows, cluster] += 1
            kept[:, place] = size[rows, cluster] <= self.copies
        return kept
