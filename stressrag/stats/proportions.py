"""Rates: intervals, and exact tests of paired ones."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stressrag.stats.bootstrap import LEVEL, Floats, entropy, standard_error

Ints = NDArray[np.int64]
_ENUMERATED = 16  # clusters up to which every pattern of signs is looked at
_DRAWN = 20_000
_LIKELY = 0.1  # intra-cluster correlation allowed for where it cannot be seen


class Interval(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


def wilson(successes: float, n: float, level: float = LEVEL, quantile: float | None = None) -> Interval:
    """The score interval of a rate (Wilson 1927), sound near 0 and 1 where the bootstrap collapses.

    Parameters
    ----------
    successes, n : number
        Of ``n`` trials so many succeeded; with no trials the interval is (0, 1).
    level : float
        Coverage aimed at.
    quantile : float, optional
        In the place of the normal one.
    """
    if n == 0:
        return Interval(0.0, 1.0)
    z = _normal_quantile(level) if quantile is None else quantile
    rate = successes / n
    middle = rate + z * z / (2 * n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    low = 0.0 if successes == 0 else max(0.0, (middle - half) / scale)
    high = 1.0 if successes == n else min(1.0, (middle + half) / scale)
    return Interval(low, high)


def design_effect(values: Floats, clusters: Ints) -> float | None:
    """How many times the variance of independent trials a rate over clusters has.

    Parameters
    ----------
    values : float64 array (n,)
        0 and 1.
    clusters : int64 array (n,)
        The cluster of each.

    Returns
    -------
    float or None
        At least 1 and at most the rows per cluster; ``None`` where it cannot be told: a rate of 0 or 1, one
        cluster, or no variance between clusters.
    """
    which = np.unique(clusters, return_inverse=True)[1].reshape(-1)
    n_clusters, rate = int(which.max()) + 1, float(values.mean())
    if n_clusters < 2 or not 0 < rate < 1:
        return None
    sums = np.bincount(which, weights=values).astype(np.float64)[:, None]
    counts = np.bincount(which).astype(np.float64)[:, None]
    variance = float(standard_error(sums, counts)[0]) ** 2
    if variance <= 0:
        return None
    size = rate * (1 - rate) / variance
    return len(values) / min(max(size, n_clusters), len(values))


def clustered_wilson(
    values: Floats, clusters: Ints, level: float = LEVEL, effect: float | None = None
) -> Interval:
    """Wilson's interval of a rate over clusters, with the effective sample size and a t quantile.

    The effective size is the number of independent trials that would give the cluster-robust variance
    (Korn and Graubard 1998; Dean and Pagano 2015), between the number of clusters and of rows; unequal
    clusters count as fewer.

    Parameters
    ----------
    values : float64 array (n,)
        0 and 1.
    clusters : int64 array (n,)
        The cluster of each.
    level : float
        Coverage aimed at.
    effect : float, optional
        The design effect to take where the values show none, as of a rate of 0 or 1, or that of an
        intra-cluster correlation of .1 where it is larger; by default the largest possible, so that only the
        clusters count.
    """
    from scipy.stats import t

    counts = np.unique(clusters, return_counts=True)[1]
    if len(counts) < 2:
        return Interval(0.0, 1.0)
    # Unequal clusters count as fewer equal ones (Kish 1965).
    n_clusters = float(counts.sum() ** 2 / (counts**2).sum())
    own = design_effect(values, clusters)
    taken = own if own is not None else effect
    if own is None and effect is not None:
        taken = max(effect, 1 + (len(values) / n_clusters - 1) * _LIKELY)
    size = n_clusters if taken is None else max(n_clusters, len(values) / taken)
    rate = float(values.mean())
    quantile = float(t.ppf((1 + level) / 2, max(n_clusters - 1, 1.0)))
    return wilson(size if rate == 1 else rate * size, size, level, quantile)


def paired_difference(
    both: int,
    first: int,
    second: int,
    neither: int,
    level: float = LEVEL,
    intervals: tuple[Interval, Interval] | None = None,
) -> Interval:
    """The interval of the difference of two paired rates (Newcombe 1998, Statistics in Medicine, method 10).

    Parameters
    ----------
    both, first, second, neither : int
        Pairs in which both, only the first, only the second or none succeeded; the difference is that of
        the first's rate less the second's.
    level : float
        Coverage aimed at.
    intervals : pair of Interval, optional
        Of the two rates, in the place of Wilson's: those of clustered rates, say.
    """
    n = both + first + second + neither
    if n == 0:
        return Interval(-1.0, 1.0)
    p1, p2 = (both + first) / n, (both + second) / n
    one, two = intervals or (wilson(both + first, n, level), wilson(both + second, n, level))
    product = (both + first) * (second + neither) * (both + second) * (first + neither)
    phi = 0.0
    if product:
        cross = float(both * neither - first * second)
        # Newcombe's continuity correction, for positive association only.
        cross = max(cross - n / 2, 0) if cross > 0 else cross
        phi = cross / math.sqrt(product)

    def distance(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a - 2 * phi * a * b + b * b))

    d = p1 - p2
    low = d - distance(p1 - one.low, two.high - p2)
    high = d + distance(p2 - two.low, one.high - p1)
    return Interval(max(-1.0, low), min(1.0, high))


def sum_interval(
    values: tuple[float, float], intervals: tuple[Interval, Interval], correlation: float
) -> Interval:
    """The interval of a sum of two estimates from the intervals of both (MOVER; Zou and Donner 2008).

    Parameters
    ----------
    values : pair of float
        The estimates.
    intervals : pair of Interval
        Theirs.
    correlation : float
        Of the two estimates.
    """
    (x, y), (one, two) = values, intervals

    def distance(a: float, b: float) -> float:
        return math.sqrt(max(0.0, a * a + b * b + 2 * correlation * a * b))

    return Interval(x + y - distance(x - one.low, y - two.low), x + y + distance(one.high - x, two.high - y))


class McNemar(NamedTuple):
    """Two-sided p-values of a paired comparison of two rates."""

    exact: float
    mid: float


def mcnemar(first: int, second: int) -> McNemar:
    """McNemar's test on the pairs that differ.

    Parameters
    ----------
    first, second : int
        Pairs in which only the first, only the second succeeded.

    Returns
    -------
    McNemar
        ``exact``: twice the binomial tail, at most 1; ``mid``: less half the probability of the very
        outcome, twice (Fagerland, Lydersen and Laake 2013), which is less conservative.
    """
    from scipy.stats import binom

    n, k = first + second, min(first, second)
    if n == 0:
        return McNemar(1.0, 1.0)
    tail = float(binom.cdf(k, n, 0.5))
    exact = min(1.0, 2 * tail)
    mid = 1.0 if first == second else min(1.0, 2 * tail - float(binom.pmf(k, n, 0.5)))
    return McNemar(exact, mid)


def sign_flip(differences: Floats, clusters: Ints, seed: int = 0) -> float:
    """Two-sided p-value of a paired difference when whole clusters may swap their two sides.

    Under the null hypothesis each cluster's sum of differences is as likely as its negative. All patterns
    of signs are looked at up to 16 clusters, else 20,000 drawn ones, the observed pattern counted among them.

    Parameters
    ----------
    differences : float64 array (n,)
        One side less the other; NaN is left out.
    clusters : int64 array (n,)
        The cluster of each row.
    seed : int
        Of the drawn patterns.
    """
    known = ~np.isnan(differences)
    which = np.unique(clusters[known], return_inverse=True)[1].reshape(-1)
    sums = np.bincount(which, weights=differences[known]) if known.any() else np.zeros(0)
    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    observed = abs(sums.sum()) - 1e-12
    if len(sums) <= _ENUMERATED:
        patterns = np.arange(2 ** len(sums))[:, None] >> np.arange(len(sums)) & 1
        return float(np.mean(np.abs((2 * patterns - 1) @ sums) >= observed))
    rng = np.random.default_rng(entropy(seed, "sign flip", map(repr, sums.tolist())))
    signs = 2 * rng.integers(0, 2, (_DRAWN, len(sums))) - 1
    return float((1 + np.sum(np.abs(signs @ sums) >= observed)) / (1 + _DRAWN))


def holm(p_values: list[float]) -> list[float]:
    """Holm's step-down correction over one declared family (Holm 1979), in the order given.

    Parameters
    ----------
    p_values : list of float
        The family's p-values.
    """
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    out, running = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[i]))
        out[i] = running
    return out


def _normal_quantile(level: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + level) / 2)
