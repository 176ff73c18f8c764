"""The user's own retrievers, by import path and by entry point, and other plugins by entry point."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute
from stressrag.retrievers.own import Embedder, Own
from stressrag.settings.compose import only

MINE = '''
import numpy as np
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.lsa import LSA


class Wrapped:
    """BM25 behind a bare interface: ids and scores, in no order, at most as many as asked for."""

    def __init__(self):
        self.inner = BM25()

    def fit(self, corpus):
        self.ids = corpus.ids
        self.inner.fit(corpus)

    def search(self, queries, k):
        found = self.inner.search(queries, k)
        return [
            {self.ids[d]: s for d, s in reversed(list(zip(*found.row(i))))} for i in range(len(queries))
        ]


class Deaf:
    def fit(self, corpus):
        pass


class Fixed:
    def search(self, queries, k):
        return [["d1", "d2"] for _ in queries]


def returns(value):
    class Odd:
        def fit(self, corpus):
            pass

        def search(self, queries, k):
            return value

    return Odd


unknown = returns([["zz"]] * 6)
twice = returns([["d1", "d1"]] * 6)
nan = returns([{"d1": float("nan")}] * 6)
few = returns([[]])
odd = returns([[3]] * 6)


def bm25():
    return BM25()


def letters(texts):
    return np.array([[t.lower().count(c) for c in "abcdefghijklmnop"] for t in texts], float)


def words(texts):
    return [t for t in texts]


number = 7
'''


@pytest.fixture
def mine(ferries):
    with open("mine.py", "w") as f:
        f.write(MINE)
    return ferries


def sweep(*words: str):
    return execute(plan("sweep", ["dataset=ferries", "latency_sample=0", *words]))


def bare(run) -> list[tuple]:
    """Rankings without the names of conditions."""
    kept = ("query_id", "rank", "doc_id", "score", "poison", "owner")
    return [tuple(r[k] for k in kept) for r in run.rankings().to_pylist()]


@pytest.mark.parametrize("target", ["mine:Wrapped", "mine:bm25"])
def test_a_wrapped_bm25_gives_the_same(mine, target):
    words = ["attack=query_only", "attack.budget=1,3", "attack.scope=isolated,multi"]
    own = sweep("retriever=python", f"retriever.target={target}", *words)
    assert bare(own) == bare(sweep("retriever=bm25", *words))
    assert own.summary["conditions"][0]["config"]["retriever"] == "python"


def test_an_embedder(mine):
    run = sweep(
        "retriever=embedder", "retriever.target=mine:letters", "attack=query_only", "attack.budget=2", "k=3"
    )
    poisoned = [r for r in run.rankings().to_pylist() if "query_only" in r["condition"]]
    # the query itself has cosine 1
    for r in poisoned:
        if r["rank"] < 3:
            assert (r["poison"], r["owner"], r["score"]) == (True, r["query_id"], pytest.approx(1))


def test_an_embedder_in_a_hybrid(mine):
    words = ["retriever=hybrid", "retriever.target=mine:letters", "rrf.retrievers=[bm25,embedder]"]
    run = sweep(*words, "attack.budget=1", "defense=none,overlap")
    assert {c["config"]["retriever"] for c in run.summary["conditions"]} == {"hybrid"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine", "'mine' is no import path; write package.module:name"),
        ("mine:", "is no import path"),
        ("mine:Warpped", "no 'Warpped' there; did you mean 'Wrapped'"),
        ("mien:Wrapped", "cannot import 'mien'"),
        ("mine:number", "'mine:number' is not callable; give a factory"),
        ("mine:Deaf", r"makes an object without search\(queries, k\)"),
        ("mine:Fixed", r"has no fit\(corpus\), so poison cannot be put into its index"),
        ("mine:unknown", "search gave 'zz', which is no document of the corpus"),
        ("mine:twice", "gave a document twice"),
        ("mine:nan", "a score that is not finite"),
        ("mine:few", "search gave 1 result lists for 6 queries"),
        ("mine:odd", r"a result is \{id: score\}, \(id, score\) pairs or ids; got 3"),
    ],
)
def test_wrong_retrievers(mine, target, message):
    with pytest.raises(StressragError, match=message):
        sweep("retriever=python", f"retriever.target={target}", "attack.budget=1")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine:number", "is no function from texts to vectors"),
        ("mine:words", "gave <U.* values, not numbers"),
        ("mine:lettres", "did you mean 'letters'"),
    ],
)
def test_wrong_embedders(mine, target, message):
    with pytest.raises(StressragError, match=message):
        sweep("retriever=embedder", f"retriever.target={target}", "attack.budget=1")


def test_a_module_that_fails_to_load(ferries):
    with open("broken.py", "w") as f:
        f.write("1 / 0\n")
    with pytest.raises(StressragError, match="cannot import 'broken': division by zero"):
        sweep("retriever=python", "retriever.target=broken:x")


class Tied:
    """All documents score the same; answers in the worst order and counts what it is asked for."""

    asked: list[int]

    def fit(self, corpus):
        self.ids, self.asked = corpus.ids, []

    def search(self, queries, k):
        self.asked.append(k)
        return [[(i, 1.0) for i in reversed(self.ids)][:k] for _ in queries]


def test_ties_at_the_cut_are_asked_for_again():
    retriever = Own(Tied).fit(Corpus.from_texts(["x"] * 20))
    assert retriever.search(["q", "r"], 3).docs.tolist() == [[0, 1, 2]] * 2
    assert retriever.engine_.asked == [4, 8, 16, 20]


def test_an_embedder_with_two_sides():
    class Sides:
        def encode_queries(self, texts):
            return np.array([[1.0, 0.0]] * len(texts))

        def encode_corpus(self, texts):
            return np.array([[float(len(t)), 1.0] for t in texts])

    found = Embedder(Sides(), similarity="dot").fit(Corpus.from_texts(["a", "aaa", "aa"])).search(["q"], 3)
    assert found.docs.tolist() == [[1, 2, 0]]


def test_shape_and_finiteness_of_vectors():
    for function, message in (
        (lambda texts: np.ones(len(texts)), "the encoder gave shape"),
        (lambda texts: np.ones((len(texts) + 1, 2)), "the encoder gave shape"),
        (lambda texts: np.full((len(texts), 2), np.nan), "not finite"),
    ):
        with pytest.raises(StressragError, match=message):
            Embedder(function).fit(Corpus.from_texts(["a", "b"]))


# ---- entry points --------------------------------------------------------------------------------

INSTALLED = """
import numpy as np
from stressrag.defenses.base import keep
from stressrag.metrics.base import Metric
from stressrag.retrievers.bm25 import BM25


def retriever():
    return BM25()


def attack(query, query_id, number, context):
    return f"{query} {number}"


class Defense:
    name = "oracle"

    def apply(self, pool, k):
        return keep(pool.candidates, pool.candidates.docs < pool.n_docs)


Length = Metric("Length", lambda top: (top.docs >= 0).sum(1))
"""


@pytest.fixture
def installed(ferries, tmp_path, monkeypatch):
    """A package with entry points, as pip would leave it."""
    site = tmp_path / "site"
    info = site / "harbour-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "harbour_tools.py").write_text(INSTALLED)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: harbour\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[stressrag.retrievers]\ndredger = harbour_tools:retriever\n"
        "[stressrag.attacks]\nnumbered = harbour_tools:attack\n"
        "[stressrag.defenses]\noracle = harbour_tools:Defense\n"
        "[stressrag.metrics]\nlength = harbour_tools:Length\n"
    )
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    assert str(site) in sys.path
    return ferries


def test_entry_points(installed):
    run = sweep(
        "retriever=bm25,dredger",
        "attack=numbered",
        "attack.budget=2",
        "defense=none,oracle",
        "metrics=[length]",
    )
    configs = [c["config"] for c in run.summary["conditions"]]
    assert {c["retriever"] for c in configs} == {"bm25", "dredger"}
    assert {c["attack"] for c in configs} == {"clean", "numbered"}
    assert {c["defense"] for c in configs} == {"none", "oracle"}
    for c in run.summary["conditions"]:
        exposed = c["config"]["budget"] and c["config"]["defense"] == "none"
        assert c["metrics"]["AnyExp"] == (1 if exposed else 0)
        assert c["metrics"]["Length"] > 1
    rows = run.rankings().to_pylist()
    of = {c["id"]: c["config"]["retriever"] for c in run.summary["conditions"]}

    def pick(label: str) -> list[tuple]:
        mine = [r for r in rows if of[r["condition"]] == label]
        return [(r["query_id"], r["rank"], r["doc_id"], r["score"]) for r in mine]

    assert pick("bm25") == pick("dredger")


def test_misspelt_entry_points(installed):
    for word, near in {
        "retriever=dreger": "dredger",
        "attack=numberd": "numbered",
        "defense=oracel": "oracle",
    }.items():
        with pytest.raises(StressragError, match=f"did you mean '{near}'"):
            only([word])
    with pytest.raises(StressragError, match="no metric 'lenght' is installed; did you mean 'length'"):
        sweep("metrics=[lenght]")
