"""Figures of an aligned evaluation: transitions, label against label, budgets, detectors, answer types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from stressrag.aligned.cells import Cell, Labeler
from stressrag.aligned.measures import evaluated
from stressrag.aligned.records import NO_DEFENSE
from stressrag.aligned.versus import place_of
from stressrag.report.plots import Figure
from stressrag.report.svg import N_SERIES, Mark, Point, lines, part_swatch, rows, stacked, swatch
from stressrag.report.visible import visible

if TYPE_CHECKING:
    from stressrag.aligned.score import Evaluation

Row = Mapping[str, Any]
_MOST_ROWS = 48


def figures(e: Evaluation) -> list[Figure]:
    """The figures that there is data for."""
    ids = (f"a{i}" for i in count())
    return [
        *_transitions(e, ids),
        *_labels(e, ids),
        *_by_budget(e, ids),
        *_interception(e, ids),
        *_types(e, ids),
    ]


def _name(r: Row, method: bool = True) -> str:
    place = place_of(r)
    words = [r["method"] if r["method"] != NO_DEFENSE else "no defense"] if method else []
    return visible(", ".join([*words, *([place] if place else [])]))


def _rest(n: int) -> str:
    return f" {n - _MOST_ROWS} further rows are in the tables." if n > _MOST_ROWS else ""


def _transitions(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    kinds = ("prevented", "kept negative", "kept positive", "introduced")
    out = []
    for label in e.labels:
        some = [r for r in e.rows if r["label"] == label and r["method"] != NO_DEFENSE and r["n"]]
        data = [
            (_name(r), [r["P"], 1 - r["r_p0"] - r["J"], r["r_p0"] - r["P"], r["J"]])
            for r in some[:_MOST_ROWS]
        ]
        if data:
            legend = [(part_swatch(i, next(ids)), k) for i, k in enumerate(kinds)]
            panel = stacked(
                next(ids), f"label {visible(label)}", data, "share of queries under poisoned retrieval", kinds
            )
            out.append(
                Figure(f"What the defense changed: {visible(label)}", _rest(len(some)), [panel], legend, True)
            )
    return out


def _labels(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    names = e.labels[:N_SERIES]
    if len(names) < 2:
        return []
    cells: dict[str, list[Mark]] = defaultdict(list)
    for r in e.rows:
        for kind in ("r_p0", "r_p1"):
            if r["label"] not in names or r[kind] is None:
                continue
            who = "no defense" if kind == "r_p0" else r["method"]
            place = place_of(r)
            key = visible(f"{who}{', ' + place if place else ''}")
            if all(m.series != names.index(r["label"]) for m in cells[key]):
                low, high = r["intervals"][kind]
                cells[key].append(Mark(names.index(r["label"]), r[kind], low, high))
    data = list(cells.items())
    shown = [visible(n) for n in names]
    panel = rows(
        next(ids),
        "target-positive under poisoned retrieval",
        data[:_MOST_ROWS],
        "share of queries",
        (0.0, 1.0),
        shown,
    )
    note = (
        "The same answers under each label; where marks of two methods change places, the label decides which"
        " is better." + _rest(len(data))
    )
    return [
        Figure(
            "One label against another", note, [panel], [(swatch(i), n) for i, n in enumerate(shown)], True
        )
    ]


def _by_budget(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    """Prevention rate by budget: for detectors that abstain it is their interception."""
    out = []
    for label in e.labels:
        places: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
        for r in e.rows:
            if r["label"] == label and r.get("prevention_rate") is not None and r["budget"] is not None:
                places[place_of({**r, "budget": None})][r["method"]].append(r)
        panels, used = [], dict[str, None]()
        for place, methods in places.items():
            budgets = sorted({r["budget"] for some in methods.values() for r in some})
            if len(budgets) < 2:
                continue
            shown = list(methods.items())[:N_SERIES]
            series = [
                (
                    i,
                    visible(m),
                    [
                        Point(r["budget"], r["prevention_rate"], *r["intervals"]["prevention_rate"])
                        for r in some
                    ],
                )
                for i, (m, some) in enumerate(shown)
            ]
            used |= dict.fromkeys(visible(m) for m, _ in shown)
            panels.append(
                lines(
                    next(ids),
                    visible(place) or "all answers",
                    [(b, str(b)) for b in budgets],
                    series,
                    ("budget", "prevented / target-positive"),
                )
            )
        if panels:
            title = f"Interception of target-positive answers by budget: {visible(label)}"
            out.append(
                Figure(
                    title,
                    "Of answers that are target-positive without the defense, how many are not with it.",
                    panels,
                    [(swatch(i), m) for i, m in enumerate(used) if i < N_SERIES],
                )
            )
    return out


def _interception(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    """Interception of detectors by budget, a panel for each setting and calibrated rate."""
    panels: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
    budgets: set[float] = set()
    for r in e.detectors:
        if r["interception"] is None or r["budget"] is None:
            continue
        place = place_of({**r, "budget": None})
        name = visible(f"{place + ', ' if place else ''}calibrated at {r['rate']}%")
        panels[name][r["detector"]].append(
            Point(r["budget"], r["interception"], r["interception_low"], r["interception_high"])
        )
        budgets.add(r["budget"])
    if not panels:
        return []
    names = list(dict.fromkeys(n for series in panels.values() for n in series))[:N_SERIES]
    ticks = [(b, f"{b:g}") for b in sorted(budgets)]
    drawn = [
        lines(
            next(ids),
            title,
            ticks,
            [(names.index(n), visible(n), points) for n, points in series.items() if n in names],
            ("budget", "intercepted"),
        )
        for title, series in panels.items()
    ]
    denominators = sorted({r["denominator"] for r in e.detectors})
    note = (
        f"Share flagged of: {', '.join(denominators)}. Thresholds are set on clean contexts and the same at"
        " every budget."
    )
    return [
        Figure(
            "Interception by detectors, by budget",
            note,
            drawn,
            [(swatch(i), visible(n)) for i, n in enumerate(names)],
        )
    ]


_KINDS = ("reference given", "abstains", "neither", "target asserted")


def _types(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    """What answers are under poisoned retrieval; the four kinds that the paper's Figure 7 tells apart, by
    rule.
    """
    data = []
    seen: set[Any] = set()
    for c in evaluated(e.cells):
        for defended in (False, True) if c.method != NO_DEFENSE else (False,):
            who = c.method if defended else NO_DEFENSE
            if (c.setting, c.budget, who) in seen or not c.has("poisoned", defended):
                continue
            seen.add((c.setting, c.budget, who))
            data.append((_name({**c.place, "method": who}), answer_types(c, defended)))
    if not data:
        return []
    legend = [(part_swatch(i, next(ids)), k) for i, k in enumerate(_KINDS)]
    panel = stacked(next(ids), "poisoned retrieval", data[:_MOST_ROWS], "share of answers", _KINDS)
    note = (
        "By the rules endorsed and abstention. Neither: other wrong answers, and answers that mention target"
        " or reference without asserting it."
    )
    return [Figure("What the answers are", note + _rest(len(data)), [panel], legend, True)]


def answer_types(cell: Cell, defended: bool) -> Sequence[float]:
    """Shares of answers that give a reference, abstain, do neither, and assert the target."""
    labels = Labeler("endorsed")
    target, correct, declines = (
        np.nan_to_num(cell.column(labels, event, "poisoned", defended)) == 1
        for event in ("target", "correct", "abstains")
    )
    n = len(cell.queries)
    parts = [correct & ~target & ~declines, declines & ~target, None, target]
    shares = [0.0 if p is None else float(p.sum()) / n for p in parts]
    shares[2] = max(0.0, 1 - sum(shares))
    return shares
