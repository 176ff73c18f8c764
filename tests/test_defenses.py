"""Defenses: coverage and rejection by hand and by brute force, MMR against a plain greedy loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stressrag
from stressrag.cli.main import dispatch
from stressrag.collection.model import Corpus
from stressrag.defenses.base import Pool
from stressrag.defenses.mmr import MMR
from stressrag.defenses.near_duplicate import NearDuplicate
from stressrag.defenses.overlap import Overlap
from stressrag.defenses.quota import Quota
from stressrag.defenses.score_detector import ScoreDetector
from stressrag.defenses.similarity import TermSimilarity, VectorSimilarity
from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute
from stressrag.records.folder import open_run
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.own import Embedder
from stressrag.retrievers.ranking import Ranking, Views
from stressrag.text.index import TermIndex
from stressrag.text.tokens import unicode_tokens

DOCUMENTS = ["ferry pier", "ferry tide", "ferry", "buoy rope tide"]


def pool(queries, rows, n_docs, poison, scores=None) -> Pool:
    width = max(map(len, rows), default=0)
    docs = np.array([list(r) + [-1] * (width - len(r)) for r in rows], np.int64).reshape(len(rows), width)
    if scores is None:
        scores = [np.arange(len(r), 0, -1.0) for r in rows]
    filled = np.full(docs.shape, -np.inf)
    for i, s in enumerate(scores):
        filled[i, : len(s)] = s
    return Pool(list(queries), Ranking(docs, filled), n_docs, PoisonTexts(poison))


def idf(df: int, n: int = 4) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


# ---- overlap -------------------------------------------------------------------------------------


@pytest.fixture
def index() -> TermIndex:
    return TermIndex.from_texts(DOCUMENTS, unicode_tokens)


def test_coverage_by_hand(index):
    """The query knows ferry (3 documents), pier (1) and tide (2); nobody knows kraken."""
    poison = ["kraken ferry", "Pier tide FERRY kraken and more", "nothing", ""]
    seen = pool(["ferry pier kraken tide ferry"], [[0, 1, 2, 3, 4, 5, 6, 7]], 4, poison)
    all_ = idf(3) + idf(1) + idf(2)
    expected = [idf(3) + idf(1), idf(3) + idf(2), idf(3), idf(2), idf(3), all_, 0, 0]
    got = Overlap(index, 0.5).coverage(seen)[0]
    assert got == pytest.approx([e / all_ for e in expected], abs=1e-15)
    assert got[5] == 1.0  # to the bit, so that tau=1 means the full query


def test_a_candidate_at_the_threshold_is_rejected(index):
    seen = pool(["ferry pier tide"], [[0, 2, 3]], 4, [])
    at = float(Overlap(index, 1).coverage(seen)[0, 0])
    assert Overlap(index, at).apply(seen, 3).docs.tolist() == [[2, 3, -1]]
    assert Overlap(index, np.nextafter(at, 2)).apply(seen, 3).docs.tolist() == [[0, 2, 3]]
    kept = Overlap(index, at).apply(seen, 3)
    assert kept.scores.tolist() == [[2.0, 1.0, -np.inf]]


def test_queries_of_unknown_words_reject_nothing(index):
    seen = pool(["kraken", ""], [[0, 4], [1]], 4, ["kraken"])
    assert Overlap(index, 0.1).apply(seen, 2).docs.tolist() == [[0, 4], [1, -1]]


@pytest.mark.parametrize("tau", [0, 1, 1.01])
def test_the_ends_of_tau(index, tau):
    seen = pool(["ferry pier"], [[0, 3, 4]], 4, ["pier ferry"])
    kept = Overlap(index, tau).apply(seen, 3).docs[0]
    assert kept.tolist() == {0: [-1, -1, -1], 1: [3, -1, -1], 1.01: [0, 3, 4]}[tau]


words = st.sampled_from(["ferry", "pier", "tide", "buoy", "rope", "2"])
texts = st.lists(words | st.just("kraken"), max_size=5).map(" ".join)
corpora = st.lists(st.lists(words, max_size=5).map(" ".join), min_size=1, max_size=7)


@given(corpora, st.lists(texts, min_size=1, max_size=3), st.lists(texts, max_size=4), st.data())
def test_coverage_by_brute_force(corpus, queries, poison, data):
    everything = corpus + poison
    numbers = st.lists(st.integers(0, len(everything) - 1), max_size=6, unique=True)
    rows = [data.draw(numbers) for _ in queries]
    seen = pool(queries, rows, len(corpus), poison)
    got = Overlap(TermIndex.from_texts(corpus, unicode_tokens), 0.5).coverage(seen)
    for i, (query, row) in enumerate(zip(queries, rows, strict=True)):
        weight = {}
        for t in set(query.split()):
            df = sum(t in d.split() for d in corpus)
            if df:
                weight[t] = idf(df, len(corpus))
        for place, doc in enumerate(row):
            held = sum(w for t, w in weight.items() if t in everything[doc].split())
            expected = held / sum(weight.values()) if weight else 0
            assert got[i, place] == pytest.approx(expected, abs=1e-12)
            if weight and set(weight) <= set(everything[doc].split()):
                assert got[i, place] == 1.0
        assert not got[i, len(row) :].any()


# ---- MMR -----------------------------------------------------------------------------------------


def word_vectors(batch: list[str]) -> np.ndarray:
    out = np.zeros((len(batch), 4))
    for i, text in enumerate(batch):
        for word in text.split():
            out[i] += np.random.default_rng(sum(map(ord, word))).normal(size=4)
    return out


def greedy(relevance: list[float], similarity: np.ndarray, trade_off: float) -> list[list[int]]:
    """All orders that the definition allows, up to rounding: one, unless candidates tie."""
    orders: list[list[int]] = [[]]
    for _ in relevance:
        more = []
        for order in orders:
            rest = [i for i in range(len(relevance)) if i not in order]
            value = {
                i: trade_off * relevance[i]
                - (1 - trade_off) * (max(similarity[i, j] for j in order) if order else 0)
                for i in rest
            }
            most = max(value.values())
            more += [[*order, i] for i in rest if value[i] >= most - 1e-9]
        orders = more[:200]
    return orders


@settings(deadline=None)
@given(corpora, st.lists(texts, max_size=4), st.data())
def test_mmr_by_a_plain_loop(corpus, poison, data):
    trade_off = data.draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    everything = corpus + poison
    row = data.draw(st.lists(st.integers(0, len(everything) - 1), min_size=1, max_size=6, unique=True))
    scores = sorted(
        data.draw(st.lists(st.integers(0, 9), min_size=len(row), max_size=len(row))), reverse=True
    )
    retriever = Embedder(word_vectors).fit(Corpus.from_texts(corpus))
    seen = pool(["q", "q"], [row, []], len(corpus), poison, [np.array(scores, float), []])
    got = MMR(VectorSimilarity(retriever), trade_off).apply(seen, len(row))
    vectors = word_vectors([everything[d] for d in row])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = vectors / np.where(norms == 0, 1, norms)
    span = scores[0] - scores[-1]
    relevance = [(s - scores[-1]) / span if span else 1.0 for s in scores]
    orders = greedy(relevance, vectors @ vectors.T, trade_off)
    chosen = [row.index(d) for d in got.docs[0]]
    assert chosen in orders
    assert got.scores[0].tolist() == [scores[i] for i in chosen]
    assert (got.docs[1] == -1).all()
    first = MMR(VectorSimilarity(retriever), trade_off).apply(seen, min(2, len(row)))
    assert first.docs[0].tolist() == got.docs[0, :2].tolist()


def test_mmr_by_hand():
    """Equal texts are told apart by relevance alone; the second copy falls behind."""
    retriever = Embedder(lambda batch: np.array([[1.0, 0.0] if "a" in t else [0.0, 1.0] for t in batch]))
    retriever.fit(Corpus.from_texts(["a", "a", "b"]))
    seen = pool(["a"], [[0, 3, 1, 2]], 3, ["a"], [np.array([10.0, 8.0, 6.0, 0.0])])
    # after 0: copies .7 * relevance - .3, the other 0
    assert MMR(VectorSimilarity(retriever), 0.7).apply(seen, 4).docs.tolist() == [[0, 3, 1, 2]]
    # at .3: copies .3 * .8 - .7 = -.46, the other 0
    assert MMR(VectorSimilarity(retriever), 0.3).apply(seen, 4).docs.tolist() == [[0, 2, 3, 1]]
    assert MMR(VectorSimilarity(retriever), 1.0).apply(seen, 2).docs.tolist() == [[0, 3]]


def test_mmr_of_equal_candidates_keeps_their_order():
    retriever = Embedder(lambda batch: np.ones((len(batch), 2))).fit(Corpus.from_texts(["a"] * 5))
    seen = pool(["a"], [[3, 0, 4, 1]], 5, [], [np.full(4, 2.0)])
    assert MMR(VectorSimilarity(retriever), 0.7).apply(seen, 4).docs.tolist() == [[3, 0, 4, 1]]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("trade_off", [0.0, 0.7, 1.0])
def test_mmr_of_short_and_empty_pools_is_quiet(trade_off):
    retriever = LSA(dimensions=2).fit(Corpus.from_texts(DOCUMENTS))
    seen = pool(["ferry", "tide", "rope"], [[0, 1, 2], [3], []], 4, [])
    got = MMR(VectorSimilarity(retriever), trade_off).apply(seen, 3)
    assert sorted(got.docs[0]) == [0, 1, 2]
    assert got.docs[1:].tolist() == [[3, -1, -1], [-1, -1, -1]]


# ---- similarity, near-duplicates, quota ----------------------------------------------------------


def test_term_similarity_by_scikit_learn():
    """Its TfidfVectorizer, sublinear, with the idf of the clean corpus; a new term is as rare as can be."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    poison = ["kraken ferry ferry", "", "pier pier tide kraken squid"]
    index = TermIndex.from_texts(DOCUMENTS, unicode_tokens)
    seen = pool(["q"], [[0, 4, 3, 6, 5, 1]], 4, poison)
    got = TermSimilarity(index).among(seen.candidates.docs, seen)[0]
    known = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True).fit(DOCUMENTS)
    idf_of = dict(zip(known.get_feature_names_out(), known.idf_, strict=True))
    rows = []
    for doc in seen.candidates.docs[0]:
        words = (DOCUMENTS + poison)[doc].split()
        weight = {w: (1 + math.log(words.count(w))) * idf_of.get(w, math.log(5) + 1) for w in words}
        norm = math.sqrt(sum(v * v for v in weight.values())) or 1
        rows.append({w: v / norm for w, v in weight.items()})
    expected = [[sum(v * b.get(w, 0) for w, v in a.items()) for b in rows] for a in rows]
    assert got == pytest.approx(np.array(expected), abs=1e-12)


def words_alike() -> VectorSimilarity:
    """Texts of one letter are alike when it is the same."""
    retriever = Embedder(
        lambda batch: np.array(
            [[1.0, 0.0] if "a" in t else [0.0, 1.0] if "b" in t else [0.6, 0.8] for t in batch]
        )
    )
    return VectorSimilarity(retriever.fit(Corpus.from_texts(["a", "b", "c"])))


def test_near_duplicates_by_hand():
    """c is .6 like a and .8 like b; 3, 4 and 5 are further copies of a, a and c."""
    seen = pool(["q"], [[0, 3, 4, 1, 5, 2]], 3, ["a", "a", "c"])

    def kept(threshold, copies):
        return [d for d in NearDuplicate(words_alike(), threshold, copies).apply(seen, 6).docs[0] if d >= 0]

    assert kept(1.0, 1) == [0, 1, 5]
    assert kept(1.0, 2) == [0, 3, 1, 5, 2]
    assert kept(0.7, 1) == [0, 1]  # c joins b
    assert kept(0.7, 2) == [0, 3, 1, 5]
    assert kept(0.5, 3) == [0, 3, 4, 1, 5, 2]
    assert kept(1.1, 1) == [0, 3, 4, 1, 5, 2]


@settings(deadline=None)
@given(corpora, st.lists(texts, max_size=4), st.floats(0, 1.2), st.integers(1, 3), st.data())
def test_near_duplicates_by_a_plain_loop(corpus, poison, threshold, copies, data):
    n = len(corpus) + len(poison)
    row = data.draw(st.lists(st.integers(0, n - 1), max_size=8, unique=True))
    similarity = VectorSimilarity(Embedder(word_vectors).fit(Corpus.from_texts(corpus)))
    seen = pool(["q", "r"], [row, row[::-1]], len(corpus), poison)
    got = NearDuplicate(similarity, threshold, copies).apply(seen, n)
    for r, candidates in enumerate((row, row[::-1])):
        alike = similarity.among(seen.candidates.docs, seen)[r]
        members: dict[int, int] = {}
        expected = []
        for i, doc in enumerate(candidates):
            near = max(members, key=lambda f: alike[i, f], default=None)
            if near is None or alike[i, near] < threshold - 1e-9:
                near = i
            members[near] = members.get(near, 0) + 1
            if members[near] <= copies:
                expected.append(doc)
        assert [d for d in got.docs[r] if d >= 0] == expected


def test_quota_by_hand():
    """Documents 0 to 2 are of source 0, 3 names none, 4 is of source 1; poison says 1."""
    sources = np.array([0, 0, 0, -1, 1])
    seen = pool(["q"], [[2, 5, 0, 6, 3, 1, 4]], 5, ["x", "y"])
    assert Quota(sources, 1, 1).apply(seen, 7).docs[0].tolist() == [2, 5, 3, -1, -1, -1, -1]
    assert Quota(sources, 1, 2).apply(seen, 7).docs[0].tolist() == [2, 5, 0, 6, 3, -1, -1]
    assert Quota(sources, 2, 1).apply(seen, 7).docs[0].tolist() == [2, 5, 3, 4, -1, -1, -1]


# ---- in a run ------------------------------------------------------------------------------------


def sweep(*words_: str):
    return execute(plan("sweep", ["dataset=ferries", "latency_sample=0", "pool=12", *words_]))


def lists(run, condition: str) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for r in run.rankings().to_pylist():
        if r["condition"] == condition:
            out.setdefault(r["query_id"], []).append(r["doc_id"])
    return out


def test_rejected_and_short(ferries):
    run = sweep("defense=overlap", "defense.tau=.95", "attack=query_only", "attack.budget=3", "k=2")
    names = {(c["config"]["budget"], c["config"]["defense"]): c["id"] for c in run.summary["conditions"]}
    assert set(names) == {(0, "none"), (0, "overlap"), (3, "none"), (3, "overlap")}
    rows = [r for r in run.records().to_pylist() if r["condition"] == names[3, "overlap"]]
    by_query = {r["query_id"]: r for r in rows}
    # q1 is all of d5 and d6; the three copies of the query go with them, and nothing else holds its words
    assert by_query["q1"]["rejected"] == 5
    assert by_query["q1"]["returned"] < 2
    assert by_query["q1"]["Shortage"] == 1
    # the copies of every query are rejected
    assert {r["AnyExp"] for r in rows} == {0}
    assert min(r["rejected"] for r in rows) >= 3
    undefended = [r for r in run.records().to_pylist() if r["condition"] == names[3, "none"]]
    assert {r["rejected"] for r in undefended} == {0}
    assert {r["TargetExp"] for r in undefended} == {1}


def test_a_chain_is_one_after_the_other(ferries):
    """What overlap lets through, then MMR over that pool; the other way round MMR sees everything."""
    common = ["retriever=hybrid", "defense.tau=.8", "attack.budget=2", "k=4"]
    chain = sweep("defense=[overlap,mmr],[mmr,overlap],overlap,mmr", *common)
    found = {
        c["config"]["defense"]: lists(chain, c["id"])
        for c in chain.summary["conditions"]
        if c["config"]["budget"]
    }
    assert set(found) == {"none", "overlap", "mmr", "overlap+mmr", "mmr+overlap"}
    rejected = {}
    for r in chain.records().to_pylist():
        if r["budget"]:
            rejected[r["defense"], r["query_id"]] = r["rejected"]
    for q in found["overlap"]:
        assert rejected["overlap+mmr", q] == rejected["mmr+overlap", q] == rejected["overlap", q]
        assert rejected["mmr", q] == 0
        assert set(found["overlap+mmr"][q]) != set(found["mmr"][q]) or not rejected["overlap", q]
    assert any(found["overlap+mmr"][q] != found["overlap"][q] for q in found["overlap"])
    assert any(rejected["overlap", q] for q in found["overlap"])


OWN = """
import numpy as np
from stressrag.defenses.base import keep


class NoPoison:
    "An oracle: rejects what is poison."

    name = "oracle"

    def apply(self, pool, k):
        return keep(pool.candidates, pool.candidates.docs < pool.n_docs)
"""


def test_own_defense(ferries):
    with open("oracle.py", "w") as f:
        f.write(OWN)
    run = sweep("defense.names=[oracle:NoPoison]", "attack.budget=3", "statistics=frozen")
    clean, undefended = None, None
    for c in run.summary["conditions"]:
        if c["config"]["defense"] == "none":
            clean, undefended = (c, undefended) if not c["config"]["budget"] else (clean, c)
    (defended,) = [c for c in run.summary["conditions"] if c["config"]["budget"] and c is not undefended]
    assert defended["metrics"]["AnyExp"] == 0
    assert undefended["metrics"]["AnyExp"] == 1
    assert defended["metrics"]["nDCG@10"] == clean["metrics"]["nDCG@10"]


def test_dense_similarity_needs_no_network_to_be_refused(ferries):
    with pytest.raises(StressragError, match="did you mean 'overlap'"):
        plan("sweep", ["defense.names=[overlp]"])


# ---- score detector ------------------------------------------------------------------------------


def test_a_list_that_is_odder_than_clean_ones_is_emptied():
    """Clean gaps 1, 2, 3 and 4; at 25% one may lie above, so the limit is 3: 3 passes, 3.5 does not."""
    clean = [np.array([9.0, 9.0 - gap]) for gap in (3, 1, 4, 2)]
    detector = ScoreDetector("gap", clean, 25)
    assert detector.threshold == 3
    seen = pool(["a", "b", "c", "d"], [[0, 1, 2], [1, 4, 2], [3], []], 4, ["x"])
    scores = np.array([[7.0, 5.0, 4.0], [7.5, 5.0, 4.0], [50.0, -np.inf, -np.inf], [-np.inf] * 3])
    seen = Pool(seen.queries, Ranking(seen.candidates.docs, scores), 4, seen.poison)
    assert detector.apply(seen, 3).docs.tolist() == [[0, 1, 2], [-1, -1, -1], [3, -1, -1], [-1, -1, -1]]
    # Only what would be shown counts.
    assert detector.apply(seen, 2).docs.tolist() == [[0, 1, 2], [1, 4, 2], [3, -1, -1], [-1, -1, -1]]


def test_the_score_detector_in_a_run(tmp_path):
    """At a rate of 5% no more of the calibration queries' clean lists lie above the limit."""
    collection = stressrag.load_dataset("pellmore")
    bm25 = BM25().fit(collection.corpus)
    found = bm25.search(list(collection.calibration.texts), 10)
    gaps = [r[1].max() - r[1].min() if len(r[1]) else 0.0 for r in map(found.row, range(len(found)))]
    limit = np.sort(gaps)[len(gaps) - 1 - int(len(gaps) * 0.05)]
    run = stressrag.run(
        "defense=score_detector", "defense.filter_rate=5", "attack=query_only", "attack.budget=1",
        "resamples=0",
        f"output_dir={tmp_path / 'out'}",
    )  # fmt: skip
    texts = dict(zip(collection.evaluated.ids, collection.evaluated.texts, strict=True))
    emptied = 0
    for row in run.records().to_pylist():
        found = bm25.search_contaminated(
            [texts[row["query_id"]]], [texts[row["query_id"]]], Views.isolated([0], 1), 10
        )
        scores = found.row(0)[1]
        assert (row["returned"] == 0) == (scores.max() - scores.min() > limit)
        emptied += row["returned"] == 0
    assert 0 < emptied < 222


# ---- defenses of the user's ----------------------------------------------------------------------

THEIRS = """
import numpy as np
from stressrag.defenses.base import Evasion, keep

class Plain:
    judges = "text"
    def apply(self, pool, k):
        return keep(pool.candidates, pool.candidates.docs % 2 == 0)
    def evasion(self):
        return "nothing helps: numbers are not the attacker's to choose"

class Names(Plain):
    judges = "sometimes"

class Said(Plain):
    def evasion(self):
        return 42

class Shape(Plain):
    def evasion(self):
        return Evasion(admits=lambda query, terms, sets, beside: [1])

class Raises(Plain):
    def apply(self, pool, k):
        return pool.nothing

class List(Plain):
    def apply(self, pool, k):
        return [1]

class Twice(Plain):
    def apply(self, pool, k):
        docs = np.repeat(pool.candidates.docs[:, :1], k, 1)
        return type(pool.candidates)(docs, np.zeros(docs.shape))

class Nothing:
    pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_defenses_here.py").write_text(THEIRS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_defense_of_the_users(own, capsys):
    words = ["run", "attack=optimal", "attack.terms=1", "attack.strategy=idf", "attack.targets=0.05"]
    assert dispatch([*words, "defense=own_defenses_here:Plain", "resamples=0", "output_dir=out"]) == 0
    run = open_run("out")
    numbers = {d: i for i, d in enumerate(stressrag.load_dataset("pellmore").corpus.ids)}
    shown = [r for r in run.rankings().to_pylist() if not r["poison"]]
    assert shown
    assert all(numbers[r["doc_id"]] % 2 == 0 for r in shown)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Names", "judges is one of text, above, all, not 'sometimes'"),
        ("Said", "evasion() gave int, not an Evasion or a reason"),
        ("Shape", "admits gave int64 of shape (1,), not bool"),
        ("Raises", "raised AttributeError: 'Pool' object has no attribute 'nothing'"),
        ("List", "apply gave list, not a Ranking"),
        ("Twice", "a document twice or one that is no candidate"),
        ("Nothing", "has no method apply(pool, k)"),
        ("Lost", "Lost"),
    ],
)
def test_a_defense_that_breaks_its_contract_is_one_line(own, capsys, name, message):
    words = ["run", "attack=optimal", "attack.terms=1", "attack.strategy=idf", "attack.targets=0.05"]
    assert dispatch([*words, f"defense=own_defenses_here:{name}", "resamples=0", "output_dir=out"]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert len(said.splitlines()) == 1
    assert not (own / "out").exists()
