"""The tables of a report, as plain text cells that HTML and Markdown write in their own ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stressrag.report.attack_cost import MARKS, cost_text, span_text
from stressrag.report.labels import Labels, number, p_value, with_interval
from stressrag.report.table import shown_metrics
from stressrag.report.worst_case import STATIC_ONLY, static_only

_COMPARED = {
    "clean": ("nDCG", "Recall", "Evid", "SafeR"),
    "undefended": ("nDCG", "TargetExp", "Evid", "SafeR"),
}
_EVENTS = {
    "TargetExp": "poison for this query in the top k",
    "AnyExp": "any poison in the top k",
    "NoEvid": "no evidence in the top k",
    "Unsafe": "poison or no evidence",
}


@dataclass(frozen=True)
class Table:
    """One table: the first ``words`` columns are words, the others numbers."""

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    open: bool = False


def tables(summary: Mapping[str, Any], labels: Labels) -> list[Table]:
    """All tables that the run has data for."""
    made = [
        _conditions(summary, labels),
        _worst_cases(summary, labels),
        _costs(summary, labels),
        _frontier(summary, labels),
        _four(summary, labels),
        _comparisons(summary, labels),
        _bands(summary, labels),
    ]
    return [t for t in made if t.rows]


def _level(summary: Mapping[str, Any]) -> str:
    return f"{summary['statistics']['level']:.0%}"


def _conditions(summary: Mapping[str, Any], labels: Labels) -> Table:
    conditions = summary["conditions"]
    metrics = shown_metrics(conditions)
    rows = [
        [
            labels.of(c["id"]),
            str(c["n_queries"]),
            *(with_interval(m, c["metrics"].get(m), c["intervals"].get(m)) for m in metrics),
        ]
        for c in conditions
    ]
    note = "Means over queries" + (
        f", with {_level(summary)} intervals; a value without one is so by definition."
        if any(c["intervals"] for c in conditions)
        else "; the run was made without intervals."
    )
    return Table("Conditions", note, ["condition", "n", *metrics], rows, open=True)


def _worst_cases(summary: Mapping[str, Any], labels: Labels) -> Table:
    by_id = {c["id"]: c for c in summary["conditions"]}
    rows = []
    for w in summary["worst_cases"]:
        cells = []
        for side in ("static", "adaptive"):
            c = by_id.get(w[side])
            ends = c and c["intervals"].get("TargetExp")
            told = with_interval("TargetExp", c["metrics"]["TargetExp"], ends) if c else "not tried"
            cells += [labels.of(w[side], without=("retriever", "defense", "scope")) if c else "–", told]
        worst, clean = by_id[w["worst"]], by_id.get(w["clean"])
        quality = next(m for m in worst["metrics"] if m.startswith("nDCG@"))
        rows.append(
            [
                f"{labels.place(w['worst'])}, {worst['config']['scope']}, {labels.defense(w['worst'])}",
                *cells,
                number("TargetExp", worst["metrics"]["TargetExp"]),
                number(quality, clean["metrics"][quality] if clean else None),
                "yes" if w["pareto"] else "no",
            ]
        )
    note = (
        "TargetExp of the worst attack of this run on each system, by fixed texts and by an attacker who "
        "knows retriever and defense; the worse of the two is what a defense leaves. Pareto: no other "
        "defense leaves less by its worst attack at no less clean nDCG, or as much at more."
    )
    if static_only(summary):
        note += f" Warning: where it says not tried, the defense was {STATIC_ONLY}."
    head = [
        "system",
        "static attack",
        "exposed",
        "adaptive attack",
        "exposed",
        "worst",
        "clean nDCG",
        "Pareto",
    ]
    return Table("Static and adaptive", note, head, rows, open=True)


def _costs(summary: Mapping[str, Any], labels: Labels) -> Table:
    rows = [
        [
            labels.of(row["conditions"][0], without=(row["axis"],)),
            {"terms": "known terms", "budget": "documents", "max_tokens": "tokens"}[row["axis"]],
            ", ".join(str(p["value"]) for p in row["curve"]),
            *(f"{cost_text(c)} {span_text(c)}".rstrip() for c in row["cost"].values()),
        ]
        for row in summary["attack_costs"]
    ]
    note = (
        "The least of the values tried that exposes so many percent of queries; in brackets where the ends "
        "of the exposures' intervals reach the mark. A mark that no value reaches costs more than the "
        "largest tried."
    )
    return Table("Attack cost", note, ["attack", "price", "tried", *(f"{m}%" for m in MARKS)], rows, words=3)


def _frontier(summary: Mapping[str, Any], labels: Labels) -> Table:
    columns = ("TargetExp", "SafeR", "Shortage", "clean_nDCG", "clean_Evid", "clean_Shortage")
    rows = [
        [
            labels.of(p["condition"]),
            *(number(m, p[m]) for m in columns),
            "yes" if p["pareto"] else "no",
        ]
        for p in summary["frontier"]
    ]
    note = (
        "What each setting leaves of an attack, against clean traffic under the same defense. Pareto: "
        "no other "
        "setting has less exposure and no less clean nDCG, or more clean nDCG and no more exposure."
    )
    head = ["condition", *(m.replace("_", " ") for m in columns), "Pareto"]
    return Table("Frontier of defenses", note, head, rows, open=True)


def _four(summary: Mapping[str, Any], labels: Labels) -> Table:
    rates, measures = ("r_c0", "r_p0", "r_c1", "r_p1"), ("P", "J", "N", "H", "Gamma")
    rows = [
        [
            labels.of(r["condition"]),
            _EVENTS.get(r["event"], r["event"]),
            str(r["n"]),
            *(number("", r[m]) for m in rates),
            *(with_interval("", r[m], r["intervals"].get(m)) for m in measures),
            p_value(r["p"]),
        ]
        for r in summary["four_conditions"]
    ]
    note = (
        "The same queries clean and attacked, without and with the defense: the rate of the event in "
        "each, what the defense prevented and introduced under attack, net = prevented - introduced, the "
        "change on clean traffic, and contrast = net + clean change. Exact p of the net (McNemar; with "
        "groups by flipping whole groups), not corrected."
    )
    head = ["condition", "event", "n", "clean", "attacked", "clean, defended", "attacked, defended"]
    head += ["prevented", "introduced", "net", "clean change", "contrast", "p of net"]
    return Table("Four conditions", note, head, rows, words=2)


def _comparisons(summary: Mapping[str, Any], labels: Labels) -> Table:
    rows = []
    for c in summary["comparisons"]:
        for metric, m in c["metrics"].items():
            if metric.split("@")[0] not in _COMPARED[c["against"]]:
                continue
            rows.append(
                [
                    labels.of(c["condition"]),
                    c["against"],
                    metric,
                    str(m["n"]),
                    with_interval(metric, m["difference"], (m["low"], m["high"])),
                    p_value(m.get("p")),
                    p_value(m.get("p_holm")),
                    str(m.get("family", "–")),
                ]
            )
    note = (
        f"Paired differences on the same queries, condition less baseline, with {_level(summary)} intervals. "
        f"p: {summary['statistics']['p_values']}; means that are no rates carry an interval only."
    )
    head = ["condition", "against", "metric", "n", "difference", "p", "Holm p", "family"]
    return Table("Comparisons", note, head, rows, words=3)


def _bands(summary: Mapping[str, Any], labels: Labels) -> Table:
    bands = summary["seed_bands"]
    metrics = shown_metrics(summary["conditions"])
    rows = []
    for b in bands:
        cells = [
            f"{number(m, x['mean'])} ({number(m, x['least'])} to {number(m, x['greatest'])})"
            if (x := b["metrics"].get(m))
            else "–"
            for m in metrics
        ]
        rows.append([labels.of(b["conditions"][0]), str(len(b["conditions"])), *cells])
    note = "Mean over seeds, with the least and greatest value; this is no interval over queries."
    return Table("Bands over seeds", note, ["condition (first seed)", "seeds", *metrics], rows)
