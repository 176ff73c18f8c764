"""The contexts that detectors are calibrated on, checked on and held to, told apart and checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.contexts import Context
from stressrag.aligned.detectors import RATES, Detector, get_detectors
from stressrag.attacks.draw import draw
from stressrag.errors import StressragError, brief, line_of

CHECK_SHARE = 30
"""Percent of the calibration contexts that become check contexts where there are none."""
Retrieval = tuple[str, str, str]
"""Data set, retriever and arm, which have thresholds of their own."""


@dataclass(frozen=True)
class CleanSets:
    """The clean contexts of one retrieval, each query once.

    Attributes
    ----------
    calibration, check : list of Context
        They share no query.
    attacked : dict
        By query id the clean contexts of attacked queries.
    split : bool
        Whether the check contexts were split off the calibration contexts.
    """

    calibration: list[Context]
    check: list[Context]
    attacked: dict[str, Context]
    split: bool


def split_check(contexts: Sequence[Context], share: int) -> tuple[list[Context], list[Context]]:
    """Calibration and check contexts of one set: the first ``share`` percent by a hash of the id check."""
    if isinstance(share, bool) or not isinstance(share, int) or not 1 <= share <= 99:
        raise StressragError(f"check share {brief(share)}: give whole percent from 1 to 99")
    ordered = sorted(contexts, key=lambda c: (draw(0, "detector check", c.query_id), c.query_id))
    n = share * len(ordered) // 100
    return ordered[n:], ordered[:n]


def clean_sets(everything: Sequence[Context], share: int | None) -> dict[Retrieval, CleanSets]:
    """The clean contexts by retrieval, each query once, checked to be apart."""
    found: dict[Retrieval, dict[str, dict[str, Context]]] = defaultdict(lambda: defaultdict(dict))
    for c in (c for c in everything if c.condition == "clean"):
        role = c.split
        other = found[c.retrieval][role].setdefault(c.query_id, c)
        if not (_same(c.scores, other.scores) and _same(c.embeddings, other.embeddings)):
            raise StressragError(
                f"{c.where}: query {brief(c.query_id)} has another clean context at {other.where}; "
                "thresholds are for one data set, retriever and arm, so give different ones different names"
            )
    out = {}
    for retrieval, sets in found.items():
        calibration, check = list(sets["calibration"].values()), list(sets["check"].values())
        both = sorted(set(sets["calibration"]) & set(sets["check"]))
        if both:
            raise StressragError(
                f"{sets['check'][both[0]].where}: query {brief(both[0])} both calibrates and checks "
                f"({len(both)} such queries); the false-positive rate is not measured where it was set"
            )
        if check and share is not None and calibration:
            raise StressragError(
                f"there are {len(check)} check contexts, so none are split off: no check share"
            )
        if not calibration:
            continue
        split = not check
        if split:
            calibration, check = split_check(calibration, CHECK_SHARE if share is None else share)
        if not check:
            raise StressragError(
                f"{named(retrieval)}: {len(calibration)} calibration contexts leave none to check on"
            )
        out[retrieval] = CleanSets(calibration, check, sets["attack"], split)
    if not out:
        raise StressragError("there is no clean context of the split calibration, so there are no thresholds")
    return out


def check_dimensions(everything: Sequence[Context]) -> None:
    """Refuse embeddings of several lengths in one retrieval, which come of different models."""
    first: dict[Retrieval, Context] = {}
    for c in everything:
        if c.embeddings is None or not len(c.embeddings):
            continue
        other = first.setdefault(c.retrieval, c)
        one, two = other.embeddings, c.embeddings
        if one is not None and one.shape[1] != two.shape[1]:
            raise StressragError(
                f"{c.where}: embeddings of {two.shape[1]} numbers, and of {one.shape[1]} at {other.where}; "
                f"those of {named(c.retrieval)} are to be of one model"
            )


def possible_rates(
    clean: Mapping[Retrieval, CleanSets], asked: Sequence[int] | None
) -> tuple[list[int], list[str]]:
    """The false-positive rates that all retrievals have the calibration contexts for, and notes on others.

    Parameters
    ----------
    clean : mapping
        The clean contexts.
    asked : sequence of int or None
        Rates none of which may be left out; ``None``: as many as can be had of the usual ones.

    Raises
    ------
    StressragError
        When a rate that was asked for, or every usual one, needs more contexts.
    """
    smallest = min(clean, key=lambda r: (len(clean[r].calibration), r))
    sets = clean[smallest]
    n = len(sets.calibration)
    possible = [rate for rate in asked or RATES if n * rate >= 100]
    lacking = [rate for rate in asked or RATES if n * rate < 100]
    if not lacking:
        return possible, []
    there = f"there are {n}"
    if sets.split:
        there += f" ({n + len(sets.check)} were given, of which {len(sets.check)} kept to check)"
    if asked is not None or not possible:
        rate = min(lacking) if asked is not None else max(lacking)
        raise StressragError(
            f"{named(smallest)}: a false-positive rate of {rate}% needs {_needed(rate)} clean calibration "
            f"contexts or more, and {there}; add some or leave that rate out"
        )
    said = ", ".join(f"{rate}% ({_needed(rate)} needed)" for rate in lacking)
    return possible, [f"{named(smallest)}: too few clean calibration contexts for {said}: {there}"]


def _needed(rate: int) -> int:
    return -(-100 // rate)


def _same(a: NDArray[np.float64] | None, b: NDArray[np.float64] | None) -> bool:
    return a is None or b is None or np.array_equal(a, b)


def cells_of(everything: Sequence[Context]) -> list[list[Context]]:
    """The poisoned contexts of each setting and budget."""
    cells: dict[tuple[Any, ...], dict[str, Context]] = defaultdict(dict)
    for c in (c for c in everything if c.condition == "poisoned"):
        other = cells[c.setting].setdefault(c.query_id, c)
        if other is not c:
            raise StressragError(
                f"{c.where}: query {brief(c.query_id)} has another poisoned context of the same setting and "
                f"budget at {other.where}"
            )
    return [
        list(cells[s].values())
        for s in sorted(cells, key=lambda s: (*s[:-1], -1 if s[-1] is None else s[-1]))
    ]


def usable_detectors(
    everything: Sequence[Context], asked: Iterable[str | Detector] | None, neighbors: int
) -> tuple[list[Detector], dict[str, str]]:
    """The detectors that all contexts have the input of, and why others are left out."""
    usable, left_out = [], {}
    for d in get_detectors(asked, neighbors=neighbors):
        lacking = [c for c in everything if c.values(d.needs) is None]
        if not lacking:
            usable.append(d)
        elif len(lacking) == len(everything) and asked is None:
            left_out[d.name] = f"no context has {d.needs}"
        else:
            raise StressragError(
                f"{lacking[0].where}: detector {d.name} needs {d.needs}, which {len(lacking)} of "
                f"{len(everything)} contexts lack"
            )
    return usable, left_out


def notes_on(clean: Mapping[Retrieval, CleanSets], cells: Sequence[Sequence[Context]]) -> list[str]:
    out = []
    for retrieval, sets in sorted(clean.items()):
        attacked = [c for cell in cells for c in cell if cell[0].retrieval == retrieval]
        used = {c.query_id for c in (*sets.calibration, *sets.check)}
        shared = len({c.query_id for c in attacked} & used)
        if shared:
            out.append(f"{named(retrieval)}: {shared} attacked queries also calibrate or check")
        sizes = sorted({_size(c) for c in (*sets.calibration, *sets.check, *attacked)})
        if len(sizes) > 1:
            said = ", ".join(map(str, sizes))
            out.append(f"{named(retrieval)}: contexts of {said} passages are held to one threshold")
    return out


def _size(c: Context) -> int:
    return len(c.scores if c.scores is not None else c.embeddings)  # type: ignore[arg-type]


def named(retrieval: Retrieval) -> str:
    said = [f"{k}={line_of(v)}" for k, v in zip(("dataset", "retriever", "arm"), retrieval, strict=True) if v]
    return ", ".join(said) or "the setting without names"
