"""The paired bootstrap over queries or clusters of queries, as one matrix product.

One draw of resampling weights serves every column, so that each metric and each paired difference of a run
rests on the same resamples (Efron and Tibshirani 1993, An Introduction to the Bootstrap, chapters 12 to 14;
Cameron, Gelbach and Miller 2008 for few clusters).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

N_RESAMPLES = 10_000
LEVEL = 0.95
FEW_UNITS = 50
"""With fewer queries or clusters the studentized interval is the default: others are too short there."""
METHODS = ("percentile", "bca", "studentized")
_ENDLESS = 0.005
_WEIGHT_CELLS = 4_000_000  # 32 MB of weights at a time
_COLUMNS = 512


@dataclass(frozen=True)
class Bootstrap:
    """Intervals of column means.

    Attributes
    ----------
    estimate : float64 array (n_columns,)
        Means over the rows where the column is defined; NaN where it is nowhere.
    low, high : float64 array (n_columns,)
        Ends of the interval; NaN where there are fewer than two units.
    n : int64 array (n_columns,)
        Rows where the column is defined.
    n_units : int64 array (n_columns,)
        Units (rows, or clusters of rows) that hold such rows.
    method : str
        How the interval was made.
    """

    estimate: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]
    n_units: NDArray[np.int64]
    method: str


def bootstrap(
    values: Any,
    ids: Sequence[str],
    *,
    clusters: Sequence[Any] | None = None,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
    method: str = "percentile",
) -> Bootstrap:
    """Intervals of the means of columns, all from one draw of resamples.

    Parameters
    ----------
    values : float array (n_rows, n_columns) or (n_rows,)
        A row per query; NaN where a column is undefined. A column of paired differences gives the interval
        of the paired difference.
    ids : sequence of str
        The id of each row. Together with ``seed`` the sorted ids decide the draw, so that neither the order
        of the rows nor other columns change a result.
    clusters : sequence, optional
        The cluster of each row: clusters are drawn whole, and means are ratios of their sums.
    seed : int
        The config's seed.
    n_resamples : int
        Resamples (B).
    level : float
        Coverage aimed at, such as .95.
    method : {'percentile', 'bca', 'studentized'}
        Quantiles of the resampled means; these corrected for bias and skew; or quantiles of the resampled
        t statistic with its linearised (cluster-robust) standard error.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r} is none of {', '.join(METHODS)}")
    y = np.atleast_2d(np.asarray(values, np.float64).T).T
    if len(y) != len(ids) or (clusters is not None and len(clusters) != len(ids)):
        raise ValueError(f"{len(y)} rows, {len(ids)} ids, {len(clusters or ids)} clusters")
    order = np.argsort(np.asarray(ids, dtype=object), kind="stable")
    y = y[order]
    unit = np.arange(len(y))
    if clusters is not None:
        names = [str(clusters[i]) for i in order]
        unit = np.unique(names, return_inverse=True)[1].reshape(-1)
    drawn = entropy(seed, "bootstrap", [*(str(ids[i]) for i in order), *map(str, unit.tolist())])
    parts = [
        _columns(y[:, i : i + _COLUMNS], unit, drawn, n_resamples, level, method)
        for i in range(0, y.shape[1], _COLUMNS)
    ]
    if not parts:
        empty = np.zeros(0)
        return Bootstrap(empty, empty, empty, np.zeros(0, np.int64), np.zeros(0, np.int64), method)
    fields = [np.concatenate([p[i] for p in parts]) for i in range(5)]
    return Bootstrap(fields[0], fields[1], fields[2], fields[3], fields[4], method)


def entropy(seed: int, what: str, parts: Iterable[str]) -> int:
    """The seed of a draw: the config's seed, what is drawn and for what."""
    text = "\x1f".join([str(seed), what, *parts])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")


def _sums(rows: Floats, unit: NDArray[np.int64]) -> Floats:
    """Sums of the rows of each unit."""
    n_units = int(unit.max()) + 1 if len(unit) else 0
    if n_units == len(unit):
        return rows[np.argsort(unit, kind="stable")]
    out = np.zeros((n_units, rows.shape[1]))
    np.add.at(out, unit, rows)
    return out


def _columns(
    y: Floats, unit: NDArray[np.int64], drawn: int, n_resamples: int, level: float, method: str
) -> tuple[Floats, Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    there = ~np.isnan(y)
    sums = _sums(np.where(there, y, 0.0), unit)
    counts = _sums(there.astype(np.float64), unit)
    total, n = sums.sum(axis=0), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = total / n
    n_units = (counts > 0).sum(axis=0)
    means, errors = _resample(sums, counts, drawn, n_resamples, estimate, method == "studentized")
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    if method == "percentile":
        low, high = _quantiles(means, np.broadcast_to(tails[:, None], (2, means.shape[1])))
    elif method == "bca":
        low, high = _quantiles(means, _bca_tails(means, estimate, sums, counts, tails))
    else:
        low, high = _studentized(means, errors, estimate, sums, counts, tails)
    unknown = n_units < 2
    low, high = np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
    return estimate, low, high, n.astype(np.int64), n_units.astype(np.int64)


def _weights(rng: np.random.Generator, rows: int, n_units: int) -> Floats:
    """How often each unit is drawn, a row per resample."""
    drawn = rng.integers(0, n_units, (rows, n_units))
    drawn += np.arange(rows)[:, None] * n_units
    return np.bincount(drawn.reshape(-1), minlength=rows * n_units).reshape(rows, n_units).astype(np.float64)


def _resample(
    sums: Floats, counts: Floats, drawn: int, n_resamples: int, estimate: Floats, with_errors: bool
) -> tuple[Floats, Floats]:
    """Means (and their standard errors) of each resample: arrays (n_resamples, n_columns)."""
    n_units, n_columns = sums.shape
    rng = np.random.default_rng(drawn)
    means = np.empty((n_resamples, n_columns))
    errors = np.empty((n_resamples, n_columns) if with_errors else (0, n_columns))
    size = max(1, _WEIGHT_CELLS // max(n_units, 1))
    # Most columns are defined everywhere: their denominators are one product.
    patterns, which = np.unique(counts, axis=1, return_inverse=True)
    which = which.reshape(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        for start in range(0, n_resamples, size):
            stop = min(n_resamples, start + size)
            w = _weights(rng, stop - start, n_units)
            n = (w @ patterns)[:, which]
            np.divide(w @ sums, n, out=means[start:stop])
            if with_errors:
                t = means[start:stop]
                squares = w @ sums**2 - 2 * t * (w @ (sums * counts)) + t**2 * (w @ counts**2)
                units = (w @ (patterns > 0))[:, which]
                correction = units / (units - 1)
                errors[start:stop] = np.sqrt(np.maximum(squares, 0) * correction) / n
    return means, errors


def _quantiles(samples: Floats, tails: Floats) -> tuple[Floats, Floats]:
    """Linear-interpolated quantiles of each column at its own two tails; undefined resamples are left out."""
    ordered = np.sort(samples, axis=0)  # NaN goes last
    known = len(samples) - np.isnan(samples).sum(axis=0)
    out = []
    for tail in tails:
        at = np.where(np.isnan(tail), 0, tail) * np.maximum(known - 1, 0)
        below = np.floor(at).astype(np.int64)
        above = np.minimum(below + 1, np.maximum(known - 1, 0))
        column = np.arange(samples.shape[1])
        low, high = ordered[below, column], ordered[above, column]
        out.append(np.where(np.isnan(tail), np.nan, low + (at - below) * (high - low)))
    return out[0], out[1]


def _bca_tails(means: Floats, estimate: Floats, sums: Floats, counts: Floats, tails: Floats) -> Floats:
    """Where the bias-corrected and accelerated interval cuts (Efron 1987)."""
    from scipy.special import ndtr, ndtri

    known = np.maximum((~np.isnan(means)).sum(axis=0), 1)
    below = ((means < estimate).sum(axis=0) + 0.5 * (means == estimate).sum(axis=0)) / known
    total, n = sums.sum(axis=0), counts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        z0 = ndtri(below)
        jackknife = (total - sums) / (n - counts)
        used = counts > 0
        middle = np.where(used, jackknife, 0).sum(axis=0) / used.sum(axis=0)
        away = np.nan_to_num(np.where(used, middle - jackknife, 0))
        acceleration = (away**3).sum(axis=0) / (6 * ((away**2).sum(axis=0)) ** 1.5)
        acceleration = np.nan_to_num(acceleration)
        z = z0 + ndtri(tails)[:, None]
        cuts = ndtr(z0 + z / (1 - acceleration * z))
    # A constant column has no bias and no spread to correct.
    return np.where(np.isfinite(z0), cuts, tails[:, None])


def _studentized(
    means: Floats, errors: Floats, estimate: Floats, sums: Floats, counts: Floats, tails: Floats
) -> tuple[Floats, Floats]:
    """The bootstrap-t interval: the estimate less quantiles of t times its standard error.

    Where more than half a percent of the resamples have no spread (few units, nearly constant columns) their
    t is without bound; there Student's quantiles take the place of the resampled ones.
    """
    from scipy.stats import t as student

    error = standard_error(sums, counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = (means - estimate) / errors
    # A resample of one unit (or equal ones) has no spread; where it also has no shift, t is 0.
    t = np.where((errors == 0) & (means == estimate), 0.0, t)
    endless = np.isinf(t)
    t = np.where(endless, np.copysign(1e100, t), t)
    low_t, high_t = _quantiles(t, np.broadcast_to(tails[:, None], (2, means.shape[1])))
    with np.errstate(invalid="ignore"):
        plain = student.ppf(tails[1], np.maximum((counts > 0).sum(axis=0) - 1, 1))
    few = endless.mean(axis=0) > _ENDLESS
    low_t, high_t = np.where(few, -plain, low_t), np.where(few, plain, high_t)
    return estimate - high_t * error, estimate - low_t * error


def standard_error(sums: Floats, counts: Floats) -> Floats:
    """The linearised standard error of a ratio of sums over units, with the factor G / (G - 1).

    Parameters
    ----------
    sums, counts : float64 array (n_units, n_columns)
        Sum of values and number of rows of each unit.
    """
    n = counts.sum(axis=0)
    units = (counts > 0).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        residual = sums - sums.sum(axis=0) / n * counts
        return np.sqrt((residual**2).sum(axis=0) * units / (units - 1)) / n
