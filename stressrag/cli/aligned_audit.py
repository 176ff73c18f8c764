"""``aligned audit-export`` and ``aligned audit-import``: answers labeled by people who know no more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.errors import StressragError, line_of

_EXPORT_HELP = """usage: python -m stressrag aligned audit-export ANSWERS… --out FOLDER [options]

Draws saved answers for human labeling and writes two files into FOLDER: packet.html, a page to label on that
shows question, target, references and answer only, and key.json, which says what is what. Give annotators
packet.html alone. The page needs no network; each annotator saves a file for audit-import.

options:
  --out FOLDER     where to write (needed)
  --items N        answers to draw, or pairs with --flips (default 100)
  --random N       so many of them purely at random (default half); the others come from answers on which
                   labels disagree, flip or are undecided, and evenly from conditions and methods
  --seed N         of the draw (default 0); same input and seed, same files
  --judge FILE     labels of one source, JSON lines
  --controls       answers of removal controls as well, not only of the four conditions
  --flips          pairs of undefended and defended answers of which only one endorses by the labels
  --by NAME        the label that decides on flips: boundary, endorsed, substring or judge (default: that
                   of the judge where there is one, else boundary)
  --overwrite      replace the files of an earlier export

examples:
  python -m stressrag aligned audit-export answers.jsonl --out audit
  python -m stressrag aligned audit-export answers.jsonl --judge judge.jsonl --flips --items 40 --out flips"""

_IMPORT_HELP = """usage: python -m stressrag aligned audit-import FOLDER LABELS.json… [options]

Reads what annotators saved from the page of an export, checks it, and writes what they agree on as labels
(JSON lines) and agreement.json: agreement between annotators, of the judge and of each rule with them, and
rates of the population or confirmed flips. FOLDER is that of the export, with its key.json.

options:
  --adjudication FILE   a file saved from the same page that settles what annotators differ on
  --out FILE            the labels (default FOLDER/human_labels.jsonl); agreement.json goes beside them
  --overwrite           replace the files of an earlier import

examples:
  python -m stressrag aligned audit-import audit labels-ann.json
  python -m stressrag aligned audit-import audit labels-ann.json labels-bob.json --adjudication third.json"""

_DIGITS = 9


def export_main(argv: Sequence[str]) -> int:
    """``aligned audit-export``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_EXPORT_HELP)
        return 0
    from stressrag.cli.options import Options, refuse_inputs, user_path

    verb = "aligned audit-export"
    options = Options(verb)
    options.add_argument("answers", nargs="*", metavar="ANSWERS")
    for name in ("--out", "--judge", "--random", "--by"):
        options.add_argument(name)
    options.add_argument("--items", default="100")
    options.add_argument("--seed", default="0")
    for name in ("--flips", "--overwrite", "--controls"):
        options.add_argument(name, action="store_true")
    args = options.read(argv)
    if not args.answers:
        raise StressragError(f"{verb} needs files of answers; see python -m stressrag {verb} --help")
    if not (args.out or "").strip():
        raise StressragError(f"{verb} needs a folder to write to: --out FOLDER")
    if args.flips and args.random is not None:
        raise StressragError(f"{verb}: --random is not for --flips, whose pairs are all drawn at random")
    items, seed = _number(verb, "--items", args.items), _number(verb, "--seed", args.seed)
    random = None if args.random is None else _number(verb, "--random", args.random)
    out = user_path(verb, "--out", args.out)
    judge_file = None if args.judge is None else user_path(verb, "--judge", args.judge)
    for name in args.answers:
        user_path(verb, "", name)
    from stressrag.aligned.audit import KEY, PAGE, audit_export
    from stressrag.aligned.judgments import read_labels
    from stressrag.aligned.read import read_answers
    from stressrag.aligned.records import CONDITIONS

    read = [*args.answers, *([] if judge_file is None else [judge_file])]
    for name in (KEY, PAGE):
        refuse_inputs(verb, "--out", out / name, read)
    answers = [
        a
        for a in read_answers(args.answers)
        if a.split == "attack" and (args.controls or a.condition in CONDITIONS)
    ]
    if not answers:
        raise StressragError(f"{verb}: no answer to an attacked query among them")
    judge = None
    if judge_file is not None:
        judgments = read_labels([judge_file], answers)
        judge = judgments.only()
        unknown, missing = (next(iter(x.values())) for x in (judgments.unknown, judgments.missing))
        if unknown or missing:
            print(f"labels: {unknown} rows on answers that are not here, {missing} answers without a label")
    made = audit_export(
        answers,
        out,
        items=items,
        random=random,
        seed=seed,
        automatic=automatic_labels(answers),
        judge=judge,
        by=args.by,
        flips=args.flips,
        overwrite=args.overwrite,
    )
    parts = ", ".join(f"{n} {reason}" for reason, n in made["drawn"].items())
    print(f"packet {made['packet']}: {made['items']} items ({parts}), drawn from {_size(made['population'])}")
    print(f"written: {made['page']} (for annotators)\nwritten: {made['key']} (not for annotators)")
    return 0


def automatic_labels(answers: Sequence[Any]) -> dict[str, Mapping[str, bool | None]]:
    """Rule to {key: whether the target is endorsed}, for the strata and for the comparison with humans."""
    from stressrag.aligned.labels import DEFAULT_RULES, holds_target

    distinct = {a.key: a for a in answers}
    return {
        name: {
            key: holds_target(name, a.answer, a.target, a.question, a.references)
            for key, a in distinct.items()
        }
        for name in DEFAULT_RULES
    }


def import_main(argv: Sequence[str]) -> int:
    """``aligned audit-import``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_IMPORT_HELP)
        return 0
    from stressrag.cli.options import Options, output_file, user_path

    verb = "aligned audit-import"
    options = Options(verb)
    options.add_argument("words", nargs="*", metavar="FOLDER LABELS.json")
    for name in ("--adjudication", "--out"):
        options.add_argument(name)
    options.add_argument("--overwrite", action="store_true")
    args = options.read(argv)
    if len(args.words) < 2:
        raise StressragError(f"{verb} needs the folder of the export and at least one file of labels")
    from stressrag.aligned.audit_import import AGREEMENT, LABELS, audit_import

    folder, *labels = (user_path(verb, "", word) for word in args.words)
    third = args.adjudication
    result = audit_import(
        folder,
        labels,
        adjudication=None if third is None else user_path(verb, "--adjudication", third),
        out=output_file(verb, "--out", args.out),
        overwrite=args.overwrite,
    )
    print(table(result))
    print(f"\nwritten: {args.out or folder / LABELS}, and {AGREEMENT} beside it")
    return 0


def table(result: Mapping[str, Any]) -> str:
    """The result of an import for a terminal."""
    lines = [
        f"packet {result['packet']}: {result['items']} items, annotators {', '.join(result['annotators'])}",
        f"unresolved answers: {len(result['unresolved'])}",
        "",
        (
            f"{'field':<18} {'who':<26} {'on':<9} {'n':>4} {'agree':>6} {'kappa':>6} {'95% interval':<15} "
            f"{'yes/no':>6} {'no/yes':>6} {'weighted':>8}"
        ),
    ]
    for field, found in result["fields"].items():
        pairs = {**found["between"], **{f"{s} / human": x for s, x in found["sources"].items()}}
        for who, forms in pairs.items():
            lines += [_line(field, who, forms, mode) for mode in ("overall", "decisive")]
        counts = ", ".join(f"{n} {label}" for label, n in found["consensus"].items())
        lines.append(f"{field:<18} consensus: {counts}; adjudicated: {found['adjudicated']}")
    for name, rate in result.get("endorsement", {}).items():
        lines.append(
            f"target endorsed, {line_of(name, 80)}: {_percent(rate['rate'])} {_ends(rate, 100)} "
            f"(labeled {rate['n']}, undecided {rate['undecided']})"
        )
    for kind, found in result.get("flips", {}).items():
        lines.append(
            f"confirmed {kind}s: {found['confirmed']} of {found['pairs']} {_ends(found, 100)}; refuted "
            f"{found['refuted']}, undecided {found['undecided']}; drawn from {found['population']}"
        )
    return "\n".join(lines)


def _line(field: str, who: str, forms: Mapping[str, Any], mode: str) -> str:
    x, weighted = forms[mode], forms.get(f"{mode}_weighted")
    share = "" if weighted is None else _percent(weighted["observed"])
    kappa = "-" if x["kappa"] is None else f"{x['kappa']:.2f}"
    return (
        f"{field:<18} {line_of(who, 28):<26} {mode:<9} {x['n']:>4} {_percent(x['observed']):>6} {kappa:>6} "
        f"{_ends(x, 1):<15} {x['first_only']:>6} {x['second_only']:>6} {share:>8}"
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}%"


def _ends(x: Mapping[str, Any], scale: int) -> str:
    if x.get("low") is None:
        return "[-]"
    digits = 1 if scale == 100 else 2
    return f"[{scale * x['low']:.{digits}f}, {scale * x['high']:.{digits}f}]"


def _size(population: int | Mapping[str, int]) -> str:
    if isinstance(population, int):
        return f"{population} distinct outputs"
    return ", ".join(f"{n} {kind}s" for kind, n in population.items())


def _number(verb: str, option: str, text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) <= _DIGITS):
        raise StressragError(
            f"{verb}: {option} {line_of(text)} is no number from 0 on with at most {_DIGITS} digits"
        )
    return int(text)
