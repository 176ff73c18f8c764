"""One contract for every retriever: the fast contaminated search is the slow one.

Same documents, same order, scores within 1e-9, on corpora that hypothesis makes: empty documents,
duplicate texts, ties, one document, k above the corpus size, any mask of visible poison.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stressrag.collection.model import Corpus
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.hybrid import Hybrid
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.own import Embedder, Own
from stressrag.retrievers.rank_bm25 import RankBM25
from stressrag.retrievers.ranking import Ranking, Views

WORDS = ["ferry", "pier", "tide", "buoy", "rope", "2", "il", "deck"]
UNSEEN = ["kraken", "maelstrom"]


def word_vectors(texts: list[str]) -> np.ndarray:
    """A deterministic stand-in for an encoder: each text by itself, equal texts equal bits."""
    out = np.zeros((len(texts), 5))
    for i, text in enumerate(texts):
        for word in text.split():
            out[i] += np.random.default_rng(sum(map(ord, word))).normal(size=5)
    return out


class Overlap:
    """Somebody's own retriever: counts shared words, returns id and score pairs in no useful order."""

    def fit(self, corpus: Corpus) -> None:
        self.ids, self.sets = corpus.ids, [set(t.split()) for t in corpus.texts]

    def search(self, queries: list[str], k: int) -> list[list[tuple[str, float]]]:
        out = []
        for q in queries:
            scored = [(i, float(len(s & set(q.split())))) for i, s in zip(self.ids, self.sets, strict=True)]
            out.append(sorted(scored, key=lambda pair: (-pair[1], pair[0]))[:k][::-1])
        return out


RETRIEVERS: dict[str, Retriever] = {
    **{f"bm25-{v}": BM25(variant=v) for v in ("lucene", "okapi", "plus", "l")},
    "bm25-unique": BM25(query_terms="unique", tokenizer="ascii"),
    "bm25-b1": BM25(b=1.0),
    "bm25-k0": BM25(k1=0.0),
    "bm25-okapi-b0": BM25(variant="okapi", b=0.0),
    "bm25-l-b1": BM25(variant="l", b=1.0),
    "lsa": LSA(dimensions=3),
    "lsa-refit": LSA(dimensions=2, mode="refit"),
    "embedder": Embedder(word_vectors),
    "embedder-dot": Embedder(word_vectors, similarity="dot"),
    "rrf": Hybrid([BM25(), LSA(dimensions=3)], depth=4),
    "rrf-3": Hybrid([BM25(variant="plus"), Embedder(word_vectors), LSA(dimensions=2)], depth=3),
    "rank_bm25": RankBM25(),
    "own": Own(Overlap),
}

text = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
wild = st.lists(st.sampled_from(WORDS + UNSEEN), max_size=6).map(" ".join)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[str], list[str], list[str], list[list[int]], int]:
    """A corpus, queries, poison, what each query sees, and k."""
    pool = draw(st.lists(text, min_size=1, max_size=4))
    corpus = draw(st.lists(st.one_of(text, st.sampled_from(pool)), min_size=1, max_size=9))
    queries = draw(st.lists(wild, min_size=1, max_size=3))
    queries = queries + draw(st.lists(st.sampled_from(queries), max_size=3))
    poison = draw(st.lists(st.one_of(wild, st.sampled_from(queries)), max_size=5))
    number = st.integers(0, max(len(poison) - 1, 0))
    seen = [draw(st.lists(number, max_size=5)) if poison else [] for _ in queries]
    return corpus, queries, poison, seen, draw(st.integers(1, 12))


def assert_same(fast: Ranking, slow: Ranking) -> None:
    np.testing.assert_array_equal(fast.docs, slow.docs)
    there = np.isfinite(slow.scores)
    np.testing.assert_array_equal(np.isfinite(fast.scores), there)
    np.testing.assert_allclose(fast.scores[there], slow.scores[there], atol=1e-9, rtol=0)


@pytest.mark.parametrize("ties", ["clean_first", "poison_first"])
@pytest.mark.parametrize("statistics", ["live", "frozen"])
@pytest.mark.parametrize("name", RETRIEVERS)
@settings(max_examples=60, deadline=None)
@given(situation=situations())
def test_fast_equals_slow(name: str, statistics: str, ties: str, situation) -> None:
    corpus, queries, poison, seen, k = situation
    retriever = RETRIEVERS[name].clone()
    if statistics not in retriever.knows:
        return
    retriever.fit(Corpus.from_texts(corpus))
    views = Views.of(seen)
    how = {"statistics": statistics, "ties": ties}
    fast = retriever.search_contaminated(queries, poison, views, k, **how)
    assert_same(fast, retriever.search_slowly(queries, poison, views, k, **how))


@pytest.mark.parametrize("statistics", ["live", "frozen"])
@pytest.mark.parametrize("name", [n for n, r in RETRIEVERS.items() if "frozen" in r.knows])
@settings(max_examples=15, deadline=None)
@given(situation=situations(), seed=st.integers(0, 99))
def test_wide_views_equal_the_slow_way(name: str, statistics: str, situation, seed: int) -> None:
    """Views of more than 64 poison documents take another path."""
    corpus, queries, poison, _, k = situation
    rng = np.random.default_rng(seed)
    poison = [*poison, *(" ".join(rng.choice(WORDS + UNSEEN, 4)) for _ in range(80))]
    retriever = RETRIEVERS[name].clone().fit(Corpus.from_texts(corpus))
    views = Views.of([range(len(poison)) if i % 2 == 0 else range(3, 72) for i in range(len(queries))])
    fast = retriever.search_contaminated(queries, poison, views, k, statistics=statistics)
    assert_same(fast, retriever.search_slowly(queries, poison, views, k, statistics=statistics))


@pytest.mark.parametrize("name", RETRIEVERS)
def test_rows_are_unique_ordered_and_filled(name: str) -> None:
    retriever = RETRIEVERS[name].clone().fit(Corpus.from_texts(["ferry pier", "tide", "", "ferry pier"]))
    found = retriever.search(["ferry tide", "kraken", ""], 6)
    assert found.docs.shape == found.scores.shape == (3, 6)
    for i in range(3):
        docs, scores = found.row(i)
        assert len(set(docs)) == len(docs)
        assert (found.docs[i, len(docs) :] == -1).all()
        assert not np.isnan(scores).any()
        assert [*docs] == [d for _, d in sorted(zip(-scores, docs, strict=True))]


@pytest.mark.parametrize("name", RETRIEVERS)
def test_no_documents_is_a_clear_error(name: str) -> None:
    with pytest.raises(Exception, match="holds no document"):
        RETRIEVERS[name].clone().fit(Corpus.from_texts([]))
