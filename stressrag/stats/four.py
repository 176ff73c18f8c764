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
from stressrag.stats.proportions import mcnemar, sign_flip

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
    made = estimates(
        columns, ids, clusters=clusters, bounds=bounds, seed=seed, n_resamples=n_resamples, level=level
    )
    out: dict[Any, dict[str, Estimate]] = {name: {} for name in events}
    for (name, measure), estimate in made.items():
        out[name][measure] = estimate
    return out
