"""Retrieval by similarity of vectors: exact, in blocks, and the same bits whatever the batch.

BLAS gives equal rows unequal scores, depending on the block they sit in. So a matrix product only makes
a shortlist, wide enough for its rounding error, and the scores that count come from one kernel that
treats every (query, document) pair alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts, Retriever, Statistics, distinct
from stressrag.retrievers.ranking import Floats, Ints, Ranking, Ties, Views, best, merge

Role = Literal["document", "query", "poison"]
_WIDE = 64  # poison documents in a view from which a matrix product is the cheaper way
_QUERIES, _DOCS, _PAIRS = 256, 32_768, 65_536  # block sizes, which bound memory


class VectorRetriever(Retriever):
    """Base of retrievers that encode each text by itself.

    Subclasses give ``encode(texts, role)``: an array (n_texts, n_dimensions), float32 or float64.
    """

    knows: ClassVar[tuple[Statistics, ...]] = ("live", "frozen")
    cosine: bool = True
    vectors_: np.ndarray

    def encode(self, texts: Sequence[str], role: Role) -> np.ndarray:
        """Vectors of some distinct texts."""
        raise NotImplementedError

    def embed(self, texts: Sequence[str], role: Role) -> np.ndarray:
        """Vectors ready for the dot product; each distinct text is encoded once."""
        unique, which = distinct(texts)
        vectors = np.ascontiguousarray(self.encode(unique, role))
        if vectors.ndim != 2 or len(vectors) != len(unique):
            raise StressragError(f"the encoder gave shape {vectors.shape} for {len(unique)} texts")
        if not np.isfinite(vectors).all():
            raise StressragError("the encoder gave a value that is not finite")
        if vectors.dtype not in (np.float32, np.float64):
            vectors = vectors.astype(np.float64)
        return (normalized(vectors) if self.cosine else vectors)[which]

    def fit(self, corpus: Corpus) -> VectorRetriever:
        super().fit(corpus)
        self.vectors_ = self.embed(corpus.texts, "document")
        return self

    def over(self, corpus: Corpus) -> VectorRetriever:
        return self.clone().fit(corpus)  # encoding a text depends on no other text

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        texts, which = distinct(queries)
        return nearest_vectors(self.embed(texts, "query"), self.vectors_, k).take(which)

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
        poison = self.checked(queries, poison, views)
        self.resolve(statistics)
        bad = self.prepared(poison, lambda texts: self.embed(texts, "poison"))
        texts, which = distinct(queries)
        vectors = self.embed(texts, "query")
        # Clean scores do not move, so the clean top k is searched once a query.
        clean = nearest_vectors(vectors, self.vectors_, k).take(which)
        n_docs = len(self.corpus_)
        sizes = views.sizes[views.of_query]
        dirty = Ranking.empty(len(queries), max(int(sizes[sizes <= _WIDE].max(initial=0)), k))
        for v in np.unique(views.of_query[sizes > _WIDE]):
            rows, visible = np.flatnonzero(views.of_query == v), views.view(v)
            found = nearest_vectors(vectors[which[rows]], bad[poison.slots[visible]], k)
            there = np.isfinite(found.scores)
            dirty.docs[rows, :k] = np.where(there, n_docs + visible[found.docs], -1)
            dirty.scores[rows, :k] = found.scores
        rows = np.flatnonzero((sizes > 0) & (sizes <= _WIDE))
        row = np.repeat(rows, sizes[rows])
        column = np.arange(len(row)) - np.repeat(np.cumsum(sizes[rows]) - sizes[rows], sizes[rows])
        document = views.documents[views.indptr[views.of_query[row]] + column]
        dirty.docs[row, column] = n_docs + document
        dirty.scores[row, column] = pair_scores(vectors, which[row], bad, poison.slots[document])
        return merge(clean, dirty, k, ties)


def normalized(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1; a zero row (a text of unknown words) stays zero, so its cosine is 0, never NaN."""
    norms = np.sqrt(np.einsum("id,id->i", vectors, vectors, dtype=np.float64))
    norms[norms == 0] = 1.0
    return np.asarray((vectors / norms[:, None]).astype(vectors.dtype))


def pair_scores(queries: np.ndarray, q: Ints, docs: np.ndarray, d: Ints) -> Floats:
    """Dot products of the pairs ``queries[q[i]]``, ``docs[d[i]]`` in float64.

    Every pair goes through the same loop, so equal vectors get equal bits.
    """
    out = np.empty(len(q))
    for s in range(0, len(q), _PAIRS):
        at = slice(s, s + _PAIRS)
        left, right = queries[q[at]].astype(np.float64), docs[d[at]].astype(np.float64)
        out[at] = np.einsum("id,id->i", left, right)
    return out


def nearest_vectors(queries: np.ndarray, docs: np.ndarray, k: int) -> Ranking:
    """The ``k`` documents with the largest dot product, exactly and with the tie rule of ``ranking``.

    Parameters
    ----------
    queries, docs : arrays (n_queries, d), (n_docs, d)
        Row vectors.
    k : int
        Length of each row.
    """
    rows: list[tuple[Ints, Floats]] = []
    largest = np.sqrt(
        max((float(_squares(docs[s : s + _DOCS]).max()) for s in range(0, len(docs), _DOCS)), default=0)
    )
    for start in range(0, len(queries), _QUERIES):
        block = queries[start : start + _QUERIES]
        # A sum of d products is off by at most d * eps * |q||d|; the kernel's own error is counted too.
        eps = max(float(np.finfo(docs.dtype).eps), float(np.finfo(block.dtype).eps))
        slack = 4 * docs.shape[1] * eps * largest * np.sqrt(_squares(block))
        rows.extend(_exact(block, docs, _shortlists(block, docs, slack, k), k))
    return Ranking.from_rows(rows, k)


def _squares(vectors: np.ndarray) -> Floats:
    return np.asarray(np.einsum("id,id->i", vectors, vectors, dtype=np.float64))


def _shortlists(block: np.ndarray, docs: np.ndarray, slack: Floats, k: int) -> list[Ints]:
    """For each query the documents that may be among its ``k`` best."""
    found: list[list[Ints]] = [[] for _ in block]
    floor = np.full(len(block), -np.inf)
    for s in range(0, len(docs), _DOCS):
        scores = block @ docs[s : s + _DOCS].T
        if scores.shape[1] > k:
            kth = np.partition(scores, scores.shape[1] - k, axis=1)[:, scores.shape[1] - k]
            floor = np.maximum(floor, kth)
        for i, row in enumerate(scores >= (floor - slack)[:, None]):
            found[i].append(s + np.flatnonzero(row))
    return [np.concatenate(f) if f else np.empty(0, np.int64) for f in found]


def _exact(block: np.ndarray, docs: np.ndarray, lists: list[Ints], k: int) -> list[tuple[Ints, Floats]]:
    sizes = np.array([len(x) for x in lists])
    flat = np.concatenate(lists) if lists else np.empty(0, np.int64)
    scores = pair_scores(block, np.repeat(np.arange(len(block)), sizes), docs, flat)
    ends = np.cumsum(sizes)
    return [best(flat[e - n : e], scores[e - n : e], k) for n, e in zip(sizes, ends, strict=True)]
