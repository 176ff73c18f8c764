"""The rank-bm25 package itself: the honest slow way, re-indexed for every view."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError, nearest
from stressrag.retrievers.base import Retriever, distinct
from stressrag.retrievers.ranking import Ranking, best
from stressrag.text.tokens import get_tokenizer

CLASSES = {"okapi": "BM25Okapi", "plus": "BM25Plus", "l": "BM25L"}


class RankBM25(Retriever):
    """BM25 as the rank-bm25 package computes it.

    Parameters are those of ``BM25``; the variant ``lucene`` does not exist here. As there, a document
    that shares no term with the query is no result. A corpus without a single token has no results
    (rank-bm25 itself divides by zero there).
    """

    def __init__(
        self,
        variant: str = "okapi",
        k1: float = 1.5,
        b: float = 0.75,
        tokenizer: str = "unicode",
        query_terms: str = "all",
    ):
        self.variant, self.k1, self.b = variant, k1, b
        self.tokenizer, self.query_terms = tokenizer, query_terms

    def fit(self, corpus: Corpus) -> RankBM25:
        import rank_bm25

        if self.variant not in CLASSES:
            hint = nearest(self.variant, CLASSES)
            raise StressragError(f"rank_bm25 has no variant {self.variant!r}: {hint}; set bm25.variant=…")
        if self.k1 == 0 and self.variant != "l":  # 0/0 for each query term that a document lacks
            raise StressragError("rank-bm25 gives NaN at k1=0; set bm25.k1 above 0, or use retriever=bm25")
        super().fit(corpus)
        self._tokens = get_tokenizer(self.tokenizer)
        documents = [self._tokens(t) for t in corpus.texts]
        self.sets_ = [set(d) for d in documents]
        kind = getattr(rank_bm25, CLASSES[self.variant])
        self.engine_ = kind(documents, k1=self.k1, b=self.b) if any(documents) else None
        return self

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        texts, which = distinct(queries)
        rows = []
        for text in texts:
            words = self._tokens(text)
            if self.query_terms == "unique":
                words = list(dict.fromkeys(words))
            there = set(words)
            docs = np.array([i for i, s in enumerate(self.sets_) if not s.isdisjoint(there)], np.int64)
            scores = np.zeros(0)
            if len(docs):  # then the engine exists: some document has a token
                assert self.engine_ is not None
                with np.errstate(invalid="ignore"):  # 0/0 of an empty document at b = 1, which is no result
                    scores = np.asarray(self.engine_.get_scores(words), np.float64)[docs]
            rows.append(best(docs, scores, k))
        return Ranking.from_rows(rows, k).take(which)
