"""Intervals and tests against worked-out values, scipy and statsmodels, and their own properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from stressrag.stats.bootstrap import bootstrap, standard_error
from stressrag.stats.proportions import (
    Interval,
    clustered_wilson,
    holm,
    mcnemar,
    paired_difference,
    sign_flip,
    sum_interval,
    wilson,
)


def skewed(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).gamma(0.7, size=n)


def ids(n: int) -> list[str]:
    return [f"q{i}" for i in range(n)]


@pytest.mark.parametrize(("method", "name"), [("percentile", "percentile"), ("bca", "BCa")])
def test_bootstrap_against_scipy(method: str, name: str) -> None:
    x = skewed(80)
    ours = bootstrap(x, ids(80), method=method, n_resamples=40_000)
    theirs = stats.bootstrap((x,), np.mean, n_resamples=40_000, method=name, rng=np.random.default_rng(0))
    spread = x.std() / np.sqrt(80)
    assert ours.estimate[0] == pytest.approx(x.mean())
    assert ours.low[0] == pytest.approx(theirs.confidence_interval.low, abs=0.04 * spread)
    assert ours.high[0] == pytest.approx(theirs.confidence_interval.high, abs=0.04 * spread)


def test_studentized_by_a_plain_loop() -> None:
    """The bootstrap-t of 8 clusters, one resample at a time from the textbook."""
    rng = np.random.default_rng(3)
    sizes = [1, 2, 3, 5, 2, 4, 6, 2]
    cluster = np.repeat(np.arange(8), sizes)
    x = skewed(25) + rng.normal(size=8)[cluster]

    def mean_and_error(groups: list[np.ndarray]) -> tuple[float, float]:
        n, mean = sum(map(len, groups)), float(np.concatenate(groups).mean())
        residuals = [g.sum() - mean * len(g) for g in groups]
        return mean, float(np.sqrt(sum(r * r for r in residuals) * 8 / 7) / n)

    groups = [x[cluster == c] for c in range(8)]
    mean, error = mean_and_error(groups)
    t = []
    for _ in range(20_000):
        m, e = mean_and_error([groups[c] for c in rng.integers(0, 8, 8)])
        t.append((m - mean) / e if e else 0.0)
    ours = bootstrap(x, ids(25), clusters=cluster, method="studentized", n_resamples=20_000)
    assert ours.n_units[0] == 8
    assert ours.low[0] == pytest.approx(mean - np.quantile(t, 0.975) * error, abs=0.15 * error)
    assert ours.high[0] == pytest.approx(mean - np.quantile(t, 0.025) * error, abs=0.15 * error)


def test_standard_error_of_single_rows_is_the_usual_one() -> None:
    x = skewed(30)[:, None]
    assert standard_error(x, np.ones_like(x))[0] == pytest.approx(stats.sem(x[:, 0]))


def test_columns_share_one_draw_and_do_not_disturb_each_other() -> None:
    x = np.column_stack([skewed(50), skewed(50, 2)])
    both = bootstrap(x, ids(50))
    alone = bootstrap(x[:, 1], ids(50))
    assert (both.low[1], both.high[1]) == pytest.approx((alone.low[0], alone.high[0]), rel=1e-12)
    # A column plus a constant has the interval plus the constant: the very same resamples.
    shifted = bootstrap(np.column_stack([x[:, 0], x[:, 0] + 5]), ids(50))
    assert shifted.low[1] - shifted.low[0] == pytest.approx(5, abs=1e-12)


def test_row_order_does_not_matter_and_ids_and_seed_do() -> None:
    x, names = skewed(60), ids(60)
    turn = np.random.default_rng(0).permutation(60)
    one = bootstrap(x, names)
    other = bootstrap(x[turn], [names[i] for i in turn])
    assert (one.low[0], one.high[0]) == pytest.approx((other.low[0], other.high[0]), rel=1e-12)
    assert bootstrap(x, names, seed=1).low[0] != one.low[0]
    assert bootstrap(x, [*names[:-1], "other"]).low[0] != one.low[0]


def test_undefined_values_are_left_out_of_each_resample() -> None:
    x = skewed(40)
    x[::4] = np.nan
    ours = bootstrap(x, ids(40), n_resamples=4000)
    assert ours.n[0] == ours.n_units[0] == 30
    assert ours.estimate[0] == pytest.approx(np.nanmean(x))
    rng = np.random.default_rng(5)
    means = [np.nanmean(x[rng.integers(0, 40, 40)]) for _ in range(4000)]
    assert ours.low[0] == pytest.approx(np.quantile(means, 0.025), abs=0.02)
    assert ours.high[0] == pytest.approx(np.quantile(means, 0.975), abs=0.02)


def test_columns_without_an_interval() -> None:
    x = np.full((5, 3), np.nan)
    x[0, 1] = 0.5
    x[:, 2] = 0.25
    for method in ("percentile", "bca", "studentized"):
        ours = bootstrap(x, ids(5), method=method)
        assert np.isnan([ours.estimate[0], ours.low[0], ours.high[0], ours.low[1], ours.high[1]]).all()
        assert ours.estimate[1] == 0.5
        assert (ours.low[2], ours.high[2]) == (0.25, 0.25)
        assert ours.n.tolist() == [0, 1, 5]


def test_clusters_of_one_are_queries() -> None:
    x, names = skewed(30), ids(30)
    for method in ("percentile", "bca"):
        one = bootstrap(x, names, method=method, n_resamples=40_000)
        other = bootstrap(x, names, clusters=names, method=method, n_resamples=40_000)
        assert one.low[0] == pytest.approx(other.low[0], abs=0.02)
        assert one.high[0] == pytest.approx(other.high[0], abs=0.02)


def test_whole_clusters_widen_the_interval() -> None:
    x = np.repeat(skewed(10), 10)
    plain = bootstrap(x, ids(100))
    clustered = bootstrap(x, ids(100), clusters=np.repeat(np.arange(10), 10))
    assert clustered.high[0] - clustered.low[0] > 2 * (plain.high[0] - plain.low[0])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=2, max_size=12), st.sampled_from(["percentile", "bca"]))
def test_an_interval_lies_within_the_values(values: list[float], method: str) -> None:
    ours = bootstrap(values, ids(len(values)), method=method, n_resamples=200)
    assert min(values) - 1e-9 <= ours.low[0] <= ours.high[0] <= max(values) + 1e-9


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (7, 12), (10, 10), (150, 300)])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_wilson_against_scipy(k: int, n: int, level: float) -> None:
    theirs = stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert wilson(k, n, level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_by_hand() -> None:
    # z = 1.959964; 0 of 10: high = z^2 / (10 + z^2) = 3.841459 / 13.841459
    assert wilson(0, 10) == pytest.approx((0.0, 0.277533), abs=1e-6)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (7, 19), (13, 7), (25, 7), (20, 20), (3, 3)])
def test_mcnemar_against_scipy_and_statsmodels(first: int, second: int) -> None:
    p = mcnemar(first, second)
    exact = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert p.exact == pytest.approx(exact, abs=1e-12)
    from statsmodels.stats import contingency_tables as contingency

    table = [[5, first], [second, 5]]
    assert p.exact == pytest.approx(contingency.mcnemar(table, exact=True).pvalue, abs=1e-12)
    assert p.mid <= p.exact


def test_mcnemar_by_hand() -> None:
    # 7 against 19: 2 sum_{i<=7} C(26, i) / 2^26 = .029; mid-p: less C(26, 7) / 2^26
    assert mcnemar(7, 19).exact == pytest.approx(0.0290, abs=5e-5)
    assert mcnemar(7, 13).exact == pytest.approx(0.2632, abs=5e-5)
    assert mcnemar(25, 7).exact == pytest.approx(0.0021, abs=5e-5)
    assert mcnemar(7, 19).mid == pytest.approx(0.0290 - 657_800 / 2**26, abs=5e-5)
    assert mcnemar(1, 1).mid == 1.0


def test_paired_difference_by_newcombes_example() -> None:
    """Newcombe (1998), the first example, method 10: the printed interval."""
    assert paired_difference(36, 12, 2, 0) == pytest.approx((0.0569, 0.3404), abs=5e-5)


@settings(max_examples=100, deadline=None)
@given(*[st.integers(0, 40)] * 4)
def test_paired_difference_turns_round(a: int, b: int, c: int, d: int) -> None:
    one, other = paired_difference(a, b, c, d), paired_difference(a, c, b, d)
    assert one.low == pytest.approx(-other.high)
    assert one.high == pytest.approx(-other.low)
    if a + b + c + d:
        assert one.low <= (b - c) / (a + b + c + d) + 1e-12 <= one.high + 2e-12


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_against_statsmodels(p_values: list[float]) -> None:
    from statsmodels.stats import multitest

    theirs = multitest.multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(theirs), abs=1e-12)


def test_clustered_wilson_by_hand() -> None:
    """Four clusters of five with sums 5, 5, 0, 0: residuals +-2.5, variance 4 * 6.25 * 4/3 / 400 = 1/12."""
    values = np.repeat([1.0, 1.0, 0.0, 0.0], 5)
    clusters = np.repeat(np.arange(4), 5)
    # effective size .25 / (1/12) = 3, raised to the number of clusters, 4
    expected = wilson(2, 4, quantile=float(stats.t.ppf(0.975, 3)))
    assert clustered_wilson(values, clusters) == pytest.approx(expected)


def test_clustered_wilson_of_single_rows_is_nearly_wilson() -> None:
    values = (np.arange(200) % 4 == 0).astype(float)
    ours = clustered_wilson(values, np.arange(200))
    assert ours == pytest.approx(wilson(50, 200), abs=0.002)


def test_clustered_wilson_without_variance_counts_clusters() -> None:
    quantile = float(stats.t.ppf(0.975, 9))
    ours = clustered_wilson(np.zeros(100), np.repeat(np.arange(10), 10))
    assert ours == pytest.approx(wilson(0, 10, quantile=quantile))
    ones = clustered_wilson(np.ones(100), np.repeat(np.arange(10), 10))
    assert ones == pytest.approx((1 - ours.high, 1.0))
    assert clustered_wilson(np.ones(3), np.zeros(3, int)) == (0.0, 1.0)


def test_sign_flip_by_hand() -> None:
    """Sums 3, 2, -1: |total| 4; of 8 patterns those with 6, 4, -6 and -4 reach it: p = 4/8."""
    differences = np.array([1.0, 1.0, 1.0, 2.0, -1.0, np.nan])
    assert sign_flip(differences, np.array([0, 0, 0, 1, 2, 2])) == pytest.approx(0.5)
    assert sign_flip(np.zeros(4), np.arange(4)) == 1.0


def test_sign_flip_of_single_pairs_is_mcnemars_exact_test() -> None:
    differences = np.concatenate([np.ones(9), -np.ones(3), np.zeros(8)])
    assert sign_flip(differences, np.arange(20)) == pytest.approx(mcnemar(9, 3).exact)
    many = np.concatenate([np.ones(25), -np.ones(10)])
    drawn = sign_flip(many, np.arange(35))
    assert drawn == pytest.approx(mcnemar(25, 10).exact, abs=0.003)
    assert drawn == sign_flip(many, np.arange(35))


def test_studentized_without_spread_takes_students_quantiles() -> None:
    """One cluster of 23 differs: most resamples miss it and have no spread."""
    x = np.zeros(230)
    x[:3] = 0.5
    clusters = np.repeat(np.arange(23), 10)
    ours = bootstrap(x, ids(230), clusters=clusters, method="studentized")
    error = standard_error(np.bincount(clusters, weights=x)[:, None], np.full((23, 1), 10.0))[0]
    reach = stats.t.ppf(0.975, 22) * error
    assert (ours.low[0], ours.high[0]) == pytest.approx((x.mean() - reach, x.mean() + reach))


def test_unequal_clusters_count_as_fewer() -> None:
    sizes = [55, *[5] * 9]
    clusters = np.repeat(np.arange(10), sizes)
    values = (np.arange(100) % 7 == 0).astype(float)
    equal = np.repeat(np.arange(10), 10)
    low, high = clustered_wilson(values, clusters)
    assert high - low > np.diff(clustered_wilson(values, equal))[0]


def test_a_rate_of_zero_borrows_a_design_effect() -> None:
    clusters = np.repeat(np.arange(10), 10)
    alone, borrowed = (clustered_wilson(np.zeros(100), clusters, effect=e).high for e in (None, 1.0))
    # An intra-cluster correlation of .1 is allowed for: 100 / (1 + 9 * .1) trials.
    size, t = 100 / 1.9, 2.2621571628
    assert borrowed == pytest.approx(t**2 / (size + t**2))
    assert alone == pytest.approx(t**2 / (10 + t**2))


def test_sum_interval_by_hand() -> None:
    """Independent: distances add in squares; perfectly correlated: they add."""
    parts = (Interval(0.1, 0.4), Interval(-0.3, 0.1))
    low, high = sum_interval((0.2, 0.0), parts, 0.0)
    assert (low, high) == pytest.approx((0.2 - math.hypot(0.1, 0.3), 0.2 + math.hypot(0.2, 0.1)))
    assert sum_interval((0.2, 0.0), parts, 1.0) == pytest.approx((-0.2, 0.5))
