"""A quota per source: no single contributor fills the list."""

from __future__ import annotations

import numpy as np

from stressrag.defenses.base import Evasion, Judges, Pool, keep
from stressrag.retrievers.ranking import NO_DOC, Ints, Ranking

OWN_SOURCES = "*"
"""``attack.source`` of poison whose every document names a source of its own."""


class Quota:
    """Keeps at most ``quota`` candidates of each source, best first.

    Parameters
    ----------
    sources : int64 array (n_docs,)
        The number of each clean document's source; -1 where it names none, which is never limited.
    poison : int
        The number of the source that poison gives; -1 where each document names one of its own.
    quota : int
        How many of a source stay.
    """

    name = "quota"
    judges: Judges = "above"

    def __init__(self, sources: Ints, poison: int, quota: int):
        self.sources, self.poison, self.quota = sources, poison, quota

    def evasion(self) -> Evasion:
        """Name another source in each document."""
        return Evasion(sources=True)

    def apply(self, pool: Pool, k: int) -> Ranking:
        docs = pool.candidates.docs
        source = np.full(docs.shape, -1, np.int64)
        clean = (docs >= 0) & (docs < pool.n_docs)
        source[clean] = self.sources[docs[clean]]
        source[docs >= pool.n_docs] = self.poison
        before = np.zeros(docs.shape, np.int64)
        for place in range(1, docs.shape[1]):
            before[:, place] = (source[:, :place] == source[:, place : place + 1]).sum(1)
        return keep(pool.candidates, (source < 0) | (before < self.quota) | (docs == NO_DOC))
