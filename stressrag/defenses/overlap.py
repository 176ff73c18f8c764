"""Overlap admission (retrieval paper): reject a candidate that holds too much of the query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stressrag.defenses.base import Evasion, Judges, Pool, keep
from stressrag.retrievers.base import PoisonTexts, distinct
from stressrag.retrievers.ranking import Floats, Ints, Ranking
from stressrag.retrievers.weights import Lucene
from stressrag.text.index import Counts, TermIndex


class Overlap:
    """Rejects candidates whose coverage is at or above a threshold.

    Coverage is the idf sum of the unique query terms that the document holds over the idf sum of the
    unique query terms that the clean corpus knows; idf is Lucene's, of the clean corpus.

    Parameters
    ----------
    index : TermIndex
        The clean corpus.
    tau : float
        The threshold; above 1 nothing is rejected.
    """

    name = "overlap"
    judges: Judges = "text"

    def __init__(self, index: TermIndex, tau: float):
        self.index, self.tau = index, tau
        self._counts: tuple[PoisonTexts, Counts] | None = None

    def apply(self, pool: Pool, k: int) -> Ranking:
        return keep(pool.candidates, self.coverage(pool) < self.tau)

    def evasion(self) -> Evasion:
        """Write with a set of terms below the threshold, and repeat these: coverage counts a term once."""
        return Evasion(admits=self.admits)

    def admits(self, query: str, terms: Sequence[str], sets: np.ndarray, beside: str) -> np.ndarray:
        """Which sets of terms, (n_sets, n_terms), stay below the threshold beside a further text."""
        assert self.index.tokenizer is not None
        asked, idf = self._asked(query)
        place = {number: at for at, number in enumerate(asked.tolist())}
        held = np.zeros((len(sets), len(asked)), bool)
        for column, term in enumerate(terms):
            at = place.get(self.index.vocabulary.get(term, -1))
            if at is not None:
                held[:, at] |= sets[:, column]
        for term in self.index.tokenizer(beside):
            at = place.get(self.index.vocabulary.get(term, -1))
            if at is not None:
                held[:, at] = True
        return self._share(held, idf) < self.tau

    def coverage(self, pool: Pool) -> Floats:
        """Coverage of each candidate, (n_queries, pool size); 0 at empty places."""
        if self._counts is None or self._counts[0] is not pool.poison:
            self._counts = (pool.poison, self.index.count(pool.poison.texts))
        out = np.zeros(pool.candidates.docs.shape)
        if not out.size:
            return out
        queries, which = distinct(pool.queries)
        for q, query in enumerate(queries):
            rows = np.flatnonzero(which == q)
            docs = pool.candidates.docs[rows]
            unique, back = np.unique(docs, return_inverse=True)
            covered = self._covered(*self._asked(query), unique, pool)
            out[rows] = covered[back].reshape(docs.shape)
        return out

    def _covered(self, terms: Ints, idf: Floats, docs: Ints, pool: Pool) -> Floats:
        """Coverage of one query's weighted terms by some documents, (n_documents,)."""
        held = np.zeros((len(docs), len(terms)), bool)
        clean = (docs >= 0) & (docs < pool.n_docs)
        at, found, _ = self.index.postings(terms)
        place = np.minimum(np.searchsorted(docs, found), len(docs) - 1)
        there = docs[place] == found
        held[place[there], at[there]] = True
        assert self._counts is not None
        bad = np.flatnonzero(~clean & (docs >= 0))
        row, numbers, _ = self._counts[1].gather(pool.poison.slots[docs[bad] - pool.n_docs])
        order = np.argsort(terms)
        hit = np.minimum(np.searchsorted(terms, numbers, sorter=order), max(len(terms) - 1, 0))
        if len(terms):
            same = terms[order][hit] == numbers
            held[bad[row[same]], order[hit[same]]] = True
        return self._share(held, idf)

    def _asked(self, query: str) -> tuple[Ints, Floats]:
        """The unique terms of a query that the clean corpus knows, and their idf."""
        terms = self.index.query_terms(query, unique=True)
        idf = Lucene().idf(self.index.n_docs, self.index.document_frequency(terms))
        return terms[idf > 0], idf[idf > 0]

    @staticmethod
    def _share(held: np.ndarray, idf: Floats) -> Floats:
        """The share of the idf sum that rows of held terms, bool (n_rows, n_terms), come to."""
        total, everything = np.zeros(len(held)), 0.0
        for t, weight in enumerate(idf):  # one order of addition, so that full coverage is exactly 1
            total += np.where(held[:, t], weight, 0.0)
            everything += weight
        return total / everything if everything else total
