"""Reciprocal rank fusion of two or more retrievers (Cormack et al. 2009; retrieval paper, Methodology)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts, Retriever, Statistics
from stressrag.retrievers.ranking import NO_DOC, Ranking, Ties, Views


class Hybrid(Retriever):
    """Score of a document: the sum over retrievers of ``1 / (constant + rank)``, ranks from 1.

    Parameters
    ----------
    retrievers : sequence of Retriever
        What is fused. A document that a retriever does not rank gets nothing from it.
    constant : float
        60 in the literature.
    depth : int
        How many documents of each retriever enter.
    """

    knows: ClassVar[tuple[Statistics, ...]] = ("live", "frozen")

    def __init__(self, retrievers: Sequence[Retriever], constant: float = 60.0, depth: int = 100):
        self.retrievers, self.constant, self.depth = retrievers, constant, depth

    def clone(self) -> Hybrid:
        return Hybrid([r.clone() for r in self.retrievers], self.constant, self.depth)

    def fit(self, corpus: Corpus) -> Hybrid:
        if len(self.retrievers) < 2:
            raise StressragError(f"rrf.retrievers needs two or more retrievers, not {len(self.retrievers)}")
        super().fit(corpus)
        for r in self.retrievers:
            r.fit(corpus)
        return self

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        found = [r.search(queries, self.depth) for r in self.retrievers]
        return fuse(found, k, self.constant, len(self.corpus_))

    def search_contaminated(
        self,
        queries: Sequence[str],
        poison: PoisonTexts | Sequence[str],
        views: Views,
        k: int,
        **settings: Any,
    ) -> Ranking:
        poison = self.checked(queries, poison, views)
        found = [
            r.search_contaminated(queries, poison, views, self.depth, **settings) for r in self.retrievers
        ]
        return fuse(found, k, self.constant, len(self.corpus_), settings.get("ties", "clean_first"))

    def search_slowly(
        self,
        queries: Sequence[str],
        poison: PoisonTexts | Sequence[str],
        views: Views,
        k: int,
        **settings: Any,
    ) -> Ranking:
        found = [r.search_slowly(queries, poison, views, self.depth, **settings) for r in self.retrievers]
        return fuse(found, k, self.constant, len(self.corpus_), settings.get("ties", "clean_first"))


def fuse(
    rankings: Sequence[Ranking], k: int, constant: float, n_docs: int, ties: Ties = "clean_first"
) -> Ranking:
    """Fuse rankings of the same queries.

    Each document's contributions are added in the order of its ranks and the sum is ranked on 12 digits,
    so that equal sums are equal whichever retriever gave which rank.

    Parameters
    ----------
    rankings : sequence of Ranking
        One per retriever, each over the same queries.
    k : int
        Length of each fused row.
    constant : float
        Added to each rank.
    n_docs : int
        Number of clean documents; higher document numbers are poison.
    ties : {"clean_first", "poison_first"}
        What goes first among equal scores.
    """
    docs = np.hstack([r.docs for r in rankings])
    ranks = np.hstack([np.broadcast_to(np.arange(1, r.docs.shape[1] + 1), r.docs.shape) for r in rankings])
    key = docs.copy()
    if ties == "poison_first":  # poison before all clean numbers
        key = np.where(docs >= n_docs, docs - np.int64(2**62), docs)
    key[docs == NO_DOC] = np.iinfo(np.int64).max
    order = np.lexsort((ranks, key), axis=1)
    docs, ranks = np.take_along_axis(docs, order, 1), np.take_along_axis(ranks, order, 1)
    gain = np.where(docs == NO_DOC, 0.0, 1.0 / (constant + ranks))
    first = np.ones(docs.shape, bool)
    first[:, 1:] = docs[:, 1:] != docs[:, :-1]
    total = gain.copy()
    for back in range(1, len(rankings)):  # a document has at most one entry per retriever, side by side
        same = docs[:, back:] == docs[:, :-back]
        total[:, :-back] += np.where(same, gain[:, back:], 0.0)
    scores = np.where(first & (docs != NO_DOC), np.round(total, 12), -np.inf)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    found, kept = np.take_along_axis(docs, best, 1), np.take_along_axis(scores, best, 1)
    out = Ranking.empty(len(docs), k)
    out.docs[:, : best.shape[1]] = np.where(np.isfinite(kept), found, NO_DOC)
    out.scores[:, : best.shape[1]] = kept
    return out
