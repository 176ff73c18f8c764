"""Intervals, comparisons and the four conditions of a summary, against the records they are made from."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import stressrag
from stressrag.report.cells import interval
from stressrag.report.frontier import frontier
from stressrag.stats.bootstrap import bootstrap
from stressrag.stats.four import MEASURES, four_estimates
from stressrag.stats.intervals import Difference, estimates
from stressrag.stats.proportions import paired_difference, wilson

SWEEP = ("retriever=bm25", "attack=payload,query_only", "attack.budget=1,3")
DEFENSES = "defense=none,near_duplicate,overlap"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return stressrag.sweep(*SWEEP, DEFENSES, "defense.tau=0.6", f"output_dir={folder / 'out'}")


@pytest.fixture(scope="module")
def values(run):
    """By condition and metric, the judged queries' values in the order of the records."""
    table = pq.read_table(run.folder / "records.parquet").to_pandas()
    table = table[table.evaluated]
    return {name: rows.set_index("query_id") for name, rows in table.groupby("condition", observed=True)}


def test_rates_have_wilson_intervals_and_others_bca(run, values):
    (clean,) = [c for c in run.summary["conditions"] if not c["config"]["budget"] and not c["config"]["pool"]]
    here = values[clean["id"]]
    evid = wilson(int(here["Evid"].sum()), len(here))
    assert clean["intervals"]["Evid"] == pytest.approx(list(evid))
    assert clean["interval_methods"]["Evid"] == "wilson"
    ours = bootstrap(here["nDCG@10"].to_numpy(), list(here.index), method="bca")
    assert clean["intervals"]["nDCG@10"] == pytest.approx([ours.low[0], ours.high[0]], abs=1e-12)
    assert clean["interval_methods"]["nDCG@10"] == "bca"
    for c in run.summary["conditions"]:
        for metric, (low, high) in c["intervals"].items():
            assert low - 1e-12 <= c["metrics"][metric] <= high + 1e-12


def test_what_is_so_by_definition_has_no_interval(run):
    for c in run.summary["conditions"]:
        assert "Coverage" not in c["intervals"]
        assert ("TargetExp" in c["intervals"]) == bool(c["config"]["budget"])


def test_comparisons(run, values):
    summary = run.summary
    ids = {c["id"] for c in summary["conditions"]}
    by_pair = {(c["condition"], c["against"]): c for c in summary["comparisons"]}
    attacked = [c for c in summary["conditions"] if c["config"]["budget"]]
    defended = [c for c in summary["conditions"] if c["config"]["defense"] != "none"]
    assert set(by_pair) == {(c["id"], "clean") for c in attacked} | {
        (c["id"], "undefended") for c in defended
    }
    families: dict[tuple[str, str], list[float]] = {}
    for (name, against), c in by_pair.items():
        assert c["baseline"] in ids
        one, other = values[name], values[c["baseline"]]
        assert list(one.index) == list(other.index)
        for metric, m in c["metrics"].items():
            difference = (one[metric] - other[metric]).dropna()
            assert m["n"] == len(difference)
            assert m["difference"] == pytest.approx(difference.mean(), abs=1e-12)
            if "p" in m:
                families.setdefault((against, metric), []).append(m["p"])
        m = c["metrics"]["Evid"]
        only_one, only_other = ((one["Evid"] > other["Evid"]).sum(), (one["Evid"] < other["Evid"]).sum())
        n = only_one + only_other
        assert m["p"] == pytest.approx(stats.binomtest(int(only_one), int(n)).pvalue if n else 1)
        both = int((one["Evid"] * other["Evid"]).sum())
        expected = paired_difference(both, int(only_one), int(only_other), len(one) - both - int(n))
        assert (m["low"], m["high"]) == pytest.approx(tuple(expected))
    assert {m for _, m in families} == {
        *("TargetExp", "AnyExp", "CrossExp", "Evid", "SafeR", "Shortage"),
        *("EvidClean", "EvidPoison", "NoEvidClean", "NoEvidPoison"),
    }
    for (against, metric), p in families.items():
        rows = [c["metrics"][metric] for (_, a), c in by_pair.items() if a == against]
        assert {m["family"] for m in rows} == {len(p)}
        smallest = min(rows, key=lambda m: m["p"])
        assert smallest["p_holm"] == pytest.approx(min(1, len(p) * smallest["p"]))
        assert all(m["p_holm"] >= m["p"] for m in rows)


def test_four_conditions(run, values):
    rows = run.summary["four_conditions"]
    attacked = [c for c in run.summary["conditions"] if c["config"]["budget"] and c["config"]["pool"]]
    assert {r["condition"] for r in rows} == {c["id"] for c in attacked}
    assert {r["event"] for r in rows} == {"TargetExp", "AnyExp", "NoEvid", "Unsafe"}
    source = {"NoEvid": "Evid", "Unsafe": "SafeR"}
    for r in rows:
        column = source.get(r["event"], r["event"])
        c0, p0, c1, p1 = (
            (values[r[which]][column] == (r["event"] not in source)).to_numpy()
            for which in ("clean", "undefended", "clean_defended", "condition")
        )
        assert r["P"] == pytest.approx((p0 & ~p1).mean())
        assert r["J"] == pytest.approx((~p0 & p1).mean())
        assert r["N"] == pytest.approx(r["P"] - r["J"])
        assert r["H"] == pytest.approx(c1.mean() - c0.mean())
        assert r["Gamma"] == pytest.approx(r["N"] + r["H"])
        a, b = int((p0 & ~p1).sum()), int((~p0 & p1).sum())
        assert r["p"] == pytest.approx(stats.binomtest(a, a + b).pvalue if a + b else 1)


def test_numbers_do_not_depend_on_what_else_is_in_the_run(run, tmp_path):
    alone = stressrag.run(
        "retriever=bm25", "attack=payload", "attack.budget=3", f"output_dir={tmp_path / 'alone'}"
    )
    (c,) = alone.summary["conditions"]
    (same,) = [x for x in run.summary["conditions"] if x["id"] == c["id"]]
    assert c["intervals"] == same["intervals"]


def test_no_intervals_when_none_are_asked_for(tmp_path):
    run = stressrag.run("attack=clean", "resamples=0", f"output_dir={tmp_path / 'out'}")
    assert run.summary["conditions"][0]["intervals"] == {}
    assert run.summary["comparisons"] == run.summary["four_conditions"] == []
    json.dumps(run.summary, allow_nan=False)


def test_groups_are_drawn_whole(tmp_path):
    run = stressrag.sweep(
        "attack=payload", "attack.scope=group", "attack.group_size=10", f"output_dir={tmp_path / 'out'}"
    )
    summary = run.summary
    (attacked,) = [c for c in summary["conditions"] if c["config"]["budget"]]
    assert summary["statistics"]["unit"][attacked["id"]] == "group of queries (23)"
    assert attacked["interval_methods"]["nDCG@10"] == "studentized"
    assert attacked["interval_methods"]["Evid"] == "wilson-clustered"
    low, high = attacked["intervals"]["SafeR"]
    assert low == 0
    assert high > 0.02  # no certainty from 23 groups
    (c,) = summary["comparisons"]
    assert c["metrics"]["Evid"]["test"] == "sign flip over groups"
    assert c["metrics"]["Evid"]["method"] == "newcombe-clustered"
    assert c["metrics"]["nDCG@10"]["method"] == "studentized"
    assert all(0 <= end <= 1 for end in attacked["intervals"]["Evid"])


# ---- by hand -------------------------------------------------------------------------------------


def test_frontier_by_hand():
    """Undefended .9/.7; a: .5/.7 beats it; b: .5/.6 is beaten by a; c: .1/.2 is the only one so safe."""

    def condition(name, exposure, ndcg):
        metrics = {"TargetExp": exposure, "nDCG@10": ndcg, "SafeR": 0.0, "Evid": 1.0, "Shortage": 0.0}
        return {"id": name, "metrics": metrics}

    points = {"none": (0.9, 0.7), "a": (0.5, 0.7), "b": (0.5, 0.6), "c": (0.1, 0.2)}
    conditions = [condition(n, e, 0.0) for n, (e, _) in points.items()]
    conditions += [condition(f"clean-{n}", 0.0, u) for n, (_, u) in points.items()]
    baselines = {n: {"clean": f"clean-{n}"} | ({"undefended": "none"} if n != "none" else {}) for n in points}
    got = frontier(conditions, baselines)
    assert {p["condition"]: p["pareto"] for p in got} == {"none": False, "a": True, "b": False, "c": True}
    assert [(p["TargetExp"], p["clean_nDCG"]) for p in got] == list(points.values())
    assert frontier(conditions[:2] + conditions[4:6], {k: baselines[k] for k in ("none", "a")}) == []


def test_estimates_choose_their_interval_by_hand():
    ids = [f"q{i}" for i in range(10)]
    rate = np.array([1, 1, 0, 0, 0, 0, 0, 0, 0, 0.0])
    other = np.array([0, 1, 1, 1, 0, 0, 0, 0, 0, np.nan])
    score = np.linspace(0, 1, 10)
    made = estimates(
        {"rate": rate, "gone": np.full(10, np.nan), "pair": Difference(rate, other), "score": score}, ids
    )
    assert list(made) == ["rate", "pair", "score"]
    assert made["rate"] == (0.2, *wilson(2, 10), 10, "wilson")
    assert made["pair"].value == pytest.approx(-1 / 9)
    assert made["pair"][1:3] == tuple(paired_difference(1, 1, 2, 5))
    assert (made["pair"].n, made["pair"].method) == (9, "newcombe")
    assert made["score"].method == "studentized"  # few queries
    many = estimates({"score": np.linspace(0, 1, 60)}, [f"q{i}" for i in range(60)])
    assert many["score"].method == "bca"
    one = estimates({"score": np.array([0.5, *[np.nan] * 9])}, ids)["score"]
    assert one == (0.5, None, None, 1, "none")


def test_four_measures_of_a_table_worked_out_by_hand():
    """Ten queries: 4 prevented, 1 introduced, 2 hit either way; on clean traffic 1 is added, none removed."""
    p0 = np.array([1, 1, 1, 1, 0, 1, 1, 0, 0, 0.0])
    p1 = np.array([0, 0, 0, 0, 1, 1, 1, 0, 0, 0.0])
    c0 = np.zeros(10)
    c1 = np.array([0, 0, 0, 0, 0, 0, 0, 1, 0, 0.0])
    made = four_estimates({"e": (c0, p0, c1, p1)}, [str(i) for i in range(10)])["e"]
    values = {m: made[m].value for m in MEASURES}
    expected = {"r_c0": 0, "r_p0": 0.6, "r_c1": 0.1, "r_p1": 0.3, "P": 0.4, "J": 0.1, "N": 0.3, "H": 0.1}
    assert values == pytest.approx({**expected, "Gamma": 0.4})
    assert made["N"][1:3] == tuple(paired_difference(2, 4, 1, 3))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=2, max_size=20))
def test_the_contrast_is_always_net_plus_clean_change(rows):
    four = tuple(np.array(column, float) for column in zip(*rows, strict=True))
    made = four_estimates({"e": four}, [str(i) for i in range(len(rows))], n_resamples=50)["e"]  # type: ignore[dict-item]
    assert math.isclose(made["Gamma"].value, made["N"].value + made["H"].value, abs_tol=1e-12)
    assert math.isclose(made["N"].value, made["P"].value - made["J"].value, abs_tol=1e-12)


def test_bands_over_seeds(tmp_path):
    run = stressrag.sweep(
        "retriever=bm25,lsa", "attack=clean", "lsa.seed=range(0,3)", f"output_dir={tmp_path / 'out'}"
    )
    (band,) = run.summary["seed_bands"]  # BM25 rests on no seed and has none
    members = [c for c in run.summary["conditions"] if c["config"]["retriever"] == "lsa"]
    assert band["conditions"] == [c["id"] for c in members]
    values = [c["metrics"]["nDCG@10"] for c in members]
    assert len(set(values)) == 3
    expected = {"mean": sum(values) / 3, "least": min(values), "greatest": max(values)}
    assert band["metrics"]["nDCG@10"] == pytest.approx(expected)


def test_a_leading_zero_is_dropped_and_no_other():
    assert interval("PoisonCount", [10.0, 20.4]) == "[10.0 20.4]"
    assert interval("Evid", [-0.25, 0.5]) == "[-.25 .50]"
