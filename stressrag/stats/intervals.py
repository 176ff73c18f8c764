"""Which interval for which column: the choices that ``benchmarks/coverage.py`` supports.

* A rate has Wilson's score interval, a difference of two paired rates Newcombe's: the bootstrap collapses
  where nothing (or everything) happened. With clusters both take the effective sample size; a rate of 0 or 1,
  whose clusters show no variance, takes the largest design effect of the rates estimated with it, or that of
  an intra-cluster correlation of .1.
* Any other mean has the bias-corrected and accelerated bootstrap interval. With clusters, whole clusters are
  drawn.
* Below :data:`~stressrag.stats.bootstrap.FEW_UNITS` queries or clusters it is the studentized interval, since
  the others cover too seldom there.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stressrag.stats.bootstrap import FEW_UNITS, LEVEL, N_RESAMPLES, Floats, bootstrap
from stressrag.stats.proportions import (
    Interval,
    clustered_wilson,
    design_effect,
    paired_difference,
    wilson,
)

_ENDLESS = 1e100  # a studentized end where resamples without spread abound


class Estimate(NamedTuple):
    """A mean with its interval.

    Attributes
    ----------
    value : float
        The mean over the rows where it is defined.
    low, high : float or None
        The interval; ``None`` where fewer than two units are defined, or where it has no end.
    n : int
        Rows where it is defined.
    method : str
        wilson, newcombe (``-clustered`` where there are clusters), bca, studentized or, without an interval,
        none.
    """

    value: float
    low: float | None
    high: float | None
    n: int
    method: str


class Difference(NamedTuple):
    """Two columns over the same rows, the second to be taken from the first."""

    first: Floats
    second: Floats


def estimates(
    columns: Mapping[Any, Floats | Difference],
    ids: Sequence[str],
    *,
    clusters: Sequence[Any] | None = None,
    bounds: Mapping[Any, tuple[float, float]] | None = None,
    rates: Container[Any] | None = None,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> dict[Any, Estimate]:
    """Means of columns and of differences of columns, each with the interval that suits it.

    Parameters
    ----------
    columns : mapping
        Arrays (n_rows,) with NaN where undefined, or differences of two such.
    ids : sequence of str
        The query of each row.
    clusters : sequence, optional
        The cluster of each row.
    bounds : mapping, optional
        What a column's mean cannot leave; the interval is cut there.
    rates : container, optional
        Names of columns that may count as rates; by default all that hold only 0 and 1.
    seed, n_resamples, level
        As in :func:`~stressrag.stats.bootstrap.bootstrap`.

    Returns
    -------
    dict
        By column name; columns that are nowhere defined are left out.
    """
    numbers = None if clusters is None else np.unique(list(map(str, clusters)), return_inverse=True)[1]
    effect = None if numbers is None else _largest_effect(columns.values(), numbers.reshape(-1))
    suffix = "" if numbers is None else "-clustered"

    def of(there: np.ndarray) -> np.ndarray | None:
        return None if numbers is None else numbers.reshape(-1)[there]

    out: dict[Any, Estimate] = {}
    resampled: dict[Any, Floats] = {}
    for name, column in columns.items():
        if isinstance(column, Difference):
            values = column.first - column.second
            is_rate = _binary(column.first) and _binary(column.second)
        else:
            values, is_rate = column, _binary(column)
        is_rate = is_rate and (rates is None or name in rates)
        there = ~np.isnan(values)
        n = int(there.sum())
        if not n:
            continue
        if not is_rate:
            resampled[name] = values
        elif isinstance(column, Difference):
            low, high = _of_paired(
                column.first[there] == 1, column.second[there] == 1, level, of(there), effect
            )
            out[name] = Estimate(float(values[there].mean()), low, high, n, "newcombe" + suffix)
        else:
            low, high = _of_rate(values[there], level, of(there), effect)
            out[name] = Estimate(float(values[there].mean()), low, high, n, "wilson" + suffix)
    if resampled:
        few = len(set(map(str, ids if clusters is None else clusters))) < FEW_UNITS
        method = "studentized" if few else "bca"
        made = bootstrap(
            np.column_stack(list(resampled.values())),
            ids,
            clusters=clusters,
            seed=seed,
            n_resamples=n_resamples,
            level=level,
            method=method,
        )
        for i, name in enumerate(resampled):
            least, most = (bounds or {}).get(name, (-np.inf, np.inf))
            raw = made.low[i], made.high[i]
            known = not np.isnan(raw[0]) and max(map(abs, raw)) < _ENDLESS
            ends = max(least, raw[0]), min(most, raw[1])
            out[name] = Estimate(
                float(made.estimate[i]),
                float(ends[0]) if known else None,
                float(ends[1]) if known else None,
                int(made.n[i]),
                method if known else "none",
            )
    return {name: out[name] for name in columns if name in out}


def _largest_effect(columns: Iterable[Floats | Difference], clusters: np.ndarray) -> float | None:
    """The largest design effect of the rates at hand, for those that are 0 or 1 throughout and show none."""
    found = []
    for column in columns:
        for values in column if isinstance(column, Difference) else (column,):
            there = ~np.isnan(values)
            if _binary(values) and 0 < values[there].sum() < there.sum():
                found.append(design_effect(values[there], clusters[there]))
    return max((f for f in found if f is not None), default=None)


def _of_rate(
    values: Floats, level: float, clusters: np.ndarray | None, effect: float | None = None
) -> Interval:
    if clusters is None:
        return wilson(int(values.sum()), len(values), level)
    return clustered_wilson(values, clusters, level, effect)


def _of_paired(
    one: np.ndarray, two: np.ndarray, level: float, clusters: np.ndarray | None, effect: float | None
) -> Interval:
    both, first, second = (int(x.sum()) for x in (one & two, one & ~two, ~one & two))
    rates = None
    if clusters is not None:
        rates = (
            clustered_wilson(one.astype(float), clusters, level, effect),
            clustered_wilson(two.astype(float), clusters, level, effect),
        )
    return paired_difference(both, first, second, len(one) - both - first - second, level, rates)


def _binary(column: Floats) -> bool:
    """Whether a column holds only 0 and 1 (and undefined places)."""
    return bool(((column == 0) | (column == 1) | np.isnan(column)).all())
