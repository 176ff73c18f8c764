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
from stressrag.retrievers.bm25_delta import Delta, blocks
from stressrag.retrievers.ranking import Floats, Ints, Ranking, Ties, Views, best, merge
from stressrag.retrievers.weights import VARIANTS, Lucene
from stressrag.text.index import Counts, TermIndex
from stressrag.text.tokens import get_tokenizer

_WIDE = 64  # poison documents in a view from which one index for all its queries is the cheaper way


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
        self.average_idf_ = self.average_idf(self.statistics_)
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

    def average_idf(self, statistics: _Corpus) -> float:
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

    def known_df(self, terms: Ints) -> Ints:
        df = np.zeros(len(terms), np.int64)
        inside = terms < len(self.df_)
        df[inside] = self.df_[terms[inside]]
        return df

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        texts, which = distinct(queries)
        lists = [self.terms(t) for t in texts]
        rows = [best(docs, scores, k) for docs, scores in self.score(lists)]
        return Ranking.from_rows(rows, k).take(which)

    def score(self, lists: Sequence[Ints]) -> Iterator[tuple[Ints, Floats]]:
        """For each query the clean documents that share a term, unordered, and their scores."""
        if self._eager is None:  # weights of all postings, made at the first search
            i = self.index_
            self._idf = self.weights_.idf(self.statistics_.n_docs, self.df_, self.average_idf_)
            norm = self.weights_.norm(i.lengths, self.statistics_.average_length)[i.docs]
            data = np.repeat(self._idf, i.df) * self.weights_.part(i.tf, norm)
            counted = np.ones(0, bool) if self.weights_.prunable else np.repeat(self.df_ > 0, i.df)
            self._eager = self._matrices(data, counted, i.docs, i.indptr, i.n_docs)
        for block in blocks([int(self.index_.document_frequency(t).sum()) for t in lists]):
            known = [t[t < self.index_.n_terms] for t in lists[block]]
            constants = [self.constant(self._idf[t]) for t in known]
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

    def constant(self, idf: Floats) -> float:
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
        # Queries of like length side by side: a block's arrays are as wide as its longest query.
        groups.sort(key=lambda rows: len(lists[which[rows[0]]]))
        there = [lists[which[rows[0]]] for rows in groups]
        delta = Delta(self, poison, counts, views, k, statistics, ties)
        costs = [
            int(self.index_.document_frequency(terms).sum()) + 10 * len(terms) * int(sizes[rows].sum())
            for rows, terms in zip(groups, there, strict=True)
        ]
        for block in blocks(costs):
            found = delta.search(there[block], groups[block])
            rows = np.concatenate(groups[block])
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
        df, there = self.known_df(terms), self.statistics_
        place = np.minimum(np.searchsorted(terms, numbers), len(terms) - 1)
        inside = terms[place] == numbers
        if statistics == "live":
            df = df + np.bincount(place[inside], minlength=len(terms))
            there = self.with_poison(there, numbers, len(visible), int(lengths.sum()))
        idf = self.weights_.idf(there.n_docs, df, self.average_idf(there))
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
        for block in blocks([int(np.diff(indptr)[t].sum()) for t in local]):
            constants = [self.constant(idf[t]) for t in local[block]]
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
            before = self.known_df(numbers)
            histogram = np.concatenate((histogram, np.zeros(n + 1, np.int64)))
            np.subtract.at(histogram, before, 1)
            np.add.at(histogram, before + more, 1)
        return _Corpus(clean.n_docs + n, clean.length + length, histogram)
