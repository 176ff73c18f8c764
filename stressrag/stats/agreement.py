"""Agreement of two labelers: observed, and Cohen's kappa with an interval that holds for small samples.

The interval of kappa is Wilson's for the observed agreement, with the effective sample size that the
linearized variance of kappa implies (that of Fleiss, Cohen and Everitt 1969, Psychological Bulletin 72, for
independent items of equal weight) and a t quantile, carried over to kappa by the expected agreement. Audits
have 20 to 100 items, often few of a kind and all but perfect agreement. There the large-sample interval and
the percentile bootstrap shrink to a point whenever nobody disagrees: with 20 items of which a tenth are
positive their 95% intervals held the true kappa of .80 in 43% of 1,000 simulated audits, this one in 94%. In
40 settings (20 to 400 items, kappa 0 to .8, margins alike or not, 3,000 audits each) it covered 94 to 100%.
The effective size is at most twice the items: without that bound coverage fell to 76% where positives are
rare and margins differ. ``tests/test_agreement.py`` repeats a part.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np

from stressrag.stats.bootstrap import LEVEL, Floats, standard_error
from stressrag.stats.intervals import Estimate
from stressrag.stats.proportions import Interval, wilson

MODES = ("overall", "decisive", "nominal")
_DECIDED = ("yes", "no")
_NOTHING = 1e-12  # a variance or a difference that is rounding


@dataclass(frozen=True)
class Agreement:
    """How far two labelers agree.

    Attributes
    ----------
    mode : {"overall", "decisive", "nominal"}
        See :func:`agreement`.
    n : int
        Items compared.
    agreed : int
        Items that count as agreement.
    first_only, second_only : int
        The two directions of error: yes against no, and no against yes.
    undecided : int
        Disagreements in which a side says neither yes nor no.
    observed, expected : float or None
        Share of agreement, and what chance would give with the same margins; ``None`` without items.
    first_only_share, second_only_share : float or None
        The directions of error as shares of the items, weighted like ``observed``.
    kappa : float or None
        ``(observed - expected) / (1 - expected)``; ``None`` where ``expected`` is 1.
    low, high : float or None
        Its interval; ``None`` without kappa or with fewer than two items or clusters.
    weighted : bool
        Whether items had weights; the counts never have.
    """

    mode: str
    n: int
    agreed: int
    first_only: int
    second_only: int
    undecided: int
    observed: float | None
    expected: float | None
    first_only_share: float | None
    second_only_share: float | None
    kappa: float | None
    low: float | None
    high: float | None
    weighted: bool

    def row(self) -> dict[str, Any]:
        """The attributes as JSON holds them."""
        return asdict(self)


def agreement(
    first: Sequence[str | None],
    second: Sequence[str | None],
    *,
    mode: str = "overall",
    weights: Sequence[float] | None = None,
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Agreement:
    """Agreement of two labelers on the items that both labeled.

    Parameters
    ----------
    first, second : sequence of str or None, (n_items,)
        ``yes``, ``no`` or another word; ``None``: not labeled, so not compared.
    mode : {"overall", "decisive", "nominal"}
        ``overall``: only yes and yes, or no and no, are agreement, so that an ``uncertain`` of either side
        (even of both) is a disagreement. ``decisive``: only items on which both say yes or no. ``nominal``:
        each word is a category, as in plain kappa.
    weights : sequence of float, optional
        Positive, such as sampling weights back to the population.
    clusters : sequence, optional
        Items of one cluster are not independent; the interval takes whole clusters as units.
    level : float
        Coverage aimed at.

    Raises
    ------
    ValueError
        For another mode, sides of different lengths or weights that are not positive.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is none of {', '.join(MODES)}")
    extras = [x for x in (weights, clusters) if x is not None]
    if len({len(first), len(second), *map(len, extras)}) > 1:
        raise ValueError("labels, weights and clusters differ in length")
    if weights is not None and not all(w > 0 and math.isfinite(w) for w in weights):
        raise ValueError("weights must be positive")
    kept = [
        i
        for i, (a, b) in enumerate(zip(first, second, strict=True))
        if a is not None and b is not None and (mode != "decisive" or (a in _DECIDED and b in _DECIDED))
    ]
    one, two = [str(first[i]) for i in kept], [str(second[i]) for i in kept]
    w = np.array([1.0 if weights is None else weights[i] for i in kept])
    unit = np.arange(len(kept))
    if clusters is not None and kept:
        numbers: dict[Hashable, int] = {}
        unit = np.array([numbers.setdefault(clusters[i], len(numbers)) for i in kept])
    return _measured(one, two, mode, w, unit, weights is not None, level)


def _measured(
    one: list[str], two: list[str], mode: str, w: Floats, unit: np.ndarray, weighted: bool, level: float
) -> Agreement:
    names = sorted({*one, *two})
    agreeing = np.diag([1.0 if mode == "nominal" or name in _DECIDED else 0.0 for name in names])
    at = {name: i for i, name in enumerate(names)}
    a, b = np.array([at[x] for x in one], int), np.array([at[x] for x in two], int)
    pairs = list(zip(one, two, strict=True))
    agreed = int(sum(agreeing[i, j] for i, j in zip(a, b, strict=True)))
    over, under = pairs.count(("yes", "no")), pairs.count(("no", "yes"))
    counts = (mode, len(one), agreed, over, under, len(one) - agreed - over - under)
    if not one:
        return Agreement(*counts, None, None, None, None, None, None, None, weighted)
    share = w / w.sum()
    margins = [np.bincount(side, weights=share, minlength=len(names)) for side in (a, b)]
    same = agreeing[a, b]
    # Sums of shares may miss 1 by rounding; perfect agreement is exact.
    observed = 1.0 if agreed == len(one) else float(share @ same)
    expected = float(margins[0] @ agreeing @ margins[1])
    shares = [float(share @ np.array([p == way for p in pairs])) for way in (("yes", "no"), ("no", "yes"))]
    kappa, ends = None, None
    if 1 - expected > _NOTHING:
        kappa = (observed - expected) / (1 - expected)
        # How chance agreement moves with one item's two labels.
        chance = (agreeing @ margins[1])[a] + (margins[0] @ agreeing)[b] - 2 * expected
        influence = (same - observed) - (1 - kappa) * chance
        ends = _interval(observed, influence, w, unit, level, most=2.0)
    # Chance agreement is held fixed, so the lower end can pass what kappa can be.
    low, high = (max(-1.0, (x - expected) / (1 - expected)) for x in ends) if ends else (None, None)
    return Agreement(*counts, observed, expected, shares[0], shares[1], kappa, low, high, weighted)


def _interval(
    rate: float, influence: Floats, w: Floats, unit: np.ndarray, level: float, most: float = 1.0
) -> Interval | None:
    """Wilson's interval of a weighted rate with the effective size that the influences of the items imply.

    The size is at most ``most`` times the items, and Kish's over units where nothing varies.
    """
    from scipy.stats import t

    units = int(unit.max()) + 1
    if units < 2:
        return None
    sums = np.bincount(unit, weights=w * influence).astype(np.float64)[:, None]
    totals = np.bincount(unit, weights=w).astype(np.float64)[:, None]
    variance = float(standard_error(sums, totals)[0]) ** 2
    if variance > _NOTHING:
        size = min(max(rate * (1 - rate) / variance, 2.0), most * len(w))
    else:
        size = float(totals.sum() ** 2 / (totals**2).sum())
    successes = size if rate >= 1 - _NOTHING else 0.0 if rate <= _NOTHING else rate * size
    return wilson(successes, size, level, float(t.ppf((1 + level) / 2, units - 1)))


def weighted_rate(
    values: Sequence[bool],
    weights: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> Estimate | None:
    """The Hájek estimate of a population's rate from a sample with unequal chances.

    The weighted mean, with Wilson's interval for the effective sample size of its linearized variance (Korn
    and Graubard 1998, Survey Methodology 24). Drawing without replacement and from strata is not credited, so
    the interval is on the wide side where much of a population was drawn.

    Parameters
    ----------
    values : sequence of bool, (n_items,)
        Whether it happened.
    weights : sequence of float
        One over the chance of each item to be drawn.
    clusters : sequence, optional
        The cluster of each item.
    level : float
        Coverage aimed at.

    Returns
    -------
    Estimate or None
        ``None`` without items.
    """
    if not len(values):
        return None
    y, w = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    unit = np.arange(len(y))
    if clusters is not None:
        numbers: dict[Hashable, int] = {}
        unit = np.array([numbers.setdefault(c, len(numbers)) for c in clusters])
    rate = float(w @ y / w.sum())
    ends = _interval(rate, y - rate, w, unit, level)
    low, high = ends or (None, None)
    return Estimate(rate, low, high, len(y), "wilson-weighted" if ends else "none")


def pairwise(
    labels: Mapping[str, Mapping[Any, str | None]],
    *,
    mode: str = "overall",
    weights: Mapping[Any, float] | None = None,
    clusters: Mapping[Any, Hashable] | None = None,
    level: float = LEVEL,
) -> dict[tuple[str, str], Agreement]:
    """Agreement of each two of several labelers, each pair on the items that both labeled.

    Parameters
    ----------
    labels : mapping
        Labeler to {item: label}.
    mode, level
        As in :func:`agreement`.
    weights, clusters : mapping, optional
        By item.
    """
    out = {}
    for a, b in combinations(labels, 2):
        items = [i for i in labels[a] if i in labels[b]]
        out[a, b] = agreement(
            [labels[a][i] for i in items],
            [labels[b][i] for i in items],
            mode=mode,
            weights=None if weights is None else [weights[i] for i in items],
            clusters=None if clusters is None else [clusters[i] for i in items],
            level=level,
        )
    return out
