"""The area under the ROC curve, with an interval that is sound with ties, clusters and perfect separation."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stressrag.stats.bootstrap import LEVEL
from stressrag.stats.proportions import wilson

Floats = NDArray[np.float64]
# Near 0 and 1 few contexts make DeLong's error, which then is too small at times; normal scores at an area of
# .97 are worth 3 trials for each unit of the lesser side.
_MOST = 4.0


class AUROC(NamedTuple):
    """An area with its interval.

    Attributes
    ----------
    value : float or None
        P(a poisoned context scores more than a clean one) + 1/2 P(they tie); ``None`` without either.
    low, high : float or None
        The interval; ``None`` where a side has fewer than two units.
    n_poisoned, n_clean : int
        Contexts compared.
    """

    value: float | None
    low: float | None
    high: float | None
    n_poisoned: int
    n_clean: int


def placements(of: Any, among: Any) -> Floats:
    """The share of ``among`` below each value of ``of``, ties half: float64 (n_of,), ``among`` not empty."""
    ordered = np.sort(np.asarray(among, np.float64))
    values = np.asarray(of, np.float64)
    below = np.searchsorted(ordered, values, "left")
    up_to = np.searchsorted(ordered, values, "right")
    return np.asarray((below + up_to) / (2 * len(ordered)))


def auroc(
    poisoned: Any,
    clean: Any,
    poisoned_units: Sequence[Hashable] | None = None,
    clean_units: Sequence[Hashable] | None = None,
    level: float = LEVEL,
) -> AUROC:
    """The area under the ROC curve of poisoned against clean scores.

    The standard error is DeLong, DeLong and Clarke-Pearson's (1988, Biometrics 44), which counts ties as
    halves and supposes no distribution; with units Obuchowski's (1997, Biometrics 53), which it becomes when
    contexts share units: those of one injection group, or the poisoned and the clean context of one query.
    The interval is Wilson's with the number of trials that would give that error, as the package has it for
    clustered rates (Korn and Graubard 1998), at most four for each unit
    of the lesser side and just one where the error is 0: it does not collapse at an area of 0 or 1, where
    DeLong's own has no width. By simulation with areas of .5 to .995 it holds the truth 94 to 98% of the time
    with 300 contexts a side as with 20 against 300.

    Parameters
    ----------
    poisoned, clean : float array (n,), (m,)
        Scores, higher = more anomalous.
    poisoned_units, clean_units : sequence, optional
        The unit of each context, equal values on both sides being the same unit; by default each its own.
    level : float
        Coverage aimed at.
    """
    x, y = np.asarray(poisoned, np.float64), np.asarray(clean, np.float64)
    n, m = len(x), len(y)
    if not n or not m:
        return AUROC(None, None, None, n, m)
    of_x, of_y = placements(x, y), 1 - placements(y, x)
    value = float(of_x.mean())
    xs = [("p", i) for i in range(n)] if poisoned_units is None else list(poisoned_units)
    ys = [("c", i) for i in range(m)] if clean_units is None else list(clean_units)
    numbers = {unit: i for i, unit in enumerate(dict.fromkeys([*xs, *ys]))}
    at_x, at_y = (np.array([numbers[u] for u in units]) for units in (xs, ys))
    with_x, with_y = len(set(xs)), len(set(ys))
    if min(with_x, with_y) < 2:
        return AUROC(value, None, None, n, m)
    a = np.bincount(at_x, weights=of_x - value, minlength=len(numbers)) / n
    b = np.bincount(at_y, weights=of_y - value, minlength=len(numbers)) / m
    both = len(numbers) / (len(numbers) - 1)
    variance = (a @ a) * with_x / (with_x - 1) + (b @ b) * with_y / (with_y - 1) + 2 * both * (a @ b)
    trials = float(min(with_x, with_y))
    if variance > 1e-18 and 0 < value < 1:
        trials = max(2.0, min(value * (1 - value) / float(variance), _MOST * trials))
    successes = trials if value == 1 else value * trials
    low, high = wilson(successes, trials, level)
    return AUROC(value, low, high, n, m)
