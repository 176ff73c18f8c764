"""Attack cost and worst cases, by hand on made-up summaries."""

from __future__ import annotations

import pytest

from stressrag.errors import StressragError
from stressrag.records.folder import Run
from stressrag.report.attack_cost import attack_costs, cost_text, judged_cost, span_text
from stressrag.report.gate import gate
from stressrag.report.worst_case import static_only, worst_cases


def condition(
    name, exposure, *, terms=None, budget=1, tokens=None, defense="none", attack="optimal", ends=None
):
    settings = {"wording": "optimal", "max_tokens": tokens or 100} if attack == "optimal" else {}
    if settings:
        settings["against"] = "none" if defense == "none" else "the defense"
    config = {
        "dataset": "d", "retriever": "bm25", "attack": attack, "anchor": "terms", "terms": terms,
        "strategy": "idf", "body": "none", "budget": budget, "scope": "isolated", "defense": defense,
        "statistics": "live", "targets": "all", "k": 10, "pool": 50, "ties": "clean_first", "grade": 1,
        "split": None, "retriever_settings": {}, "attack_settings": settings,
        "defense_settings": {} if defense == "none" else {defense: {"tau": 0.5}},
    }  # fmt: skip
    intervals = {} if ends is None else {"TargetExp": list(ends)}
    return {"id": name, "config": config, "metrics": {"TargetExp": exposure}, "intervals": intervals}


FOUR = [
    condition("a", 0.05, terms=1, ends=(0.0, 0.12)),
    condition("b", 0.40, terms=2, ends=(0.3, 0.52)),
    condition("c", 0.80, terms=4, ends=(0.7, 0.95)),
]


def test_marks_by_hand():
    (got,) = attack_costs([FOUR[2], FOUR[0], FOUR[1]])
    assert got["axis"] == "terms"
    assert got["conditions"] == ["a", "b", "c"]
    assert [p["exposure"] for p in got["curve"]] == [0.05, 0.4, 0.8]
    assert got["cost"] == {
        "10": {"at_most": 2, "more_than": 1, "low": 1, "low_more_than": None, "high": 2},
        "50": {"at_most": 4, "more_than": 2, "low": 2, "low_more_than": 1, "high": 4},
        "90": {"at_most": None, "more_than": 4, "low": 4, "low_more_than": 2, "high": None},
    }
    texts = [(cost_text(c), span_text(c)) for c in got["cost"].values()]
    assert texts == [("2", "[1 2]"), ("3 to 4", "[2 4]"), ("> 4", "[4 more]")]


def test_what_is_no_curve():
    assert attack_costs(FOUR[:1]) == []
    assert attack_costs([FOUR[0], condition("x", 0.5, terms=2, defense="overlap")]) == []
    clean = condition("clean", 0.0, terms=None, budget=0)
    assert attack_costs([clean, FOUR[0]]) == []


def test_other_prices():
    budget = [condition("a", 0.2, terms=1, budget=1), condition("b", 0.6, terms=1, budget=5)]
    tokens = [condition("c", 0.2, terms=1, tokens=10), condition("d", 0.6, terms=1, tokens=50)]
    assert [r["axis"] for r in attack_costs(budget)] == ["budget"]
    (row,) = attack_costs(tokens)
    assert row["axis"] == "max_tokens"
    assert cost_text(row["cost"]["10"]) == "<= 10"  # fewer were not tried
    assert cost_text(row["cost"]["50"]) == "11 to 50"


def test_what_a_gate_judges():
    reached = {"at_most": 4, "more_than": 2, "low": 2, "low_more_than": 1, "high": 4}
    never = {"at_most": None, "more_than": 4, "low": None, "low_more_than": 4, "high": None}
    assert judged_cost(reached, "min", False) == 3  # more than 2 is at least 3
    assert judged_cost(reached, "min", True) == 2
    assert judged_cost(reached, "max", False) == 4
    assert judged_cost(never, "min", False) == judged_cost(never, "min", True) == 5
    assert judged_cost(never, "max", False) == float("inf")


def test_a_stronger_attack_is_never_judged_dearer():
    """Prices 2, 8 and 16: where the upper end reaches the mark at 8, the cost may be anything from 3 on."""
    unsure = [condition(str(t), e, terms=t, ends=i) for t, e, i in (
        (2, 0.1, (0.0, 0.2)), (8, 0.45, (0.4, 0.55)), (16, 0.7, (0.6, 0.8))
    )]  # fmt: skip
    sure = [unsure[0], condition("8", 0.6, terms=8, ends=(0.5, 0.7)), unsure[2]]
    for some in (unsure, sure):
        cost = attack_costs(some)[0]["cost"]["50"]
        assert judged_cost(cost, "min", True) == 3


def made_up(conditions) -> Run:
    run = Run("runs/x", "plan")  # type: ignore[arg-type]
    run.__dict__["summary"] = {"conditions": conditions, "attack_costs": attack_costs(conditions)}
    return run


def test_a_gate_on_the_cost():
    run = made_up(FOUR)

    def passed(bound, metric, limit, **options):
        return gate(run, [{bound: {metric: limit}}], **options)["passed"]

    assert passed("min", "AttackCost50.terms", 3)
    assert not passed("min", "AttackCost50.terms", 4)
    assert not passed("min", "AttackCost50.terms", 3, use_interval=True)
    assert passed("min", "AttackCost90.terms", 5)
    with pytest.raises(StressragError, match=r"tried no more than 4 .* sweep attack.terms up to 6"):
        passed("min", "AttackCost90.terms", 6)
    wide = made_up(
        [condition("a", 0.1, terms=3, ends=(0.0, 0.6)), condition("b", 0.2, terms=10, ends=(0, 0.3))]
    )
    assert not gate(wide, [{"min": {"AttackCost50.terms": 5}}], use_interval=True)["passed"]
    bare = made_up([condition("a", 0.1, terms=3), condition("b", 0.2, terms=10)])
    with pytest.raises(StressragError, match=r"has no interval .resamples=0.; judge by the mean"):
        gate(bare, [{"min": {"AttackCost50.terms": 5}}], use_interval=True)
    with pytest.raises(StressragError, match=r"needs a run that sweeps attack.budget"):
        passed("min", "AttackCost50.budget", 2)
    with pytest.raises(
        StressragError, match=r"no metric 'AttackCost50.term'; did you mean 'AttackCost50.terms'"
    ):
        passed("min", "AttackCost50.term", 2)


def test_static_and_adaptive_side_by_side():
    conditions = [
        condition("s", 0.3, terms=2, attack="partial"),
        condition("a", 0.7, terms=2),
        condition("t", 0.1, terms=2, attack="partial", defense="overlap"),
        condition("u", 0.2, terms=4, attack="partial", defense="overlap"),
        condition("c", 0.0, budget=0),
    ]
    conditions[-1]["metrics"]["nDCG@10"] = 0.7
    rows = worst_cases(conditions, {"s": {"clean": "c"}, "a": {"clean": "c"}})
    assert rows == [
        {"static": "s", "adaptive": "a", "worst": "a", "clean": "c", "pareto": True},
        {"static": "u", "adaptive": None, "worst": "u", "clean": None, "pareto": True},
    ]
    assert static_only({"conditions": conditions, "worst_cases": rows}) == ["u"]
    conditions.append(condition("v", 0.9, terms=2, defense="overlap"))
    rows = worst_cases(conditions, {})
    assert rows[1]["worst"] == rows[1]["adaptive"] == "v"
    assert static_only({"conditions": conditions, "worst_cases": rows}) == []
    assert worst_cases(conditions[:1], {}) == []  # neither a defense nor a worst-case attack


def test_the_frontier_of_worst_cases():
    """Undefended .9 at nDCG .7; a defense with .5 at .6 is worth it, one with .9 at .5 is not."""
    conditions = [
        condition("bare", 0.9),
        condition("good", 0.5, defense="quota"),
        condition("bad", 0.9, defense="overlap"),
        *(condition(f"clean-{n}", 0.0, budget=0) for n in ("bare", "good", "bad")),
    ]  # fmt: skip
    for c, quality in zip(conditions[3:], (0.7, 0.6, 0.5), strict=True):
        c["metrics"]["nDCG@10"] = quality
    baselines = {n: {"clean": f"clean-{n}"} for n in ("bare", "good", "bad")}
    assert [(w["worst"], w["pareto"]) for w in worst_cases(conditions, baselines)] == [
        ("bare", True), ("good", True), ("bad", False),
    ]  # fmt: skip


def test_an_attacker_who_does_not_know_the_defense_is_no_adaptive_one():
    naive = condition("n", 0.4, terms=2, defense="overlap")
    naive["config"]["attack_settings"]["against"] = "none"
    (row,) = worst_cases([naive], {})
    assert row["adaptive"] is None
