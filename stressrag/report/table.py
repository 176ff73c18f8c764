"""The table that a run prints: settings that vary as columns, the rest in the heading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.report.attack_cost import AXES, MARKS, cost_text, span_text
from stressrag.report.worst_case import STATIC_ONLY

SETTINGS = (
    "dataset",
    "retriever",
    "attack",
    "terms",
    "strategy",
    "budget",
    "scope",
    "defense",
    "k",
    "targets",
)
_DEEP = (
    "group_size",
    "pool",
    "statistics",
    "seed",
    "ties",
    "grade",
    "retriever_settings",
    "attack_settings",
    "defense_settings",
)
NAMES = {"budget": "P"}
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
        *_worst_cases(summary),
        *_costs(summary, vary, deep),
        *_bands(summary, vary, metrics),
        *_frontier(summary, vary, deep),
        *_four(summary, vary, deep),
    ]
    return "\n".join([*lines, *more, *_footnotes(summary)])


def _worst_cases(summary: Mapping[str, Any]) -> list[str]:
    """Fixed texts beside the attacker who knows the defense."""
    by_id = {c["id"]: c for c in summary["conditions"]}
    configs = [c["config"] for c in summary["conditions"]]
    vary = [
        s for s in ("dataset", "retriever", "scope", "defense", "k") if len({str(c[s]) for c in configs}) > 1
    ]
    if not summary["worst_cases"] or all(w["static"] is None for w in summary["worst_cases"]):
        return []
    names = [by_id[w["worst"]]["config"] for w in summary["worst_cases"]]
    deep = [n for n in differing(names) if not n.startswith(_OF_ATTACK)]
    quality = next(m for m in by_id[summary["worst_cases"][0]["worst"]]["metrics"] if m.startswith("nDCG@"))
    rows, ends = [], []
    for w, config in zip(summary["worst_cases"], names, strict=True):
        cells = [setting(s, config) for s in vary] + [flat(config).get(name, "") for name in deep]
        sides = [by_id[w[side]] if w[side] else None for side in ("static", "adaptive")]
        clean = by_id[w["clean"]]["metrics"][quality] if w["clean"] else None
        told = [(s and number("TargetExp", s["metrics"]["TargetExp"])) or "not tried" for s in sides]
        by = [(s and _attack(s["config"])) or "" for s in sides]
        worst = by_id[w["worst"]]["metrics"]["TargetExp"]
        rows.append(
            [*cells, by[0], told[0], by[1], told[1], number("TargetExp", worst), number(quality, clean)]
        )
        ends += [w["adaptive"] is None and config["defense"] != "none"]
    head = [NAMES.get(s, s) for s in vary] + [*deep, "static", "TargetExp", "adaptive", "TargetExp"]
    title = "Worst attack of this run, by fixed texts and by an attacker who knows retriever and defense:"
    lines = ["", title, "", *align([*head, "worse", f"clean {quality}"], rows, len(vary) + len(deep))]
    return [*lines, *(["", f"WARNING: a defense here was {STATIC_ONLY}."] if any(ends) else [])]


_OF_ATTACK = ("max_tokens", "against", "wording", "payload", "snippet", "tokenizer", "target", "quota.poison")


def _attack(config: Mapping[str, Any]) -> str:
    """An attack with what it knows and plants, in few words."""
    known = f" {config['terms']} {config['strategy']}" if config["anchor"] == "terms" else ""
    return f"{config['attack']}{known} P={config['budget']}"


def _costs(summary: Mapping[str, Any], vary: Sequence[str], deep: Sequence[str]) -> list[str]:
    """What it takes to expose so many queries."""
    configs = {c["id"]: c["config"] for c in summary["conditions"]}
    rows = []
    for row in summary["attack_costs"]:
        config, axis = configs[row["conditions"][0]], row["axis"]
        if all(p["exposure"] < MARKS[0] / 100 for p in row["curve"]):
            continue
        cells = [setting(s, config) if s != axis else "*" for s in vary]
        cells += [flat(config).get(name, "") if name != axis else "*" for name in deep]
        costs = [row["cost"][str(mark)] for mark in MARKS]
        rows.append([*cells, AXES[axis], *(f"{cost_text(c)} {span_text(c)}".rstrip() for c in costs)])
    if not rows:
        return []
    head = [NAMES.get(s, s) for s in vary] + [*deep, "price", *(f"{mark}%" for mark in MARKS)]
    title = "Attack cost: the least that exposes 10, 50 and 90% of queries, of the values tried (*):"
    return ["", title, "", *align(head, rows, len(vary) + len(deep) + 1)]


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
        rows.append([*[""] * len(cells), "", *(_range(m, e) for m, e in zip(metrics, ends, strict=True))])
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


def flat(config: Mapping[str, Any], node: str = "") -> dict[str, str]:
    """The deeper settings by dotted name, or only those of one node such as ``retriever_settings``.

    A name that stands in several nodes, as ``seed`` may, is told apart by retriever or node in the later one.
    """
    out: dict[str, str] = {}
    of_node: dict[str, str] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for k, v in value.items():
                walk(f"{name}.{k}", v)
        else:
            (of_node if top == node else out)[name] = "" if value is None else str(value)

    for top in _DEEP:
        if not top.endswith("_settings"):
            walk(top, config[top])
            continue
        owner = config["retriever"] if top == "retriever_settings" else top.removesuffix("_settings")
        for key, value in config[top].items():
            walk(f"{owner}.{key}" if key in out else key, value)
    return of_node if node else out


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Deeper settings that tell two conditions apart which no short setting tells apart."""
    by_short: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for c in configs:
        by_short.setdefault(tuple(str(c[s]) for s in SETTINGS), []).append(flat(c))
    names: dict[str, None] = {}
    for same in by_short.values():
        for name in dict.fromkeys(n for one in same for n in one):
            if len({one.get(name) for one in same}) > 1:
                names[name] = None
    return list(names)


def setting(name: str, config: Mapping[str, Any]) -> str:
    """A short setting as a cell."""
    value = config[name]
    if name == "budget" and value == 0:
        return "-"
    return "-" if value is None else str(value)


def number(name: str, value: float | None) -> str:
    """A metric's value as a cell."""
    if value is None:
        return "-"
    if name == "PoisonCount":
        return f"{value:.2f}"
    return f"{value:.3f}"


def interval(name: str, ends: Sequence[float | None] | None) -> str:
    """An interval as a cell, empty where there is none."""
    if ends is None or ends[0] is None or ends[1] is None:
        return ""
    low, high = (f"{end:.1f}" if name == "PoisonCount" else f"{end:.2f}" for end in ends)
    return _short(f"[{low} {high}]".replace("-0.00", "0.00"))


def _range(name: str, ends: Sequence[float] | None) -> str:
    return "" if ends is None else _short(f"{number(name, ends[0])}-{number(name, ends[1])}")


def _short(text: str) -> str:
    """Numbers without their leading zero (.5, but 10.5)."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def p_text(value: float) -> str:
    """A p-value as a cell."""
    return "<.001" if value < 0.001 else f"{value:.3f}"


def align(head: list[str], rows: list[list[str]], left: int) -> list[str]:
    """The lines of a table whose first ``left`` columns are words."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return [line(head), "  ".join("-" * w for w in widths), *map(line, rows)]


def _heading(summary: Mapping[str, Any], configs: Sequence[Mapping[str, Any]], vary: Sequence[str]) -> str:
    fixed = []
    for s in SETTINGS:
        value = configs[0][s]
        if s not in vary and value is not None and not (s == "targets" and value == "all"):
            fixed.append(f"{NAMES.get(s, s)} {value}")
    return f"{len(configs)} conditions: " + ", ".join(fixed) if len(configs) > 1 else ", ".join(fixed)


def _gap(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    """How far certificates and attacks are apart."""
    certified = [c for c in conditions if c["metrics"].get("CertSafe") is not None]
    gaps = [1 - c["metrics"]["CertSafe"] - c["metrics"]["TargetExp"] for c in certified]
    if not gaps:
        return []
    return [
        "CertSafe: queries that provably no documents with the same query terms can enter; at most "
        f"{max(0.0, *gaps):.3f} of them are neither entered nor certified."
    ]


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
    out += _gap(conditions)
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
