"""The table that a run prints: settings that vary as columns, the rest in the heading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.report.cells import (
    NAMES,
    SETTINGS,
    align,
    differing,
    flat,
    interval,
    number,
    p_text,
    setting,
    span_cell,
)
from stressrag.report.table_worst import costs, gap, worst_cases

_METRICS = ("TargetExp", "CertSafe", "AnyExp", "Evid", "SafeR", "PoisonCount", "Shortage")
_SHORT = {"PoisonCount": "#P"}
_EVENTS = {"TargetExp": "poison in the top k", "NoEvid": "evidence missing"}


def table(summary: Mapping[str, Any]) -> str:
    """The readable table of a summary."""
    conditions = summary["conditions"]
    configs = [c["config"] for c in conditions]
    vary = [s for s in SETTINGS if len({str(c[s]) for c in configs}) > 1]
    deep = differing(configs)
    metrics = shown_metrics(conditions)
    head = [NAMES.get(s, s) for s in vary] + list(deep) + ["n", *(_SHORT.get(m, m) for m in metrics)]
    rows = []
    for c in conditions:
        config = c["config"]
        cells = [setting(s, config) for s in vary] + [flat(config).get(name, "") for name in deep]
        rows.append([*cells, str(c["n_queries"]), *(number(m, c["metrics"].get(m)) for m in metrics)])
        if c["intervals"]:
            rows.append([*[""] * len(cells), "", *(interval(m, c["intervals"].get(m)) for m in metrics)])
    left = len(vary) + len(deep)
    lines = [_heading(summary, configs, vary), "", *align(head, rows, left)]
    more = [
        *worst_cases(summary),
        *costs(summary, vary, deep),
        *_bands(summary, vary, metrics),
        *_frontier(summary, vary, deep),
        *_four(summary, vary, deep),
    ]
    return "\n".join([*lines, *more, *_footnotes(summary)])


def _bands(summary: Mapping[str, Any], vary: Sequence[str], metrics: Sequence[str]) -> list[str]:
    """Mean, least and greatest value over seeds, apart from the intervals over queries."""
    configs = {c["id"]: c["config"] for c in summary["conditions"]}
    rows = []
    for band in summary["seed_bands"]:
        here = band["metrics"]
        cells = [setting(s, configs[band["conditions"][0]]) for s in vary]
        rows.append(
            [
                *cells,
                str(len(band["conditions"])),
                *(number(m, here.get(m, {}).get("mean")) for m in metrics),
            ]
        )
        ends = [[here[m]["least"], here[m]["greatest"]] if m in here else None for m in metrics]
        rows.append([*[""] * len(cells), "", *(span_cell(m, e) for m, e in zip(metrics, ends, strict=True))])
    if not rows:
        return []
    head = [NAMES.get(s, s) for s in vary] + ["seeds", *(_SHORT.get(m, m) for m in metrics)]
    title = "Over seeds: the mean, and the least and greatest value (no interval over queries):"
    return ["", title, "", *align(head, rows, len(vary))]


def _frontier(summary: Mapping[str, Any], vary: Sequence[str], deep: Sequence[str]) -> list[str]:
    """Exposure under attack against the cost on clean traffic, setting by setting."""
    configs = {c["id"]: c["config"] for c in summary["conditions"]}
    columns = {
        "TargetExp": "TargetExp",
        "SafeR": "SafeR",
        "Shortage": "Shortage",
        "clean nDCG": "clean_nDCG",
        "clean Evid": "clean_Evid",
        "clean Shortage": "clean_Shortage",
    }
    rows = []
    for point in summary["frontier"]:
        config = configs[point["condition"]]
        cells = [setting(s, config) for s in vary] + [flat(config).get(name, "") for name in deep]
        numbers = [number(m, point[m]) for m in columns.values()]
        rows.append([*cells, *numbers, "*" if point["pareto"] else ""])
    if not rows:
        return []
    head = [NAMES.get(s, s) for s in vary] + [*deep, *columns, "Pareto"]
    title = "Frontier: exposure against clean nDCG (* no setting is better in one and as good in the other):"
    return ["", title, "", *align(head, rows, len(vary) + len(deep))]


def _four(summary: Mapping[str, Any], vary: Sequence[str], deep: Sequence[str]) -> list[str]:
    """What each defense prevented, introduced and did to clean traffic."""
    measures = {"prevented": "P", "introduced": "J", "net": "N", "clean change": "H", "contrast": "Gamma"}
    configs = {c["id"]: c["config"] for c in summary["conditions"]}
    rows = []
    for row in summary["four_conditions"]:
        if row["event"] not in _EVENTS:
            continue
        config = configs[row["condition"]]
        cells = [setting(s, config) for s in vary] + [flat(config).get(name, "") for name in deep]
        rows.append(
            [*cells, _EVENTS[row["event"]], str(row["n"])]
            + [number("", row[m]) for m in measures.values()]
            + [p_text(row["p"])]
        )
        ends = [interval("", row["intervals"].get(m)) for m in measures.values()]
        rows.append([*[""] * len(cells), "", "", *ends, ""])
    if not rows:
        return []
    head = [NAMES.get(s, s) for s in vary] + list(deep) + ["event", "n", *measures, "p of net"]
    title = (
        "What the defenses did, on the same queries (net = prevented - introduced; clean change: more of "
        "the event on clean traffic;\ncontrast = net + clean change; p exact, not corrected):"
    )
    return ["", title, "", *align(head, rows, len(vary) + len(deep) + 1)]


def shown_metrics(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Ranking quality, the standard ones, then the user's own."""
    names = list(dict.fromkeys(m for c in conditions for m in c["metrics"]))
    quality = [m for m in names if "@" in m]
    known = {"CrossExp", "PoisonFraction", "FirstPoisonRank", "FirstEvidenceRank", "Coverage"}
    known |= {"CertTerms", "EvidClean", "EvidPoison", "NoEvidClean", "NoEvidPoison"}
    shown = [m for m in _METRICS if m in names]
    if not any(c["metrics"].get("Shortage") for c in conditions):
        shown.remove("Shortage")
    if any(c["metrics"].get("CrossExp") for c in conditions):
        shown.insert(2, "CrossExp")
    if all(c["metrics"].get("AnyExp") == c["metrics"].get("TargetExp") for c in conditions):
        shown.remove("AnyExp")  # as it is where a query sees no poison but its own
    coverage = ["Coverage"] if any(c["config"]["anchor"] == "terms" for c in conditions) else []
    return [*coverage, *quality, *shown, *(m for m in names if m not in {*quality, *_METRICS, *known})]


def _heading(summary: Mapping[str, Any], configs: Sequence[Mapping[str, Any]], vary: Sequence[str]) -> str:
    fixed = []
    for s in SETTINGS:
        value = configs[0][s]
        if s not in vary and value is not None and not (s == "targets" and value == "all"):
            fixed.append(f"{NAMES.get(s, s)} {value}")
    return f"{len(configs)} conditions: " + ", ".join(fixed) if len(configs) > 1 else ", ".join(fixed)


def _footnotes(summary: Mapping[str, Any]) -> list[str]:
    conditions = summary["conditions"]
    out = [""]
    if any(c["intervals"] for c in conditions):
        s = summary["statistics"]
        units = {u for u in s["unit"].values() if u != "query"}
        drawn = f" or {', '.join(sorted(units))}" if units else ""
        out.append(f"Brackets: {s['level']:.0%} intervals over queries{drawn} (B = {s['n_resamples']:,}).")
    left_out = max(c["n_left_out"] for c in conditions)
    if left_out:
        out.append(f"{left_out} queries without relevant documents are left out of the means.")
    if any(c["partner"] for c in conditions):
        out.append(
            "Clean and undefended conditions were added for comparison (partners=false leaves them out)."
        )
    out += gap(conditions)
    for name, notes in summary["warnings"].items():
        out.extend(f"{name}: {note}" for note in notes)
    kinds = {"fewer_terms": "targets have fewer eligible terms than asked; all of them are used",
             "no_terms": "targets have no eligible term; their poison is the body alone",
             "short_snippets": "neutral snippets are shorter than their payload",
             "empty_texts": "poison documents are empty"}  # fmt: skip
    for kind, words in kinds.items():
        counts = [c["notes"][kind] for c in conditions if kind in c["notes"]]
        if counts:
            out.append(f"Up to {max(counts)} {words}.")
    return out if len(out) > 1 else []
