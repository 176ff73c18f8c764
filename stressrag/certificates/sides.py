"""The two sides of a certificate: what planted documents can reach, and what clean ones are sure of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stressrag.certificates.keyword_bound import KeywordBound, QueryBound
from stressrag.retrievers.ranking import Floats, Ints

_SLACK = 1e-9  # of a score: rounding of sums in another order; 12 digits are kept of fused ones


class Threat(NamedTuple):
    """What is planted, and what has to stay clean.

    Attributes
    ----------
    bounds : list of KeywordBound or None
        Of each retriever that searches; ``None`` where there is none.
    fusion : mapping
        ``constant`` and ``depth`` of a hybrid, else empty.
    copies : int
        Documents planted together.
    k : int
        Length of the list.
    pool : int or None
        Candidates that the defense sees; ``None`` without one.
    """

    bounds: list[KeywordBound | None]
    fusion: Mapping[str, Any]
    copies: int
    k: int
    pool: int | None


class Clean(NamedTuple):
    """A query's clean candidates, which of them a defense lets through, and each leaf's clean ranking.

    Attributes
    ----------
    docs : int64 array (n_docs,)
    admitted : bool array (n_docs,) or None
        ``None`` where the defense's word on a clean document may change with the poison.
    lists : list of (int64 array, float array)
        Documents and scores by leaf, best first.
    """

    docs: Ints
    admitted: np.ndarray | None
    lists: list[tuple[Ints, Floats]]


class Sides:
    """A query's two sides: what planted documents can reach and what clean ones are sure of."""

    def __init__(self, threat: Threat, query: str, clean: Clean):
        self.threat, self.clean = threat, clean
        self.bounds: list[QueryBound | None] = [b.of(query, clean.docs) if b else None for b in threat.bounds]
        self.first = next(b for b in self.bounds if b)
        index = self.first.bound.bm25.index_
        assert index.tokenizer is not None
        self.names = list(dict.fromkeys(index.tokenizer(query)))

    def mask(self, names: Sequence[str]) -> np.ndarray:
        """Which of the query's terms have one of these names, (n_terms,)."""
        return np.isin(self.names, names)

    def safe(self, sets: np.ndarray | None, planted: np.ndarray | None, n: int = 0) -> np.ndarray:
        """Whether no document with these terms enters, (n_sets,).

        Parameters
        ----------
        sets : bool array (n_sets, n_terms) or None
            What the document in question holds; ``None`` for any ``n`` terms.
        planted : bool array (n_sets, n_terms) or None
            What any of the documents planted with it may hold; ``None`` for any ``n`` terms.
        """
        if sets is None:
            return np.asarray(self._above(*self._scores(None, None, n)).all(1))
        out = np.ones(len(sets), bool)
        step = max(1, 4_000_000 // max(1, len(self.first.bound.cells[0]) * max(1, len(self.clean.docs))))
        for start in range(0, len(sets), step):
            rows = slice(start, start + step)
            here = None if planted is None else planted[rows]
            reach, sure = self._scores(sets[rows], here, n)
            out[rows] = self._above(reach, sure).all(1)
            if not self.threat.fusion:  # to BM25 alone a document without a query term is no result
                out[rows] |= ~sets[rows].any(1)
        return out

    def _scores(self, sets: np.ndarray | None, planted: np.ndarray | None, n: int) -> tuple[Floats, Floats]:
        """What is reached, (n_sets, n_cells), and what is sure, (n_sets, n_cells, n_docs)."""
        pairs = [None if b is None else self._of(b, sets, planted, n) for b in self.bounds]
        if not self.threat.fusion:
            assert pairs[0] is not None
            return pairs[0]
        constant, depth = self.threat.fusion["constant"], self.threat.fusion["depth"]
        copies = self.threat.copies
        shape = next(p[1].shape for p in pairs if p)
        reach, sure = np.zeros(shape[:2]), np.zeros(shape)
        for bound, pair, found in zip(self.bounds, pairs, self.clean.lists, strict=True):
            if pair is None or bound is None:
                reach += 1.0 / (constant + 1)
                sure += _reciprocal(_ranks(found[0], self.clean.docs, depth) + copies, constant, depth)
                continue
            above = (pair[1] > pair[0][..., None] * (1 + _SLACK)).sum(2)
            reach += _reciprocal(above + 1, constant, depth)
            sure += _reciprocal(_lowest(bound, pair[1], found[1], depth) + copies, constant, depth)
        return reach, sure

    def _of(
        self, bound: QueryBound, sets: np.ndarray | None, planted: np.ndarray | None, n: int
    ) -> tuple[Floats, Floats]:
        sets = bound.heaviest(n) if sets is None else sets
        if planted is None:
            lower = bound.lower_worst(n)
            return bound.upper(sets), np.broadcast_to(lower, (len(sets), *lower.shape))
        return bound.upper(sets), bound.lower(planted)

    def _above(self, reach: Floats, sure: Floats) -> np.ndarray:
        """Whether enough clean documents stay above, (n_sets, n_cells)."""
        over = sure > (reach + _SLACK * np.maximum(1.0, reach))[..., None]
        enough = np.zeros(reach.shape, bool)
        if self.threat.pool is not None:
            enough |= over.sum(2) >= self.threat.pool
        if self.clean.admitted is not None:
            enough |= over[..., self.clean.admitted].sum(2) >= self.threat.k
        return enough


def _reciprocal(ranks: Ints, constant: float, depth: int) -> Floats:
    return np.where(ranks <= depth, 1.0 / (constant + ranks), 0.0)


def _ranks(found: Ints, docs: Ints, depth: int) -> Ints:
    """The clean ranks of some documents, from 1; beyond the depth where they are not in the list."""
    order = {d: i + 1 for i, d in enumerate(found.tolist())}
    return np.array([order.get(d, depth + 1) for d in docs.tolist()], np.int64)


def _lowest(bound: QueryBound, lower: Floats, scores: Floats, depth: int) -> Ints:
    """The lowest rank among clean documents that each may come to, (n_sets, n_cells, n_docs).

    A document outranks another for certain only if it is sure of more than the other can reach. Those
    beyond the clean list can reach its last score, raised as far as the statistics can raise any.
    """
    higher, raised = bound.higher()
    beyond = raised * scores[-1] if len(scores) >= depth else np.full(len(raised), -np.inf)
    out = np.empty(lower.shape, np.int64)
    ranked = bound.tf.any(0)  # the others are no result, whatever score they would have
    for cell, reach in enumerate(np.sort(higher[:, ranked], axis=1)):
        least = lower[:, cell] - _SLACK * np.abs(lower[:, cell])
        rivals = len(reach) - np.searchsorted(reach, least, "left")  # itself among them
        out[:, cell] = np.where(ranked & (least > beyond[cell]), rivals, depth + 1)
    return out
