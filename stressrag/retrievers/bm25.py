"""BM25 with an exact contaminated search that never re-indexes the corpus.

Only three statistics enter a BM25 score: the number of documents, the query terms' document frequencies
and the average length. Poison changes each by a known integer, so a query's scores over corpus and poison
follow from its own postings. Clean documents that cannot reach the top k
are left out by a bound: with idf ratios in [lo, hi] and length ratio a, a new score lies between
``lo * min(1, a)`` and ``hi * max(1, a)`` times the clean one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError, nearest
from stressrag.retrievers.base import PoisonTexts, Retriever, Statistics, distinct
from stressrag.retrievers.ranking import NO_DOC, Floats, Ints, Ranking, Ties, Views, best, merge
from stressrag.retrievers.weights import VARIANTS, Lucene
from stressrag.text.index import Counts, TermIndex
from stressrag.text.tokens import get_tokenizer

_WIDE = 64  # poison documents in a view from which one index for all its queries is the cheaper way
_BLOCK = 20_000_000  # postings scored at once, which bounds memory
_CELLS = 2_000_000  # (row, term, document) cells scored at once


class _Corpus(NamedTuple):
    """Corpus statistics as plain numbers: documents, tokens, and the histogram of document frequencies."""

    n_docs: int
    length: int
    histogram: Ints | None

    @property
    def average_length(self) -> float:
        return self.length / self.n_docs if self.length else 1.0


class BM25(Retriever):
    """BM25 over a term index.

    Parameters
    ----------
    variant : {"lucene", "okapi", "plus", "l"}
        See ``weights``. The last three agree with rank-bm25, the first with bm25s up to ``k1 + 1``.
    k1, b : float
        Term-frequency saturation and length normalisation.
    tokenizer : str
        ``unicode``, ``ascii`` or an import path.
    query_terms : {"all", "unique"}
        Whether a repeated query word counts each time or once.

    Notes
    -----
    A document that shares no term with the query is no result, whatever the variant would score it.
    """

    knows: ClassVar[tuple[Statistics, ...]] = ("live", "frozen")

    def __init__(
        self,
        variant: str = "lucene",
        k1: float = 1.5,
        b: float = 0.75,
        tokenizer: str = "unicode",
        query_terms: str = "all",
    ):
        self.variant, self.k1, self.b = variant, k1, b
        self.tokenizer, self.query_terms = tokenizer, query_terms

    def fit(self, corpus: Corpus, index: TermIndex | None = None) -> BM25:
        """Index the corpus, or take an index of it that was made with the same tokenizer."""
        super().fit(corpus)
        tokenizer = get_tokenizer(self.tokenizer)
        self._set_index(index or TermIndex.from_texts(corpus.texts, tokenizer))
        histogram = np.bincount(self.index_.df) if self.weights_.needs_average else None
        self.statistics_ = _Corpus(self.index_.n_docs, self.index_.total_length, histogram)
        self.average_idf_ = self._average_idf(self.statistics_)
        self.df_ = self.index_.df
        return self

    def _set_index(self, index: TermIndex) -> None:
        if self.variant not in VARIANTS:
            raise StressragError(
                f"bm25.variant {self.variant!r} is unknown: {nearest(self.variant, VARIANTS)}"
            )
        if self.k1 < 0 or not 0 <= self.b <= 1:
            raise StressragError(f"BM25 needs k1 >= 0 and 0 <= b <= 1, not k1={self.k1}, b={self.b}")
        self.weights_: Lucene = VARIANTS[self.variant](k1=float(self.k1), b=float(self.b))
        self.index_ = index
        self._eager: tuple[sp.csr_matrix, sp.csr_matrix | None] | None = None

    def over(self, corpus: Corpus) -> BM25:
        other = self.clone()
        other.corpus_ = corpus
        other._set_index(TermIndex.from_texts(corpus.texts, get_tokenizer(self.tokenizer)))
        other.statistics_, other.average_idf_ = self.statistics_, self.average_idf_
        # The same words under the other index's numbers; a word that is new there has no statistics.
        df = np.zeros(other.index_.n_terms, np.int64)
        known = self.index_.vocabulary
        for term, number in other.index_.vocabulary.items():
            old = known.get(term, self.index_.n_terms)
            if old < self.index_.n_terms:
                df[number] = self.df_[old]
        other.df_ = df
        return other

    def _average_idf(self, statistics: _Corpus) -> float:
        """Mean idf of the vocabulary, summed over the histogram so that both ways add in one order."""
        if statistics.histogram is None:
            return 0.0
        df = np.flatnonzero(statistics.histogram)
        df = df[df > 0]
        if not len(df):
            return 0.0
        count = statistics.histogram[df]
        raw = self.weights_.raw(statistics.n_docs, df)  # type: ignore[attr-defined]
        return float((count * raw).sum() / count.sum())

    # ---- clean search ------------------------------------------------------------------------

    def terms(self, query: str) -> Ints:
        """Term numbers of a query, in its order, repeated or not as ``query_terms`` says."""
        return self.index_.query_terms(query, unique=self.query_terms == "unique")

    def _known_df(self, terms: Ints) -> Ints:
        df = np.zeros(len(terms), np.int64)
        inside = terms < len(self.df_)
        df[inside] = self.df_[terms[inside]]
        return df

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        texts, which = distinct(queries)
        lists = [self.terms(t) for t in texts]
        rows = [best(docs, scores, k) for docs, scores in self._score(lists)]
        return Ranking.from_rows(rows, k).take(which)

    def _score(self, lists: Sequence[Ints]) -> Iterator[tuple[Ints, Floats]]:
        """For each query the clean documents that share a term, unordered, and their scores."""
        if self._eager is None:  # weights of all postings, made at the first search
            i = self.index_
            self._idf = self.weights_.idf(self.statistics_.n_docs, self.df_, self.average_idf_)
            term = np.repeat(np.arange(i.n_terms), i.df)
            norm = self.weights_.norm(i.lengths[i.docs], self.statistics_.average_length)
            data = self._idf[term] * self.weights_.part(i.tf, norm)
            self._eager = self._matrices(data, self.df_[term] > 0, i.docs, i.indptr, i.n_docs)
        for block in _blocks([int(self.index_.document_frequency(t).sum()) for t in lists]):
            known = [t[t < self.index_.n_terms] for t in lists[block]]
            constants = [self._constant(self._idf[t]) for t in known]
            yield from self._accumulate(known, *self._eager, constants)

    def _matrices(
        self, data: Floats, counts: np.ndarray, docs: Ints, indptr: Ints, n_docs: int
    ) -> tuple[sp.csr_matrix, sp.csr_matrix | None]:
        """Weights as rows of terms, and where a weight may be 0 or negative also which entries count."""
        shape = (len(indptr) - 1, n_docs)
        weights = sp.csr_matrix((data, docs, indptr), shape)
        if self.weights_.prunable:
            return weights, None
        return weights, sp.csr_matrix((counts.astype(np.float64), docs, indptr), shape)

    def _constant(self, idf: Floats) -> float:
        return (
            float(self.weights_.constant * np.cumsum(idf)[-1]) if self.weights_.constant and len(idf) else 0.0
        )

    @staticmethod
    def _accumulate(
        lists: Sequence[Ints],
        weights: sp.csr_matrix,
        entries: sp.csr_matrix | None,
        constants: Sequence[float],
    ) -> Iterator[tuple[Ints, Floats]]:
        """Sums of weight rows, added in the order of each list (SciPy adds in stored order)."""
        indptr = np.concatenate(([0], np.cumsum([len(t) for t in lists]))).astype(np.int64)
        terms = np.concatenate(lists) if len(lists) else np.empty(0, np.int64)
        ones = sp.csr_matrix((np.ones(len(terms)), terms, indptr), (len(lists), weights.shape[0]))
        sums = ones @ weights
        # SciPy leaves out sums that are exactly 0, which only weights of both signs can give.
        full = None if entries is None else ones @ entries
        for i, constant in enumerate(constants):
            s = slice(sums.indptr[i], sums.indptr[i + 1])
            docs, scores = sums.indices[s], sums.data[s]
            if full is not None and full.indptr[i + 1] - full.indptr[i] != len(docs):
                there = full.indices[full.indptr[i] : full.indptr[i + 1]]
                lost = np.setdiff1d(there, docs)
                docs, scores = np.concatenate((docs, lost)), np.concatenate((scores, np.zeros(len(lost))))
            yield docs, scores + constant if constant else scores

    # ---- contaminated search -----------------------------------------------------------------

    def search_contaminated(
        self,
        queries: Sequence[str],
        poison: PoisonTexts | Sequence[str],
        views: Views,
        k: int,
        *,
        statistics: Statistics = "live",
        ties: Ties = "clean_first",
    ) -> Ranking:
        poison, statistics = self.checked(queries, poison, views), self.resolve(statistics)
        counts = self.prepared(poison, self.index_.count)
        texts, which = distinct(queries)
        out = Ranking.empty(len(queries), k)
        sizes = views.sizes[views.of_query]
        lists = [self.terms(t) for t in texts]
        wide = sizes > _WIDE
        for v in np.unique(views.of_query[wide]):
            rows = np.flatnonzero(views.of_query == v)
            found = self._search_wide(
                [lists[which[r]] for r in rows], poison, counts, views.view(v), k, statistics, ties
            )
            out.docs[rows], out.scores[rows] = found.docs, found.scores
        narrow = np.flatnonzero(~wide)
        order = narrow[np.argsort(which[narrow], kind="stable")]
        starts = np.flatnonzero(np.diff(which[order], prepend=-1))
        groups = np.split(order, starts[1:]) if len(order) else []
        there = [lists[which[g[0]]] for g in groups]
        delta = _Delta(self, poison, counts, views, k, statistics, ties)
        for rows, terms, clean in zip(groups, there, self._score(there), strict=True):
            found = delta.search(terms, rows, *clean)
            out.docs[rows], out.scores[rows] = found.docs, found.scores
        return out

    def _search_wide(
        self,
        lists: Sequence[Ints],
        poison: PoisonTexts,
        counts: Counts,
        visible: Ints,
        k: int,
        statistics: Statistics,
        ties: Ties,
    ) -> Ranking:
        """All queries of one view, by the weights of their terms in corpus and poison."""
        terms = np.unique(np.concatenate(lists))
        if not len(terms):
            return Ranking.empty(len(lists), k)
        at, numbers, tf = counts.gather(poison.slots[visible])
        lengths = counts.lengths[poison.slots[visible]]
        df, there = self._known_df(terms), self.statistics_
        place = np.minimum(np.searchsorted(terms, numbers), len(terms) - 1)
        inside = terms[place] == numbers
        if statistics == "live":
            df = df + np.bincount(place[inside], minlength=len(terms))
            there = self.with_poison(there, numbers, len(visible), int(lengths.sum()))
        idf = self.weights_.idf(there.n_docs, df, self._average_idf(there))
        row, docs, clean_tf = self.index_.postings(terms)
        both = np.concatenate((row, place[inside]))
        columns = np.concatenate((docs, self.index_.n_docs + at[inside]))
        norm = self.weights_.norm(
            np.concatenate((self.index_.lengths, lengths))[columns], there.average_length
        )
        data = idf[both] * self.weights_.part(np.concatenate((clean_tf, tf[inside])), norm)
        order = np.argsort(both, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(np.bincount(both, minlength=len(terms)))))
        counted = df[both[order]] > 0  # under frozen statistics a term may be unknown
        matrices = self._matrices(
            data[order], counted, columns[order], indptr, self.index_.n_docs + len(visible)
        )
        clean, dirty = [], []
        local = [np.searchsorted(terms, t) for t in lists]
        for block in _blocks([int(np.diff(indptr)[t].sum()) for t in local]):
            constants = [self._constant(idf[t]) for t in local[block]]
            for found, scores in self._accumulate(local[block], *matrices, constants):
                own = found < self.index_.n_docs
                clean.append(best(found[own], scores[own], k))
                bad, bad_scores = best(found[~own], scores[~own], k)
                dirty.append((self.index_.n_docs + visible[bad - self.index_.n_docs], bad_scores))
        return merge(Ranking.from_rows(clean, k), Ranking.from_rows(dirty, k), k, ties)

    def with_poison(self, clean: _Corpus, terms: np.ndarray, n: int, length: int) -> _Corpus:
        """Statistics of the corpus with so many further documents and all their distinct terms."""
        histogram = clean.histogram
        if histogram is not None:
            numbers, more = np.unique(terms, return_counts=True)
            before = self._known_df(numbers)
            histogram = np.concatenate((histogram, np.zeros(n + 1, np.int64)))
            np.subtract.at(histogram, before, 1)
            np.add.at(histogram, before + more, 1)
        return _Corpus(clean.n_docs + n, clean.length + length, histogram)


class _Delta:
    """The poison's effect on one query at a time, for all its rows (attacks, budgets) together."""

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
        self.term_place = np.full(len(bm25.index_.vocabulary), -1, np.int32)
        self.doc_place = np.full(bm25.index_.n_docs, -1, np.int32)

    def search(self, terms: Ints, rows: Ints, docs: Ints, scores: Floats) -> Ranking:
        """One query's rows; ``docs`` and ``scores`` are its clean results."""
        b, k = self.bm25, self.k
        w = b.weights_
        seen = [self.views.view(v) for v in self.views.of_query[rows]]
        sizes = np.array([len(s) for s in seen])
        flat = np.concatenate(seen) if len(seen) else np.empty(0, np.int64)
        ends = np.concatenate(([0], np.cumsum(sizes)))
        slots = self.poison.slots[flat]
        tf = self._poison_tf(terms, slots)
        lengths = self.counts.lengths[slots]
        df = np.broadcast_to(b._known_df(terms), (len(rows), len(terms)))
        n, length = np.full(len(rows), b.statistics_.n_docs), np.full(len(rows), b.statistics_.length)
        mean = np.full(len(rows), b.average_idf_)
        if self.live:
            df = df + _segment_sums(tf > 0, ends)
            n, length = n + sizes, length + _segment_sums(lengths, ends)
            if w.needs_average:
                mean = np.array([self._average(self.poison.slots[s]) for s in seen])
        average = np.where(length > 0, length / n, 1.0)
        idf = w.idf(n[:, None], df, mean[:, None])
        constant = np.zeros(len(rows))
        if w.constant:
            constant[:] = [b._constant(i[d > 0]) for i, d in zip(idf, df, strict=True)]
        clean = self._clean(terms, idf, average, constant, docs, scores)
        at = np.repeat(np.arange(len(rows)), sizes)
        norm = w.norm(lengths, average[at])[:, None]
        dirty_scores = _sequential_sum(idf[at] * w.part(tf, norm), 1) + constant[at]
        shares = ((tf > 0) & (df[at] > 0)).any(1)
        dirty_scores[~shares] = -np.inf
        dirty = Ranking.empty(len(rows), int(sizes.max(initial=0)))
        column = np.arange(len(flat)) - ends[at]
        dirty.docs[at, column] = np.where(shares, b.index_.n_docs + flat, NO_DOC)
        dirty.scores[at, column] = dirty_scores
        return merge(clean, dirty, k, self.ties)  # poison ascends within a row, so a stable sort orders it

    def _clean(
        self, terms: Ints, idf: Floats, average: Floats, constant: Floats, docs: Ints, scores: Floats
    ) -> Ranking:
        """Clean documents of each row: the cached top list if frozen, else the survivors scored again."""
        b, k = self.bm25, self.k
        if not self.live:
            top_docs, top_scores = best(docs, scores, k)
            shape = (len(idf), len(top_docs))
            return Ranking(np.broadcast_to(top_docs, shape), np.broadcast_to(top_scores, shape))
        if b.weights_.prunable and len(docs) > k:
            docs = docs[scores >= self._threshold(terms, idf, average, scores)]
        docs = np.sort(docs).astype(np.int64)
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
        order = np.argsort(-total, axis=1, kind="stable")[:, :k]
        return Ranking(docs[order], total[np.arange(len(total))[:, None], order])

    def _threshold(self, terms: Ints, idf: Floats, average: Floats, scores: Floats) -> float:
        """The clean score below which no document reaches the top k in any of the rows."""
        b = self.bm25
        known = terms[terms < b.index_.n_terms]
        ratio = idf[:, terms < b.index_.n_terms] / b._idf[known]
        a = average / b.statistics_.average_length
        low = ratio.min(1) * np.minimum(1.0, a)
        high = ratio.max(1) * np.maximum(1.0, a)
        kth = np.partition(scores, len(scores) - self.k)[len(scores) - self.k]
        return float(kth * (low / high).min() * (1 - 1e-9))  # the slack covers rounding

    def _poison_tf(self, terms: Ints, slots: Ints) -> Floats:
        """Frequencies of the query's terms in some poison texts, (n_texts, n_terms)."""
        if len(self.term_place) < len(self.bm25.index_.vocabulary):  # queries brought new words
            self.term_place = np.full(len(self.bm25.index_.vocabulary), -1, np.int32)
        self.term_place[terms] = np.arange(len(terms))  # of a repeated term the last place
        at, numbers, tf = self.counts.gather(slots)
        place, column = self.term_place[numbers], self.term_place[terms]
        self.term_place[terms] = -1
        keep = np.flatnonzero(place >= 0)
        out = np.zeros((len(slots), len(terms)))
        out[at[keep], place[keep]] = tf[keep]
        return out[:, column]

    def _average(self, slots: Ints) -> float:
        """Mean idf of the vocabulary with these poison texts indexed."""
        _, numbers, _ = self.counts.gather(slots)
        length = int(self.counts.lengths[slots].sum())
        return self.bm25._average_idf(
            self.bm25.with_poison(self.bm25.statistics_, numbers, len(slots), length)
        )


def _sequential_sum(values: Floats, axis: int) -> Floats:
    """Sums along an axis, added one after another as the clean search does; NumPy's own sum adds in pairs."""
    if not values.shape[axis]:
        return np.zeros(values.shape[:axis] + values.shape[axis + 1 :])
    return np.asarray(np.add.accumulate(values, axis=axis).take(-1, axis=axis))


def _segment_sums(values: np.ndarray, ends: Ints) -> Ints:
    """Integer sums of the segments ``values[ends[i]:ends[i + 1]]``, empty ones 0."""
    sums = np.concatenate((np.zeros((1, *values.shape[1:]), np.int64), np.cumsum(values, 0, dtype=np.int64)))
    return np.asarray(sums[ends[1:]] - sums[ends[:-1]])


def _blocks(costs: Sequence[int]) -> Iterator[slice]:
    """Runs of queries whose postings together stay within ``_BLOCK``."""
    start, total = 0, 0
    for i, cost in enumerate(costs):
        if i > start and total + cost > _BLOCK:
            yield slice(start, i)
            start, total = i, 0
        total += cost
    if start < len(costs):
        yield slice(start, len(costs))
