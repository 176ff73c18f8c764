"""``compare``: pairs and numbers against the records, by hand and by scipy; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import DOCUMENTS, QUERIES, write_collection
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import stressrag
from stressrag.cli.main import dispatch
from stressrag.report.compare import COMPARED, _correct, _listed, _pairs
from stressrag.report.select import fits, parse_where, select, words
from stressrag.stats.bootstrap import bootstrap
from stressrag.stats.intervals import Difference
from stressrag.stats.proportions import paired_difference

FERRIES = ("dataset=ferries", "latency_sample=0", "resamples=200")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """BM25 and the hybrid under one attack, and BM25 with a defense."""
    folder = tmp_path_factory.mktemp("runs")
    attack = ("attack=partial", "attack.terms=1,2", "attack.strategy=random", "latency_sample=0")
    words_of = {
        "bm25": ("retriever=bm25", *attack),
        "hybrid": ("retriever=hybrid", *attack),
        "defended": ("retriever=bm25", *attack, "defense=overlap", "defense.tau=0.6"),
    }
    return {name: stressrag.sweep(*w, f"output_dir={folder / name}") for name, w in words_of.items()}


def frame(run):
    table = pq.read_table(run.folder / "records.parquet").to_pandas()
    return {
        c: rows.set_index("query_id")
        for c, rows in table[table.evaluated].groupby("condition", observed=True)
    }


def refused(capsys, *argv: str) -> str:
    before = sorted(Path().rglob("*"))
    assert dispatch(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(Path().rglob("*")) == before
    return err


def test_numbers_are_those_of_the_records(runs):
    value = stressrag.compare(runs["bm25"], runs["hybrid"].folder)
    one, other = frame(runs["bm25"]), frame(runs["hybrid"])
    assert [p["baseline"]["config"]["terms"] for p in value["pairs"]] == [None, 1, 2]
    for p in value["pairs"]:
        assert p["differs"]["retriever"] == ["bm25", "hybrid"]
        assert p["n_queries"] == 222
        a, b = one[p["baseline"]["condition"]], other[p["other"]["condition"]].loc[lambda t: t.index]
        b = b.loc[a.index]
        for name, m in p["metrics"].items():
            d = b[name] - a[name]
            assert m["n"] == d.notna().sum()
            assert m["difference"] == pytest.approx(d.mean(), abs=1e-12)
            assert (m["baseline"], m["other"]) == pytest.approx((a[name].mean(), b[name].mean()))
            better = -d if name in ("TargetExp", "PoisonCount") else d
            assert (m["wins"], m["losses"]) == ((better > 0).sum(), (better < 0).sum())
            assert m["wins"] + m["losses"] + m["ties"] == m["n"]
        up, down = int((b.Evid > a.Evid).sum()), int((b.Evid < a.Evid).sum())
        m = p["metrics"]["Evid"]
        assert m["p"] == pytest.approx(stats.binomtest(up, up + down).pvalue)
        both = int((a.Evid * b.Evid).sum())
        assert (m["low"], m["high"]) == pytest.approx(
            tuple(paired_difference(both, up, down, len(a) - both - up - down))
        )
        assert m["method"] == "newcombe"
        m = p["metrics"]["nDCG@10"]
        ours = bootstrap((b["nDCG@10"] - a["nDCG@10"]).to_numpy(), list(a.index), method="bca")
        assert (m["low"], m["high"]) == pytest.approx((ours.low[0], ours.high[0]))
        assert "p" not in m
    json.dumps(value, allow_nan=False)


def test_holm_over_all_pairs_of_a_metric(runs):
    value = stressrag.compare(runs["bm25"], runs["hybrid"], runs["defended"])
    assert [p["other"]["run"] for p in value["pairs"]] == ["B"] * 3 + ["C"] * 3
    rows = [p["metrics"]["SafeR"] for p in value["pairs"]]
    assert {m["family"] for m in rows} == {6}
    in_order = sorted(rows, key=lambda m: m["p"])
    running = 0.0
    for rank, m in enumerate(in_order):
        running = max(running, min(1, (6 - rank) * m["p"]))
        assert m["p_holm"] == pytest.approx(running)
    # poison cannot be in a clean top k: no test, and none in the family
    assert {p["metrics"]["TargetExp"]["family"] for p in value["pairs"] if "TargetExp" in p["metrics"]} == {4}


def test_pairs_that_differ_in_nothing_are_left_out(runs):
    value = stressrag.compare(runs["bm25"], runs["defended"])
    assert [p["differs"]["defense"] for p in value["pairs"]] == [["none", "overlap"]] * 3
    assert value["unmatched"] == {"A": [], "B": []}


def test_queries_that_differ_most(runs):
    value = stressrag.compare(runs["bm25"], runs["hybrid"], metrics=["nDCG@10"], queries=4)
    p = value["pairs"][1]
    a, b = frame(runs["bm25"])[p["baseline"]["condition"]], frame(runs["hybrid"])[p["other"]["condition"]]
    d = (b["nDCG@10"] - a["nDCG@10"]).abs()
    listed = p["queries"]["nDCG@10"]
    assert len(listed) == 4
    assert [abs(r["other"] - r["baseline"]) for r in listed] == pytest.approx(sorted(d, reverse=True)[:4])
    texts = dict(
        zip(*(stressrag.load_dataset().queries.__getattribute__(n) for n in ("ids", "texts")), strict=True)
    )
    for r in listed:
        assert r["text"] == texts[r["query_id"]]
        assert r["baseline"] == a["nDCG@10"][r["query_id"]]
        assert r["outcome"] == ("win" if r["other"] > r["baseline"] else "loss")


def test_where_holds_for_one_side(runs):
    def chosen(where):
        value = stressrag.compare(runs["bm25"], runs["defended"], where=where)
        return [(p["baseline"]["config"]["terms"], p["other"]["config"]["defense"]) for p in value["pairs"]]

    assert chosen("terms=2") == [(2, "overlap")]
    assert chosen("terms=2.0,defense=overlap") == [(2, "overlap")]
    assert chosen({"defense_settings.overlap.tau": 0.6}) == [
        (None, "overlap"),
        (1, "overlap"),
        (2, "overlap"),
    ]
    assert chosen("scope=null") == [(None, "overlap")]


def test_the_table(runs, capsys, tmp_path):
    folders = [str(runs[name].folder) for name in ("bm25", "hybrid")]
    assert dispatch(["compare", *folders, "--where", "terms=2", "--json", str(tmp_path / "c.json")]) == 0
    out = capsys.readouterr().out
    value = json.loads((tmp_path / "c.json").read_text())
    (pair,) = value["pairs"]
    (line,) = [line for line in out.splitlines() if " nDCG@10 " in line and "A bm25" in line]
    m = pair["metrics"]["nDCG@10"]
    assert f"{m['baseline']:.3f}  {m['other']:.3f}" in line
    assert f"[{m['low']:+.3f} {m['high']:+.3f}]" in line
    for r in pair["queries"]["nDCG@10"]:
        assert f"\n{r['query_id']}" in out
    assert f"A: {folders[0]} (baseline)" in out


# ---- other collections ---------------------------------------------------------------------------


def test_groups_are_drawn_whole(ferries):
    words_of = (*FERRIES, "attack=query_only", "attack.scope=group", "attack.group_size=2")
    a = stressrag.sweep(*words_of, "retriever=bm25", "output_dir=a")
    b = stressrag.sweep(*words_of, "retriever=lsa", "output_dir=b")
    value = stressrag.compare(a, b, where="scope=group")
    (pair,) = value["pairs"]
    methods = {m["method"] for m in pair["metrics"].values()}
    assert methods <= {"studentized", "newcombe-clustered", "none"}  # nothing that draws single queries
    assert {m["test"] for m in pair["metrics"].values() if "p" in m} == {"sign flip over groups"}
    assert pair["n_queries"] == 5  # q9 has no relevant document


def test_another_content_is_refused_or_explained(ferries, capsys):
    words_of = (*FERRIES, "attack=query_only", "retriever=bm25")
    a = stressrag.sweep(*words_of, "output_dir=a")
    documents = {**DOCUMENTS, "d13": ("", "the night ferry leaves")}
    queries = {**QUERIES, "q1": "rope"}
    write_collection(ferries, documents, {k: v for k, v in queries.items() if k != "q5"})
    b = stressrag.sweep(*words_of, "output_dir=b")
    err = refused(capsys, "compare", "a", "b", "--json", "c.json")
    assert "ferries of a (" in err
    assert "and of b (" in err
    assert "--allow-different-content" in err
    value = stressrag.compare("a", "b", allow_different_content=True)
    assert [p["n_queries"] for p in value["pairs"]] == [4, 4]  # q5 is gone, q9 not judged
    assert "differ in content" in value["notes"][0]
    assert value["notes"][1] == "1 queries have the same id but another text."
    one, other = frame(a), frame(b)
    for p in value["pairs"]:
        x, y = one[p["baseline"]["condition"]], other[p["other"]["condition"]]
        common = ["q1", "q2", "q3", "q4"]
        expected = (y.loc[common, "nDCG@10"] - x.loc[common, "nDCG@10"]).mean()
        assert p["metrics"]["nDCG@10"]["difference"] == pytest.approx(expected, abs=1e-12)
    assert dispatch(["compare", "a", "b", "--allow-different-content"]) == 0
    assert "differ in content" in capsys.readouterr().out


def test_nothing_matches(ferries, capsys):
    stressrag.run(*FERRIES, "attack=query_only", "attack.budget=1", "output_dir=a")
    stressrag.run(*FERRIES, "attack=query_only", "attack.budget=2", "output_dir=b")
    err = refused(capsys, "compare", "a", "b")
    assert err.endswith("a has budget 1; b has budget 2\n")


def test_refused(ferries, capsys):
    words_of = (*FERRIES, "attack=query_only", "texts=false")
    stressrag.sweep(*words_of, "retriever=bm25", "output_dir=a")
    stressrag.sweep(*words_of, "retriever=lsa", "output_dir=b")
    assert "compare needs two runs" in refused(capsys, "compare", "a")
    assert "no run at c" in refused(capsys, "compare", "a", "c")
    assert "is given twice" in refused(capsys, "compare", "a", "./a")
    assert "did you mean '--metrics'" in refused(capsys, "compare", "a", "b", "--metric", "Evid")
    assert "no metric 'SafR'; did you mean 'SafeR'" in refused(
        capsys, "compare", "a", "b", "--metrics", "SafR"
    )
    assert "none is named" in refused(capsys, "compare", "a", "b", "--metrics", "")
    assert "no setting 'budgt'; did you mean 'budget'" in refused(
        capsys, "compare", "a", "b", "--where", "budgt=1"
    )
    assert "none of the 2 matched pairs has budget=7" in refused(
        capsys, "compare", "a", "b", "--where", "budget=7"
    )
    assert "is no key=value" in refused(capsys, "compare", "a", "b", "--where", "budget")
    assert "is no number" in refused(capsys, "compare", "a", "b", "--queries", "-1")
    Path("file").write_text("")
    assert "cannot write" in refused(capsys, "compare", "a", "b", "--json", "file/c.json")
    value = stressrag.compare("a", "b")  # a run without texts has ids alone
    assert all("text" not in r for p in value["pairs"] for rows in p["queries"].values() for r in rows)
    Path("b/records.parquet").write_bytes(b"")
    assert "was changed after the run" in refused(capsys, "compare", "a", "b")


def test_help(capsys):
    assert dispatch(["compare", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: python -m stressrag compare" in out
    assert "examples:" in out


# ---- by hand -------------------------------------------------------------------------------------


def condition(name, **config):
    base = {
        "dataset": "d", "split": None, "attack": "x", "anchor": "query", "terms": None, "strategy": None,
        "body": "none", "budget": 5, "scope": "isolated", "targets": "all", "group_size": None, "seed": 0,
        "attack_settings": {}, "k": 10, "grade": 1, "retriever": "bm25", "retriever_kind": "bm25",
        "retriever_settings": {}, "defense": "none", "defense_settings": {}, "statistics": "live",
        "pool": None, "ties": "clean_first",
    }  # fmt: skip
    assert set(config) <= set(base)
    return {"id": name, "config": {**base, **config}}


def test_pairs_by_hand():
    def pairs(*runs):
        return [(p.baseline["id"], p.other["id"]) for p in _pairs(runs)]

    bm25, lsa = condition("bm25"), condition("lsa", retriever="lsa")
    hybrid = condition("hybrid", retriever="hybrid")
    overlap = condition("bm25+o", defense="overlap", pool=50)
    # nearest first: each finds its own retriever, not every one
    assert pairs([bm25, lsa], [bm25, lsa]) == [("bm25", "bm25"), ("lsa", "lsa")]
    assert pairs([bm25, lsa], [overlap]) == [("bm25", "bm25+o"), ("lsa", "bm25+o")]
    assert pairs([bm25, lsa], [hybrid]) == [("bm25", "hybrid"), ("lsa", "hybrid")]
    assert pairs([bm25], [bm25, overlap]) == [("bm25", "bm25"), ("bm25", "bm25+o")]
    for name in ("budget", "scope", "k", "attack", "targets", "seed", "dataset"):
        assert pairs([bm25], [condition("b", **{name: "other"})]) == []
    for name in COMPARED:
        assert pairs([bm25], [condition("b", **{name: "other"})]) == [("bm25", "b")]


def test_listed_by_hand():
    other, first = np.array([0.5, 1, 0, np.nan, 0.25]), np.array([0.5, 0.0, 1, 1, 1.0])
    ids = ["a", "d", "c", "b", "e"]
    rows = _listed("nDCG@10", ids, Difference(other, first), 9)
    assert [(r["query_id"], r["outcome"]) for r in rows] == [("c", "loss"), ("d", "win"), ("e", "loss")]
    rows = _listed("TargetExp", ids, Difference(other, first), 1)
    assert rows == [{"query_id": "c", "baseline": 1.0, "other": 0.0, "outcome": "win"}]


def test_correction_by_hand():
    pairs = [{"metrics": {"m": {"p": p}, "n": {}}} for p in (0.04, 0.01, 0.03)]
    _correct(pairs)
    assert [p["metrics"]["m"]["p_holm"] for p in pairs] == pytest.approx([0.06, 0.03, 0.06])
    assert [p["metrics"]["n"] for p in pairs] == [{}, {}, {}]


names = st.text("abc_.", min_size=1, max_size=5)
values = st.one_of(st.integers(-99, 99), st.floats(-9, 9, allow_nan=False), st.text("xyz", min_size=1))


@given(st.dictionaries(names, values, min_size=1, max_size=4))
def test_a_filter_as_typed_fits_its_own_condition(config):
    typed = parse_where(words(config))
    assert list(typed) == list(config)
    assert fits({"config": config}, typed)
    key = next(iter(config))
    assert not fits({"config": {**config, key: "other"}}, typed)


def test_filters_by_hand():
    a = {"config": {"budget": 5, "scope": None, "targets": ["q1", "q2"], "deep": {"tau": 0.5, "on": True}}}
    for text in (
        "budget=5",
        "budget=5.0",
        "scope=none",
        "targets=[q1,q2],budget=5",
        "deep.tau=.50",
        "deep.on=true",
    ):
        assert fits(a, parse_where(text)), text
    for text in ("budget=50", "budget=x", "scope=isolated", "targets=[q1]", "deep.on=1", "nothing=1"):
        assert not fits(a, parse_where(text)), text
    assert select([a], {}) == [a]
    with pytest.raises(stressrag.StressragError, match=r"no condition has budget=6; there is 5$"):
        select([a], {"budget": 6})
    with pytest.raises(stressrag.StressragError, match="budget stands there twice"):
        parse_where("budget=1,budget=3")


def test_seeds_of_the_lsa_are_told_apart(ferries):
    a, b = (
        stressrag.run("dataset=ferries", "retriever=lsa", "attack=clean", f"lsa.seed={n}", f"output_dir=s{n}")
        for n in (0, 1)
    )
    (pair,) = stressrag.compare(a, b)["pairs"]
    assert pair["differs"] == {"lsa.seed": ["0", "1"]}
