"""Agreement and kappa against hand-worked values, scikit-learn, statsmodels and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from stressrag.stats.agreement import agreement, pairwise, weighted_rate

WORDS = st.sampled_from(["yes", "no", "uncertain"])


def spread(yes_yes, yes_no, no_yes, no_no):
    first = ["yes"] * (yes_yes + yes_no) + ["no"] * (no_yes + no_no)
    second = ["yes"] * yes_yes + ["no"] * yes_no + ["yes"] * no_yes + ["no"] * no_no
    return first, second


def test_hand_worked():
    """Two readers of 50 proposals: .70 observed, .50 expected, kappa .40."""
    got = agreement(*spread(20, 5, 10, 15))
    assert (got.n, got.agreed, got.first_only, got.second_only, got.undecided) == (50, 35, 5, 10, 0)
    assert got.observed == pytest.approx(0.7)
    assert got.expected == pytest.approx(0.5)
    assert got.kappa == pytest.approx(0.4)
    assert got.first_only_share == pytest.approx(0.1)
    assert got.second_only_share == pytest.approx(0.2)
    assert got.low < 0.4 < got.high


def test_uncertain_is_disagreement_overall_and_left_out_of_decisive():
    first = ["yes", "no", "uncertain", "uncertain", "yes", None]
    second = ["yes", "no", "uncertain", "yes", "invalid", "yes"]
    overall = agreement(first, second)
    assert (overall.n, overall.agreed, overall.undecided) == (5, 2, 3)
    # Margins yes 2/5, no 1/5 of the first; yes 2/5, no 1/5 of the second.
    assert overall.expected == pytest.approx(4 / 25 + 1 / 25)
    assert overall.kappa == pytest.approx((0.4 - 0.2) / 0.8)
    decisive = agreement(first, second, mode="decisive")
    assert (decisive.n, decisive.agreed, decisive.kappa) == (2, 2, pytest.approx(1.0))
    assert agreement(first, second, mode="nominal").agreed == 3


@pytest.mark.parametrize(("word", "n"), [("yes", 8), ("no", 1)])
def test_no_kappa_where_chance_agrees_always(word, n):
    got = agreement([word] * n, [word] * n)
    assert (got.observed, got.expected) == (1.0, 1.0)
    assert got.kappa is got.low is got.high is None


def test_nothing_to_compare():
    got = agreement([None, "yes"], ["yes", None])
    assert (got.n, got.observed, got.kappa) == (0, None, None)
    assert weighted_rate([], []) is None


def test_one_cluster_has_no_interval():
    got = agreement(*spread(3, 1, 1, 3), clusters=["same"] * 8)
    assert got.kappa == pytest.approx(0.5)
    assert got.low is None


@given(st.lists(st.tuples(WORDS, WORDS), min_size=2, max_size=60))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_nominal_kappa_is_that_of_scikit_learn(pairs):
    first, second = [p[0] for p in pairs], [p[1] for p in pairs]
    got = agreement(first, second, mode="nominal")
    if len({*first, *second}) == 1:
        assert got.kappa is None
        return
    assert got.kappa == pytest.approx(cohen_kappa_score(first, second))
    assert got.low - 1e-9 <= got.kappa <= got.high + 1e-9


@given(st.lists(st.tuples(st.sampled_from(["yes", "no"]), st.sampled_from(["yes", "no"]), st.integers(1, 5))))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_whole_weights_are_repetitions(rows):
    weighted = agreement([r[0] for r in rows], [r[1] for r in rows], weights=[r[2] for r in rows])
    repeated = [r for r in rows for _ in range(r[2])]
    plain = agreement([r[0] for r in repeated], [r[1] for r in repeated])
    for name in ("observed", "expected", "first_only_share", "second_only_share", "kappa"):
        assert getattr(weighted, name) == pytest.approx(getattr(plain, name))
    if rows and len({*[r[0] for r in rows], *[r[1] for r in rows]}) > 1:
        first = [r[0] for r in repeated]
        by_weight = cohen_kappa_score(
            [r[0] for r in rows], [r[1] for r in rows], sample_weight=[r[2] for r in rows]
        )
        assert weighted.kappa == pytest.approx(by_weight)
        assert weighted.kappa == pytest.approx(cohen_kappa_score(first, [r[1] for r in repeated]))


@pytest.mark.parametrize("cells", [(900, 250, 150, 700), (1500, 300, 100, 100), (300, 600, 50, 1050)])
def test_many_items_have_the_large_sample_variance(cells):
    """Where Fleiss, Cohen and Everitt's variance is sound, the width is theirs."""
    from statsmodels.stats.inter_rater import cohens_kappa

    got = agreement(*spread(*cells))
    known = cohens_kappa(np.array(cells).reshape(2, 2))
    assert got.kappa == pytest.approx(known.kappa)
    assert got.low == pytest.approx(known.kappa_low, abs=0.006)
    assert got.high - got.low == pytest.approx(known.kappa_upp - known.kappa_low, rel=0.02)


def test_perfect_agreement_of_few_is_not_certainty():
    got = agreement(*spread(3, 0, 0, 17))
    assert got.kappa == got.high == pytest.approx(1.0)
    assert got.low < 0.6
    more = agreement(*spread(30, 0, 0, 170))
    assert got.low < more.low < 1


def test_repeated_clusters_widen_as_if_they_were_single():
    """Each item ten times over says no more than once, when its copies are one cluster."""
    first, second = spread(12, 3, 2, 13)
    once = agreement(first, second)
    clusters = [i for i in range(30) for _ in range(10)]
    first, second = ([x for x in side for _ in range(10)] for side in (first, second))
    tenfold = agreement(first, second, clusters=clusters)
    assert (tenfold.low, tenfold.high) == (pytest.approx(once.low), pytest.approx(once.high))
    naive = agreement(first, second)
    assert naive.high - naive.low < 0.5 * (once.high - once.low)


def simulate(n, positive, first, second, audits, seed):
    """Labels of simulated audits, each side with its chances to be right on positives and on negatives."""
    rng = np.random.default_rng(seed)
    for _ in range(audits):
        truth = rng.random(n) < positive
        yield [np.where(truth, rng.random(n) < r, rng.random(n) >= s) for r, s in (first, second)]


def true_kappa(positive, first, second):
    yes = [positive * r + (1 - positive) * (1 - s) for r, s in (first, second)]
    both = positive * first[0] * second[0] + (1 - positive) * (1 - first[1]) * (1 - second[1])
    observed = 1 - yes[0] - yes[1] + 2 * both
    expected = yes[0] * yes[1] + (1 - yes[0]) * (1 - yes[1])
    return (observed - expected) / (1 - expected)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:statsmodels")
@pytest.mark.parametrize(
    ("n", "positive", "first", "second", "large"),
    [
        (20, 0.1, (0.9, 0.99), (0.9, 0.99), 0.6),
        (50, 0.02, (0.5, 0.99), (0.9, 0.99), 0.7),
        (50, 0.2, (0.95, 0.7), (0.95, 0.98), 1.0),
    ],
)
def test_coverage(n, positive, first, second, large):
    """The claim of the module: near the aim, where the large-sample interval may be far from it."""
    from statsmodels.stats.inter_rater import cohens_kappa

    true, held, held_by_large, tried = true_kappa(positive, first, second), 0, 0, 0
    for sides in simulate(n, positive, first, second, 400, 5):
        got = agreement(*(["yes" if x else "no" for x in side] for side in sides))
        if got.kappa is None:
            continue
        tried += 1
        held += got.low <= true <= got.high
        other = cohens_kappa(np.histogram2d(*(side.astype(int) for side in sides), bins=[[0, 1, 2]] * 2)[0])
        held_by_large += other.kappa_low <= true <= other.kappa_upp
    assert held / tried > 0.92
    assert held_by_large / tried <= large


def test_weighted_rate():
    from stressrag.stats.proportions import wilson

    equal = weighted_rate([True] * 3 + [False] * 17, [2.5] * 20)
    plain = wilson(3, 20)
    assert equal.value == pytest.approx(0.15)
    assert equal.low == pytest.approx(plain.low, abs=0.02)
    assert equal.high == pytest.approx(plain.high, abs=0.04)
    got = weighted_rate([True, False, False], [8.0, 1.0, 1.0])
    assert got.value == pytest.approx(0.8)
    assert 0 <= got.low < 0.8 < got.high <= 1
    none = weighted_rate([False] * 10, [1.0] * 5 + [20.0] * 5)
    assert none.value == none.low == 0
    assert none.high > weighted_rate([False] * 10, [1.0] * 10).high


def test_three_labelers_pairwise():
    labels = {
        "ann": {1: "yes", 2: "no", 3: "no", 4: "yes"},
        "bob": {1: "yes", 2: "no", 3: "yes"},
        "cat": {2: "no", 3: "no", 4: None},
    }
    got = pairwise(labels, weights={1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0})
    assert list(got) == [("ann", "bob"), ("ann", "cat"), ("bob", "cat")]
    assert (got["ann", "bob"].n, got["ann", "bob"].agreed) == (3, 2)
    assert got["ann", "bob"].observed == pytest.approx(0.5)
    assert got["ann", "cat"].n == 2
    assert got["bob", "cat"].first_only == 1


def test_wrong_arguments():
    with pytest.raises(ValueError, match="none of overall"):
        agreement([], [], mode="strict")
    with pytest.raises(ValueError, match="length"):
        agreement(["yes"], ["yes"], weights=[1.0, 2.0])
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="positive"):
            agreement(["yes"], ["yes"], weights=[wrong])
