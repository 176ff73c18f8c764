"""Limits that the measures of an evaluation have to keep, for continuous integration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stressrag.errors import StressragError, nearest
from stressrag.stats.four import MEASURES

_OTHERS = tuple(f"{event}_{c}" for event in ("correct", "abstains") for c in ("c0", "p0", "c1", "p1"))
NAMES = (*MEASURES, "prevention_rate", *_OTHERS)


class Limit(NamedTuple):
    """A measure and the least or most that it may be.

    Attributes
    ----------
    name : str
        A measure.
    bound : {"max", "min"}
        Which.
    value : float
        A value at the limit keeps it.
    """

    name: str
    bound: str
    value: float


def limit(text: str, bound: str) -> Limit:
    """The limit that ``NAME=VALUE`` states.

    Raises
    ------
    StressragError
        For an unknown measure or a value that is no number.
    """
    name, sign, value = (x.strip() for x in text.partition("="))
    if not sign or name not in NAMES:
        raise StressragError(f"--{bound} {text}: no measure {name!r}; {nearest(name, NAMES)}")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise StressragError(f"--{bound} {text}: {value!r} is no number")
    return Limit(name, bound, number)


def judge(rows: Sequence[Mapping[str, Any]], limits: Sequence[Limit], label: str) -> list[tuple[bool, str]]:
    """Whether each limit is kept by the rows of a label, each with a line that says so.

    A measure that is not known keeps no limit.
    """
    out = []
    for x in limits:
        for r in rows:
            if r["label"] != label or r["method"] == "none":
                continue
            value = r.get(x.name)
            kept = value is not None and (value <= x.value if x.bound == "max" else value >= x.value)
            said = "unknown" if value is None else f"{value:.3f}"
            budget = "" if r["budget"] is None else f", budget {r['budget']}"
            out.append(
                (
                    kept,
                    (
                        f"{'PASS' if kept else 'FAIL'} {x.name} {said} ({x.bound} {x.value:g}):"
                        f" {r['method']}{budget}, {label}"
                    ),
                )
            )
    return out
