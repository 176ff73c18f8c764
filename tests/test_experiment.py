"""Runs from end to end: what is recorded is what a slow and separate computation gives."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import DOCUMENTS, QRELS, QUERIES, write_collection

from stressrag.collection import load_folder
from stressrag.experiment.conditions import condition
from stressrag.experiment.plan import families, plan
from stressrag.experiment.run import execute
from stressrag.records.folder import open_run
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.hybrid import Hybrid
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.ranking import Views
from stressrag.settings.compose import only

PAYLOADS = ["say yes", "say no to the ferry", "send mail", "print keys", "stop here", "buy rope", "go on"]
JUDGED = list(QRELS)  # the order of the judgments numbers the queries


def sweep(*words: str):
    return execute(plan("sweep", ["dataset=ferries", "latency_sample=0", *words]))


def rows(run, **only_these) -> list[dict]:
    return [r for r in run.records().to_pylist() if all(r[k] == v for k, v in only_these.items())]


# ---- by another way ------------------------------------------------------------------------------


def ndcg(grades: list[int], judged: dict[str, int], k: int) -> float:
    best = sorted(judged.values(), reverse=True)[:k]
    ideal = sum(g / math.log2(i + 2) for i, g in enumerate(best))
    return sum(g / math.log2(i + 2) for i, g in enumerate(grades[:k])) / ideal


def by_hand(folder, retriever, statistics: str, budget: int, scope: str, k: int) -> dict[str, dict]:
    """Every query's list and metrics, from indices built afresh for every view."""
    collection = load_folder(folder)
    documents = list(collection.corpus.ids)
    texts = [QUERIES[q] for q in JUDGED]
    poison, owners = [], []
    for i, text in enumerate(texts):
        for j in range(budget):
            poison.append(f"{text} {PAYLOADS[(5 * i + j) % len(PAYLOADS)]}")
            owners.append(i)
    group = {"isolated": lambda i: i, "group": lambda i: i // 4, "multi": lambda i: 0}[scope]
    seen = [[p for p, o in enumerate(owners) if group(o) == group(i)] for i in range(len(texts))]
    found = retriever.fit(collection.corpus).search_slowly(
        texts, poison, Views.of(seen), k, statistics=statistics
    )
    out = {}
    for i, q in enumerate(JUDGED):
        docs = [int(d) for d in found.docs[i] if d >= 0]
        poisoned = [owners[d - len(documents)] if d >= len(documents) else None for d in docs]
        names = [documents[d] if d < len(documents) else None for d in docs]
        names = [
            f"poison-{JUDGED[o]}-{(d - len(documents)) % budget}" if o is not None else n
            for d, o, n in zip(docs, poisoned, names, strict=True)
        ]
        grades = [QRELS[q].get(n, 0) for n in names]
        relevant = [n for n, g in QRELS[q].items() if g >= 1]
        evidence = any(n in relevant for n in names)
        exposed = any(o is not None for o in poisoned)
        first = [r for r, o in enumerate(poisoned, 1) if o is not None]
        first_evidence = [r for r, n in enumerate(names, 1) if n in relevant]
        out[q] = {
            "names": names,
            "owners": [None if o is None else JUDGED[o] for o in poisoned],
            f"nDCG@{k}": ndcg(grades, QRELS[q], k) if relevant else None,
            f"Recall@{k}": len(set(names) & set(relevant)) / len(relevant) if relevant else None,
            "TargetExp": float(i in poisoned),
            "AnyExp": float(exposed),
            "CrossExp": float(any(o not in (None, i) for o in poisoned)),
            "Evid": float(evidence),
            "SafeR": float(evidence and not exposed),
            "PoisonCount": float(len(first)),
            "PoisonFraction": len(seen[i]) / (len(documents) + len(seen[i])),
            "Shortage": float(len(docs) < k),
            "FirstPoisonRank": float(first[0]) if first else None,
            "FirstEvidenceRank": float(first_evidence[0]) if first_evidence else None,
            "Coverage": 1.0,
            "EvidClean": float(evidence and not exposed),
            "EvidPoison": float(evidence and exposed),
            "NoEvidClean": float(not evidence and not exposed),
            "NoEvidPoison": float(not evidence and exposed),
        }
    return out


WAYS = {
    "bm25": lambda: BM25(),
    "lsa": lambda: LSA(dimensions=5),
    "hybrid": lambda: Hybrid([BM25(), LSA(dimensions=5)], depth=8),
}


@pytest.mark.parametrize("statistics", ["live", "frozen"])
@pytest.mark.parametrize("retriever", list(WAYS))
def test_records_equal_a_slow_recomputation(ferries, retriever, statistics):
    with open("payloads.txt", "w") as f:
        f.write("\n".join(PAYLOADS))
    run = sweep(
        f"retriever={retriever}",
        "lsa.dimensions=5",
        "rrf.depth=8",
        f"statistics={statistics}",
        "attack.payloads=payloads.txt",
        "attack.payload_order=cycle",
        "attack.budget=1,3",
        "attack.scope=isolated,group,multi",
        "attack.group_size=4",
        "k=6",
    )
    lists: dict[tuple, list] = {}
    for r in run.rankings().to_pylist():
        lists.setdefault((r["condition"], r["query_id"]), []).append(r)
    by_id = {c["id"]: c["config"] for c in run.summary["conditions"]}
    compared = 0
    for budget in (1, 3):
        for scope in ("isolated", "group", "multi"):
            expected = by_hand(ferries, WAYS[retriever](), statistics, budget, scope, 6)
            (name,) = [i for i, c in by_id.items() if (c["budget"], c["scope"]) == (budget, scope)]
            got = rows(run, condition=name)
            assert [r["query_id"] for r in got] == JUDGED
            for r in got:
                want = dict(expected[r["query_id"]])
                listed = lists[name, r["query_id"]]
                assert [x["rank"] for x in listed] == list(range(1, len(listed) + 1))
                assert [x["doc_id"] for x in listed] == want.pop("names")
                owners = want.pop("owners")
                assert [x["owner"] for x in listed] == owners
                assert [x["poison"] for x in listed] == [o is not None for o in owners]
                assert [x["grade"] for x in listed] == [
                    QRELS[r["query_id"]].get(x["doc_id"], 0) for x in listed
                ]
                assert r["returned"] == len(listed)
                assert {m: r[m] for m in want} == pytest.approx(want, abs=1e-12)
                assert want[r["state"]] == 1
                compared += 1
    assert compared == 6 * len(JUDGED)


# ---- the shape of what is written ----------------------------------------------------------------


def test_summary(ferries):
    run = sweep("retriever=bm25,lsa", "attack=payload,query_only", "attack.budget=1,2")
    summary = json.loads((run.folder / "summary.json").read_text())
    assert summary["schema"] == 3
    assert len(summary["conditions"]) == 2 + 2 * 2 * 2
    names = (
        "dataset",
        "retriever",
        "attack",
        "anchor",
        "terms",
        "strategy",
        "body",
        "budget",
        "scope",
        "defense",
    )
    for c in summary["conditions"]:
        assert set(names) <= set(c["config"])
        assert c["config"]["dataset"] == "ferries"
        assert c["config"]["defense"] == "none"
        assert c["n_queries"] == 5
        assert c["n_left_out"] == 1
        here = rows(run, condition=c["id"])
        assert len(here) == 6
        judged = [r for r in here if r["evaluated"]]
        assert [r["query_id"] for r in here if not r["evaluated"]] == ["q9"]
        for metric, value in c["metrics"].items():
            numbers = [r[metric] for r in judged if r[metric] is not None]
            assert value == (pytest.approx(sum(numbers) / len(numbers)) if numbers else None)
        standard = {"nDCG@10", "Recall@10", "TargetExp", "AnyExp", "CrossExp", "Evid", "SafeR", "PoisonCount"}
        assert standard <= set(c["metrics"])
    assert len({c["id"] for c in summary["conditions"]}) == len(summary["conditions"])
    clean, attacked = summary["conditions"][0], summary["conditions"][-1]
    assert (clean["config"]["budget"], clean["config"]["scope"], clean["config"]["attack"]) == (
        0,
        None,
        "clean",
    )
    assert (attacked["config"]["anchor"], attacked["config"]["body"]) == ("query", "none")
    lines = (run.folder / "summary.csv").read_text().splitlines()
    assert len(lines) == 1 + len(summary["conditions"])
    assert lines[0].startswith(
        "condition,dataset,retriever,attack,anchor,terms,strategy,body,budget,scope,defense,"
    )


def test_partial_records_its_terms(ferries):
    run = sweep("attack=partial")
    got = {(r["terms"], r["strategy"]) for r in rows(run, attack="partial")}
    assert got == {(n, s) for n in (1, 2, 4, 8) for s in ("random", "idf")}
    assert len(run.records()) == 9 * 6
    # q1 is "rope anchor chain barge": four eligible terms, all known to the corpus
    coverage = {r["terms"]: r["Coverage"] for r in rows(run, query_id="q1", strategy="idf")}
    assert coverage == {1: 0.25, 2: 0.5, 4: 1.0, 8: 1.0}
    eight = next(c for c in run.summary["conditions"] if c["config"]["terms"] == 8)
    assert eight["notes"] == {"fewer_terms": 6}


# ---- what must not matter ------------------------------------------------------------------------


def test_names_of_documents_do_not_matter(ferries):
    first = sweep("retriever=bm25,hybrid", "attack=query_only,payload_only", "attack.scope=isolated,multi")
    new = {d: f"{100 - i:03d}" for i, d in enumerate(DOCUMENTS)}  # the alphabet the other way round
    write_collection(
        ferries,
        {new[d]: text for d, text in DOCUMENTS.items()},
        QUERIES,
        {q: {new[d]: g for d, g in judged.items()} for q, judged in QRELS.items()},
    )
    second = sweep(
        "retriever=bm25,hybrid",
        "attack=query_only,payload_only",
        "attack.scope=isolated,multi",
        "output_dir=b",
    )
    assert first.records().equals(second.records())
    a, b = first.rankings().to_pylist(), second.rankings().to_pylist()
    assert [{**r, "doc_id": new.get(r["doc_id"], r["doc_id"])} for r in a] == b


@pytest.mark.parametrize(
    "more",
    [
        ["attack=payload,query_only", "attack.budget=1,3,5"],
        ["retriever=bm25,lsa,hybrid"],
        ["retriever=lsa,hybrid", "bm25.tokenizer=unicode,ascii"],
        ["k=3,10", "pool=20"],
        ["defense=none,overlap,mmr"],
        ["attack.tokenizer=ascii,unicode", "attack=partial"],
        ["attack.targets=[q1,q5],all,0.5"],
        ["seed=0,1"],
        ["ties=poison_first,clean_first"],
        ["grade=1,2"],
    ],
    ids=lambda words: words[0],
)
def test_neighbours_in_a_sweep_do_not_matter(ferries, more):
    """Each condition of a sweep has the rows that it has when it is run by itself."""
    # A query with an accent is cut otherwise by each tokeniser.
    write_collection(
        ferries, DOCUMENTS | {"d13": ("", "a café on the pier")}, QUERIES | {"q1": "rope café barge"}
    )
    words = ["latency_sample=0", "dataset=ferries", "lsa.dimensions=5", *more]
    whole = execute(plan("sweep", words))
    records, rankings = whole.records().to_pylist(), whole.rankings().to_pylist()
    everything = plan("sweep", words)
    assert len(everything.conditions) > 2
    for c in everything.conditions:
        alone = replace(everything, conditions=(c,), settings=replace(everything.settings, output_dir=c.id))
        run = execute(alone)
        metrics = set(run.records().schema.names)
        want = [{k: v for k, v in r.items() if k in metrics} for r in records if r["condition"] == c.id]
        assert run.records().to_pylist() == want
        assert run.rankings().to_pylist() == [r for r in rankings if r["condition"] == c.id]


def test_number_of_workers_does_not_matter(ferries, monkeypatch):
    monkeypatch.setattr("stressrag.experiment.run.block_size", lambda family: 2)
    words = ["retriever=bm25,hybrid", "attack=partial", "attack.terms=2", "attack.scope=isolated,multi"]
    one, two = sweep(*words), sweep(*words, "workers=2", "output_dir=two")
    for name in ("records.parquet", "rankings.parquet", "summary.json", "summary.csv"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes(), name


def test_size_of_blocks_does_not_matter(ferries, monkeypatch):
    words = ["attack.targets=[q1]", "attack=payload", "defense=none,overlap"]
    whole = sweep(*words)
    monkeypatch.setattr("stressrag.experiment.run.block_size", lambda family: 1)
    cut = sweep(*words, "output_dir=cut")
    for name in ("records.parquet", "rankings.parquet", "summary.json"):
        assert (whole.folder / name).read_bytes() == (cut.folder / name).read_bytes(), name


# ---- axes ----------------------------------------------------------------------------------------


def test_two_collections(ferries):
    write_collection(ferries.parent / "boats", {"x": ("", "rope barge")}, {"q": "barge"}, {"q": {"x": 1}})
    words = ["dataset=ferries,boats", "attack=query_only", "attack.budget=1"]
    run = execute(plan("sweep", words))
    assert len(rows(run, dataset="ferries")) == 12
    assert [(r["query_id"], r["budget"], r["nDCG@10"]) for r in rows(run, dataset="boats")] == [
        ("q", 0, 1.0),
        ("q", 1, pytest.approx(1 / math.log2(3))),
    ]
    assert set(run.summary["content_sha256"]) == {"ferries", "boats"}


def test_k_is_swept(ferries):
    run = sweep("k=1,3", "attack=clean")
    by_k = {c["config"]["k"]: c for c in run.summary["conditions"]}
    assert set(by_k) == {1, 3}
    for k, other in ((1, 3), (3, 1)):
        assert f"nDCG@{k}" in by_k[k]["metrics"]
        assert by_k[k]["metrics"].get(f"nDCG@{other}") is None
        assert max(r["returned"] for r in rows(run, k=k)) == k


def test_poison_first_exposes_at_least_as_much(ferries):
    """Poison that equals a relevant document ties with it; the setting decides which goes first."""
    (ferries.parent.parent.parent / "work" / "copies.py").write_text(
        "def copy(query, query_id, number, context):\n"
        "    return 'rope and anchor chain hold the barge in the harbour'\n"
    )
    run = sweep(
        "attack=python",
        "attack.target=copies:copy",
        "attack.budget=1",
        "ties=clean_first,poison_first",
        "k=1,2,3",
    )
    exposure = {}
    for c in run.summary["conditions"]:
        if c["config"]["budget"]:
            (row,) = rows(run, condition=c["id"], query_id="q1")
            exposure[c["config"]["ties"], c["config"]["k"]] = row["AnyExp"]
    # d5 has the title's "Rope" on top; d6 and the poison are equal
    assert exposure == {
        ("clean_first", 1): 0, ("clean_first", 2): 0, ("clean_first", 3): 1,
        ("poison_first", 1): 0, ("poison_first", 2): 1, ("poison_first", 3): 1,
    }  # fmt: skip


def test_bystanders(ferries, monkeypatch):
    monkeypatch.setattr("stressrag.experiment.run.block_size", lambda family: 2)
    run = sweep("attack.targets=[q1,q4]", "attack.budget=3", "attack.scope=isolated,multi", "k=12")
    for scope in ("isolated", "multi"):
        here = rows(run, scope=scope)
        assert [r["query_id"] for r in here if r["targeted"]] == ["q1", "q4"]
        assert {r["TargetExp"] for r in here if not r["targeted"]} == {None}
        (c,) = [c for c in run.summary["conditions"] if c["config"]["scope"] == scope]
        assert c["n_targets"] == 2
        assert c["metrics"]["TargetExp"] == 1
        assert c["splits"]["targeted"]["n_queries"] == 2
        assert c["splits"]["bystander"]["n_queries"] == 3
        counts = [r["PoisonCount"] for r in here if r["targeted"]]
        assert c["splits"]["targeted"]["metrics"]["PoisonCount"] == pytest.approx(sum(counts) / 2)
        exposed = [r["AnyExp"] for r in here if r["evaluated"] and not r["targeted"]]
        assert c["splits"]["bystander"]["metrics"]["AnyExp"] == pytest.approx(sum(exposed) / 3)
        assert (sum(exposed) > 0) == (scope == "multi")
        assert all(r["CrossExp"] == r["AnyExp"] for r in here if not r["targeted"])
    assert {r["PoisonFraction"] for r in rows(run, scope="isolated") if not r["targeted"]} == {0}
    assert {r["PoisonFraction"] for r in rows(run, scope="multi")} == {6 / 18}
    clean = next(c for c in run.summary["conditions"] if c["config"]["budget"] == 0)
    assert clean["metrics"]["TargetExp"] == 0


def test_groups_by_metadata(ferries):
    lines = [json.loads(line) for line in (ferries / "queries.jsonl").read_text().splitlines()]
    group = {"q1": "a", "q4": "a", "q2": "b", "q3": "b", "q5": "b", "q9": "c"}
    (ferries / "queries.jsonl").write_text(
        "".join(json.dumps({**r, "metadata": {"group": group[r["_id"]]}}) + "\n" for r in lines)
    )
    run = sweep("attack.scope=group", "attack.budget=2")
    fraction = {r["query_id"]: r["PoisonFraction"] for r in rows(run, scope="group")}
    assert fraction == {
        q: n / (12 + n) for q, n in {"q1": 4, "q4": 4, "q2": 6, "q3": 6, "q5": 6, "q9": 2}.items()
    }


# ---- plans ---------------------------------------------------------------------------------------


def test_settings_that_a_condition_does_not_use_are_no_part_of_it():
    same = [
        ("retriever=bm25", "lsa.seed=3"),
        ("attack=query_only", "attack.payloads=bipia"),
        ("attack=clean", "attack.budget=3"),
        ("attack=payload", "attack.strategy=idf"),
        ("attack=payload", "workers=2"),
        ("defense=none", "pool=90"),
        ("attack.scope=multi", "statistics.isolated=frozen"),
    ]
    for base, extra in same:
        assert condition(only([base])).id == condition(only([base, extra])).id
    other = [
        ("retriever=lsa", "lsa.seed=3"),
        ("attack=payload", "attack.payloads=bipia"),
        ("attack=payload", "attack.budget=3"),
        ("defense=mmr", "pool=90"),
        ("defense=overlap", "defense.tau=.9"),
        ("attack=payload", "seed=1"),
        ("attack.scope=multi", "statistics.multi=frozen"),
        ("attack=payload", "dataset.split=dev"),
    ]
    for base, extra in other:
        assert condition(only([base])).id != condition(only([base, extra])).id


def test_partners():
    labels = [
        (c.config()["budget"], c.config()["defense"], c.partner)
        for c in plan("sweep", ["defense=overlap", "attack.budget=2"]).conditions
    ]
    assert labels == [
        (0, "none", True),
        (0, "overlap", True),
        (2, "none", True),
        (2, "overlap", False),
    ]
    assert len(plan("sweep", ["defense=overlap", "partners=false"]).conditions) == 1
    assert len(plan("run", ["defense=overlap"]).conditions) == 1


def test_families_share_retrievers():
    conditions = plan("sweep", ["retriever=bm25,lsa,hybrid", "attack.budget=1,3"]).conditions
    assert len(families(conditions)) == 1
    conditions = plan("sweep", ["retriever=bm25,lsa", "dataset=scifact,nfcorpus"]).conditions
    assert [{(c.retriever.label, dict(c.dataset)["name"]) for c in f} for f in families(conditions)] == [
        {("bm25", "scifact")}, {("bm25", "nfcorpus")}, {("lsa", "scifact")}, {("lsa", "nfcorpus")},
    ]  # fmt: skip


def test_a_list_that_is_empty_counts_as_zero(ferries):
    run = sweep("defense=overlap", "defense.tau=0", "attack.budget=1")
    for r in rows(run, defense="overlap"):
        assert (r["returned"], r["Shortage"], r["Evid"]) == (0, 1, 0)
        assert r["nDCG@10"] == (None if r["query_id"] == "q9" else 0)
        assert r["state"] == "NoEvidClean"
    assert not [r for r in run.rankings().to_pylist() if "overlap" in r["condition"]]


def test_found_again(ferries):
    first = sweep("attack.budget=1")
    before = {p.name: p.stat().st_mtime_ns for p in first.folder.iterdir() if p.name != ".lock"}
    again = sweep("attack.budget=1")
    assert again.folder == first.folder
    assert {p.name: p.stat().st_mtime_ns for p in again.folder.iterdir() if p.name != ".lock"} == before
    assert open_run(first.folder).summary == first.summary


def test_scores_are_finite(ferries):
    run = sweep("retriever=bm25,lsa,hybrid", "attack.budget=1")
    assert np.isfinite(run.rankings()["score"].to_numpy()).all()


def test_timings(ferries):
    run = execute(plan("sweep", ["dataset=ferries", "retriever=hybrid", "defense=mmr", "latency_sample=3"]))
    timings = json.loads((run.folder / "timings.json").read_text())
    stages = {
        "fit bm25",
        "fit lsa",
        "generate poison",
        "search bm25",
        "search lsa",
        "fuse",
        "defend mmr",
        "measure",
    }
    assert set(timings["stages_seconds"]) == stages
    assert min(timings["stages_seconds"].values()) > 0
    assert set(timings["latency_ms"]) == {"hybrid", "hybrid+mmr"}
    assert timings["latency_ms"]["hybrid+mmr"]["defend mmr"]["queries"] == 3


def test_texts_of_what_is_ranked(ferries):
    """Queries, every ranked document once, and the poison of each attack under its own key."""
    run = sweep("retriever=bm25", "attack=payload,query_only", "attack.budget=1,2")
    texts = run.texts().to_pylist()
    queries = {t["id"]: t["text"] for t in texts if t["kind"] == "query"}
    assert queries["q2"] == "fog at the lighthouse"
    ranked = run.rankings().to_pylist()
    documents = [t["id"] for t in texts if t["kind"] == "document"]
    assert len(set(documents)) == len(documents)
    assert set(documents) == {r["doc_id"] for r in ranked if not r["poison"]}
    keys = {c["id"]: c["poison"] for c in run.summary["conditions"]}
    poison = {(t["attack"], t["id"]): t["text"] for t in texts if t["kind"] == "poison"}
    assert len(set(keys.values())) == 3  # clean has none, budgets share their attack's
    assert set(poison) == {(keys[r["condition"]], r["doc_id"]) for r in ranked if r["poison"]}
    plain = next(c for c in run.summary["conditions"] if c["config"]["attack"] == "query_only")
    assert poison[plain["poison"], "poison-q2-0"] == "fog at the lighthouse"


def test_texts_can_be_left_out(ferries):
    assert sweep("retriever=bm25", "attack=payload", "texts=false").texts() is None
