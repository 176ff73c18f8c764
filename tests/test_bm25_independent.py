"""Scores against other people's BM25 and against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stressrag.attacks.payloads import load_payloads
from stressrag.collection import load_folder
from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.retrievers import vectors
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.hybrid import Hybrid, fuse
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.own import Embedder
from stressrag.retrievers.rank_bm25 import RankBM25
from stressrag.retrievers.ranking import Ranking, Views
from stressrag.retrievers.vectors import nearest_vectors, pair_scores
from stressrag.text.tokens import ascii_tokens

WORDS = [f"word{i}" for i in range(40)]
# The last two: terms without saturation, and lengths that count in full.
SETTINGS = [(1.5, 0.75), (0.9, 0.4), (2.0, 0.0), (0.0, 0.75), (1.2, 1.0)]


def random_corpus(seed: int) -> tuple[list[str], list[str]]:
    """Documents (one of them empty, one twice) and queries with repeated and unknown words."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, len(WORDS) + 1)
    chances /= chances.sum()

    def words(n: int) -> list[str]:
        return [*rng.choice(WORDS, n, p=chances)]

    documents = [" ".join(words(int(n))) for n in rng.integers(1, 30, int(rng.integers(2, 40)))]
    documents += ["", documents[0]]
    queries = [" ".join([*words(int(n)), "unheard"]) for n in rng.integers(1, 8, 6)]
    return documents, [*queries, f"{WORDS[0]} {WORDS[1]} {WORDS[0]}"]


def all_scores(bm25: BM25, query: str, n_docs: int) -> dict[int, float]:
    docs, scores = bm25.search([query], n_docs).row(0)
    return dict(zip(docs.tolist(), scores.tolist(), strict=True))


def sharing(documents: list[str], query: str) -> list[int]:
    return [i for i, d in enumerate(documents) if set(d.split()) & set(query.split())]


# Without saturation rank-bm25 divides 0 by 0 for each term that a document lacks.
@pytest.mark.parametrize(("k1", "b"), [(k1 or 1e-3, b) for k1, b in SETTINGS])
@pytest.mark.parametrize("variant", ["okapi", "plus", "l"])
def test_scores_are_those_of_rank_bm25(variant: str, k1: float, b: float) -> None:
    import rank_bm25

    kind = {"okapi": "BM25Okapi", "plus": "BM25Plus", "l": "BM25L"}[variant]
    for seed in range(8):
        documents, queries = random_corpus(seed)
        theirs = getattr(rank_bm25, kind)([d.split() for d in documents], k1=k1, b=b)
        ours = BM25(variant=variant, k1=k1, b=b).fit(Corpus.from_texts(documents))
        for query in queries:
            with np.errstate(invalid="ignore"):  # rank-bm25 divides the empty document's 0 by 0
                expected = theirs.get_scores(query.split())
            found = all_scores(ours, query, len(documents))
            assert sorted(found) == sharing(documents, query)
            for document, score in found.items():
                assert score == pytest.approx(expected[document], abs=1e-9, rel=0)


@pytest.mark.parametrize(("k1", "b"), SETTINGS)
def test_scores_are_those_of_bm25s_up_to_its_constant(k1: float, b: float) -> None:
    bm25s = pytest.importorskip("bm25s")
    for seed in range(8):
        documents, queries = random_corpus(seed)
        theirs = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64", backend="numpy")
        theirs.index([d.split() for d in documents], show_progress=False)
        ours = BM25(variant="lucene", k1=k1, b=b).fit(Corpus.from_texts(documents))
        for query in queries:
            found = all_scores(ours, query, len(documents))
            assert sorted(found) == sharing(documents, query)
            if found:
                expected = theirs.get_scores(query.split()) * (k1 + 1)
                np.testing.assert_allclose([*found.values()], expected[[*found]], atol=1e-9, rtol=0)


def test_contaminated_scores_are_those_of_a_bm25s_index_of_corpus_and_poison() -> None:
    bm25s = pytest.importorskip("bm25s")
    for seed in range(4):
        documents, queries = random_corpus(seed)
        poison = [f"{q} obey {q}" for q in queries for _ in range(3)]
        ours = BM25().fit(Corpus.from_texts(documents))
        views = Views.isolated([j // 3 for j in range(len(poison))], len(queries))
        found = ours.search_contaminated(queries, poison, views, len(documents) + 3)
        for i, query in enumerate(queries):
            theirs = bm25s.BM25(method="lucene", dtype="float64", backend="numpy")
            own = poison[3 * i : 3 * i + 3]
            theirs.index([d.split() for d in [*documents, *own]], show_progress=False)
            expected = theirs.get_scores(query.split()) * 2.5
            docs, scores = found.row(i)
            assert sorted(np.where(docs < len(documents), docs, docs - 3 * i)) == sharing(
                [*documents, *own], query
            )
            at = np.where(docs < len(documents), docs, docs - 3 * i)
            np.testing.assert_allclose(scores, expected[at], atol=1e-9, rtol=0)


# ---- numbers worked out by hand: lengths 3, 1, 2, so the average is 2 -------------------------------

PIER = ["ferry ferry pier", "pier", "tide rope"]


def hand() -> BM25:
    return BM25(k1=1.5, b=0.75).fit(Corpus.from_texts(PIER))


def assert_row(found: Ranking, i: int, docs: list[int], scores: list[float]) -> None:
    there, values = found.row(i)
    assert there.tolist() == docs
    np.testing.assert_allclose(values, scores, rtol=1e-12)


# Length norms: 1/4 + 3/4 * 3/2 = 1.375 for the first document, 1/4 + 3/4 * 1/2 = .625 for the second.
FERRY_0 = 2 * 2.5 / (2 + 1.5 * 1.375)
PIER_0 = 1 * 2.5 / (1 + 1.5 * 1.375)
PIER_1 = 1 * 2.5 / (1 + 1.5 * 0.625)


def test_lucene_by_hand() -> None:
    # idf ferry: ln(1 + 2.5/1.5) = ln(8/3); pier: ln(1 + 1.5/2.5) = ln 1.6
    found = hand().search(["ferry pier", "pier pier", "kraken"], 3)
    first = math.log(8 / 3) * FERRY_0 + math.log(1.6) * PIER_0
    assert_row(found, 0, [0, 1], [first, math.log(1.6) * PIER_1])
    np.testing.assert_allclose(found.scores[0, :2], [1.5908509274, 0.6064562953], atol=1e-9)
    assert_row(found, 1, [1, 0], [2 * math.log(1.6) * PIER_1, 2 * math.log(1.6) * PIER_0])
    assert_row(found, 2, [], [])


def test_a_repeated_query_word_counts_once_where_asked() -> None:
    once = BM25(query_terms="unique").fit(Corpus.from_texts(PIER)).search(["pier pier"], 3)
    assert_row(once, 0, [1, 0], [math.log(1.6) * PIER_1, math.log(1.6) * PIER_0])


def test_a_narrow_view_by_hand() -> None:
    """One poison document of two words: four documents, the average stays 2, ferry's df becomes 2."""
    found = hand().search_contaminated(
        ["ferry pier", "kraken", "ferry pier"], ["ferry kraken"], Views.of([[0], [0], []]), 4
    )
    ln2 = math.log(1 + 2.5 / 2.5)
    assert_row(found, 0, [0, 1, 3], [ln2 * (FERRY_0 + PIER_0), ln2 * PIER_1, ln2])
    assert_row(found, 1, [3], [math.log(1 + 3.5 / 1.5)])  # a new word, in a document of average length
    clean = hand().search(["ferry pier"], 4)
    assert_row(found, 2, [0, 1], clean.row(0)[1].tolist())


def test_frozen_statistics_by_hand() -> None:
    found = hand().search_contaminated(
        ["ferry pier", "kraken"], ["ferry kraken"], Views.of([[0], [0]]), 4, statistics="frozen"
    )
    first = math.log(8 / 3) * FERRY_0 + math.log(1.6) * PIER_0
    assert_row(found, 0, [0, 3, 1], [first, math.log(8 / 3), math.log(1.6) * PIER_1])
    assert_row(found, 1, [], [])  # the clean corpus does not know the word


@pytest.mark.parametrize("n", [64, 65, 70])
def test_wide_views_by_hand(n: int) -> None:
    """Copies of ``ferry``: n + 3 documents, n + 6 tokens, ferry in n + 1 of them and pier in 2."""
    poison, views = ["ferry"] * n, Views.of([range(n)])
    mean = (n + 6) / (n + 3)
    ferry = math.log(1 + (n + 3 - (n + 1) + 0.5) / (n + 1.5))
    pier = math.log(1 + (n + 3 - 2 + 0.5) / 2.5)
    norm = [0.25 + 0.75 * length / mean for length in (3, 1)]
    scores = [
        ferry * 5 / (2 + 1.5 * norm[0]) + pier * 2.5 / (1 + 1.5 * norm[0]),
        pier * 2.5 / (1 + 1.5 * norm[1]),
        *[ferry * 2.5 / (1 + 1.5 * norm[1])] * 3,
    ]
    order = [0, 1] if scores[0] > scores[1] else [1, 0]
    live = hand().search_contaminated(["ferry pier"], poison, views, 5)
    assert_row(live, 0, [*order, 3, 4, 5], [scores[i] for i in order] + scores[2:])
    frozen = hand().search_contaminated(["ferry pier"], poison, views, 5, statistics="frozen")
    first = math.log(8 / 3) * FERRY_0 + math.log(1.6) * PIER_0
    assert_row(frozen, 0, [0, 3, 4, 5, 6], [first, *[math.log(8 / 3) * PIER_1] * 4])


def test_ties_between_a_document_and_its_copy() -> None:
    for ties, order in (("clean_first", [1, 3, 0]), ("poison_first", [3, 1, 0])):
        found = hand().search_contaminated(["pier"], ["pier"], Views.of([[0]]), 3, ties=ties)
        assert found.docs[0].tolist() == order
        assert found.scores[0, 0] == found.scores[0, 1]


# ---- reciprocal rank fusion -------------------------------------------------------------------------


def ranking(*rows: list[int]) -> Ranking:
    docs = np.array(rows, np.int64)
    return Ranking(docs, np.where(docs < 0, -np.inf, -np.arange(docs.shape[1], dtype=float)))


def test_fusion_by_hand() -> None:
    found = fuse([ranking([0, 2, 1]), ranking([2, 3, -1])], 5, 60, 10)
    assert found.docs.tolist() == [[2, 0, 3, 1, -1]]
    expected = [1 / 62 + 1 / 61, 1 / 61, 1 / 62, 1 / 63]
    np.testing.assert_allclose(found.scores[0, :4], expected, atol=1e-12)
    assert found.scores[0, 4] == -np.inf


def test_fusion_of_swapped_ranks_is_a_tie() -> None:
    swapped = [ranking([5, 1, 0]), ranking([1, 5, 0])]  # five documents, so 5 is poison
    assert fuse(swapped, 3, 60, 5).docs.tolist() == [[1, 5, 0]]
    assert fuse(swapped, 3, 60, 5, "poison_first").docs.tolist() == [[5, 1, 0]]


def test_a_hybrid_of_equal_rankings_doubles_each_share() -> None:
    hybrid = Hybrid([BM25(), BM25(k1=1.2)], constant=60, depth=2).fit(Corpus.from_texts(PIER))
    assert_row(hybrid.search(["ferry pier"], 3), 0, [0, 1], [round(2 / 61, 12), round(2 / 62, 12)])


# ---- vectors ----------------------------------------------------------------------------------------


def test_unknown_words_are_similar_to_nothing() -> None:
    texts = ["ferry pier tide", "", "rope deck buoy", "ferry buoy"]
    lsa = LSA(dimensions=2).fit(Corpus.from_texts(texts))
    views = Views.of([[0, 1], [0, 1], [0, 1]])
    found = lsa.search_contaminated(["kraken", "", "ferry"], ["kraken kraken", "ferry"], views, 6)
    assert not np.isnan(found.scores).any()
    assert (found.scores[:2] == 0).all()
    assert found.docs[:2].tolist() == [[0, 1, 2, 3, 4, 5]] * 2  # all alike, so in their order
    of = dict(zip(found.docs[2].tolist(), found.scores[2].tolist(), strict=True))
    assert of[4] == of[1] == 0
    assert of[5] == pytest.approx(1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 7, 500])
def test_nearest_vectors_are_those_of_brute_force(dtype, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that do not divide the sizes, and every vector several times, far apart."""
    monkeypatch.setattr(vectors, "_DOCS", 31)
    monkeypatch.setattr(vectors, "_QUERIES", 4)
    monkeypatch.setattr(vectors, "_PAIRS", 53)
    rng = np.random.default_rng(k)
    unique = rng.normal(size=(90, 48)).astype(dtype)
    unique[1] = np.nextafter(unique[0], np.inf, dtype=dtype)  # a near tie, which must not count as one
    which = rng.integers(0, len(unique), 400)
    documents, queries = unique[which], np.vstack((unique[:5], rng.normal(size=(6, 48)))).astype(dtype)
    found = nearest_vectors(queries, documents, k)
    for i, query in enumerate(queries):
        every = np.arange(len(documents))
        scores = pair_scores(queries, np.full(len(documents), i), documents, every)
        order = np.lexsort((every, -scores))[:k]
        docs, values = found.row(i)
        np.testing.assert_array_equal(docs, order)
        np.testing.assert_array_equal(values, scores[order])
        exact = [
            math.fsum(a * b for a, b in zip(query.tolist(), documents[d].tolist(), strict=True)) for d in docs
        ]
        np.testing.assert_allclose(values, exact, atol=1e-12)
        for number in set(which[docs].tolist()):
            assert len(set(values[which[docs] == number].tolist())) == 1  # copies tie to the bit


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_texts_tie_wherever_they_stand(dtype) -> None:
    def encode(texts: list[str]) -> np.ndarray:
        return np.array([np.random.default_rng(len(t)).normal(size=96) for t in texts]).astype(dtype)

    corpus = ["x" * n for n in range(1, 60)] * 3
    embedder = Embedder(encode).fit(Corpus.from_texts(corpus))
    queries = ["x" * n for n in range(1, 80)]
    together = embedder.search(queries, 20)
    for i in (0, 17, 78):
        alone = embedder.search([queries[i]], 20)
        np.testing.assert_array_equal(alone.docs[0], together.docs[i])
        np.testing.assert_array_equal(alone.scores[0], together.scores[i])
    for n_poison in (2, 100):  # narrow and wide views
        views = Views.of([range(n_poison)] * len(queries))
        found = embedder.search_contaminated(queries, corpus[:59] * 2, views, 6)
        docs, scores = found.row(1)  # the text of document 1, 60, 119, poison 1 and, if there, poison 60
        copies = [1, 60, 119, 177 + 1] + ([177 + 60] if n_poison > 60 else [])
        assert docs[: len(copies)].tolist() == copies
        assert len(set(scores[: len(copies)].tolist())) == 1


# ---- real data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("query_terms", ["all", "unique"])
def test_scifact_with_five_poison_documents_is_bit_for_bit_the_slow_way(data_root, query_terms: str) -> None:
    collection = load_folder(data_root / "beir" / "scifact")
    payloads = load_payloads(str(data_root / "bipia" / "text_attack_test.json")).texts
    every = list(collection.evaluated.texts)
    targets = np.linspace(0, len(every) - 1, 20 if query_terms == "all" else 4).astype(int)
    queries = [every[t] for t in targets]
    poison = [f"{every[t]} {payloads[(5 * t + j) % len(payloads)]}" for t in targets for j in range(5)]
    views = Views.isolated([j // 5 for j in range(len(poison))], len(queries))
    bm25 = BM25(tokenizer="ascii", query_terms=query_terms).fit(collection.corpus)
    fast = bm25.search_contaminated(queries, poison, views, 10)
    slow = bm25.search_slowly(queries, poison, views, 10)
    np.testing.assert_array_equal(fast.docs, slow.docs)
    np.testing.assert_array_equal(fast.scores, slow.scores)
    # And by bare hands: the best poison document of the first target, from counts alone.
    documents = [ascii_tokens(t) for t in [*collection.corpus.texts, *poison[:5]]]
    sets = [set(d) for d in documents]
    best = int(fast.docs[0, 0])
    words = documents[best]
    mean = sum(map(len, documents)) / len(documents)
    asked = ascii_tokens(queries[0])
    score = 0.0
    for term in asked if query_terms == "all" else dict.fromkeys(asked):
        df, tf = sum(term in s for s in sets), words.count(term)
        if tf:
            norm = 0.25 + 0.75 * len(words) / mean
            score += math.log(1 + (len(documents) - df + 0.5) / (df + 0.5)) * 2.5 * tf / (tf + 1.5 * norm)
    assert fast.scores[0, 0] == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("variant", ["okapi", "plus"])
def test_rank_bm25_without_saturation_is_refused(variant: str) -> None:
    """The package divides 0 by 0 there, and its NaN would be ranked."""
    with pytest.raises(StressragError, match="NaN at k1=0"):
        RankBM25(variant=variant, k1=0.0).fit(Corpus.from_texts(["ferry", "pier"]))
