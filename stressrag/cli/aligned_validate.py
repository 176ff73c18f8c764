"""``aligned validate`` and ``aligned init``: what is wrong with saved answers, and how they should look."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stressrag.cli.options import Options
from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag aligned validate ANSWERS… [--strict]

Shows everything that is wrong with saved answers, with file and line: fields, repeated rows, targets or
questions that differ between conditions, missing queries, null answers (errors); targets that no rule can
tell well, empty answers, files that look swapped or copied (warnings). Exit code 1 where there are errors.

  --strict   warnings count as errors"""

_INIT_HELP = """usage: python -m stressrag aligned init FOLDER

Writes made-up example answers about the embedded collection into a new folder: answers.jsonl (long format,
two defenses, two budgets, controls), four-files (the harness's layout), answer.schema.json and README.md.

  --overwrite   replace the files of an earlier example"""


def validate_main(argv: Sequence[str]) -> int:
    """``aligned validate``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    options = Options("aligned validate")
    options.add_argument("answers", nargs="*", metavar="ANSWERS")
    options.add_argument("--strict", action="store_true")
    args = options.read(argv)
    if not args.answers:
        raise StressragError("aligned validate needs answers, such as: aligned validate answers.jsonl")
    from stressrag.aligned.read import problems_of

    answers, problems = problems_of(args.answers)
    for p in problems:
        print(p)
    errors = sum(p.severity == "error" for p in problems)
    warnings = len(problems) - errors
    queries = len({(a.setting, a.split, a.query_id) for a in answers})
    methods = sorted({a.method for a in answers} - {"none"})
    print(
        f"{len(answers)} answers of {queries} queries, {len(methods)}"
        f" method{'s' * (len(methods) != 1)}{' (' + ', '.join(methods[:10]) + ')' if methods else ''}:"
        f" {errors} error{'s' * (errors != 1)}, {warnings} warning{'s' * (warnings != 1)}"
    )
    return 1 if errors or (args.strict and warnings) else 0


def init_main(argv: Sequence[str]) -> int:
    """``aligned init``; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_INIT_HELP)
        return 0
    options = Options("aligned init")
    options.add_argument("folder", nargs="*", metavar="FOLDER")
    options.add_argument("--overwrite", action="store_true")
    args = options.read(argv)
    if len(args.folder) != 1 or not args.folder[0].strip():
        raise StressragError("aligned init needs one folder, such as: aligned init example")
    from stressrag.aligned.example import write_example

    folder = Path(args.folder[0]).expanduser()
    for path in write_example(folder, args.overwrite):
        print(f"written: {path}")
    print(
        f"\nnow try: python -m stressrag aligned score {folder / 'answers.jsonl'} --out {folder / 'report'}"
    )
    return 0
