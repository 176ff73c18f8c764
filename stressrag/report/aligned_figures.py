"""Figures of an aligned evaluation: transitions, label against label, budgets, detectors, answer types."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from stressrag.aligned.cells import Cell, Labeler
from stressrag.aligned.measures import evaluated
from stressrag.aligned.records import NO_DEFENSE
from stressrag.aligned.versus import named, place_of
from stressrag.report.aligned_rows import ordered, place, place_names
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
        *_types(e, ids),
        *_labels(e, ids),
        *_by_budget(e, ids),
        *_interception(e, ids),
    ]


def _rest(n: int) -> str:
    return f" {n - _MOST_ROWS} further rows are in the tables." if n > _MOST_ROWS else ""


def _alike(e: Evaluation, data: Callable[[str], Any]) -> list[tuple[str, Any]]:
    """Labels that give the same data as one: their names together, and the data."""
    out: list[tuple[list[str], Any]] = []
    for label in e.labels:
        made = data(label)
        same = next((names for names, had in out if had == made), None)
        if same is None:
            out.append(([visible(label)], made))
        else:
            same.append(visible(label))
    return [(", ".join(names), made) for names, made in out]


def _transitions(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    kinds = ("prevented", "kept positive", "kept negative", "introduced")
    vary = place_names(e.rows)

    def data(label: str) -> list[tuple[str, list[float]]]:
        return [
            (_at(r["method"], r, vary), [r["P"], r["r_p0"] - r["P"], 1 - r["r_p0"] - r["J"], r["J"]])
            for r in ordered(e.rows)
            if r["label"] == label and r["method"] != NO_DEFENSE and r["n"]
        ]

    panels = []
    for names, some in _alike(e, data):
        if some:
            axis = "share of queries under poisoned retrieval"
            panels.append(stacked(next(ids), f"label {names}", some[:_MOST_ROWS], axis, kinds))
    if not panels:
        return []
    legend = [(part_swatch(i, next(ids)), k) for i, k in enumerate(kinds)]
    return [Figure("What each defense changed", _rest(len(data(e.labels[0]))), panels, legend, True)]


def _at(method: str, r: Row, vary: Sequence[str]) -> str:
    words = place(r, vary)
    return visible(f"{named(method)}{', ' + words if words else ''}")


def _labels(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    vary = place_names(e.rows)

    def data(label: str) -> list[tuple[str, tuple[Any, ...]]]:
        found: dict[str, tuple[Any, ...]] = {}
        for r in ordered(e.rows):
            for kind, who in (("r_p0", NO_DEFENSE), ("r_p1", r["method"])):
                if r["label"] == label and r[kind] is not None:
                    found.setdefault(_at(who, r, vary), (r[kind], *r["intervals"][kind]))
        return list(found.items())

    series = _alike(e, data)[:N_SERIES]
    if len(series) < 2:
        return []
    marks: dict[str, list[Mark]] = defaultdict(list)
    for i, (_, some) in enumerate(series):
        for name, values in some:
            marks[name].append(Mark(i, *values))
    shown = [names for names, _ in series]
    rows_ = list(marks.items())
    title, axis = "target-positive under poisoned retrieval", "share of queries"
    panel = rows(next(ids), title, rows_[:_MOST_ROWS], axis, (0.0, 1.0), shown)
    note = (
        "The same answers under each label; where marks of two methods change places, the label decides which"
        " is better." + _rest(len(rows_))
    )
    legend = [(swatch(i), n) for i, n in enumerate(shown)]
    return [Figure("One label against another", note, [panel], legend, True)]


def _by_budget(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    """Prevention rate by budget: for detectors that abstain it is their interception."""
    vary = [a for a in place_names(e.rows) if a != "budget"]

    def data(label: str) -> dict[str, dict[str, list[Point]]]:
        found: dict[str, dict[str, list[Point]]] = defaultdict(lambda: defaultdict(list))
        for r in ordered(e.rows):
            value = r.get("prevention_rate")
            if r["label"] == label and value is not None and r["budget"] is not None:
                point = Point(r["budget"], value, *r["intervals"]["prevention_rate"])
                found[visible(place(r, vary))][visible(r["method"])].append(point)
        return {at: dict(methods) for at, methods in found.items()}

    out = []
    for names, places in _alike(e, data):
        panels, used = [], list[str]()
        for at, methods in places.items():
            budgets = sorted({p.x for points in methods.values() for p in points})
            if len(budgets) < 2:
                continue
            used += [m for m in methods if m not in used][: N_SERIES - len(used)]
            series = [(used.index(m), m, points) for m, points in methods.items() if m in used]
            axes = ("budget", "prevented / target-positive")
            panels.append(lines(next(ids), at or names, [(b, f"{b:g}") for b in budgets], series, axes))
        left = len({m for methods in places.values() for m in methods}) - len(used)
        note = "Of answers that are target-positive without the defense, how many are not with it."
        note += f" {left} further methods are in the tables." if left > 0 else ""
        if panels:
            legend = [(swatch(i), m) for i, m in enumerate(used)]
            out.append(Figure(f"Prevention by budget: {names}", note, panels, legend))
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


_KINDS = ("reference given", "neither", "abstains", "target asserted")


def _types(e: Evaluation, ids: Iterator[str]) -> list[Figure]:
    """What answers are, clean and poisoned; the kinds that the paper's Figure 7 tells apart, by rule."""
    cells = evaluated(e.cells)
    vary = place_names([c.place for c in cells])
    panels, most = [], 0
    for condition in ("clean", "poisoned"):
        data: dict[str, Sequence[float]] = {}
        for r in ordered([{**c.place, "cell": c} for c in cells]):
            for defended in (False, True) if r["method"] != NO_DEFENSE else (False,):
                if r["cell"].has(condition, defended):
                    name = _at(r["method"] if defended else NO_DEFENSE, r, vary)
                    data.setdefault(name, answer_types(r["cell"], defended, condition))
        most = max(most, len(data))
        if data:
            some = list(data.items())[:_MOST_ROWS]
            panels.append(stacked(next(ids), f"{condition} retrieval", some, "share of answers", _KINDS))
    if not panels:
        return []
    legend = [(part_swatch(i, next(ids)), k) for i, k in enumerate(_KINDS)]
    note = (
        "By the rules endorsed and abstention. Neither: other wrong answers, and answers that mention target"
        " or reference without asserting it." + _rest(most)
    )
    return [Figure("What the answers are", note, panels, legend, True)]


def answer_types(cell: Cell, defended: bool, condition: str = "poisoned") -> Sequence[float]:
    """Shares of answers that give a reference, abstain, do neither, and assert the target."""
    labels = Labeler("endorsed")
    target, correct, declines = (
        np.nan_to_num(cell.column(labels, event, condition, defended)) == 1
        for event in ("target", "correct", "abstains")
    )
    n = len(cell.queries)
    parts = [correct & ~target & ~declines, None, declines & ~target, target]
    shares = [0.0 if p is None else float(p.sum()) / n for p in parts]
    shares[1] = max(0.0, 1 - sum(shares))
    return shares
