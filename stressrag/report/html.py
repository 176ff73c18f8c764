"""A report as one HTML page: no script, nothing from elsewhere, every foreign word escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stressrag.report.content import Content
from stressrag.report.plots import Figure
from stressrag.report.style import STYLE
from stressrag.report.tables import Table
from stressrag.report.targets import Document, Worst

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(contents: Sequence[Content]) -> str:
    """The page of some runs, a section each."""
    names = ", ".join(c.name for c in contents)
    body = "".join(_section(i, c) for i, c in enumerate(contents, 1))
    nav = ""
    if len(contents) > 1:
        links = "".join(
            f'<li><a href="#run-{i}">{escape(c.name)}</a></li>' for i, c in enumerate(contents, 1)
        )
        nav = f"<nav><ul>{links}</ul></nav>"
    return document(f"stressrag: {names}", "Retrieval under poisoning", f"{nav}<main>{body}</main>")


def document(title: str, heading: str, body: str) -> str:
    """A whole page around a body that is HTML already; title and heading are escaped here."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><header><h1>{escape(heading)}</h1></header>{body}"
        "<footer><p>Written by stressrag from saved records. Everything from documents, queries and "
        "settings is "
        "shown as text; characters that do not show, such as direction marks, stand as [U+202E].</p></footer>"
        "</body></html>\n"
    )


def words_block(words: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Headings with their sentences."""
    inner = "".join(
        f"<h3>{escape(heading)}</h3><ul>{''.join(f'<li>{escape(s)}</li>' for s in sentences)}</ul>"
        for heading, sentences in words
    )
    return f'<div class="words">{inner}</div>'


def _section(number: int, c: Content) -> str:
    missing = (
        f"<p><b>Not drawn, for want of data:</b> {escape('; '.join(c.missing))}.</p>" if c.missing else ""
    )
    return (
        f'<section id="run-{number}"><h2>{escape(c.name)}</h2><p class="note">{escape(c.about)}</p>'
        f"{words_block(c.words)}"
        f"{table_block(c.threats)}"
        f"{''.join(figure_block(f) for f in c.figures)}"
        f"{''.join(table_block(t) for t in c.tables)}"
        f"{_worst(c)}{missing}</section>"
    )


def table_block(t: Table) -> str:
    """A table, behind a summary line unless it is an open one."""
    kinds = ['class="w"' if i < t.words else "" for i in range(len(t.head))]
    head = "".join(f'<th scope="col" {k}>{escape(h)}</th>' for h, k in zip(t.head, kinds, strict=True))
    rows = "".join(
        "<tr>" + "".join(f"<td {k}>{escape(x)}</td>" for x, k in zip(r, kinds, strict=True)) + "</tr>"
        for r in t.rows
    ).replace("<td >", "<td>")
    inner = (
        f'<p class="note">{escape(t.note)}</p><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escape(t.title)}"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
    )
    if t.open:
        return f"<h3>{escape(t.title)}</h3>{inner}"
    return f"<details><summary><h3>{escape(t.title)} ({len(t.rows)} rows)</h3></summary>{inner}</details>"


def figure_block(f: Figure) -> str:
    """A figure with its legend and panels."""
    legend = "".join(f"<li>{mark} {escape(text)}</li>" for mark, text in f.legend)
    legend = f'<ul class="legend">{legend}</ul>' if legend else ""
    note = f'<p class="note">{escape(f.note)}</p>' if f.note else ""
    kind = "wide" if f.wide else "panels"
    panels = "".join(f'<div class="panel">{p}</div>' for p in f.panels)
    return (
        f"<figure><figcaption><h3>{escape(f.title)}</h3></figcaption>{note}{legend}"
        f'<div class="{kind} scroll">{panels}</div></figure>'
    )


def _worst(c: Content) -> str:
    told = f"<h3>Worst targets</h3><p>{escape(c.losses_note)}</p>"
    return told + "".join(_one(w, c) for w in c.losses.worst)


def _one(w: Worst, c: Content) -> str:
    lost = "some evidence left" if w.evidence_left else "no evidence left"
    gone = len(w.pushed_out)
    top = "".join(_document(d) for d in w.top)
    out = "".join(_document(d) for d in w.pushed_out)
    head = (
        '<tr><th scope="col">rank</th><th scope="col" class="w">what</th><th scope="col" class="w">'
        "document</th></tr>"
    )
    query = f"<bdi>{escape(w.query)}</bdi> " if w.query else ""
    return (
        f"<details><summary>{query}<small>query <bdi>{escape(w.query_id)}</bdi>: {gone} pushed out, "
        f"{lost}</small>"
        f'</summary><p class="note">Under {escape(c.labels.of(w.condition))}.</p>'
        f'<div class="scroll"><table class="docs"><caption>Top of the list under attack</caption>'
        f"<thead>{head}</thead><tbody>{top}</tbody></table>"
        f'<table class="docs"><caption>Pushed out: relevant, in the list without poison, missing now '
        f"(rank there)"
        f"</caption><thead>{head}</thead><tbody>{out}</tbody></table></div></details>"
    )


def _document(d: Document) -> str:
    kind, what = describe(d)
    text = f"<br><bdi>{escape(d.text)}</bdi>" if d.text else ""
    return (
        f'<tr class="{kind}"><td>{d.rank}</td><td class="w">{escape(what)}</td>'
        f'<td class="w"><bdi class="id">{escape(d.name)}</bdi>{text}</td></tr>'
    )


def describe(d: Document) -> tuple[str, str]:
    """A document's kind, and the same with a symbol in words."""
    if d.poison:
        return "poison", "▲ POISON" + (f" for query {d.owner}" if d.owner is not None else "")
    if d.relevant:
        return "relevant", f"✔ relevant, grade {d.grade}"
    return "other", f"· grade {d.grade} or not judged"
