"""Rankings as arrays, and the one order that all of them keep.

Higher score first; among equals clean documents before poison, then the lower document number. With
``ties="poison_first"`` poison goes before its clean equals instead. Copies of one poison text tie exactly,
so this is a decision that every exposure figure rests on, not a corner case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stressrag.errors import StressragError

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Ties = Literal["clean_first", "poison_first"]
NO_DOC = -1


@dataclass(frozen=True, eq=False)
class Ranking:
    """The best documents of some queries.

    Attributes
    ----------
    docs : int64 array (n_queries, k)
        Document numbers, best first. Clean documents are numbered as in the corpus, poison document
        ``j`` is ``n_docs + j``; short rows are filled with -1.
    scores : float64 array (n_queries, k)
        Their scores, ``-inf`` where there is no document.
    """

    docs: Ints
    scores: Floats

    def __len__(self) -> int:
        return len(self.docs)

    @classmethod
    def empty(cls, n_queries: int, k: int) -> Ranking:
        """A ranking of so many queries without any document."""
        return cls(np.full((n_queries, k), NO_DOC, np.int64), np.full((n_queries, k), -np.inf))

    @classmethod
    def from_rows(cls, rows: Sequence[tuple[Ints, Floats]], k: int) -> Ranking:
        """Rows of (documents, scores), already in order, cut or filled to ``k``."""
        out = cls.empty(len(rows), k)
        for i, (docs, scores) in enumerate(rows):
            n = min(k, len(docs))
            out.docs[i, :n], out.scores[i, :n] = docs[:n], scores[:n]
        return out

    def top(self, k: int) -> Ranking:
        """The first ``k`` columns."""
        return Ranking(self.docs[:, :k], self.scores[:, :k])

    def take(self, rows: Ints) -> Ranking:
        """Some rows."""
        return Ranking(self.docs[rows], self.scores[rows])

    def row(self, i: int) -> tuple[Ints, Floats]:
        """Documents and scores of one query, without the filling."""
        n = int((self.docs[i] != NO_DOC).sum())
        return self.docs[i, :n], self.scores[i, :n]


def best(docs: Ints, scores: Floats, k: int) -> tuple[Ints, Floats]:
    """The ``k`` best of some scored documents of one kind (all clean or all poison).

    Parameters
    ----------
    docs, scores : arrays (n,)
        Document numbers in any order, and their scores.
    k : int
        How many to keep.
    """
    if len(docs) > k > 0:
        keep = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]  # all ties at the cut
        docs, scores = docs[keep], scores[keep]
    order = np.lexsort((docs, -scores))[:k]
    return docs[order].astype(np.int64, copy=False), scores[order]


def merge(clean: Ranking, poison: Ranking, k: int, ties: Ties) -> Ranking:
    """The ``k`` best of two rankings of the same queries, each in order already."""
    first, second = (clean, poison) if ties == "clean_first" else (poison, clean)
    docs = np.hstack((first.docs, second.docs))
    scores = np.hstack((first.scores, second.scores))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(docs))[:, None]
    out = Ranking(docs[rows, order], scores[rows, order])
    if out.docs.shape[1] == k:
        return out
    filled = Ranking.empty(len(out), k)
    filled.docs[:, : out.docs.shape[1]], filled.scores[:, : out.docs.shape[1]] = out.docs, out.scores
    return filled


@dataclass(frozen=True, eq=False)
class Views:
    """Which poison documents each query sees: the mask, as distinct rows.

    Attributes
    ----------
    indptr, documents : int64 arrays
        View ``v`` holds the poison documents ``documents[indptr[v]:indptr[v + 1]]``, ascending.
    of_query : int64 array (n_queries,)
        The view that each query searches.
    """

    indptr: Ints
    documents: Ints
    of_query: Ints

    @classmethod
    def of(cls, seen: Iterable[Iterable[int]]) -> Views:
        """From one collection of poison document numbers per query; equal ones become one view."""
        numbers: dict[tuple[int, ...], int] = {}
        of_query = [numbers.setdefault(tuple(sorted(set(s))), len(numbers)) for s in seen]
        sizes = [len(v) for v in numbers]
        return cls(
            np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))).astype(np.int64),
            np.array([d for v in numbers for d in v], np.int64),
            np.array(of_query, np.int64),
        )

    @classmethod
    def isolated(cls, owners: Sequence[int], n_queries: int) -> Views:
        """Each query sees only the poison documents that it owns (``owners[j]`` is a query's row)."""
        seen: list[list[int]] = [[] for _ in range(n_queries)]
        for document, owner in enumerate(owners):
            seen[owner].append(document)
        return cls.of(seen)

    @classmethod
    def multi(cls, n_poison: int, n_queries: int) -> Views:
        """Every query sees all poison."""
        return cls.of([range(n_poison)] * n_queries)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def sizes(self) -> Ints:
        """Poison documents per view."""
        return np.diff(self.indptr)

    def view(self, v: int) -> Ints:
        """The poison documents of view ``v``."""
        return self.documents[self.indptr[v] : self.indptr[v + 1]]

    def check(self, n_queries: int, n_poison: int) -> None:
        """Refuse a mask that does not fit the queries and the poison."""
        if len(self.of_query) != n_queries:
            raise StressragError(f"the views are of {len(self.of_query)} queries, not of {n_queries}")
        if len(self.documents) and not 0 <= self.documents.min() <= self.documents.max() < n_poison:
            raise StressragError(f"a view names a poison document outside 0 to {n_poison - 1}")
