"""Worst cases and attack costs as a run prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.report.attack_cost import AXES, MARKS, cost_text, span_text
from stressrag.report.cells import NAMES, align, differing, flat, number, setting
from stressrag.report.worst_case import STATIC_ONLY, is_adaptive


def worst_cases(summary: Mapping[str, Any]) -> list[str]:
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
            [
                *cells,
                by[0],
                told[0],
                by[1],
                told[1],
                number("TargetExp", worst),
                number(quality, clean),
                "*" if w["pareto"] else "",
            ]
        )
        ends += [w["adaptive"] is None and config["defense"] != "none"]
    head = [NAMES.get(s, s) for s in vary] + [*deep, "static", "TargetExp", "adaptive", "TargetExp"]
    title = "Worst attack of this run, by fixed texts and by an attacker who knows retriever and defense:"
    lines = [
        "",
        title,
        "",
        *align([*head, "worst", f"clean {quality}", "Pareto"], rows, len(vary) + len(deep)),
    ]
    return [*lines, *(["", f"WARNING: a defense here was {STATIC_ONLY}."] if any(ends) else [])]


_OF_ATTACK = ("max_tokens", "against", "wording", "payload", "snippet", "tokenizer", "target", "quota.poison")


def _attack(config: Mapping[str, Any]) -> str:
    """An attack with what it knows and plants, in few words."""
    known = f" {config['terms']} {config['strategy']}" if config["anchor"] == "terms" else ""
    aim = config["attack_settings"].get("wording") == "optimal"
    unaware = " (unaware)" if aim and not is_adaptive(config) else ""
    return f"{config['attack']}{known} P={config['budget']}{unaware}"


def costs(summary: Mapping[str, Any], vary: Sequence[str], deep: Sequence[str]) -> list[str]:
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


def gap(conditions: Sequence[Mapping[str, Any]]) -> list[str]:
    """How far certificates and attacks are apart."""
    certified = [c for c in conditions if c["metrics"].get("CertSafe") is not None]
    gaps = [1 - c["metrics"]["CertSafe"] - c["metrics"]["TargetExp"] for c in certified]
    if not gaps:
        optimal = any(c["config"]["attack_settings"].get("wording") for c in conditions)
        return ["No certificates: the retriever, variant or scope has no bound."] if optimal else []
    return [
        "CertSafe: queries that provably no documents with the same query terms can enter; at most "
        f"{max(0.0, *gaps):.3f} of them, in any one condition, are neither entered nor certified."
    ]
