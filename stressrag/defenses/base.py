"""What a defense is: from a candidate pool to a ranking of what it lets through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import NO_DOC, Ints, Ranking

_PAIRS = 640_000  # candidate pairs at a time


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates of some queries.

    Attributes
    ----------
    queries : list of str
        Query texts, one per row.
    candidates : Ranking
        Documents and scores, best first, (n_queries, pool size).
    n_docs : int
        Clean documents; candidate ``n_docs + j`` is poison document ``j``.
    poison : PoisonTexts
        The texts of the poison documents.
    """

    queries: list[str]
    candidates: Ranking
    n_docs: int
    poison: PoisonTexts

    def with_candidates(self, candidates: Ranking) -> Pool:
        """The pool of the next defense in a chain."""
        return Pool(self.queries, candidates, self.n_docs, self.poison)


class Defense(Protocol):
    """A defense works on any retriever's pool and may reject candidates or reorder them."""

    name: str

    def apply(self, pool: Pool, k: int) -> Ranking:
        """The candidates let through, in their new order; at least the first ``k`` must be final."""
        ...


def in_blocks(docs: Ints) -> Iterator[slice]:
    """Slices of queries whose candidates can be compared with each other in bounded memory."""
    rows = max(1, _PAIRS // max(1, docs.shape[1] ** 2))
    for start in range(0, len(docs), rows):
        yield slice(start, start + rows)


def keep(candidates: Ranking, kept: np.ndarray) -> Ranking:
    """The kept candidates of each row, moved together; the rest of the row is empty."""
    kept = kept & (candidates.docs != NO_DOC)
    order: Ints = np.argsort(~kept, axis=1, kind="stable")
    there = np.take_along_axis(kept, order, 1)
    return Ranking(
        np.where(there, np.take_along_axis(candidates.docs, order, 1), NO_DOC),
        np.where(there, np.take_along_axis(candidates.scores, order, 1), -np.inf),
    )
