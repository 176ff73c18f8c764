"""Detectors: scores by hand and brute force, integer thresholds, AUROC by scikit-learn, the verb, SciFact."""

from __future__ import annotations

import csv
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import roc_auc_score

from stressrag.aligned import detectors as module
from stressrag.aligned.auroc import auroc
from stressrag.aligned.contexts import Context, context_of, read_contexts
from stressrag.aligned.detect import ABSTENTION, TARGET_POSITIVE, WITH_POISON, defended, evaluate
from stressrag.aligned.detector_sets import split_check
from stressrag.aligned.detectors import Detector, calibrate, get_detectors, register
from stressrag.aligned.graph_scores import conductance, connectivity, modularity, weights
from stressrag.aligned.records import Answer, Passage
from stressrag.cli.aligned_detect import main
from stressrag.errors import StressragError

BY_NAME = {d.name: d for d in get_detectors()}
FLOATS = st.floats(-1e6, 1e6, allow_subnormal=False)


def on_angles(*degrees):
    """Unit vectors in the plane."""
    return np.array([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees])


# ---- scores ------------------------------------------------------------------------------------------


def test_score_statistics_by_hand():
    scores = [9.0, 5.0, 4.0, 4.0, 3.0]  # mean 5, squares 16 + 0 + 1 + 1 + 4 = 22
    assert BY_NAME["min_score"](scores) == -3
    assert BY_NAME["gap"](scores) == 6
    assert BY_NAME["dispersion"](scores) == pytest.approx(math.sqrt(22 / 5), abs=1e-11)


def two_pairs(c):
    """Two pairs of identical passages, whose cosine across is c."""
    return on_angles(0, 0, *[math.degrees(math.acos(c))] * 2)


@pytest.mark.parametrize("c", [0.1, 0.25, 0.6, 0.9])
def test_graph_scores_of_two_pairs_by_hand(c):
    # Degrees 1 + 2c; the vector (1, 1, -1, -1) has the eigenvalue 1 - 2c of W.
    assert connectivity(two_pairs(c)) == pytest.approx(-4 * c / (1 + 2 * c))
    # Cut 4c, volume of a side 2 (1 + 2c).
    assert conductance(two_pairs(c)) == pytest.approx(-2 * c / (1 + 2 * c))
    pairs = 1 / (1 + 2 * c) - 1 / 2
    one_off = (2 + 4 * c) / (4 + 8 * c) - 10 / 16  # one passage against three
    assert modularity(two_pairs(c)) == pytest.approx(max(pairs, one_off))


def test_a_cluster_apart_is_more_anomalous_than_one_whole():
    """The direction, fixed: three alike and two alike that share little, against five alike."""
    apart, whole = on_angles(0, 1, 2, 80, 82), on_angles(0, 1, 2, 3, 4)
    for name in ("connectivity", "conductance", "modularity"):
        assert BY_NAME[name](apart) > BY_NAME[name](whole)
    assert BY_NAME["gap"]([9, 1, 1]) > BY_NAME["gap"]([2, 1, 1])
    assert BY_NAME["dispersion"]([9, 1, 1]) > BY_NAME["dispersion"]([2, 1, 1])
    assert BY_NAME["min_score"]([9, 1]) > BY_NAME["min_score"]([9, 2])


def test_parts_without_an_edge_between():
    e = on_angles(0, 0, 0, 90, 90)
    assert (connectivity(e), conductance(e)) == (0, 0)
    assert modularity(e) == pytest.approx(1 - (6 / 8) ** 2 - (2 / 8) ** 2)


def test_identical_passages_are_the_complete_graph():
    e = np.ones((5, 3))
    assert connectivity(e) == pytest.approx(-5 / 4)
    assert conductance(e) == pytest.approx(-2 * 3 / (2 * 4))
    assert modularity(e) == pytest.approx(12 / 20 - (1 / 25 + 16 / 25))


@pytest.mark.parametrize("k", [0, 1, 2, 5, 12])
def test_degenerate_contexts_have_the_documented_scores(k):
    zeros = np.zeros((k, 4))
    few = k < 2
    assert BY_NAME["connectivity"](zeros) == (-2 if few else 0)
    assert BY_NAME["conductance"](zeros) == (-1 if few else 0)
    assert BY_NAME["modularity"](zeros) == (-0.5 if few else 0)
    equal = [0.1] * k
    assert BY_NAME["gap"](equal) == BY_NAME["dispersion"](equal) == 0
    assert BY_NAME["min_score"](equal) == (-0.1 if k else 0)


def test_one_empty_passage_is_a_part_of_its_own():
    e = np.vstack((np.zeros(2), on_angles(0, 10, 20)))
    assert connectivity(e) == conductance(e) == 0
    assert modularity(e) == pytest.approx(0)  # all edges are on one side


def test_neighbors():
    e = on_angles(0, 10, 25, 45, 70, 85)
    w = weights(e, 1)
    kept = {(i, j) for i, j in zip(*np.nonzero(w), strict=True) if i < j}
    assert kept == {(0, 1), (1, 2), (2, 3), (4, 5)}
    assert w[2, 3] == pytest.approx(math.cos(math.radians(20)))
    assert (np.count_nonzero(weights(e, 5)), np.count_nonzero(weights(e, 9))) == (30, 30)
    assert not weights(on_angles(0, 120)).any()  # a negative cosine is no edge
    with pytest.raises(StressragError, match="neighbors=0"):
        get_detectors(neighbors=0)


def brute(w):
    """Second eigenvalue, least conductance of the Fiedler vector's sweeps, best split: plain loops."""
    n, degree = len(w), w.sum(1)
    values, vectors = np.linalg.eigh(np.eye(n) - w / np.sqrt(degree[:, None] * degree))
    order = np.argsort(vectors[:, 1] / np.sqrt(degree))
    sweeps = []
    for i in range(1, n):
        s, rest = order[:i], order[i:]
        cut = sum(w[a, b] for a in s for b in rest)
        sweeps.append(cut / min(degree[s].sum(), degree[rest].sum()))
    best = -1.0
    for size in range(1, n):
        for side in itertools.combinations(range(n), size):
            q = sum(
                w[a, b] - degree[a] * degree[b] / w.sum()
                for a in range(n)
                for b in range(n)
                if (a in side) == (b in side)
            )
            best = max(best, q / w.sum())
    return values, min(sweeps), best


@pytest.mark.parametrize("seed", range(12))
def test_graph_scores_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    e = rng.normal(size=(int(rng.integers(3, 8)), 5)) + 1
    w = weights(e, 3)
    values, sweep, best = brute(w)
    assert values[2] - values[1] > 1e-4
    assert connectivity(e, 3) == pytest.approx(-values[1])
    assert conductance(e, 3) == pytest.approx(-sweep)
    assert modularity(e, 3) == pytest.approx(best)


def test_graph_scores_by_networkx():
    nx = pytest.importorskip("networkx")
    e = np.random.default_rng(3).normal(size=(12, 6)) + 0.5
    g = nx.from_numpy_array(weights(e))
    assert connectivity(e) == pytest.approx(-sorted(nx.normalized_laplacian_spectrum(g))[1])
    # Beyond 10 passages both come from sweeps: no better than the best of all cuts, and that of some cut.
    cuts = [set(s) for r in range(1, 7) for s in itertools.combinations(range(12), r)]
    every = [nx.conductance(g, s, weight="weight") for s in cuts]
    assert min(abs(-conductance(e) - c) for c in every) < 1e-9
    assert -conductance(e) >= min(every) - 1e-9
    splits = [nx.community.modularity(g, [s, set(range(12)) - s]) for s in cuts]
    assert min(abs(modularity(e) - q) for q in splits) < 1e-9
    assert modularity(e) <= max(splits) + 1e-9


@given(st.lists(FLOATS, min_size=0, max_size=12), st.randoms())
def test_score_detectors_do_not_see_the_order(scores, random):
    turned = random.sample(scores, len(scores))
    for name in ("min_score", "gap", "dispersion"):
        assert BY_NAME[name](turned) == BY_NAME[name](scores)


@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(1, 3)), elements=st.integers(-2, 2)),
    st.randoms(),
    st.integers(1, 5),
)
def test_graph_detectors_do_not_see_the_order(embeddings, random, neighbors):
    """Small whole coordinates: ties, copies, zeros and multiple eigenvalues abound."""
    turned = embeddings[random.sample(range(len(embeddings)), len(embeddings))]
    ends = {"connectivity": (-2, 0), "conductance": (-1, 0), "modularity": (-0.5, 0.5)}
    for d in get_detectors(ends, neighbors=neighbors):
        low, high = ends[d.name]
        assert low - 1e-9 <= d(embeddings) <= high + 1e-9
        assert d(turned) == pytest.approx(d(embeddings), abs=1e-7)


@given(hnp.arrays(np.float64, (4, 3), elements=st.floats(-1, 1, allow_subnormal=False)))
def test_only_directions_count(embeddings):
    lengths = np.array([[1e-3], [1.0], [7.0], [1e5]])
    for name in ("connectivity", "modularity"):
        assert BY_NAME[name](embeddings * lengths) == pytest.approx(BY_NAME[name](embeddings), abs=1e-6)


def test_registry(monkeypatch):
    monkeypatch.setattr(module, "_KNOWN", dict(module._KNOWN))
    mine = register(Detector("second", "scores", lambda s: s[1]))
    assert get_detectors(["second", "gap"])[0] is mine
    assert "second" in [d.name for d in get_detectors()]
    for name in ("gap", "modularity", "second"):
        with pytest.raises(StressragError, match="already"):
            register(Detector(name, "scores", len))
    with pytest.raises(StressragError, match="did you mean 'dispersion'"):
        get_detectors(["dispersoin"])
    with pytest.raises(StressragError, match="given twice"):
        get_detectors(["gap", "gap"])
    with pytest.raises(StressragError, match="IndexError"):
        mine([1.0])
    with pytest.raises(StressragError, match="gave nan"):
        Detector("odd", "scores", lambda s: math.nan)([1.0])
    with pytest.raises(StressragError, match="not finite"):
        mine([1.0, math.inf])
    with pytest.raises(StressragError, match="texts"):
        Detector("odd", "texts", len)


# ---- calibration -------------------------------------------------------------------------------------


def test_thresholds_by_hand():
    scores = np.arange(1, 501)
    got = {r: calibrate(scores, r) for r in (1, 5, 10, 18, 20)}
    assert {r: c.threshold for r, c in got.items()} == {1: 495, 5: 475, 10: 450, 18: 410, 20: 400}
    assert {r: c.exceeding for r, c in got.items()} == {1: 5, 5: 25, 10: 50, 18: 90, 20: 100}
    # 499 contexts: ceil(99 * 499 / 100) = ceil(494.01) = 495, so four exceed.
    assert calibrate(np.arange(1, 500), 1).threshold == 495
    ties = calibrate([1, 1, 1, 2, 2, 2, 2, 2, 2, 2], 20)
    assert (ties.threshold, ties.exceeding, ties.observed, ties.n_unique) == (2, 0, 0, 2)
    assert ties.flags([2, 2.1]).tolist() == [False, True]  # strictly above


@given(st.lists(st.integers(0, 4).map(float) | FLOATS, min_size=1, max_size=300), st.integers(1, 99))
def test_never_above_the_nominal_rate(scores, rate):
    n = len(scores)
    if n * rate < 100:
        with pytest.raises(StressragError, match=f"needs {math.ceil(100 / rate)} clean .* there are {n};"):
            calibrate(scores, rate)
        return
    c = calibrate(scores, rate)
    assert 100 * sum(s > c.threshold for s in scores) == 100 * c.exceeding <= rate * n
    below = [s for s in scores if s < c.threshold]
    if below:  # and the next lower threshold would flag more than the rate allows
        assert 100 * sum(s > max(below) for s in scores) > rate * n


@pytest.mark.parametrize("rate", [0, 100, -1, 1.0, True, "1"])
def test_rates_are_whole_percent(rate):
    with pytest.raises(StressragError, match="false-positive rate"):
        calibrate(range(500), rate)


# ---- AUROC -------------------------------------------------------------------------------------------

VALUES = st.lists(st.integers(0, 5).map(float) | FLOATS, min_size=1, max_size=40)


@given(VALUES, VALUES)
def test_auroc_by_sklearn(poisoned, clean):
    got = auroc(poisoned, clean)
    labels = [1] * len(poisoned) + [0] * len(clean)
    assert got.value == pytest.approx(roc_auc_score(labels, poisoned + clean), abs=1e-12)
    turned = auroc(clean, poisoned)
    assert turned.value == pytest.approx(1 - got.value, abs=1e-12)
    if min(len(poisoned), len(clean)) < 2:
        assert got.low is got.high is None
    else:
        assert 0 <= got.low <= got.value + 1e-12
        assert got.value - 1e-12 <= got.high <= 1
        assert (turned.low, turned.high) == pytest.approx((1 - got.high, 1 - got.low), abs=1e-9)
        assert got.high - got.low > 0.01  # also at 0 and 1


def test_delong_by_its_kernel():
    """The half widths agree with DeLong's variance from the m x n kernel, and Obuchowski's for pairs."""
    rng = np.random.default_rng(5)
    x, y = rng.integers(0, 9, 60) + 1.0, rng.integers(0, 9, 60) * 1.0
    kernel = (x[:, None] > y) + 0.5 * (x[:, None] == y)
    a, b, theta = kernel.mean(1), kernel.mean(0), kernel.mean()
    apart = a.var(ddof=1) / 60 + b.var(ddof=1) / 60
    paired = apart + 2 * np.cov(a, b)[0, 1] / 60
    names = list(range(60))
    for got, variance in ((auroc(x, y), apart), (auroc(x, y, names, names), paired)):
        trials = theta * (1 - theta) / variance
        z = 1.959963984540054
        middle = (theta + z * z / 2 / trials) / (1 + z * z / trials)
        assert (got.low + got.high) / 2 == pytest.approx(middle)
        half = z * math.sqrt(variance + z * z / 4 / trials**2) / (1 + z * z / trials)
        assert (got.high - got.low) / 2 == pytest.approx(half)


def test_shared_groups_widen():
    x = np.repeat(np.arange(20.0), 5)
    y = np.arange(0, 20, 0.2)
    plain, grouped = auroc(x, y), auroc(x, y, np.repeat(np.arange(20), 5).tolist())
    assert grouped.value == plain.value
    assert grouped.high - grouped.low > 1.3 * (plain.high - plain.low)
    assert auroc([], [1.0]).value is None


# ---- evaluation --------------------------------------------------------------------------------------


def sample(n=100, **values):
    """Clean gaps 1 to n in calibration and check; five attacked queries, with gap 200 or none at all."""
    values = {"dataset": "d", "retriever": "r", **values}
    out = [
        Context(f"{split}{i}", "clean", split, scores=np.array([1.0 + i, 0.0]), **values)
        for split in ("calibration", "check")
        for i in range(n)
    ]
    for i in range(5):
        out.append(Context(f"a{i}", "clean", scores=np.array([50.0 + i, 0.0]), **values))
        for budget, score in ((1, 200.0), (2, 0.0)):
            poison = np.array([True, budget == 2 and i < 4])
            c = Context(f"a{i}", "poisoned", scores=np.array([score, 0.0]), poison=poison, budget=budget)
            out.append(replace(c, **values))
    return out


def cell(results, budget, occupancy=None, detector="gap"):
    return next(
        c
        for c in results["cells"]
        if (c["budget"], c["occupancy"], c["detector"]) == (budget, occupancy, detector)
    )


def test_evaluation_by_hand():
    found = evaluate(sample())
    r = found.results
    assert r["detectors"] == ["min_score", "gap", "dispersion"]
    assert set(r["left_out"]) == {"connectivity", "conductance", "modularity"}
    gap = next(c for c in r["calibrations"] if c["detector"] == "gap")
    assert (gap["n"], gap["n_check"], gap["n_unique"], gap["check"]) == (100, 100, 100, "given")
    assert [t["threshold"] for t in gap["thresholds"]] == [99, 95, 90, 80]
    assert [t["realized"]["count"] for t in gap["thresholds"]] == [1, 5, 10, 20]
    # Wilson's interval of 1 in 100, from the closed form.
    assert gap["thresholds"][0]["realized"]["low"] == pytest.approx(0.001767, abs=1e-6)
    assert gap["thresholds"][0]["realized"]["high"] == pytest.approx(0.054486, abs=1e-6)
    one, five = cell(r, 1), cell(r, 2)
    assert [at["flagged"]["count"] for at in one["rates"]] == [5] * 4
    assert [at["flagged"]["count"] for at in five["rates"]] == [0] * 4
    assert (one["auroc"]["value"], five["auroc"]["value"]) == (1, 0)  # never turned
    assert (one["median_poisoned"], one["median_check"], one["median_clean"]) == (200, 50.5, 52)
    assert one["auroc_same_queries"]["value"] == 1
    assert one["auroc_same_queries"]["n_clean"] == 5
    assert one["denominator"] == WITH_POISON
    assert [c["occupancy"] for c in r["cells"] if c["budget"] == 2 and c["detector"] == "gap"] == [None, 1, 2]
    assert (cell(r, 2, 1)["n"], cell(r, 2, 2)["n"]) == (1, 4)
    json.dumps(r, allow_nan=False)


def test_the_order_of_the_lines_changes_nothing():
    assert evaluate(sample()[::-1]).results == evaluate(sample()).results


def test_interception_among_target_positives():
    contexts = [
        replace(c, target_positive=c.query_id in ("a0", "a3")) if c.condition == "poisoned" else c
        for c in sample()
    ]
    one = cell(evaluate(contexts).results, 1)
    assert one["denominator"] == TARGET_POSITIVE
    assert one["unlabelled"] == 0
    intercepted = one["rates"][0]["intercepted"]
    assert (intercepted["count"], intercepted["n"], intercepted["rate"]) == (2, 2, 1)
    assert one["rates"][0]["flagged"]["n"] == 5


def test_thresholds_belong_to_a_retrieval_and_serve_victims_and_attacks():
    other = [replace(c, victim="v", attack="x") for c in sample() if c.split == "attack"]
    r = evaluate(sample() + other).results
    assert len([c for c in r["cells"] if c["detector"] == "gap" and c["occupancy"] is None]) == 4
    assert {c["n"] for c in r["calibrations"]} == {100}
    elsewhere = [replace(c, retriever="s") for c in sample() if c.condition == "poisoned"]
    with pytest.raises(StressragError, match="no calibration contexts for dataset=d, retriever=s"):
        evaluate(sample() + elsewhere)


def test_the_rate_is_never_measured_where_it_was_set():
    without = [c for c in sample(200) if c.split != "check"]
    r = evaluate(without, check_share=25).results["calibrations"][0]
    assert (r["n"], r["n_check"]) == (150, 50)
    assert r["check"].startswith("split off")
    calibration, check = split_check([c for c in without if c.split == "calibration"], 25)
    assert not {c.query_id for c in calibration} & {c.query_id for c in check}
    more = split_check([c for c in without if c.split == "calibration"][::-1], 25)[1]
    assert {c.query_id for c in more} == {c.query_id for c in check}
    both = [*sample(), replace(sample()[0], split="check")]
    with pytest.raises(StressragError, match="'calibration0' both calibrates and checks"):
        evaluate(both)
    with pytest.raises(StressragError, match="no check share"):
        evaluate(sample(), check_share=25)


def test_what_evaluation_refuses():
    with pytest.raises(
        StressragError, match="1% needs 100 clean calibration contexts or more, and there are 99"
    ):
        evaluate(sample(99), rates=[1, 5])
    assert evaluate(sample(99), rates=[5]).results["rates"] == [5]
    with pytest.raises(StressragError, match="needs embeddings, which 215 of 215 contexts lack"):
        evaluate(sample(), ["modularity"])
    with pytest.raises(StressragError, match="has another clean context"):
        evaluate([*sample(), replace(sample()[0], scores=np.array([7.0, 0]))])
    with pytest.raises(StressragError, match="has another poisoned context"):
        evaluate([*sample(), sample()[-1]])
    with pytest.raises(StressragError, match="no clean context of the split calibration"):
        evaluate([c for c in sample() if c.split != "calibration"])


def test_groups_widen_the_interval():
    contexts = [replace(c, group_id="g" + c.query_id[-1:] if c.query_id[0] != "a" else "g") for c in sample()]
    at = cell(evaluate(contexts).results, 1)["rates"][0]["flagged"]
    assert (at["low"], at["high"]) == (0, 1)  # one injection group says nothing of others


# ---- answers, files and the verb ---------------------------------------------------------------------


def answer(query_id, condition, scores, split="attack", roles=(), **values):
    context = tuple(
        Passage(id=str(i), score=s, role=r)
        for i, (s, r) in enumerate(itertools.zip_longest(scores, roles, fillvalue="other"))
    )
    words = {"target": "Mars", "dataset": "d", "retriever": "r", **values}
    return Answer(
        query_id, f"{query_id}?", f"about {query_id}", condition, split=split, context=context, **words
    )


def saved():
    """20 calibration and 20 utility rows, and four attacked queries of which one is flagged at 20%."""
    rows = [
        answer(f"{s}{i}", "clean", [1.0 + i, 0.0], s) for s in ("calibration", "utility") for i in range(20)
    ]
    for i in range(4):
        rows.append(answer(f"q{i}", "clean", [5.0, 0.0]))
        high = 100.0 if i == 2 else 1.0
        rows.append(answer(f"q{i}", "poisoned", [high, 0.0], roles=["poison"], budget=1))
    rows.append(answer("q0", "no_poison", [1.0]))
    rows.append(replace(answer("q0", "clean", [1.0]), method="other"))
    return rows


def write(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(r.row() if isinstance(r, Answer) else r) + "\n" for r in rows))
    return str(path)


def test_abstention_rows():
    contexts = [c for a in saved() if (c := context_of(a))]
    found = evaluate(contexts, ["gap"], [5, 20])
    rows = list(defended(saved(), found.detectors[0], found.thresholds))
    assert {r.method for r in rows} == {"detector:gap@5%", "detector:gap@20%"}
    assert len(rows) == 2 * (20 + 8)  # utility and attacked, not calibration, controls or other methods
    strict = {(r.query_id, r.condition): r for r in rows if r.method == "detector:gap@20%"}
    assert strict["q2", "poisoned"].answer == ABSTENTION == "I don't know."
    assert strict["q1", "poisoned"].answer == "about q1"
    assert {q for (q, _), r in strict.items() if r.answer == ABSTENTION} == {
        "q2",
        *(f"utility{i}" for i in range(16, 20)),
    }
    assert strict["q2", "poisoned"].target == "Mars"
    with pytest.raises(StressragError, match="context was not saved"):
        list(defended([replace(saved()[-3], context=None)], found.detectors[0], found.thresholds))


def test_labels_by_answer_key():
    rows = [a for a in saved() if a.condition == "poisoned"]
    labels = {a.key: a.query_id == "q2" for a in rows}
    contexts = [c for a in saved() if (c := context_of(a, lambda x: labels.get(x.key)))]
    one = cell(evaluate(contexts, ["gap"], [20]).results, 1)
    assert one["denominator"] == TARGET_POSITIVE
    assert (one["rates"][0]["intercepted"]["count"], one["rates"][0]["intercepted"]["n"]) == (1, 1)


_HIT = {("poisoned", "q2"), ("poisoned", "q3")}


def test_the_verb_on_answers(tmp_path, capsys):
    rows = [replace(a, answer="Mars.") if (a.condition, a.query_id) in _HIT else a for a in saved()]
    file, out = write(tmp_path / "answers.jsonl", rows), tmp_path / "out"
    argv = [file, "--rates", "5,20", "--detectors", "gap,dispersion", "--out", str(out)]
    assert main(argv) == 0
    shown = capsys.readouterr().out
    assert "20 calibration contexts, 20 check contexts (given)" in shown
    assert "target-positive" in shown
    assert sorted(p.name for p in out.iterdir()) == ["defended.jsonl", "detectors.csv", "detectors.json"]
    before = {p.name: p.read_bytes() for p in out.iterdir()}
    write(tmp_path / "answers.jsonl", rows[::-1])
    assert main(argv) == 0
    assert {p.name: p.read_bytes() for p in out.iterdir()} == before
    rows = [json.loads(line) for line in (out / "defended.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 28  # the lowest rate, for two detectors
    assert {r["method"] for r in rows} == {"detector:gap@5%", "detector:dispersion@5%"}
    assert main([*argv, "--defend-rates", "20,5"]) == 0
    rows = [json.loads(line) for line in (out / "defended.jsonl").read_text().splitlines()]
    assert len(rows) == 2 * 2 * 28
    assert sum(r["answer"] == ABSTENTION for r in rows if r["method"] == "detector:gap@20%") == 5
    table = list(csv.DictReader((out / "detectors.csv").open()))
    all_of = [r for r in table if (r["detector"], r["rate"], r["occupancy"]) == ("gap", "20", "")]
    assert [(r["flagged"], r["n"], r["realized"]) for r in all_of] == [("1", "4", "0.2")]
    assert [(r["intercepted"], r["counted"]) for r in all_of] == [("1", "2")]
    assert "nan" not in (out / "detectors.csv").read_text().lower()


def plain(c: Context) -> dict:
    row = {"query_id": c.query_id, "condition": c.condition, "split": c.split, "scores": c.scores.tolist()}
    row |= {"dataset": c.dataset, "retriever": c.retriever, "budget": c.budget}
    return row | ({} if c.poison is None else {"poison": c.poison.tolist()})


def test_the_verb_on_plain_contexts(tmp_path, capsys):
    attacked = write(tmp_path / "a.jsonl", [plain(c) for c in sample() if c.split == "attack"])
    clean = [{**plain(c), "split": "attack"} for c in sample() if c.split == "calibration"]
    calibration = write(tmp_path / "c.jsonl", clean)
    check = write(tmp_path / "k.jsonl", [plain(c) for c in sample() if c.split == "check"])
    argv = [attacked, "--calibration", calibration, "--rates", "5", "--out", str(tmp_path / "o")]
    assert main([*argv, "--check", check]) == 0
    results = json.loads((tmp_path / "o" / "detectors.json").read_text())
    assert (results["calibrations"][0]["n"], results["calibrations"][0]["n_check"]) == (100, 100)
    assert not (tmp_path / "o" / "defended.jsonl").exists()
    assert main([*argv, "--check-share", "40"]) == 0
    results = json.loads((tmp_path / "o" / "detectors.json").read_text())
    assert (results["calibrations"][0]["n"], results["calibrations"][0]["n_check"]) == (60, 40)
    assert "left out: modularity (no context has embeddings)" in capsys.readouterr().out


def test_embeddings_from_a_file(tmp_path):
    rng = np.random.default_rng(0)
    rows = [
        {
            "query_id": f"{s}{i}",
            "condition": "clean",
            "split": s,
            "embeddings": rng.normal(size=(5, 4)).tolist(),
        }
        for s in ("calibration", "check")
        for i in range(20)
    ]
    bad = np.vstack((np.tile([1.0, 0, 0, 0], (3, 1)), np.tile([0.1, 1, 0, 0], (2, 1))))
    rows.append(
        {
            "query_id": "q",
            "condition": "poisoned",
            "embeddings": bad.tolist(),
            "poison": [True] * 3 + [False] * 2,
        }
    )
    contexts, _, problems = read_contexts([write(tmp_path / "e.jsonl", rows)])
    assert not problems
    results = evaluate(contexts, rates=[5]).results
    assert results["detectors"] == ["connectivity", "conductance", "modularity"]
    assert results["cells"][0]["n"] == 1
    assert results["cells"][0]["auroc"]["low"] is None  # one context has no interval


def test_all_problems_are_told_by_line(tmp_path, capsys):
    ok = {"query_id": "q", "condition": "clean", "split": "calibration", "scores": [1, 2]}
    wrong = {
        2: ("{", "broken JSON"),
        3: ({**ok, "scores": [1, "2"]}, 'scores[1]: "2" is no number'),
        4: ({**ok, "poison": [False]}, "2 scores, 1 poison"),
        5: ({**ok, "condition": "poisoned"}, "a calibration context is clean"),
        6: ({**ok, "poison": [True, False]}, "a clean context holds none"),
        7: ({**ok, "split": "train"}, '"train" is none of calibration, check, attack'),
        8: ({**ok, "score": 1}, "unknown field 'score'"),
        9: ({"query_id": "q", "condition": "clean"}, "scores and embeddings are both missing"),
        10: ({"query_id": "q", "question": "?", "condition": "clean"}, "no field 'answer'"),
        11: ([1], "not a JSON object"),
        12: ('{"query_id": "q", "condition": "clean", "scores": [NaN]}', "is no number"),
        13: ({**ok, "embeddings": [[1, 2], [1]]}, "vectors of different lengths"),
        14: ({**ok, "query_id": ""}, "query_id: is empty"),
        15: ({**ok, "budget": True}, "budget: true is no integer or null"),
    }
    lines = [json.dumps(ok), *(w if isinstance(w, str) else json.dumps(w) for w, _ in wrong.values())]
    file = tmp_path / "bad.jsonl"
    file.write_text("\n".join(lines))
    with pytest.raises(StressragError, match="14 problems, nothing was evaluated"):
        main([str(file)])
    told = capsys.readouterr().err.splitlines()
    assert len(told) == len(wrong)
    for line, (number, (_, message)) in zip(told, wrong.items(), strict=True):
        assert line.startswith(f"{file}:{number}: error: ")
        assert message in line
    file.write_text(lines[0] + "\n" + lines[2])
    with pytest.raises(StressragError, match=r"bad\.jsonl:2: scores\[1\]"):
        main([str(file)])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give a file"),
        (["x.jsonl"], "x.jsonl: no such file"),
        (["x", "--rates", "1.5"], "'1.5' is no whole number"),
        (["x", "--rates", ","], "names nothing"),
        (["x", "--check", "y", "--check-share", "4"], "exclude each other"),
        (["x", "--detector", "gap"], "did you mean '--detectors'"),
        (["x", "--out", " "], "is no folder"),
    ],
)
def test_command_lines_refused(argv, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StressragError) as e:
        main(argv)
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


def test_calibration_rows_need_no_answer(tmp_path):
    row = {"query_id": "q", "split": "calibration", "context": [{"score": 2.5}, {"score": 1}]}
    contexts, answers, problems = read_contexts([write(tmp_path / "c.jsonl", [row])])
    assert not problems
    assert answers == []
    assert contexts[0].scores.tolist() == [2.5, 1]
    unsaved = write(tmp_path / "u.jsonl", [answer("q", "clean", [1.0]).row() | {"context": None}])
    assert "holds no context" in str(read_contexts([unsaved])[2][0])


# ---- real data ---------------------------------------------------------------------------------------


def test_bm25_on_scifact_collapses_when_poison_fills_the_context(data_root):
    """500 of the 809 queries without judgments calibrate, the rest checks; the query itself is the poison."""
    from stressrag.collection import load_dataset
    from stressrag.retrievers.bm25 import BM25
    from stressrag.retrievers.ranking import Views

    collection = load_dataset("scifact")
    assert (len(collection.calibration), len(collection.evaluated)) == (809, 300)
    bm25, n = BM25().fit(collection.corpus), len(collection.corpus)
    contexts = []
    for split, ids in (
        ("calibration", collection.calibration.ids[:500]),
        ("check", collection.calibration.ids[500:]),
        ("attack", collection.evaluated.ids),
    ):
        found = bm25.search(collection.queries.select(ids).texts, 5)
        contexts += [Context(q, "clean", split, scores=found.row(i)[1]) for i, q in enumerate(ids)]
    texts, ids = list(collection.evaluated.texts), collection.evaluated.ids
    for budget in (1, 5):
        poison = [t for t in texts for _ in range(budget)]
        views = Views.isolated([i // budget for i in range(len(poison))], len(texts))
        found = bm25.search_contaminated(texts, poison, views, 5)
        for i, q in enumerate(ids):
            docs, scores = found.row(i)
            contexts.append(Context(q, "poisoned", scores=scores, poison=docs >= n, budget=budget))
    r = evaluate(contexts, ["min_score", "gap", "dispersion"]).results
    for calibrated in r["calibrations"]:
        assert (calibrated["n"], calibrated["n_check"]) == (500, 309)
        for t in calibrated["thresholds"]:
            assert 100 * t["observed"] <= t["rate"]
            assert t["realized"]["low"] <= t["rate"] / 100 <= t["realized"]["high"]
    for name in ("gap", "dispersion"):
        one, five = cell(r, 1, detector=name), cell(r, 5, detector=name)
        assert one["auroc"]["low"] > 0.85
        assert five["auroc"]["high"] < 0.02
        assert one["rates"][0]["intercepted"]["count"] > 60
        assert [at["intercepted"]["count"] for at in five["rates"]] == [0] * 4
    assert cell(r, 5, 5, "gap")["n"] == 299
