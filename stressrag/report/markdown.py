"""A report as Markdown: the words, tables and worst targets of the page, without its figures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stressrag.report.content import Content
from stressrag.report.html import describe
from stressrag.report.tables import Table
from stressrag.report.targets import Worst

_SIGNS = re.compile(r"([\\`*_{}\[\]()#!|~$@])")
_ADDRESS = re.compile(r":(?=//)|(?<=www)\.", re.IGNORECASE)


def safe(text: str) -> str:
    """A text that Markdown shows as it is: no markup, no HTML, no address that becomes a link."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SIGNS.sub(r"\\\1", " ".join(text.split()))
    return _ADDRESS.sub(lambda m: f"&#{ord(m.group())};", text)


def markdown(contents: Sequence[Content]) -> str:
    """The report of some runs, a section each."""
    out = ["# Retrieval under poisoning", ""]
    for c in contents:
        out += [f"## {safe(c.name)}", "", safe(c.about), ""]
        for heading, sentences in c.words:
            out += [f"### {safe(heading)}", "", *(f"* {safe(s)}" for s in sentences), ""]
        for t in (c.threats, *c.tables):
            out += table_lines(t)
        out += ["### Worst targets", "", safe(c.losses_note), ""]
        for w in c.losses.worst:
            out += _one(w, c)
        if c.missing:
            out += [f"Not drawn on the page, for want of data: {safe('; '.join(c.missing))}.", ""]
    return "\n".join(out)


def table_lines(t: Table) -> list[str]:
    """A table with its title and note."""
    rule = ["---" if i < t.words else "--:" for i in range(len(t.head))]
    rows = ["| " + " | ".join(safe(x) for x in r) + " |" for r in (t.head, *t.rows)]
    return [f"### {safe(t.title)}", "", safe(t.note), "", rows[0], f"|{'|'.join(rule)}|", *rows[1:], ""]


def _one(w: Worst, c: Content) -> list[str]:
    lost = "some evidence left" if w.evidence_left else "no evidence left"
    name = f"Query {safe(w.query_id)}" + (f": {safe(w.query)}" if w.query else "")
    out = [f"#### {name}", "", f"Under {safe(c.labels.of(w.condition))}; {lost}.", ""]
    out += ["| rank | what | document | text |", "|--:|---|---|---|"]
    for d in w.top:
        out.append(f"| {d.rank} | {safe(describe(d)[1])} | {safe(d.name)} | {safe(d.text)} |")
    for d in w.pushed_out:
        what = f"pushed out, grade {d.grade}"
        out.append(f"| was {d.rank} | {what} | {safe(d.name)} | {safe(d.text)} |")
    return [*out, ""]
