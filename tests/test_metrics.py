"""Metrics: by hand on small lists, and ranking quality against a separate implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute
from stressrag.metrics.base import Metric, TopK
from stressrag.metrics.evidence import STATES
from stressrag.metrics.ranking import RankingQuality
from stressrag.metrics.registry import STANDARD, get_metrics

NAN = float("nan")


def top(docs, owner, grade, *, targeted, n_poison, clean=False, coverage=0.0, min_grade=1, n_docs=10) -> TopK:
    """Rows of the queries 0, 1, …"""
    n = len(docs)
    return TopK(
        docs=np.array(docs),
        owner=np.array(owner),
        grade=np.array(grade),
        query=np.arange(n),
        targeted=np.array(targeted),
        n_poison=np.array(n_poison),
        n_docs=n_docs,
        min_grade=min_grade,
        coverage=np.full(n, coverage),
        clean=clean,
    )


def measured(seen: TopK) -> dict[str, list[float]]:
    return {m.name: m(seen).tolist() for m in STANDARD}


def test_multi_target_by_hand():
    """Ten clean documents, four poison (10, 11 of query 0; 12, 13 of query 1); query 2 is a bystander."""
    seen = top(
        [[10, 3, 12], [4, 5, 6], [13, -1, -1], [12, 11, 7]],
        [[0, -1, 1], [-1, -1, -1], [1, -1, -1], [1, 0, -1]],
        [[0, 2, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]],
        targeted=[True, True, False, True],
        n_poison=[4, 4, 4, 4],
        coverage=0.5,
    )
    got = measured(seen)
    expected = {
        "TargetExp": [1, 0, NAN, 0],
        "AnyExp": [1, 0, 1, 1],
        "CrossExp": [1, 0, 1, 1],
        "Evid": [1, 1, 0, 0],
        "SafeR": [0, 1, 0, 0],
        "PoisonCount": [2, 0, 1, 2],
        "PoisonFraction": [4 / 14] * 4,
        "Shortage": [0, 0, 1, 0],
        "FirstPoisonRank": [1, NAN, 1, 1],
        "FirstEvidenceRank": [2, 2, NAN, NAN],
        "Coverage": [0.5] * 4,
        "EvidClean": [0, 1, 0, 0],
        "EvidPoison": [1, 0, 0, 0],
        "NoEvidClean": [0, 0, 0, 0],
        "NoEvidPoison": [0, 0, 1, 1],
    }
    assert list(got) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def test_isolated_bystanders_are_not_asked():
    """A block that happens to hold bystanders alone says no more of them than another."""
    seen = top([[1, 2]], [[-1, -1]], [[1, 0]], targeted=[False], n_poison=[0])
    assert np.isnan(measured(seen)["TargetExp"]).all()
    assert measured(seen)["AnyExp"] == [0]


def test_clean_is_not_exposed():
    seen = top([[1, 2]], [[-1, -1]], [[1, 0]], targeted=[False], n_poison=[0], clean=True)
    got = measured(seen)
    assert (got["TargetExp"], got["PoisonFraction"], got["EvidClean"]) == ([0], [0], [1])


def test_the_lowest_grade_that_counts():
    seen = top([[1, 2]], [[-1, -1]], [[1, 2]], targeted=[True], n_poison=[0], min_grade=2)
    assert measured(seen)["FirstEvidenceRank"] == [2]
    seen = top([[1, 2]], [[-1, -1]], [[1, 1]], targeted=[True], n_poison=[0], min_grade=2)
    assert measured(seen)["Evid"] == [0]


def test_an_empty_list():
    seen = top([[-1, -1]], [[-1, -1]], [[0, 0]], targeted=[True], n_poison=[3])
    got = measured(seen)
    assert (got["Shortage"], got["AnyExp"], got["NoEvidClean"], got["PoisonFraction"]) == (
        [1],
        [0],
        [1],
        [3 / 13],
    )


@given(st.data())
def test_every_row_is_in_one_state(data):
    k, n = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    owner = np.array(
        data.draw(st.lists(st.lists(st.integers(-1, n), min_size=k, max_size=k), min_size=n, max_size=n))
    )
    relevant = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 2), min_size=k, max_size=k), min_size=n, max_size=n))
    )
    seen = top(
        np.zeros((n, k), int), owner, np.where(owner >= 0, 0, relevant), targeted=[True] * n, n_poison=[1] * n
    )
    states = np.array([s(seen) for s in STATES])
    assert (states.sum(0) == 1).all()
    got = measured(seen)
    assert got["SafeR"] == got["EvidClean"]
    assert np.array_equal(np.maximum(got["TargetExp"], got["CrossExp"]), got["AnyExp"])


# ---- ranking quality -----------------------------------------------------------------------------


def ndcg(docs: list[int], judged: dict[int, int], k: int) -> float:
    gains = [max(0, judged.get(d, 0)) / math.log2(i + 2) for i, d in enumerate(docs[:k])]
    ideal = sorted((max(0, g) for g in judged.values()), reverse=True)[:k]
    return sum(gains) / sum(g / math.log2(i + 2) for i, g in enumerate(ideal))


def quality(lists: list[list[int]], judgments: list[dict[int, int]], k: int, min_grade: int = 1):
    width = [row + [-1] * (k - len(row)) for row in lists]
    seen = top(
        width,
        np.full((len(lists), k), -1),
        np.zeros((len(lists), k)),
        targeted=[True] * len(lists),
        n_poison=[0] * len(lists),
    )
    return RankingQuality(judgments, k, min_grade)(seen)


def test_linear_gain_by_hand():
    got = quality([[7, 5, 9], [5, 7]], [{5: 2, 7: 1, 8: 1}, {5: 2, 7: 1}], 3)
    ideal = 2 + 1 / math.log2(3) + 1 / 2
    assert got["nDCG@3"] == pytest.approx([(1 + 2 / math.log2(3)) / ideal, 1])
    assert got["Recall@3"] == pytest.approx([2 / 3, 1])


judged = st.dictionaries(st.integers(0, 12), st.integers(-1, 3), max_size=6)
listed = st.lists(st.integers(0, 15), max_size=6, unique=True)


@given(st.lists(st.tuples(listed, judged), min_size=1, max_size=4), st.integers(1, 6), st.integers(1, 2))
def test_against_plain_python(rows, k, min_grade):
    lists, judgments = [docs[:k] for docs, _ in rows], [j for _, j in rows]
    got = quality(lists, judgments, k, min_grade)
    for i, (docs, grades) in enumerate(zip(lists, judgments, strict=True)):
        relevant = {d for d, g in grades.items() if g >= min_grade}
        if not relevant:
            assert np.isnan(got[f"nDCG@{k}"][i])
            assert np.isnan(got[f"Recall@{k}"][i])
            continue
        assert got[f"nDCG@{k}"][i] == pytest.approx(ndcg(docs, grades, k), abs=1e-12)
        assert got[f"Recall@{k}"][i] == pytest.approx(len(relevant & set(docs)) / len(relevant), abs=1e-12)


@given(
    listed.filter(bool), judged.filter(lambda j: max(j.values(), default=0) > 0), st.permutations(range(16))
)
def test_numbers_of_documents_do_not_matter(docs, grades, other):
    """Every document is given another number; names never break a tie since none is left."""
    renamed = quality([[other[d] for d in docs]], [{other[d]: g for d, g in grades.items()}], 6)
    same = quality([docs], [grades], 6)
    for name, value in same.items():
        assert renamed[name] == value


def test_queries_without_relevant_documents_are_left_out_and_counted(ferries):
    run = execute(plan("sweep", ["dataset=ferries", "attack=clean", "grade=1,2"]))
    one, two = run.summary["conditions"]
    assert (one["n_queries"], one["n_left_out"]) == (5, 1)
    assert (two["n_queries"], two["n_left_out"]) == (3, 3)  # q1, q3 and q4 hold a grade of 2 or 3
    for c in (one, two):
        rows = [r for r in run.records().to_pylist() if r["condition"] == c["id"]]
        assert [r["nDCG@10"] is None for r in rows] == [not r["evaluated"] for r in rows]
        evaluated = [r["Evid"] for r in rows if r["evaluated"]]
        assert c["metrics"]["Evid"] == sum(evaluated) / len(evaluated)


# ---- the user's own ------------------------------------------------------------------------------

OWN = """
import numpy as np
from stressrag.metrics.base import Metric

Length = Metric("Length", lambda top: (top.docs >= 0).sum(1))
Evid = Metric("Evid", lambda top: top.docs[:, 0])
Rare = Metric("Rare", lambda top: np.where(top.query == 0, 1.0, np.nan))
nothing = 3
"""


def test_own_metrics(ferries):
    with open("mine.py", "w") as f:
        f.write(OWN)
    words = ["dataset=ferries", "attack.budget=1", "metrics=[mine:Length,mine:Rare]"]
    run = execute(plan("sweep", words))
    for r in run.records().to_pylist():
        assert r["Length"] == r["returned"]
        assert r["Rare"] == (1 if r["query_id"] == "q1" else None)
    assert {c["metrics"]["Rare"] for c in run.summary["conditions"]} == {1.0}
    assert run.plan_hash != execute(plan("sweep", words[:2])).plan_hash


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:Evid", "the name 'Evid' of 'mine:Evid' is taken"),
        ("mine:nothing", "'mine:nothing' is no stressrag.Metric"),
        ("mine:Lenght", "did you mean 'Length'"),
        ("mein:Length", "cannot import 'mein'"),
        ("Length", "no metric 'Length' is installed"),
    ],
)
def test_own_metrics_refused(ferries, monkeypatch, name, message):
    monkeypatch.syspath_prepend(".")
    with open("mine.py", "w") as f:
        f.write(OWN)
    with pytest.raises(StressragError, match=message):
        get_metrics([name], 10)


def test_names():
    assert [repr(m) for m in get_metrics([], 10)] == [m.name for m in STANDARD]
    assert isinstance(STANDARD[0], Metric)
