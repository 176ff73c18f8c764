"""A reproduction as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

_HEAD = ("cell", "metric", "paper", "ours", "difference", "95% interval", "seeds", "tolerance", "verdict")


def markdown(value: Mapping[str, Any]) -> str:
    """The whole report: verdict first, then a table per experiment, then the open choices."""
    out = [f"# {value['title']}", "", value["paper"], ""]
    out += [*value["verdicts"], ""]
    if outliers := [r for r in value["rows"] if r["inside"] is False]:
        out += ["Outside:", ""]
        for r in outliers:
            out.append(
                f"* {r['dataset']}, {r['cell']}, {r['metric']}: paper {_number(r, r['published'])}, "
                f"ours {_number(r, r['ours'])}. {_sentence(r['remark'])}".rstrip()
            )
        out.append("")
    for experiment, rows in _by_experiment(value["rows"]).items():
        out += [f"## {experiment[1]} ({experiment[0]})", "", f"Source: {rows[0]['source']}.", ""]
        out += _markdown_table(_HEAD, [_cells(r) for r in rows])
        notes = list(dict.fromkeys(r["remark"] for r in rows if r["remark"]))
        out += ["", *(_sentence(n) for n in notes)] if notes else []
        out.append("")
    if value["choices"]:
        out += ["## Choices that the paper leaves open, and their effect", ""]
        head = ("dataset", "choice", "cell", "metric", "chosen", "the other", "difference")
        rows_ = [
            (
                c["dataset"],
                c["choice"],
                c["cell"],
                c["metric"],
                f"{c['chosen']:.3f}",
                f"{c['other']:.3f}",
                f"{c['other'] - c['chosen']:+.3f}",
            )
            for c in value["choices"]
        ]
        out += [*_markdown_table(head, rows_), ""]
    out += ["## How to read this", "", *value["legend"], ""]
    return "\n".join(out)


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """All rows, numbers in full."""
    stream = io.StringIO()
    names = ("experiment", "source", "dataset", "cell", "metric", "published", "ours", "difference")
    ends = ("interval_low", "interval_high", "seed_least", "seed_most")
    rest = ("tolerance", "inside", "counted", "verdict", "remark")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, *ends, *rest])
    for r in rows:
        pairs = [*(r["interval"] or (None, None)), *(r["seed_band"] or (None, None))]
        writer.writerow(
            ["" if v is None else v for v in [*(r[n] for n in names), *pairs, *(r[n] for n in rest)]]
        )
    return stream.getvalue()


def latex(value: Mapping[str, Any]) -> str:
    """One ``table`` per experiment, for ``booktabs``."""
    out = [f"% {value['title']}", "% \\usepackage{booktabs}", ""]
    for (dataset, experiment), rows in _by_experiment(value["rows"]).items():
        out += [
            "\\begin{table}",
            f"\\caption{{{tex(experiment)} ({tex(dataset)}): published and reproduced.}}",
            "\\begin{tabular}{ll" + "r" * 6 + "l}",
            "\\toprule",
            " & ".join(tex(h) for h in _HEAD) + " \\\\",
            "\\midrule",
            *(" & ".join(tex(c) for c in _cells(r)) + " \\\\" for r in rows),
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            "",
        ]
    return "\n".join(out)


def _by_experiment(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    out: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for r in rows:
        out.setdefault((r["dataset"], r["experiment"]), []).append(r)
    return out


def _cells(r: Mapping[str, Any]) -> tuple[str, ...]:
    slack = "" if r["tolerance"] is None else f"{r['tolerance']:g}" + (" + band" if r["seed_band"] else "")
    interval, band = r["interval"], r["seed_band"]
    published = _number(r, r["published"])
    if r["published_interval"] and r["published"] is not None:
        published += " [{}, {}]".format(*(_number(r, x) for x in r["published_interval"]))
    return (
        r["cell"],
        r["metric"],
        published,
        _number(r, r["ours"]),
        "" if r["difference"] is None else _number(r, r["difference"], sign=True),
        "[{}, {}]".format(*(_number(r, x) for x in interval)) if interval else "",
        "{} to {}".format(*(_number(r, x) for x in band)) if band else "",
        slack,
        r["verdict"],
    )


def _number(r: Mapping[str, Any], value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    digits = {"queries": 0, "PoisonCount": 2, "median ms": 2}.get(r["metric"], 3)
    if r["metric"] == "PoisonFraction" or " less " in r["cell"]:
        digits = 4
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "." if text else ""


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)) + " |"

    return [line(head), "|" + "|".join("-" * (w + 2) for w in widths) + "|", *map(line, rows)]


_TEX: dict[str, str | int | None] = {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def tex(text: str) -> str:
    """Plain text with the signs escaped that TeX reads otherwise."""
    return text.translate(str.maketrans(_TEX))
