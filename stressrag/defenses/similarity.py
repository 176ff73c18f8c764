"""How alike the candidates of a pool are, by vectors or by weighted terms."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.sparse as sp

from stressrag.defenses.base import Pool
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import Floats, Ints
from stressrag.retrievers.vectors import VectorRetriever
from stressrag.text.index import Counts, TermIndex, slices


class Similarity(Protocol):
    """Cosines between the candidates of one query, for some queries at once."""

    def among(self, docs: Ints, pool: Pool) -> Floats:
        """Similarities (n_queries, n_candidates, n_candidates); 0 where there is no document.

        Parameters
        ----------
        docs : int64 array (n_queries, n_candidates)
            Candidates of some of the pool's queries.
        pool : Pool
            Says what the numbers mean.
        """
        ...


class VectorSimilarity:
    """Cosines of a fitted retriever's vectors."""

    def __init__(self, vectors: VectorRetriever):
        self.vectors = vectors

    def among(self, docs: Ints, pool: Pool) -> Floats:
        bad = self.vectors.prepared(pool.poison, lambda texts: self.vectors.embed(texts, "poison"))
        found = np.zeros((*docs.shape, self.vectors.vectors_.shape[1]))
        clean, poison = (docs >= 0) & (docs < pool.n_docs), docs >= pool.n_docs
        found[clean] = self.vectors.vectors_[docs[clean]]
        if poison.any():
            found[poison] = bad[pool.poison.slots[docs[poison] - pool.n_docs]]
        # Not matmul: BLAS may give equal candidates unequal similarities.
        return np.einsum("rpd,rqd->rpq", found, found)


class TermSimilarity:
    """Cosines of tf-idf vectors: 1 + ln tf times the clean corpus's smoothed idf; new terms count as rarest.

    Parameters
    ----------
    index : TermIndex
        The clean corpus.
    """

    def __init__(self, index: TermIndex):
        self.index = index
        terms = np.repeat(np.arange(index.n_terms), np.diff(index.indptr))
        shape = (index.n_docs, index.n_terms)
        counts = sp.csc_matrix((index.tf, (index.docs, terms)), shape).tocsr()
        self._documents = Counts(
            counts.indptr.astype(np.int64), counts.indices, counts.data, np.zeros(0, np.int64)
        )
        self._poison: tuple[PoisonTexts, Counts] | None = None

    def among(self, docs: Ints, pool: Pool) -> Floats:
        if self._poison is None or self._poison[0] is not pool.poison:
            self._poison = (pool.poison, self.index.count(pool.poison.texts))
        out = np.zeros((*docs.shape, docs.shape[1]))
        for row, candidates in enumerate(docs):
            out[row] = self._of(candidates, pool)
        return out

    def _of(self, candidates: Ints, pool: Pool) -> Floats:
        assert self._poison is not None
        clean = np.flatnonzero((candidates >= 0) & (candidates < pool.n_docs))
        bad = np.flatnonzero(candidates >= pool.n_docs)
        parts = []
        for counts, places, rows in (
            (self._documents, clean, candidates[clean]),
            (self._poison[1], bad, pool.poison.slots[candidates[bad] - pool.n_docs]),
        ):
            at, take = slices(counts.indptr, rows.astype(np.int64))
            parts.append((places[at], counts.terms[take], counts.tf[take]))
        places, terms, tf = (np.concatenate(column) for column in zip(*parts, strict=True))
        df = np.zeros(len(terms))
        own = terms < self.index.n_terms
        df[own] = self.index.df[terms[own]]
        weights = (1 + np.log(tf)) * (np.log((1 + self.index.n_docs) / (1 + df)) + 1)
        length = np.sqrt(np.bincount(places, weights**2, minlength=len(candidates)))
        shape = (len(candidates), max(1, len(self.index.vocabulary)))
        vectors = sp.csr_matrix((weights / length[places], (places, terms)), shape)
        return (vectors @ vectors.T).toarray()
