"""The figures of a report: what of a summary goes into which chart, and which have no data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from stressrag.metrics.evidence import STATES
from stressrag.report.labels import Labels, same_but
from stressrag.report.svg import N_SERIES, Mark, Point, frontier, lines, part_swatch, rows, stacked, swatch
from stressrag.report.words import attacked, known_terms

Condition = Mapping[str, Any]
_MOST_ROWS = 48
_MOST_PANELS = 18


@dataclass(frozen=True)
class Figure:
    """Panels under one title; ``legend`` holds a swatch (SVG) and a label each."""

    title: str
    note: str
    panels: Sequence[str]
    legend: Sequence[tuple[str, str]] = ()
    wide: bool = False


def figures(summary: Mapping[str, Any], labels: Labels, prefix: str = "f") -> tuple[list[Figure], list[str]]:
    """The figures, and the titles of those that the run has no data for.

    Parameters
    ----------
    summary : mapping
        As in ``summary.json``.
    labels : Labels
        Of the same summary.
    prefix : str
        What the ids of elements begin with, its own for each run of a page.
    """
    ids = (f"{prefix}{i}" for i in count())
    kinds: dict[str, Callable[..., list[Figure]]] = {
        "Exposure against what the attacker knows of the query": _by_terms,
        "Ranking quality, evidence and safe retrieval against the budget": _by_budget,
        "Isolated against shared poison": _by_scope,
        "The four states": _states,
        "Fixed texts against an attacker who knows the defense": _static_adaptive,
        "Frontier of defenses": _frontier,
        "Exposure by query length": _by_length,
        "Paired differences": _forest,
    }
    out, missing = [], []
    for title, draw in kinds.items():
        made = draw(title, summary, labels, ids)
        out += made
        if not made:
            missing.append(title)
    return out, missing


def _places(conditions: Sequence[Condition], labels: Labels) -> dict[str, list[Condition]]:
    """Conditions by collection and retriever."""
    out: dict[str, list[Condition]] = {}
    for c in conditions:
        out.setdefault(labels.place(c["id"]), []).append(c)
    return out


def _size(conditions: Sequence[Condition]) -> str:
    sizes = sorted({c["n_queries"] for c in conditions})
    return "n = " + (f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}") + " queries"


def _point(c: Condition, metric: str, x: float) -> Point:
    ends = c["intervals"].get(metric) or (None, None)
    return Point(x, c["metrics"][metric], *ends)


def _series(conditions: Sequence[Condition], name: str) -> dict[str, list[Condition]]:
    """Conditions that differ in one setting alone, at two of its values or more."""
    out: dict[str, list[Condition]] = {}
    for c in conditions:
        out.setdefault(same_but(c["config"], name), []).append(c)
    return {k: v for k, v in out.items() if len(v) > 1}


_WHOLE = float("inf")


def _by_terms(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    out = []
    for place, some in _places(attacked(summary), labels).items():
        whole = [c for c in some if c["config"]["anchor"] == "query"]
        found = _series([c for c in some if c["config"]["anchor"] == "terms"], "terms")
        series: list[tuple[int, str, list[Point]]] = []
        for members in list(found.values())[:N_SERIES]:
            first = members[0]
            points = [_point(c, "TargetExp", float(known_terms(c) or 0)) for c in members]
            alike = ("body", "budget", "scope", "defense", "statistics", "seed", "targets")
            full = [c for c in whole if all(c["config"][s] == first["config"][s] for s in alike)]
            points += [_point(c, "TargetExp", _WHOLE) for c in full[:1]]
            series.append((len(series), labels.of(first["id"], _LEFT_OUT | {"terms"}), points))
        if not series:
            continue
        values = sorted({p.x for _, _, points in series for p in points})
        ticks = [(x, "whole query" if x == _WHOLE else f"{x:g}") for x in values]
        axes = (f"known terms of the query ({_size(some)})", "TargetExp (share of queries)")
        note = _rest(len(found) - len(series))
        legend = [(swatch(i), name) for i, name, _ in series]
        panel = lines(next(ids), place, ticks, series, axes)
        out.append(Figure(f"{title}: {place}", note, [panel], legend))
    return out


_LEFT_OUT = {"dataset", "retriever", "k"}


def _rest(n: int) -> str:
    return f"{n} further series are in the table of conditions." if n > 0 else ""


def _by_budget(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    clean = {c["condition"]: c["baseline"] for c in summary["comparisons"] if c["against"] == "clean"}
    by_id = {c["id"]: c for c in summary["conditions"]}
    out = []
    for place, some in _places(attacked(summary), labels).items():
        # Whole-query attacks first: how much of the query is known has a figure of its own.
        found = sorted(_series(some, "budget").values(), key=lambda s: s[0]["config"]["anchor"] == "terms")
        shown = found[:N_SERIES]
        if not shown:
            continue
        quality = next(m for m in shown[0][0]["metrics"] if m.startswith("nDCG@"))
        panels = []
        for metric in (quality, "Evid", "SafeR"):
            series = []
            for i, members in enumerate(shown):
                points = [_point(c, metric, c["config"]["budget"]) for c in members]
                if base := clean.get(members[0]["id"]):
                    points.append(_point(by_id[base], metric, 0))
                series.append((i, labels.of(members[0]["id"], _LEFT_OUT | {"budget"}), points))
            values = sorted({p.x for _, _, points in series for p in points})
            ticks = [(x, "0 (clean)" if x == 0 else f"{x:g}") for x in values]
            axes = (f"P, poison documents per target ({_size(some)})", f"{metric} (0 to 1)")
            panels.append(lines(next(ids), metric, ticks, series, axes))
        legend = [(swatch(i), name) for i, name, _ in series]
        out.append(Figure(f"{title}: {place}", _rest(len(found) - len(shown)), panels, legend))
    return out


def _by_scope(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    scopes = ("isolated", "group", "multi")
    out = []
    for place, some in _places(attacked(summary), labels).items():
        pairs: dict[str, list[Condition]] = {}
        for c in some:  # the statistics go with the scope where the settings say so
            pairs.setdefault(same_but(c["config"], "scope", "group_size", "statistics"), []).append(c)
        found = [v for v in pairs.values() if len({c["config"]["scope"] for c in v}) > 1]
        if not found:
            continue
        panels = []
        for metric in ("AnyExp", "SafeR"):
            data = [
                (
                    labels.of(v[0]["id"], _LEFT_OUT | {"scope", "statistics"}),
                    [_mark(c, metric, scopes.index(c["config"]["scope"])) for c in v],
                )
                for v in found[:_MOST_ROWS]
            ]
            what = {"AnyExp": "any poison in the top k", "SafeR": "evidence and no poison"}[metric]
            axis = f"{metric}: {what} (share of queries, {_size(some)})"
            panels.append(rows(next(ids), metric, data, axis, (0.0, 1.0), scopes))
        used = sorted({scopes.index(c["config"]["scope"]) for v in found for c in v})
        note = _rest_rows(len(found))
        out.append(Figure(f"{title}: {place}", note, panels, [(swatch(i), scopes[i]) for i in used], True))
    return out


def _mark(c: Condition, metric: str, series: int) -> Mark:
    low, high = c["intervals"].get(metric) or (None, None)
    return Mark(series, c["metrics"][metric], low, high)


def _rest_rows(n: int) -> str:
    return f"{n - _MOST_ROWS} further rows are in the tables." if n > _MOST_ROWS else ""


_STATE_WORDS = {
    "EvidClean": "evidence, no poison",
    "EvidPoison": "evidence and poison",
    "NoEvidClean": "no evidence, no poison",
    "NoEvidPoison": "no evidence, poison",
}


def _static_adaptive(
    title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]
) -> list[Figure]:
    sides = ("static", "adaptive")
    by_id = {c["id"]: c for c in summary["conditions"]}
    places: dict[str, list[Mapping[str, Any]]] = {}
    for w in summary["worst_cases"]:
        if w["static"] and w["adaptive"]:
            places.setdefault(
                f"{labels.place(w['worst'])}, {by_id[w['worst']]['config']['scope']}", []
            ).append(w)
    out = []
    for place, some in places.items():
        data = [
            (
                labels.defense(w["adaptive"]),
                [_mark(by_id[w[side]], "TargetExp", i) for i, side in enumerate(sides)],
            )
            for w in some[:_MOST_ROWS]
        ]
        axis = f"TargetExp of the worst attack (share of queries, {_size([by_id[w['worst']] for w in some])})"
        panel = rows(next(ids), "TargetExp", data, axis, (0.0, 1.0), sides)
        legend = [(swatch(i), f"{side} attacks") for i, side in enumerate(sides)]
        out.append(Figure(f"{title}: {place}", _rest_rows(len(some)), [panel], legend, True))
    return out


def _states(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    names = [s.name for s in STATES]
    words = [_STATE_WORDS.get(n, n) for n in names]
    out = []
    for place, some in _places(summary["conditions"], labels).items():
        some = [c for c in some if all(c["metrics"].get(n) is not None for n in names)]
        data = [(labels.of(c["id"], _LEFT_OUT), [c["metrics"][n] for n in names]) for c in some[:_MOST_ROWS]]
        if not data:
            continue
        axis = f"share of queries ({_size(some)})"
        legend = [(part_swatch(i, next(ids)), w) for i, w in enumerate(words)]
        panel = stacked(next(ids), place, data, axis, words)
        out.append(Figure(f"{title}: {place}", _rest_rows(len(some)), [panel], legend, True))
    return out


def _frontier(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    families: dict[str, list[Mapping[str, Any]]] = {}
    for p in summary["frontier"]:
        families.setdefault(p["undefended"], []).append(p)
    panels = []
    size = _size([c for c in summary["conditions"] if c["id"] in families]) if families else ""
    for undefended, points in list(families.items())[:_MOST_PANELS]:
        panels.append(_front(next(ids), labels.of(undefended), points, labels, size))
    rest = len(families) - len(panels)
    note = (
        "Down and right is better: less exposure, less lost on clean traffic. Filled circles are on the "
        "frontier, "
        "open squares are not; a percentage tells how many lists fall short of k documents under attack and, "
        "after the stroke, on clean traffic."
    )
    note += f" {rest} further attacks are in the table." if rest else ""
    legend = [(swatch(0), "on the frontier"), (swatch(1), "another setting is better")]
    return [Figure(title, note, panels, legend)] if panels else []


def _front(ident: str, name: str, points: Sequence[Mapping[str, Any]], labels: Labels, size: str) -> str:
    n = [
        (
            p["clean_nDCG"],
            p["TargetExp"],
            p["pareto"],
            labels.defense(p["condition"]) if p["condition"] != p["undefended"] else "none",
            (p["Shortage"], p["clean_Shortage"]),
        )
        for p in points
    ]
    return frontier(ident, name, n, (f"clean nDCG, same defense ({size})", "TargetExp under attack"))


def _by_length(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    out = []
    for place, some in _places(attacked(summary), labels).items():
        both = [c for c in some if {"short", "long"} <= set(c["splits"])]
        # Where every query of both kinds is reached there is nothing to see.
        data = [
            (
                labels.of(c["id"], _LEFT_OUT),
                [Mark(i, c["splits"][k]["metrics"]["TargetExp"]) for i, k in enumerate(("short", "long"))],
            )
            for c in both[:_MOST_ROWS]
        ]
        if not data:
            continue
        sizes = {k: sorted({c["splits"][k]["n_queries"] for c in both}) for k in ("short", "long")}
        n = {k: str(v[0]) if len(v) == 1 else f"{v[0]} to {v[-1]}" for k, v in sizes.items()}
        names = (f"short queries (n = {n['short']})", f"long queries, 8 or more terms (n = {n['long']})")
        axis = "TargetExp (share of queries, no intervals)"
        panel = rows(next(ids), place, data, axis, (0.0, 1.0), names)
        legend = [(swatch(i), name) for i, name in enumerate(names)]
        out.append(Figure(f"{title}: {place}", _rest_rows(len(both)), [panel], legend, True))
    return out


def _forest(title: str, summary: Mapping[str, Any], labels: Labels, ids: Iterator[str]) -> list[Figure]:
    shown = {"clean": ("nDCG", "Evid"), "undefended": ("TargetExp", "Evid")}
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for c in summary["comparisons"]:
        groups.setdefault((c["against"], labels.place(c["condition"])), []).append(c)
    out = []
    for (against, place), some in groups.items():
        panels = []
        for stem in shown[against]:
            metric = next((m for m in some[0]["metrics"] if m.split("@")[0] == stem), None)
            found = [(c, c["metrics"][metric]) for c in some if metric in c["metrics"]] if metric else []
            if not found or metric is None:
                continue
            data = [
                (labels.of(c["condition"], _LEFT_OUT), [Mark(0, m["difference"], m["low"], m["high"])])
                for c, m in found[:_MOST_ROWS]
            ]
            ends = [e for _, m in found for e in (m["difference"], m["low"], m["high"]) if e is not None]
            most = max(0.1, *(abs(e) for e in ends))
            sizes = sorted({m["n"] for _, m in found})
            n = f"n = {sizes[0]}" + (f" to {sizes[-1]}" if len(sizes) > 1 else "") + " pairs of queries"
            span = (-most, most if max(ends) > most / 5 else most / 5)
            axis = f"{metric}, difference on a scale of 0 to 1 ({n})"
            panels.append(rows(next(ids), metric, data, axis, span))
        if panels:
            note = f"Condition less {against} partner, with intervals; left of zero is less. " + _rest_rows(
                len(some)
            )
            out.append(Figure(f"{title} against {against}: {place}", note.strip(), panels, (), True))
    return out
