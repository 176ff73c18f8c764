"""``aligned agreement``: label rules and judges held to human labels."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError, line_of

_HELP = """usage: python -m stressrag aligned agreement LABELS [options]

How far each label rule, and each judge, agrees with the labels of a file, usually humans': share of
agreement, Cohen's kappa with its interval, and both directions of error, for the target, for correctness
and for abstention. The file holds one JSON object a line: target_endorsed, reference_correct, abstains
(yes, no, uncertain), and either question, answer, target and references themselves, or key or query_id, …
of answers named with --answers.

  --answers PATH   the answers that the labels are about; may be given again
  --judge FILE     labels of a judge to hold to them as well; may be given again
  --labels NAME,…  label rules (default all)
  --json FILE      write the rows as JSON as well (replaces the file)

example:
  python -m stressrag aligned agreement human_audit.jsonl"""

_WORDS = {"target_endorsed": "target", "reference_correct": "correctness", "abstains": "abstention"}


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.cli.options import Options, output_file, refuse_inputs, user_path

    options = Options("aligned agreement")
    options.add_argument("files", nargs="*", metavar="LABELS")
    for name in ("--answers", "--judge"):
        options.add_argument(name, action="append", default=[])
    for name in ("--labels", "--json"):
        options.add_argument(name)
    args = options.read(argv)
    if len(args.files) != 1:
        raise StressragError(
            "aligned agreement needs one file of labels, such as: aligned agreement human.jsonl"
        )
    verb = "aligned agreement"
    out = output_file(verb, "--json", args.json)
    files = [user_path(verb, "", x) for x in args.files]
    judges = [user_path(verb, "--judge", x) for x in args.judge]
    for name in args.answers:
        user_path(verb, "--answers", name)
    refuse_inputs(verb, "--json", out, [*files, *judges, *args.answers])
    from stressrag.aligned.agreeing import agreements
    from stressrag.aligned.labels import RULES, rule
    from stressrag.aligned.read import read_answers
    from stressrag.records.files import write_json
    from stressrag.report.cells import align

    rules = list(RULES) if args.labels is None else [x.strip() for x in args.labels.split(",") if x.strip()]
    for name in rules:
        rule(name)
    if not rules and not judges:
        raise StressragError(f"{verb}: --labels names nothing, and there is no --judge")
    answers = read_answers(args.answers) if args.answers else None
    rows = agreements(files[0], answers, judges, rules)
    if out:
        write_json(out, rows, "choose another --json")
    head = ["of", "label", "pairs", "n", "agree", "kappa", "interval", "missed", "false", "undecided"]
    body = [
        [
            _WORDS[r["field"]],
            line_of(r["label"], 40),
            r["mode"],
            str(r["n"]),
            _number(r["observed"]),
            _number(r["kappa"]),
            "" if r["low"] is None else f"[{r['low']:.2f} {r['high']:.2f}]",
            str(r["first_only"]),
            str(r["second_only"]),
            str(r["undecided"]),
        ]
        for field in _WORDS
        for r in rows
        if r["field"] == field
    ]
    print("\n".join(align(head, body, 3)))
    print(
        "\nMissed: yes in the file and no by the label; false: the other way round. Agreement and kappa over"
        " the sample as it is: one that was not drawn at random says nothing of a population."
    )
    if out:
        print(f"written: {args.json}")
    return 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
