"""The report of an aligned evaluation, as HTML and Markdown, from its rows alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stressrag.aligned.records import NO_DEFENSE
from stressrag.aligned.versus import is_detector, listed, place_of
from stressrag.report.aligned_figures import figures
from stressrag.report.aligned_rows import lead, ordered, place, place_names
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
    vary, spoken = place_names(e.rows), lead(e.labels, e.rows) if e.labels else ""
    rows = [r for r in ordered(e.rows) if r["method"] != NO_DEFENSE and r["label"] == spoken]
    few = len({r["method"] for r in rows if is_detector(r["method"])}) < _MANY_DETECTORS
    plain = rows if few else [r for r in rows if not is_detector(r["method"])]
    by = f" (by {spoken})" if len(e.labels) > 1 else ""
    costs = dict.fromkeys([*map(_cost, plain), *_utility(e, spoken)])
    effects = [_effect(r, vary) for r in plain]
    return [
        ("What was run?", list(e.about)),
        (f"What did each defense prevent, and what did it introduce{by}?", _capped(effects)),
        (f"What does it do to answers on clean retrieval{by}?", _capped(list(costs))),
        ("Where do labels disagree about which defense is better?", _disagree(e)),
        ("What makes the attack work?", _mechanism(e, spoken)),
        ("What is uncertain?", _uncertain(e)),
    ]


_MANY_DETECTORS = 3  # methods; from here on they are in the tables only


def _capped(sentences: list[str]) -> list[str]:
    rest = len(sentences) - _MOST
    return sentences if rest <= 0 else [*sentences[:_MOST], f"{rest} more are in the tables."]


def _at(r: Row, vary: Sequence[str]) -> str:
    words = place(r, vary)
    return f"{words}: {r['method']}" if words else str(r["method"])


def _effect(r: Row, vary: Sequence[str]) -> str:
    every = r["n_queries"] - r["not_applicable"]
    if not r["n"]:
        return f"{_at(r, vary)}: none of {every} queries has a known label in all four conditions."
    low, high = r["intervals"]["N"]
    sure = low is not None and (low > 0 or high < 0)
    net = f"leaves {percent(r['r_p1'])} target-positive"
    if r["N"]:
        verdict = "lowers" if r["N"] > 0 else "raises"
        net = f"{verdict} target-positive answers from {percent(r['r_p0'])} to {percent(r['r_p1'])}"
    doubt = "" if sure else " (the interval includes no change)"
    out = (
        f"{_at(r, vary)} prevents {r['counts']['P']} and introduces {r['counts']['J']} of {r['n']}; it"
        f" {net}{doubt}."
    )
    if not r["r_p0"] and not r["r_p1"]:
        out = f"{_at(r, vary)}: no answer of {r['n']} is target-positive, with the defense or without it."
    if r["bounds"]:
        least, most = r["bounds"]["r_p1"]
        out += (
            f" {every - r['n']} of {every} queries have an unknown label and are left out; over all of them "
            f"{percent(least)} to {percent(most)} are target-positive with the defense."
        )
    if r["Gamma"] > 0 >= r["N"]:
        out += " Its contrast is above zero only because it does harm on clean retrieval."
    given, declined = r["correct_p1"], r["abstains_p1"]
    if given is not None and declined is not None and declined - (r["abstains_p0"] or 0) > _MANY:
        out += (
            f" It declines to answer {percent(declined)} of the poisoned queries and is right on"
            f" {percent(given)}."
        )
    return out


_MANY = 0.1  # a rise in abstentions that a reader must hear of


def _cost(r: Row) -> str:
    at = place_of({**r, "budget": None})
    words = []
    for name, what in (("correct", "right answers"), ("abstains", "abstentions")):
        before, after = r[f"{name}_c0"], r[f"{name}_c1"]
        if before is not None and after is not None:
            words.append(f"{what} {percent(before)} → {percent(after)}")
    harm = f"target-positive answers {percent(r['r_c0'])} → {percent(r['r_c1'])}" if r["n"] else ""
    where = f" ({at})" if at and not r.get("victim") else ""
    return f"{r['method']}{where}, attacked queries: {'; '.join([*words, harm]).strip('; ')}."


def _utility(e: Evaluation, spoken: str) -> list[str]:
    out = []
    for r in e.utility:
        if r["label"] != spoken or r["method"] == NO_DEFENSE or is_detector(r["method"]) or r["lost"] is None:
            continue
        out.append(
            f"{r['method']}, {r['n_queries']} held-out queries: right answers {percent(r['correct_before'])}"
            f" → {percent(r['correct_after'])} (lost {percent(r['lost'])}, gained {percent(r['gained'])});"
            f" abstentions introduced {percent(r['abstention_introduced'])}."
        )
    return out


def _disagree(e: Evaluation) -> list[str]:
    out = list(e.disagreements)
    sure = [name for name in e.labels if any(r["n"] for r in e.rows if r["label"] == name)]
    if not out and len(sure) > 1:
        out = [f"Nowhere: {listed(sure)} rank all pairs of methods alike, or see no difference."]
    return _capped(out)


def _mechanism(e: Evaluation, spoken: str) -> list[str]:
    out = []
    vary = place_names(e.controls)
    for r in e.controls:
        if r["label"] != spoken or r["method"] != NO_DEFENSE:
            continue
        here = [x for x in e.rows if x["label"] == spoken and place_of(x) == place_of(r)]
        if not r["newly_induced"] or not any(x["r_p0"] for x in here):
            at = place(r, vary)
            out.append(f"{at + ': ' if at else ''}{_no_success(r, here)}")
            continue
        told = [
            f"{v['count']} of {v['n']} {what}" for name, what in _TOLD.items() if (v := r[name]) is not None
        ]
        lacking = [name.replace("_", " ") for name in _TOLD if r[name] is None]
        at = place(r, vary)
        if told:
            out.append(
                f"{at + ': ' if at else ''}{'; '.join(told)}."
                + (f" Not available: {', '.join(lacking)}." if lacking else "")
            )
    return _capped(out)


def _no_success(r: Row, here: Sequence[Row]) -> str:
    """What there is to say of an attack without one target-positive answer: it may do harm all the same."""
    out = "no answer is target-positive under poisoned retrieval"
    known = next((x for x in here if x["n"]), None)
    if known is not None and known["intervals"]["r_p0"][1] is not None:
        out += f" (0 of {known['n']}, at most {percent(known['intervals']['r_p0'][1])})"
    out += ": the attack was not seen to work on this system, so nothing can be said of prevention."
    together = r["co_retrieved"]
    if known is not None and known.get("split_knowledge") and together is not None:
        out += f" Both passages are in {together['count']} of {together['n']} contexts."
    if known is not None and known["correct_c0"] is not None and known["correct_p0"] is not None:
        out += (
            f" Right answers without a defense, of {known['n_of']['correct_c0']}:"
            f" {percent(known['correct_c0'])} on clean retrieval, {percent(known['correct_p0'])} on poisoned."
        )
    return out


_TOLD = {
    "newly_induced": "queries are newly target-positive",
    "injection_dependent": "target-positive answers lose the target once all poison is removed",
    "single_sufficient": "are given from one poison passage alone as well",
    "strict": "queries need legitimate and injected evidence together",
}


def _uncertain(e: Evaluation) -> list[str]:
    out = list(e.notes)
    groups = sorted({r["groups"] for r in e.rows if r["groups"]})
    if groups:
        span = str(groups[0]) if len(groups) == 1 else f"{groups[0]} to {groups[-1]}"
        out.append(
            f"Intervals are {e.level:.0%} and count {span} injection groups, not queries, as independent."
        )
        wide = [
            ends[1] - ends[0] for r in e.rows if (ends := r["intervals"].get("N")) and ends[0] is not None
        ]
        if wide:
            out.append(
                f"The widest interval of N is {100 * max(wide):.0f} points across; about four times as many"
                " groups would halve it."
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
