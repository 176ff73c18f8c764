"""The term index: which document holds which term how often. BM25, coverage and attacks all read it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from stressrag.text.tokens import Tokenizer

Ints = npt.NDArray[np.int64]


class Counts(NamedTuple):
    """Term counts of some texts: CSR rows of (term number, frequency), terms ascending within a row."""

    indptr: Ints
    terms: npt.NDArray[np.int32]
    tf: npt.NDArray[np.int32]
    lengths: Ints

    def gather(self, rows: Ints) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """All entries of some rows: (position within ``rows``, term number, frequency)."""
        at, take = slices(self.indptr, rows)
        return at, self.terms[take], self.tf[take]


def slices(indptr: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Positions of all entries of some CSR rows, one row after another.

    Returns
    -------
    at : int64 array
        For each entry its position within ``rows``.
    take : int64 array
        For each entry its place in the CSR arrays.
    """
    starts = indptr[rows]
    sizes = indptr[rows + 1] - starts
    at = np.repeat(np.arange(len(rows)), sizes)
    begin = np.cumsum(sizes) - sizes
    return at, np.arange(len(at)) + (starts - begin)[at]


class TermIndex:
    """Inverted index of a corpus with integer counts only, from which every statistic is derived.

    Parameters
    ----------
    tokens : iterable of token lists
        One list per document.
    tokenizer : callable, optional
        Used for queries and for further texts.

    Attributes
    ----------
    vocabulary : dict
        Term → number, in order of first occurrence. Terms of the corpus are below ``n_terms``; terms
        first seen in further texts get higher numbers.
    indptr, docs, tf : arrays
        Postings: term ``t`` stands in ``docs[indptr[t]:indptr[t + 1]]`` (ascending), that often.
    df : int64 array (n_terms,)
        Document frequencies.
    lengths : int64 array (n_docs,)
        Tokens per document.
    """

    def __init__(self, tokens: Iterable[Sequence[str]], tokenizer: Tokenizer | None = None):
        self.tokenizer = tokenizer
        self._numbers: defaultdict[str, int] = defaultdict()
        self._numbers.default_factory = self._numbers.__len__
        lists = tokens if isinstance(tokens, list) else list(tokens)
        terms, starts = self._read(lists)
        self.lengths = np.diff(starts)
        self.n_docs, self.n_terms = len(lists), max(1, len(self._numbers))  # no matrix is without columns
        # SciPy's counting sort transposes with repetitions: within a term documents ascend, and the
        # occurrences in one document stand side by side.
        ones = np.ones(len(terms), np.int8)
        by_term = sp.csr_matrix((ones, terms, starts), (self.n_docs, self.n_terms)).tocsc()
        first = np.ones(len(terms), bool)
        np.not_equal(by_term.indices[1:], by_term.indices[:-1], out=first[1:])
        first[by_term.indptr[:-1][np.diff(by_term.indptr) > 0]] = True
        at = np.flatnonzero(first)
        self.indptr: Ints = np.searchsorted(at, by_term.indptr).astype(np.int64)
        self.docs = by_term.indices[at]
        self.tf = np.empty(len(at), np.int32)  # how far it is to the next posting
        np.subtract(at[1:], at[:-1], out=self.tf[:-1], casting="unsafe")
        self.tf[-1:] = len(terms) - at[-1:]
        self.df: Ints = np.diff(self.indptr)
        self.total_length = int(self.lengths.sum())

    @classmethod
    def from_texts(cls, texts: Iterable[str], tokenizer: Tokenizer) -> TermIndex:
        """Index of some texts."""
        return cls([tokenizer(t) for t in texts], tokenizer)

    @property
    def vocabulary(self) -> dict[str, int]:
        """Term → number."""
        return self._numbers

    def __contains__(self, term: object) -> bool:
        number = self._numbers.get(term, self.n_terms)  # type: ignore[call-overload]
        return bool(number < self.n_terms and self.df[number] > 0)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_numbers": dict(self._numbers)}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._numbers = defaultdict(None, self._numbers)  # its factory is bound to the dict itself
        self._numbers.default_factory = self._numbers.__len__

    def _read(self, lists: Sequence[Sequence[str]]) -> tuple[npt.NDArray[np.int32], Ints]:
        """All term numbers in reading order, and where each list starts (and the last ends)."""
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        # __missing__ numbers a new term in C, which makes this the whole cost of reading tokens.
        numbers = map(self._numbers.__getitem__, chain.from_iterable(lists))
        terms = np.fromiter(numbers, np.int32, int(lengths.sum()))
        return terms, np.concatenate(([0], np.cumsum(lengths)))

    def read(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.int32], Ints]:
        """Further texts, or the corpus's own again, as term numbers; unknown terms are numbered behind.

        Returns
        -------
        terms : int32 array (n_tokens,)
            All term numbers, one text after another.
        starts : int64 array (n_texts + 1,)
            Where each text starts, and the last ends.
        """
        assert self.tokenizer is not None
        return self._read([self.tokenizer(t) for t in texts])

    def count(self, texts: Sequence[str]) -> Counts:
        """Term counts of further texts; unknown terms are numbered behind the corpus's own."""
        terms, starts = self.read(texts)
        shape = (len(texts), max(1, len(self._numbers)))
        counts = sp.csr_matrix((np.ones(len(terms), np.int32), terms, starts), shape)
        counts.sum_duplicates()
        return Counts(counts.indptr.astype(np.int64), counts.indices, counts.data, np.diff(starts))

    def query_terms(self, query: str, *, unique: bool) -> Ints:
        """Term numbers of a query in its own order; unknown terms get numbers too.

        Parameters
        ----------
        query : str
            The query's text.
        unique : bool
            Keep only the first of repeated terms (the paper's rule) or count each.
        """
        assert self.tokenizer is not None
        tokens = self.tokenizer(query)
        terms = dict.fromkeys(tokens) if unique else tokens
        return np.array([self._numbers[t] for t in terms], np.int64)

    def document_frequency(self, terms: Ints) -> Ints:
        """Document frequencies in the corpus, 0 for terms it does not know."""
        df = np.zeros(len(terms), np.int64)
        known = terms < self.n_terms
        df[known] = self.df[terms[known]]
        return df

    def postings(self, terms: Ints) -> tuple[Ints, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """All postings of some terms: (position within ``terms``, document, frequency)."""
        known = np.flatnonzero(terms < self.n_terms)
        at, take = slices(self.indptr, terms[known])
        return known[at], self.docs[take], self.tf[take]
