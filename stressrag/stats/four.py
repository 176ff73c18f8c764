"""Four matched conditions: what a defense prevented, what it introduced, and what it did to clean traffic.

The measures are those of the aligned RAG evaluation paper; they hold for any event, be it a target that a
model asserts or a poison document in the top k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.stats.bootstrap import LEVEL, N_RESAMPLES, Floats
from stressrag.stats.intervals import Difference, Estimate, estimates
from stressrag.stats.proportions import Interval, mcnemar, sign_flip, sum_interval

MEASURES = ("r_c0", "r_p0", "r_c1", "r_p1", "P", "J", "N", "H", "Gamma")


def four_conditions(
    clean: Floats,
    poisoned: Floats,
    clean_defended: Floats,
    poisoned_defended: Floats,
) -> dict[str, Floats | Difference]:
    """The columns whose means are the measures, one row per query.

    Parameters
    ----------
    clean, poisoned, clean_defended, poisoned_defended : float64 array (n,)
        Whether the bad event happened, 0 or 1 (NaN where unknown), on the same queries.

    Returns
    -------
    dict
        ``r_c0``, ``r_p0``, ``r_c1``, ``r_p1``: the four rates; ``P``: prevented (poisoned, only without the
        defense); ``J``: introduced (poisoned, only with it); ``N`` = P - J: net prevention; ``H``: rate on
        clean traffic with the defense less that without; ``Gamma`` = N + H: the contrast.
    """
    c0, p0, c1, p1 = clean, poisoned, clean_defended, poisoned_defended
    known = ~np.isnan(c0 + p0 + c1 + p1)
    c0, p0, c1, p1 = (np.where(known, x, np.nan) for x in (c0, p0, c1, p1))
    return {
        "r_c0": c0,
        "r_p0": p0,
        "r_c1": c1,
        "r_p1": p1,
        "P": p0 * (1 - p1),
        "J": (1 - p0) * p1,
        "N": Difference(p0, p1),
        "H": Difference(c1, c0),
        "Gamma": Difference(p0 + c1, p1 + c0),
    }


def paired_p(
    before: Floats, after: Floats, clusters: Sequence[Any] | None = None, seed: int = 0
) -> dict[str, Any]:
    """P-values of two paired 0/1 columns; pairs with an unknown side are left out.

    Without clusters ``p`` and ``p_mid`` are McNemar's; with clusters ``p`` is that of flipping the sides of
    whole clusters, and ``test`` says which.
    """
    if clusters is not None:
        numbers = np.unique(list(map(str, clusters)), return_inverse=True)[1].reshape(-1)
        return {"p": sign_flip(before - after, numbers, seed), "test": "sign flip over groups"}
    p = mcnemar(int(np.nansum(before * (1 - after))), int(np.nansum((1 - before) * after)))
    return {"p": p.exact, "p_mid": p.mid, "test": "McNemar"}


def four_estimates(
    events: Mapping[Any, tuple[Floats, Floats, Floats, Floats]],
    ids: Sequence[str],
    *,
    clusters: Sequence[Any] | None = None,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> dict[Any, dict[str, Estimate]]:
    """All measures of some events with their intervals, from one draw.

    Parameters
    ----------
    events : mapping
        By name, the arguments of :func:`four_conditions`.
    ids, clusters, seed, n_resamples, level
        As in :func:`~stressrag.stats.intervals.estimates`.
    """
    columns = {
        (name, measure): column
        for name, four in events.items()
        for measure, column in four_conditions(*four).items()
    }
    rates = {"r_c0", "r_p0", "r_c1", "r_p1", "P", "J"}
    bounds = {
        name: (0.0, 1.0) if name[1] in rates else (-2.0, 2.0) if name[1] == "Gamma" else (-1.0, 1.0)
        for name in columns
    }
    plain = {key: column for key, column in columns.items() if key[1] != "Gamma"}
    made = estimates(
        plain, ids, clusters=clusters, bounds=bounds, seed=seed, n_resamples=n_resamples, level=level
    )
    out: dict[Any, dict[str, Estimate]] = {name: {} for name in events}
    for name, measure in columns:
        if measure != "Gamma":
            if (name, measure) in made:
                out[name][measure] = made[name, measure]
        elif (name, "N") in made and (name, "H") in made:
            parts = columns[name, "N"], columns[name, "H"]
            out[name][measure] = contrast(made[name, "N"], made[name, "H"], parts, clusters)
    return out


def contrast(
    net: Estimate,
    clean: Estimate,
    columns: tuple[Floats | Difference, Floats | Difference],
    clusters: Sequence[Any] | None,
) -> Estimate:
    """Gamma, the sum of N and H, with the interval that theirs give.

    Gamma takes whole values from -2 to 2 and is no rate; the bootstrap covers it badly near its limits.

    Parameters
    ----------
    net, clean : Estimate
        Of N and H, over the same rows.
    columns : pair
        What they are the means of.
    clusters : sequence, optional
        The cluster of each row; their correlation is then that of cluster sums.
    """
    value = net.value + clean.value
    ends = (net.low, net.high, clean.low, clean.high)
    if any(e is None for e in ends):
        return Estimate(value, None, None, net.n, "none")
    first, second = (c.first - c.second if isinstance(c, Difference) else c for c in columns)
    there = ~np.isnan(first + second)
    first, second = first[there], second[there]
    if clusters is not None:
        which = np.unique([str(c) for c in clusters], return_inverse=True)[1].reshape(-1)[there]
        first, second = (np.bincount(which, weights=x).astype(np.float64) for x in (first, second))
    correlation = 0.0
    if first.std() > 0 and second.std() > 0:
        correlation = float(np.corrcoef(first, second)[0, 1])
    low1, high1, low2, high2 = (float(e) for e in ends if e is not None)
    made = sum_interval((net.value, clean.value), (Interval(low1, high1), Interval(low2, high2)), correlation)
    suffix = "" if clusters is None else "-clustered"
    return Estimate(value, max(-2.0, made.low), min(2.0, made.high), net.n, "mover" + suffix)
