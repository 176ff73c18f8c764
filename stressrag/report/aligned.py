"""The report of an aligned evaluation, as HTML and Markdown, from its rows alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stressrag.aligned.records import NO_DEFENSE
from stressrag.aligned.versus import place_of
from stressrag.report.aligned_figures import figures
from stressrag.report.aligned_tables import tables
from stressrag.report.html import document, figure_block, table_block, words_block
from stressrag.report.labels import percent
from stressrag.report.markdown import safe, table_lines
from stressrag.report.visible import visible

if TYPE_CHECKING:
    from stressrag.aligned.score import Evaluation

Row = Mapping[str, Any]
_TITLE = "Answers under poisoning: what defenses prevented and introduced"
_MOST = 12
FEW_GROUPS = 8  # below it an interval over groups is mostly quantile of t


def html(e: Evaluation) -> str:
    """The page: plain words, tables and figures."""
    made = tables(e)
    body = (
        f"<main>{words_block(_shown(words(e)))}{table_block(made[0]) if made else ''}"
        f"{''.join(figure_block(f) for f in figures(e))}{''.join(table_block(t) for t in made[1:])}</main>"
    )
    return document("stressrag: aligned evaluation", _TITLE, body)


def markdown(e: Evaluation) -> str:
    """The same without figures."""
    out = [f"# {_TITLE}", ""]
    for heading, sentences in _shown(words(e)):
        out += [f"## {safe(heading)}", "", *(f"* {safe(s)}" for s in sentences), ""]
    for t in tables(e):
        out += table_lines(t)
    return "\n".join(out)


def _shown(said: Sequence[tuple[str, Sequence[str]]]) -> list[tuple[str, list[str]]]:
    return [(heading, [visible(s, 1000) for s in sentences]) for heading, sentences in said if sentences]


def words(e: Evaluation) -> list[tuple[str, list[str]]]:
    """Headings with sentences, in the order of a reader's questions."""
    return [
        (
            "What did each defense prevent, and what did it introduce?",
            _capped([_effect(r) for r in e.rows if r["method"] != NO_DEFENSE and r["label"] == _lead(e)]),
        ),
        ("Where do labels disagree about which defense is better?", _disagree(e)),
        ("Why did the attack work?", _mechanism(e)),
        ("What is uncertain?", _uncertain(e)),
    ]


def _lead(e: Evaluation) -> str:
    """The label that the sentences speak of: a judge before the rules, and ``endorsed`` before the others."""
    judges = [
        name
        for name in e.labels
        if name not in ("boundary", "endorsed", "substring", "poisonedrag", "harness", "screened")
    ]
    return judges[0] if judges else "endorsed" if "endorsed" in e.labels else e.labels[0]


def _capped(sentences: list[str]) -> list[str]:
    rest = len(sentences) - _MOST
    return sentences if rest <= 0 else [*sentences[:_MOST], f"{rest} more are in the tables."]


def _effect(r: Row) -> str:
    place = place_of(r)
    if not r["n"]:
        return (
            f"{place + ': ' if place else ''}{r['method']}: no query has a known label under {r['label']} in"
            " all four conditions."
        )
    low, high = r["intervals"]["N"]
    sure = low is not None and (low > 0 or high < 0)
    verdict = "lowers" if r["N"] > 0 else "raises" if r["N"] < 0 else "does not change"
    net = (
        f"{verdict} target-positive answers from {percent(r['r_p0'])} to {percent(r['r_p1'])}"
        if r["N"]
        else f"leaves {percent(r['r_p1'])} target-positive"
    )
    doubt = "" if sure else " (the interval includes no change)"
    clean = (
        f"on clean retrieval it changes them by {100 * r['H']:+.0f} points"
        if r["H"]
        else "on clean retrieval nothing changes"
    )
    alone = ""
    if r["Gamma"] > 0 >= r["N"]:
        alone = " Its contrast is above zero only because it does harm on clean retrieval."
    return (
        f"{place + ': ' if place else ''}{r['method']} prevents {r['counts']['P']} and introduces"
        f" {r['counts']['J']} of {r['n']} ({r['label']}); it {net}{doubt}; {clean}.{alone}"
    )


def _disagree(e: Evaluation) -> list[str]:
    out = list(e.disagreements)
    if not out and len(e.labels) > 1:
        out = [f"Nowhere: {', '.join(e.labels)} rank all pairs of methods alike, or see no difference."]
    return _capped(out)


def _mechanism(e: Evaluation) -> list[str]:
    out = []
    for r in e.controls:
        if r["label"] != _lead(e) or r["method"] != NO_DEFENSE:
            continue
        told = [
            f"{v['count']} of {v['n']} {what}" for name, what in _TOLD.items() if (v := r[name]) is not None
        ]
        lacking = [name.replace("_", " ") for name in _TOLD if r[name] is None]
        place = place_of(r)
        if told:
            out.append(
                f"{place + ': ' if place else ''}{'; '.join(told)} ({r['label']})."
                + (f" Not available: {', '.join(lacking)}." if lacking else "")
            )
    return _capped(out)


_TOLD = {
    "newly_induced": "queries are newly target-positive",
    "injection_dependent": "target-positive answers lose the target once all poison is removed",
    "single_sufficient": "need one poison passage only",
    "strict": "queries need legitimate and injected evidence together",
}


def _uncertain(e: Evaluation) -> list[str]:
    out = list(e.notes)
    unknown: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for r in e.rows:
        for why in r["unknown"].values():
            for name, n in why.items():
                unknown[r["label"]][name] += n
    for label, why in unknown.items():
        counts = ", ".join(f"{n} {name}" for name, n in why.items())
        out.append(
            f"{label}: {counts} labels over all rows; measures leave those queries out, and the bounds say"
            " what they could change."
        )
    groups = sorted({r["groups"] for r in e.rows if r["groups"]})
    if groups:
        span = str(groups[0]) if len(groups) == 1 else f"{groups[0]} to {groups[-1]}"
        out.append(
            f"Intervals are {e.level:.0%} and count {span} injection groups, not queries, as independent."
        )
        if groups[0] < FEW_GROUPS:
            out.append(
                f"With {groups[0]} groups hardly anything can be told from chance; {FEW_GROUPS} or more are"
                " needed."
            )
    elif e.rows:
        out.append(
            f"Intervals are {e.level:.0%}; every query counts as independent, since no two share an injection"
            " group."
        )
    return out
