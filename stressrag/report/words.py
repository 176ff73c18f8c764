"""A summary in plain words, computed from the numbers, that says no more than they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.report.labels import Labels, bracket, number, p_value, percent
from stressrag.report.worst_case import STATIC_ONLY, is_adaptive, static_only

Condition = Mapping[str, Any]
HALF = 0.5


def plain_words(summary: Mapping[str, Any], labels: Labels) -> list[tuple[str, list[str]]]:
    """Headings with their sentences, in the order of a reader's questions."""
    return [
        ("How exposed is it?", _exposure(summary, labels)),
        ("Which real evidence is lost?", _evidence(summary, labels)),
        ("Which defense helps, and at what cost?", _defenses(summary, labels)),
        ("What is uncertain?", _uncertain(summary, labels)),
    ]


def attacked(summary: Mapping[str, Any]) -> list[Condition]:
    """Conditions with poison: the undefended ones, or all where every one is defended."""
    poisoned = [c for c in summary["conditions"] if c["config"]["budget"]]
    bare = [c for c in poisoned if c["config"]["defense"] == "none"]
    return bare or poisoned


def _rate(c: Condition, metric: str) -> str:
    ends = c["intervals"].get(metric)
    value = percent(c["metrics"].get(metric))
    n = c["n_queries"]
    if metric == "TargetExp" and "targeted" in c["splits"]:  # others have nothing that targets them
        n = c["splits"]["targeted"]["n_queries"]
    return f"{value} of {n} {'targets' if n < c['n_queries'] else 'queries'}" + (
        f" (interval {percent(ends[0])} to {percent(ends[1])})" if ends else ""
    )


def _exposure(summary: Mapping[str, Any], labels: Labels) -> list[str]:
    some = [c for c in attacked(summary) if c["metrics"].get("TargetExp") is not None]
    if not some:
        return ["No condition of this run plants poison, so it says nothing about exposure."]
    ranked = sorted(some, key=lambda c: c["metrics"]["TargetExp"])
    worst, typical = ranked[-1], ranked[(len(ranked) - 1) // 2]
    ties = sum(c["metrics"]["TargetExp"] == worst["metrics"]["TargetExp"] for c in ranked) - 1
    kind = "without a defense" if worst["config"]["defense"] == "none" else "(all of them defended)"
    out = [
        f"Worst of {len(ranked)} attacked conditions {kind}: {labels.of(worst['id'])}. Poison that "
        f"targets the "
        f"query is in the top {worst['config']['k']} of {_rate(worst, 'TargetExp')}"
        + (f"; {ties} more reach the same." if ties else ".")
    ]
    if len(ranked) > 1:
        out.append(
            f"Typical (the median of them): {labels.of(typical['id'])}, with {_rate(typical, 'TargetExp')}."
        )
    out += _least(some, labels)
    if any(c["n_targets"] < c["n_queries"] for c in some):
        out.append("Some attacks target a part of the queries only; their shares are of the targets.")
    return out


def known_terms(c: Condition) -> float | None:
    """How much of the query an attack rests on: 0, a number of terms, or infinity; ``None`` if not known."""
    config = c["config"]
    if config["attack_settings"].get("target"):
        return None
    return {"none": 0.0, "query": float("inf")}.get(config["anchor"], config["terms"])


def _least(some: Sequence[Condition], labels: Labels) -> list[str]:
    reach = [c for c in some if c["metrics"]["TargetExp"] >= HALF and known_terms(c) is not None]
    if not reach:
        return [f"None of the attacks tried reaches {HALF:.0%} exposure."]

    def need(c: Condition) -> tuple[float, int, float]:
        known = known_terms(c)
        return (float("inf") if known is None else known, c["config"]["budget"], -c["metrics"]["TargetExp"])

    least = min(reach, key=need)
    terms, budget = need(least)[0], least["config"]["budget"]
    known = "the whole query" if terms == float("inf") else f"{terms:.0f} known term{'s' * (terms != 1)}"
    documents = f"{budget} document{'s' * (budget != 1)} per target"
    ends = least["intervals"].get("TargetExp")
    doubt = " The interval reaches below that mark." if ends and ends[0] < HALF else ""
    return [
        f"Least that reaches {HALF:.0%}, of the values tried: {known} and {documents} "
        f"({labels.of(least['id'])}): "
        f"{_rate(least, 'TargetExp')}.{doubt}"
    ]


def _evidence(summary: Mapping[str, Any], labels: Labels) -> list[str]:
    by_id = {c["id"]: c for c in summary["conditions"]}
    ids = {c["id"] for c in attacked(summary)}
    pairs = [c for c in summary["comparisons"] if c["against"] == "clean" and c["condition"] in ids]
    if not pairs:
        return [
            "The run holds no comparison of an attack with clean traffic, so it says nothing about losses."
        ]
    bare = all(c["config"]["defense"] == "none" for c in attacked(summary))
    kind = "without a defense " if bare else ""
    out = []
    for metric, words in (("Evid", "a relevant document in the top k"), ("nDCG", "ranking quality")):
        found = [(c, m, v) for c in pairs for m, v in c["metrics"].items() if m.split("@")[0] == metric]
        if not found:
            continue
        c, m, v = min(found, key=lambda x: x[2]["difference"])
        before, after = by_id[c["baseline"]]["metrics"][m], by_id[c["condition"]]["metrics"][m]
        if v["difference"] >= 0:
            out.append(f"{m} ({words}): no attacked condition {kind}has less than its clean partner.")
            continue
        doubt = ""
        if v["high"] is not None and v["high"] >= 0:
            doubt = " The interval includes no loss at all."
        p = f", Holm p {p_value(v['p_holm'])} in a family of {v['family']}" if "p_holm" in v else ""
        out.append(
            f"{m} ({words}) falls most {kind}under {labels.of(c['condition'])}: from {number(m, before)} to "
            f"{number(m, after)}, a difference of {number(m, v['difference'], sign=True)} "
            f"{bracket(m, (v['low'], v['high']))} over {v['n']} queries{p}.{doubt}"
        )
    safe = min(attacked(summary), key=lambda c: c["metrics"]["SafeR"])
    out.append(
        f"Evidence and no poison (SafeR), at worst {kind.strip() or 'of all'}: {_rate(safe, 'SafeR')}, "
        f"under {labels.of(safe['id'])}."
    )
    return out


def _defenses(summary: Mapping[str, Any], labels: Labels) -> list[str]:
    conditions = summary["conditions"]
    if all(c["config"]["defense"] == "none" for c in conditions):
        return ["No defense was part of this run, so it says nothing about defenses."]
    rows = [r for r in summary["four_conditions"] if r["event"] == "TargetExp"]
    if not rows:
        return [
            "Defenses were run, but not on all four matched conditions, so what they prevent is not known."
        ]
    costs = {c["condition"]: c["metrics"] for c in summary["comparisons"] if c["against"] == "undefended"}
    points = {p["condition"]: p for p in summary["frontier"]}
    settings: dict[str, list[Mapping[str, Any]]] = {}
    for r in rows:
        settings.setdefault(f"{labels.place(r['condition'])}, {labels.defense(r['condition'])}", []).append(r)
    ranked = sorted(settings.items(), key=lambda item: max(r["r_p1"] for r in item[1]))
    out = []
    for name, some in ranked[:_MOST]:
        least, most = min(r["N"] for r in some), max(r["N"] for r in some)
        sure = sum(bool(r["intervals"]["N"][0] is not None and r["intervals"]["N"][0] > 0) for r in some)
        left = max(r["r_p1"] for r in some)
        span = percent(most) if len(some) == 1 else f"{percent(least)} to {percent(most)}"
        optimal = [points[r["condition"]]["pareto"] for r in some if r["condition"] in points]
        out.append(
            f"{name}: net prevention of poison in the top k for {span} of queries over {len(some)} attacked "
            f"conditions, its interval above zero in {sure}; at worst {percent(left)} stay exposed. "
            f"{_cost(costs.get(some[0]['clean_defended'], {}))}"
            + (f" On the frontier for {sum(optimal)} of {len(optimal)}." if optimal else "")
        )
    if len(ranked) > _MOST:
        out.append(f"{len(ranked) - _MOST} further settings are in the tables.")
    fixed = static_only(summary)
    if fixed:
        names = list(dict.fromkeys(labels.defense(c) for c in fixed))
        shown = ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")
        out.append(f"WARNING: {shown}: {STATIC_ONLY}.")
    return out


_MOST = 8


def _cost(metrics: Mapping[str, Mapping[str, Any]]) -> str:
    """What a defense does to clean traffic."""
    wanted = [m for m in metrics if m.split("@")[0] == "nDCG"] + [
        m for m in ("Evid", "Shortage") if m in metrics
    ]
    told = [
        f"{m} {number(m, v['difference'], sign=True)} {bracket(m, (v['low'], v['high']))}".rstrip()
        for m in wanted
        if (v := metrics[m])["difference"] or m != "Shortage"
    ]
    return f"Clean cost: {', '.join(told)}." if told else "Its clean cost was not compared."


def _uncertain(summary: Mapping[str, Any], labels: Labels) -> list[str]:
    conditions, statistics = summary["conditions"], summary["statistics"]
    out = []
    wide = [
        (ends[1] - ends[0], m, c)
        for c in conditions
        for m, ends in c["intervals"].items()
        if m in ("TargetExp", "Evid", "SafeR") or m.startswith("nDCG@")
    ]
    if wide:
        width, m, c = max(wide, key=lambda x: x[0])
        value = f"{number(m, c['metrics'][m])} {bracket(m, c['intervals'][m])}"
        out.append(
            f"Widest interval: {m} of {labels.of(c['id'])}, {value}, {number('', width)} across. "
            f"Intervals are "
            f"{statistics['level']:.0%}, condition by condition; the worst of many conditions is picked "
            f"after "
            "seeing them, and its interval is not corrected for that."
        )
    else:
        out.append("The run was made without intervals (resamples=0): how sure its means are is not known.")
    sizes = sorted({c["n_queries"] for c in conditions})
    out.append(f"Judged queries: {' or '.join(f'{n:,}' for n in sizes)}{_left_out(conditions)}.")
    out.append(_seeds(summary, labels))
    out.append(
        "Relevance judgments are incomplete as a rule: a document without a judgment counts as not relevant, "
        "so Evid and SafeR are lower bounds." + _wording(conditions)
    )
    for name, notes in summary["warnings"].items():
        out += [f"{name}: {note}" for note in notes]
    return out


def _wording(conditions: Sequence[Condition]) -> str:
    if not any(is_adaptive(c["config"]) for c in conditions):
        return " The attacks are fixed texts; a better wording may do more (attack=optimal)."
    return (
        " Where the best wording is searched for (all but BM25, alone or behind overlap), what it reaches is "
        "a lower bound."
    )


def _left_out(conditions: Sequence[Condition]) -> str:
    most = max(c["n_left_out"] for c in conditions)
    return f"; {most:,} without relevant documents are left out of the means" if most else ""


def _seeds(summary: Mapping[str, Any], labels: Labels) -> str:
    found = [
        (b["metrics"]["TargetExp"]["greatest"] - b["metrics"]["TargetExp"]["least"], len(b["conditions"]), b)
        for b in summary["seed_bands"]
        if "TargetExp" in b["metrics"]
    ]
    if not found:
        return "Seeds: one per condition, so how much random draws move the numbers is not known."
    width, n, band = max(found, key=lambda x: x[0])
    return (
        f"Seeds: {n} in the widest band; over them TargetExp of {labels.of(band['conditions'][0])} moves by "
        f"{number('', width)}."
    )
