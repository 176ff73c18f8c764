"""Latent semantic analysis: TF-IDF, truncated SVD, cosine (retrieval paper, Methodology)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts, Statistics
from stressrag.retrievers.ranking import Ranking, Ties, Views
from stressrag.retrievers.vectors import Role, VectorRetriever, normalized
from stressrag.text.tokens import get_tokenizer

SKLEARN = "sklearn"


class LSA(VectorRetriever):
    """LSA with vectors fitted on the clean corpus.

    Parameters
    ----------
    dimensions : int
        Components of the SVD; fewer where the corpus has fewer terms or documents.
    seed : int
        Seed of the randomised SVD. Its choice moves SciFact's nDCG@10 by .02: report several.
    mode : {"frozen", "refit"}
        ``frozen``: poison is projected into the clean corpus's space. ``refit``: the space is fitted
        again with each view's poison, which has no fast way.
    tokenizer : str
        ``unicode``, ``ascii``, ``sklearn`` (its default pattern) or an import path. English stop
        words (scikit-learn's list) are dropped, term frequencies are sublinear.
    iterations : int
        Power iterations of the SVD.
    """

    def __init__(
        self,
        dimensions: int = 64,
        seed: int = 0,
        mode: str = "frozen",
        tokenizer: str = "unicode",
        iterations: int = 5,
    ):
        self.dimensions, self.seed, self.mode = dimensions, seed, mode
        self.tokenizer, self.iterations = tokenizer, iterations

    def resolve(self, statistics: Statistics) -> Statistics:
        super().resolve(statistics)
        return "frozen" if self.mode == "frozen" else "live"

    def fit(self, corpus: Corpus) -> LSA:
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.utils.extmath import randomized_svd
        from threadpoolctl import threadpool_limits

        if self.mode not in ("frozen", "refit"):
            raise StressragError(f"lsa.mode is frozen or refit, not {self.mode!r}")
        if self.dimensions < 1:
            raise StressragError(f"lsa.dimensions must be at least 1, not {self.dimensions}")
        super(VectorRetriever, self).fit(corpus)
        self.counter_, self.tfidf_ = self._counter(), TfidfTransformer(sublinear_tf=True)
        try:
            counts = self.counter_.fit_transform(corpus.texts)
        except ValueError:  # scikit-learn's word for a corpus without a single term
            self.counter_, self.vectors_ = None, np.zeros((len(corpus), 1))
            return self
        counts.sort_indices()  # as ``transform`` does; else its sums run in another order
        counts = self.tfidf_.fit_transform(counts)
        components = min(self.dimensions, *counts.shape)
        with threadpool_limits(1):  # one and two threads differ in the last bits
            # What TruncatedSVD calls, which refuses a corpus of one term.
            _, _, self.components_ = randomized_svd(
                counts, components, n_iter=self.iterations, random_state=self.seed
            )
        self.vectors_ = normalized(self._project(counts))
        return self

    def over(self, corpus: Corpus) -> LSA:
        other = self.clone()
        other.corpus_ = corpus
        fitted = ("counter_", "tfidf_", "components_")
        other.__dict__.update({n: v for n, v in self.__dict__.items() if n in fitted})
        other.vectors_ = other.embed(corpus.texts, "document")
        return other

    def encode(self, texts: Sequence[str], role: Role) -> np.ndarray:
        if self.counter_ is None or not len(texts):
            return np.zeros((len(texts), 1 if self.counter_ is None else len(self.components_)))
        counts = self.counter_.transform(texts)
        counts.sort_indices()
        return self._project(self.tfidf_.transform(counts))

    def term_vectors(self, terms: Sequence[str], beside: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a document's vector is the sum of, before it is brought to length 1.

        A document that holds term i ``t_i`` times beside a text has the direction of
        ``rest + sum (1 + ln t_i) own_i``, over its terms with ``t_i`` above 0.

        Parameters
        ----------
        terms : sequence of str
            Terms that a writer may repeat.
        beside : str
            A further text in the document.

        Returns
        -------
        own : float array (n_terms, n_components)
            Zero for a term that the corpus does not know or that is a stop word.
        rest : float array (n_components,)
            Of the text's other terms.
        held : int64 array (n_terms,)
            How often the text holds each term.
        """
        m = len(terms)
        if self.counter_ is None:
            return np.zeros((m, 1)), np.zeros(1), np.zeros(m, np.int64)
        number = self.counter_.vocabulary_
        own = np.zeros((m, len(self.components_)))
        for i, term in enumerate(terms):
            if term in number:
                own[i] = self.tfidf_.idf_[number[term]] * self.components_[:, number[term]]
        counts = self.counter_.transform([beside])
        held = np.array([int(counts[0, number[t]]) if t in number else 0 for t in terms], np.int64)
        mine = [number[t] for t in terms if t in number]
        others = ~np.isin(counts.indices, mine)
        weights = (1 + np.log(counts.data[others])) * self.tfidf_.idf_[counts.indices[others]]
        return own, self.components_[:, counts.indices[others]] @ weights, held

    def _project(self, counts: Any) -> np.ndarray:
        return np.ascontiguousarray(counts @ self.components_.T)  # row by row: no text moves another's bits

    def _counter(self) -> Any:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

        if self.tokenizer == SKLEARN:
            return CountVectorizer(stop_words="english", dtype=np.float64)
        content = _Content(get_tokenizer(self.tokenizer), frozenset(ENGLISH_STOP_WORDS))
        return CountVectorizer(analyzer=content, dtype=np.float64)

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
        way = self.search_slowly if self.mode == "refit" else super().search_contaminated
        return way(queries, poison, views, k, statistics=statistics, ties=ties)


class _Content:
    """The tokens of a text without stop words; a class, so that it can be pickled."""

    def __init__(self, tokenizer: Callable[[str], list[str]], stop: frozenset[str]):
        self.tokenizer, self.stop = tokenizer, stop

    def __call__(self, text: str) -> list[str]:
        return [t for t in self.tokenizer(text) if t not in self.stop]
