"""The isolated increment of BM25: what a handful of poison documents changes, without indexing again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stressrag.retrievers.base import PoisonTexts, Statistics
from stressrag.retrievers.ranking import NO_DOC, Floats, Ints, Ranking, Ties, Views, best, merge
from stressrag.text.index import Counts, slices

if TYPE_CHECKING:
    from stressrag.retrievers.bm25 import BM25

BLOCK = 20_000_000  # postings scored at once, which bounds memory
_CELLS = 2_000_000  # (row, term, document) cells scored at once
_FEW = 256  # documents of a query whose frequencies are looked up rather than read from all postings


class Delta:
    """The poison's effect on blocks of queries, for all rows (attacks, budgets) of each together."""

    def __init__(
        self,
        bm25: BM25,
        poison: PoisonTexts,
        counts: Counts,
        views: Views,
        k: int,
        statistics: Statistics,
        ties: Ties,
    ):
        self.bm25, self.poison, self.counts, self.views = bm25, poison, counts, views
        self.k, self.ties = k, ties
        self.live = statistics == "live"
        self.doc_place = np.full(bm25.index_.n_docs, -1, np.int32)
        self.no_term = len(bm25.index_.vocabulary)  # stands behind the terms of a shorter query
        text = np.repeat(np.arange(len(counts.lengths)), np.diff(counts.indptr))
        self.keys = text * (self.no_term + 1) + counts.terms

    def search(self, lists: Sequence[Ints], groups: Sequence[Ints]) -> Ranking:
        """Some queries, by their terms, and the rows of each; the rankings of all rows in turn."""
        b = self.bm25
        w = b.weights_
        rows, query = np.concatenate(groups), np.repeat(np.arange(len(groups)), [len(g) for g in groups])
        width = max(map(len, lists))
        terms = np.full((len(lists), width), self.no_term)
        terms[np.arange(width) < np.array([len(t) for t in lists])[:, None]] = np.concatenate(lists)
        at, take = slices(self.views.indptr, self.views.of_query[rows])
        flat = self.views.documents[take]
        sizes = self.views.sizes[self.views.of_query[rows]]
        ends = np.concatenate(([0], np.cumsum(sizes)))
        slots = self.poison.slots[flat]
        tf = _look_up(self.keys, self.counts.tf, slots[:, None] * (self.no_term + 1) + terms[query[at]])
        lengths = self.counts.lengths[slots]
        df = b.known_df(terms.ravel()).reshape(terms.shape)[query]
        n, length = np.full(len(rows), b.statistics_.n_docs), np.full(len(rows), b.statistics_.length)
        mean = np.full(len(rows), b.average_idf_)
        if self.live:
            df = df + _segment_sums(tf > 0, ends)
            n, length = n + sizes, length + _segment_sums(lengths, ends)
            if w.needs_average:
                mean = np.array([self._average(slots[s:e]) for s, e in pairwise(ends)])
        average = np.where(length > 0, length / n, 1.0)
        idf = w.idf(n[:, None], df, mean[:, None])
        constant = np.zeros(len(rows))
        if w.constant:
            constant[:] = [b.constant(i[d > 0]) for i, d in zip(idf, df, strict=True)]
        clean = self._clean(lists, terms, query, idf, average, constant)
        norm = w.norm(lengths, average[at])
        dirty_scores = np.zeros(len(flat))
        for t in range(width):  # one after another, as the clean search adds
            dirty_scores += idf[at, t] * w.part(tf[:, t], norm)
        dirty_scores += constant[at]
        shares = ((tf > 0) & (df[at] > 0)).any(1)
        dirty_scores[~shares] = -np.inf
        dirty = Ranking.empty(len(rows), int(sizes.max(initial=0)))
        column = np.arange(len(flat)) - ends[at]
        dirty.docs[at, column] = np.where(shares, b.index_.n_docs + flat, NO_DOC)
        dirty.scores[at, column] = dirty_scores
        return merge(clean, dirty, self.k, self.ties)  # poison ascends within a row: a stable sort orders it

    def _clean(
        self,
        lists: Sequence[Ints],
        terms: Ints,
        query: Ints,
        idf: Floats,
        average: Floats,
        constant: Floats,
    ) -> Ranking:
        """Clean documents of each row: the cached top list if frozen, else the survivors scored again."""
        b, k = self.bm25, self.k
        out = Ranking.empty(len(query), k)
        starts = np.concatenate((np.searchsorted(query, np.arange(len(lists))), [len(query)]))
        margins: Floats | None = None
        few: list[tuple[int, Ints]] = []
        for i, (docs, scores) in enumerate(b.score(lists)):
            rows = slice(starts[i], starts[i + 1])
            if not self.live:
                docs, scores = best(docs, scores, k)
                out.docs[rows, : len(docs)], out.scores[rows, : len(docs)] = docs, scores
                continue
            if b.weights_.prunable and len(docs) > k:
                if margins is None:
                    margins = self._margins(terms, query, starts[:-1], idf, average)
                docs = docs[scores >= np.partition(scores, len(scores) - k)[len(scores) - k] * margins[i]]
            docs = np.sort(docs)
            if len(docs) <= _FEW:
                few.append((i, docs))
            else:
                found = self._score_again(lists[i], docs, idf[rows], average[rows], constant[rows])
                out.docs[rows, : found.docs.shape[1]] = found.docs
                out.scores[rows, : found.docs.shape[1]] = found.scores
        for block in blocks([terms.shape[1] * len(docs) for _, docs in few], _CELLS):
            self._score_few(few[block], terms, starts, idf, average, constant, out)
        return out

    def _margins(self, terms: Ints, query: Ints, starts: Ints, idf: Floats, average: Floats) -> Floats:
        """For each query the share of its k-th clean score below which no document reaches a top k."""
        b = self.bm25
        known = terms < b.index_.n_terms
        before = np.where(known, b._idf[np.where(known, terms, 0)], 1.0)
        known, ratio = known[query], idf / before[query]
        a = average / b.statistics_.average_length
        low = np.where(known, ratio, np.inf).min(1) * np.minimum(1.0, a)
        high = np.where(known, ratio, 0.0).max(1) * np.maximum(1.0, a)
        share = np.divide(low, high, out=np.zeros(len(query)), where=high > 0)
        return np.asarray(np.minimum.reduceat(share, starts) * (1 - 1e-9))  # the slack covers rounding

    def _score_few(
        self,
        few: Sequence[tuple[int, Ints]],
        terms: Ints,
        starts: Ints,
        idf: Floats,
        average: Floats,
        constant: Floats,
        out: Ranking,
    ) -> None:
        """Score few documents of many queries: their frequencies are looked up one by one."""
        b, n_docs = self.bm25, self.bm25.index_.n_docs
        queries = np.array([i for i, _ in few])
        sizes = np.array([len(docs) for _, docs in few])
        docs = np.concatenate([docs for _, docs in few]).astype(np.int64)
        asked = terms[queries]
        needed = np.unique(asked[asked < b.index_.n_terms])
        place, holders, tf = b.index_.postings(needed)
        keys = place * n_docs + holders
        column, of = np.nonzero((asked < b.index_.n_terms)[np.repeat(np.arange(len(few)), sizes)].T)
        wanted = np.searchsorted(needed, asked)[np.repeat(np.arange(len(few)), sizes)[of], column]
        counts = np.zeros((terms.shape[1], len(docs)))
        counts[column, of] = _look_up(keys, tf, wanted * n_docs + docs[of])
        # Now for each row of a query all its documents.
        n_rows = starts[queries + 1] - starts[queries]
        owner = np.repeat(np.arange(len(few)), n_rows)
        each, row_pairs = slices(np.concatenate(([0], np.cumsum(sizes))), owner)
        rows = (np.repeat(starts[queries] - np.cumsum(n_rows) + n_rows, n_rows) + np.arange(len(owner)))[each]
        norm = b.weights_.norm(b.index_.lengths[docs[row_pairs]], average[rows])
        total = np.zeros(len(rows))
        for t in range(terms.shape[1]):
            total += idf[rows, t] * b.weights_.part(counts[t, row_pairs], norm)
        total += constant[rows]
        order = np.lexsort((-total, rows))  # stable: documents ascend within a row
        ends = np.cumsum(sizes[owner])
        rank = np.arange(len(order)) - (ends - sizes[owner])[each]
        order, rank = order[rank < self.k], rank[rank < self.k]
        out.docs[rows[order], rank], out.scores[rows[order], rank] = docs[row_pairs[order]], total[order]

    def _score_again(
        self, terms: Ints, docs: Ints, idf: Floats, average: Floats, constant: Floats
    ) -> Ranking:
        """Score many documents of one query from all its postings."""
        b = self.bm25
        docs, idf = docs.astype(np.int64), idf[:, : len(terms)]
        at, found, tf = b.index_.postings(terms)
        self.doc_place[docs] = np.arange(len(docs))
        place = self.doc_place[found]
        self.doc_place[docs] = -1
        keep = np.flatnonzero(place >= 0)
        counts = np.zeros((len(terms), len(docs)))
        counts[at[keep], place[keep]] = tf[keep]
        norm = b.weights_.norm(b.index_.lengths[docs], average[:, None])[:, None, :]
        total = np.empty((len(idf), len(docs)))
        step = max(1, _CELLS // max(1, counts.size))
        for s in range(0, len(idf), step):
            rows = slice(s, s + step)
            total[rows] = _sequential_sum(idf[rows, :, None] * b.weights_.part(counts, norm[rows]), 1)
        total += constant[:, None]
        order = np.argsort(-total, axis=1, kind="stable")[:, : self.k]
        return Ranking(docs[order], total[np.arange(len(total))[:, None], order])

    def _average(self, slots: Ints) -> float:
        """Mean idf of the vocabulary with these poison texts indexed."""
        _, numbers, _ = self.counts.gather(slots)
        length = int(self.counts.lengths[slots].sum())
        return self.bm25.average_idf(
            self.bm25.with_poison(self.bm25.statistics_, numbers, len(slots), length)
        )


def _look_up(keys: Ints, values: np.ndarray, wanted: Ints) -> Floats:
    """For each key wanted the value beside it in the ascending ``keys``, 0 where it is not there."""
    if not len(keys):
        return np.zeros(wanted.shape)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0.0)


def _sequential_sum(values: Floats, axis: int) -> Floats:
    """Sums along an axis, added one after another as the clean search does; NumPy's own sum adds in pairs."""
    if not values.shape[axis]:
        return np.zeros(values.shape[:axis] + values.shape[axis + 1 :])
    return np.asarray(np.add.accumulate(values, axis=axis).take(-1, axis=axis))


def _segment_sums(values: np.ndarray, ends: Ints) -> Ints:
    """Integer sums of the segments ``values[ends[i]:ends[i + 1]]``, empty ones 0."""
    sums = np.concatenate((np.zeros((1, *values.shape[1:]), np.int64), np.cumsum(values, 0, dtype=np.int64)))
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]])


def blocks(costs: Sequence[int], limit: int = BLOCK) -> Iterator[slice]:
    """Runs of queries whose costs together stay within a limit."""
    start, total = 0, 0
    for i, cost in enumerate(costs):
        if i > start and total + cost > limit:
            yield slice(start, i)
            start, total = i, 0
        total += cost
    if start < len(costs):
        yield slice(start, len(costs))
