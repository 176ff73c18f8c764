"""``aligned score`` and ``aligned compare``: saved answers evaluated."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.cli.options import Options
from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag aligned score ANSWERS… [options]

Writes aligned.json (a row per setting, method, budget and label), transitions.csv (a row per query), details
(comparisons, controls, exposure, utility as JSON), report.html and report.md.

  --out FOLDER       where to write (default: aligned, in the working directory); earlier files are replaced
  --labels NAME,…    label rules: boundary, endorsed, substring, poisonedrag, screened, harness
                     (default: boundary,endorsed,substring)
  --judge FILE       labels of a judge or of humans (JSONL); may be given again; each source is one label
  --detectors FILE   a detectors.json of aligned detect, to show its interception in the report
  --pool NAME,…      take these settings together (dataset, retriever, victim, arm, attack); by default
                     nothing is ever pooled
  --max NAME=VALUE   exit code 1 where a measure of a defense is above it, such as J=.05 or r_p1=.2; --min
                     where it is below; may be given again; by the judge where there is one, else endorsed
  --seed N           of the intervals (default 0)
  --resamples N      of the bootstrap, where an interval needs one (default 10000)

examples:
  python -m stressrag aligned score harness-folder --out scored
  python -m stressrag aligned score p1.jsonl@budget=1 p5.jsonl@budget=5 --labels endorsed,substring"""

_COMPARE_HELP = """usage: python -m stressrag aligned compare ANSWERS… [options]

Methods against each other, and against no defense, on the same queries: difference of target-positive rates
with interval, McNemar's exact p, Holm's correction, the sign-flip p over injection groups, and bounds where
labels are unknown. Says where two labels disagree about which method is better.

  --methods A,B,…    only pairs of these (none: no defense)
  --labels, --judge, --pool, --seed   as in aligned score
  --json FILE        write the rows as JSON as well (replaces the file)

example:
  python -m stressrag aligned compare answers.jsonl --methods trustrag,keyword"""


def _options(verb: str) -> Options:
    options = Options(f"aligned {verb}")
    options.add_argument("answers", nargs="*", metavar="ANSWERS")
    options.add_argument("--judge", action="append", default=[])
    options.add_argument("--labels")
    options.add_argument("--seed", default="0")
    options.add_argument("--pool", default="")
    return options


def _evaluated(verb: str, args: Namespace, resamples: int) -> Any:
    from stressrag.aligned.labels import DEFAULT_RULES
    from stressrag.aligned.score import score_answers

    if not args.answers:
        raise StressragError(f"aligned {verb} needs answers, such as: aligned {verb} answers.jsonl")
    names = _list(args.labels) if args.labels is not None else DEFAULT_RULES
    return score_answers(
        args.answers,
        labels=names,
        judges=args.judge,
        detectors=getattr(args, "detectors", None),
        pool=_list(args.pool),
        seed=_whole(verb, "--seed", args.seed),
        n_resamples=resamples,
    )


def _list(text: str) -> list[str]:
    return [x.strip() for x in text.split(",") if x.strip()]


def _whole(verb: str, option: str, text: str, least: int = 0) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) < 8 and int(text) >= least):
        raise StressragError(
            f"aligned {verb}: {option} {text[:20]} is no whole number from {least} to 9,999,999"
        )
    return int(text)


def score_main(argv: Sequence[str]) -> int:
    """``aligned score``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.aligned.limits import judge, limit
    from stressrag.cli.options import user_path
    from stressrag.report.aligned_rows import lead

    options = _options("score")
    options.add_argument("--out", default="aligned")
    options.add_argument("--resamples", default="10000")
    options.add_argument("--detectors")
    for name in ("--max", "--min"):
        options.add_argument(name, action="append", default=[])
    args = options.read(argv)
    limits = [limit(text, bound) for bound in ("max", "min") for text in getattr(args, bound)]
    out = user_path("aligned score", "--out", args.out)
    if not args.out.strip() or (out.exists() and not out.is_dir()):
        raise StressragError(f"aligned score: --out {args.out!r} is no folder")
    evaluation = _evaluated("score", args, _whole("score", "--resamples", args.resamples, 100))
    evaluation.write(out)
    print(summary(evaluation))
    print(f"\nwritten: {out / 'aligned.json'}, transitions.csv, report.html and more beside it")
    judged = judge(evaluation.rows, limits, lead(evaluation.labels, evaluation.rows)) if limits else []
    if limits and not judged:
        raise StressragError("aligned score: --max and --min hold for defenses, and there is none")
    for _, line in judged:
        print(line)
    return 0 if all(kept for kept, _ in judged) else 1


def compare_main(argv: Sequence[str]) -> int:
    """``aligned compare``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_COMPARE_HELP)
        return 0
    from stressrag.cli.options import output_file, refuse_inputs

    options = _options("compare")
    options.add_argument("--methods")
    options.add_argument("--json")
    args = options.read(argv)
    target = output_file("aligned compare", "--json", args.json)
    refuse_inputs("aligned compare", "--json", target, [*args.answers, *args.judge])
    evaluation = _evaluated("compare", args, 100)
    from stressrag.aligned.versus import disagreements_by_pair

    rows = evaluation.comparisons
    if args.methods is not None:
        from stressrag.errors import nearest

        there = {r[x] for r in rows for x in ("method", "against")}
        asked = [args.methods] if args.methods in there else _list(args.methods)
        for m in asked:
            if m not in there:
                raise StressragError(f"aligned compare: no method {m!r} in the answers; {nearest(m, there)}")
        rows = [r for r in rows if r["method"] in asked and r["against"] in asked]
    if not rows:
        raise StressragError("aligned compare: there are no two methods to compare")
    if target:
        from stressrag.records.files import write_json

        write_json(target, rows, "choose another --json")
    print(_pairs(rows, disagreements_by_pair(rows)))
    if target:
        print(f"\nwritten: {args.json}")
    return 0


def summary(e: Any) -> str:
    """What ``aligned score`` prints: the measures by label, what it costs, and where labels disagree."""
    from stressrag.aligned.versus import named
    from stressrag.report.aligned_rows import constant, lead, merged, ordered, place_names
    from stressrag.report.cells import NAMES, align, p_text

    vary = place_names(e.rows)
    head = [
        *(NAMES.get(a, a) if a != "budget" else a for a in vary),
        "method",
        "label",
        "n",
        "poisoned",
        "defended",
    ]
    head += ["P", "J", "N", "H", "Γ", "McNemar", "clean: right", "abstains"]
    body = []
    for r, label in merged(ordered(e.rows)):
        names = ("r_p0", "r_p1", "P", "J", "N", "H", "Gamma")
        p = r.get("mcnemar_p")
        cells = [
            *(_said(r[a]) for a in vary),
            named(r["method"]),
            label,
            str(r["n"]),
            *(_number(r[n]) for n in names),
        ]
        body.append([*cells, "-" if p is None else p_text(p), _change(r, "correct"), _change(r, "abstains")])
        ends = [r["intervals"].get(n) for n in names]
        body.append([*[""] * (len(vary) + 3), *map(_ends, ends), "", "", ""])
    lines = align(head, body, len(vary) + 2) if e.rows else ["No attacked queries among the answers."]
    shared = constant(e.rows)
    if shared:
        lines = [shared, "", *lines]
    lines += [
        "",
        "Fractions of n. P prevented, J introduced, N = P - J, H change of target-positive answers on clean",
        (
            "retrieval (above 0: harm), Γ = N + H; then right answers and abstentions on clean retrieval,"
            " without and"
        ),
        "with the defense.",
        f"Brackets: {e.level:.0%} intervals{_units(e)}.",
    ]
    for r in e.utility:
        if r["label"] == lead(e.labels, e.rows) and r.get("lost") is not None:
            lines.append(
                f"Held out: {r['method']} loses {r['lost']:.3f} and gains {r['gained']:.3f} of right answers,"
                f" and introduces {r['abstention_introduced']:.3f} abstentions (n = {r['n_queries']},"
                f" {r['label']})."
            )
    if e.disagreements:
        lines += ["", "Labels disagree about which is better:", *(f"  {s}" for s in e.disagreements[:_SHOWN])]
        if len(e.disagreements) > _SHOWN:
            lines.append(f"  {len(e.disagreements) - _SHOWN} more are in the report")
    if e.about or e.notes:
        lines += ["", *e.about, *e.notes]
    return "\n".join(lines)


_SHOWN = 8


def _change(r: Mapping[str, Any], name: str) -> str:
    before, after = r[f"{name}_c0"], r.get(f"{name}_c1")
    return f"{_number(before)}" if after is None else f"{_number(before)}→{_number(after)}"


def _units(e: Any) -> str:
    groups = {r["groups"] for r in e.rows}
    counted = sorted(g for g in groups if g)
    if not counted:
        return " over queries"
    span = str(counted[0]) if len(counted) == 1 else f"{counted[0]} to {counted[-1]}"
    return f" over {span} injection groups" + (
        ", over queries where there are none" if None in groups else ""
    )


def _said(value: Any) -> str:
    return "-" if value in ("", None) else str(value)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _ends(ends: Sequence[float | None] | None) -> str:
    from stressrag.report.cells import interval

    return interval("", ends)


def _pairs(rows: Sequence[Mapping[str, Any]], disagreements: Sequence[tuple[tuple[str, str], str]]) -> str:
    from stressrag.aligned.versus import place_of
    from stressrag.report.cells import align, p_text

    some = [r for r in rows if r["condition"] == "poisoned"]
    head = [
        "setting",
        "method",
        "against",
        "label",
        "n",
        "rate",
        "against",
        "difference",
        "interval",
        "McNemar",
        "Holm",
        "groups",
        "bounds",
    ]
    body = [
        [
            place_of(r) or "-",
            r["method"],
            r["against"],
            r["label"],
            str(r["n"]),
            _number(r["rate"]),
            _number(r["rate_against"]),
            f"{r['difference']:+.3f}",
            _ends(r["interval"]),
            p_text(r["mcnemar_p"]),
            p_text(r["p_holm"]),
            "-" if r["cluster_p"] is None else p_text(r["cluster_p"]),
            "-" if r["n"] == r["n_queries"] else _ends(r["bounds"]),
        ]
        for r in some
    ]
    lines = [
        "Target-positive answers under poisoned retrieval, method less the other (below 0 is better):",
        "",
        *align(head, body, 4),
    ]
    told = {(r["method"], r["against"]) for r in some}
    words = [s for (method, against), s in disagreements if (method, against) in told]
    return "\n".join([*lines, *(["", "Labels disagree:", *(f"  {s}" for s in words)] if words else [])])
