"""Which interval for which column: the choices that ``benchmarks/coverage.py`` supports.

* A rate over single queries has Wilson's score interval, a difference of two paired rates Newcombe's: the
  bootstrap collapses where nothing (or everything) happened.
* Any other mean has the bias-corrected and accelerated bootstrap interval. With clusters, whole clusters are
  drawn.
* Below :data:`~stressrag.stats.bootstrap.FEW_UNITS` queries or clusters it is the studentized interval, since
  the others cover too seldom there.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from stressrag.stats.bootstrap import FEW_UNITS, LEVEL, N_RESAMPLES, Floats, bootstrap
from stressrag.stats.proportions import paired_difference, wilson

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
        wilson, newcombe, bca, studentized or, without an interval, none.
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
    out: dict[Any, Estimate] = {}
    resampled: dict[Any, Floats] = {}
    for name, column in columns.items():
        if isinstance(column, Difference):
            values = column.first - column.second
            is_rate = _binary(column.first) and _binary(column.second)
        else:
            values, is_rate = column, _binary(column)
        is_rate = is_rate and clusters is None and (rates is None or name in rates)
        there = ~np.isnan(values)
        n = int(there.sum())
        if not n:
            continue
        if not is_rate:
            resampled[name] = values
        elif isinstance(column, Difference):
            one, two = column.first[there] == 1, column.second[there] == 1
            both, first, second = (int(x.sum()) for x in (one & two, one & ~two, ~one & two))
            low, high = paired_difference(both, first, second, n - both - first - second, level)
            out[name] = Estimate(float(values[there].mean()), low, high, n, "newcombe")
        else:
            successes = int(values[there].sum())
            low, high = wilson(successes, n, level)
            out[name] = Estimate(successes / n, low, high, n, "wilson")
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
            ends = max(least, made.low[i]), min(most, made.high[i])
            known = not np.isnan(made.low[i]) and max(map(abs, ends)) < _ENDLESS
            out[name] = Estimate(
                float(made.estimate[i]),
                float(ends[0]) if known else None,
                float(ends[1]) if known else None,
                int(made.n[i]),
                method if known else "none",
            )
    return {name: out[name] for name in columns if name in out}


def _binary(column: Floats) -> bool:
    """Whether a column holds only 0 and 1 (and undefined places)."""
    return bool(((column == 0) | (column == 1) | np.isnan(column)).all())
