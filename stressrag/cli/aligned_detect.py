"""``aligned detect``: detectors of poisoned contexts, calibrated on clean ones."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from stressrag.collection.problems import Problem
from stressrag.errors import StressragError, brief

_HELP = """usage: python -m stressrag aligned detect FILE… [options]

Scores retrieved contexts, sets thresholds on clean ones to nominal false-positive rates, and says for each
setting and budget how many poisoned contexts are flagged: all, those whose answers are target-positive
(intercepted) and those with 0, 1, 2, … passages of poison; and the AUROC against clean contexts.

A file has one JSON object a line: answers in the long format whose context has scores (a folder, an aligned
run or a Parquet file of them will do as well), or plain contexts
{"query_id", "condition": clean|poisoned, "split": calibration|check|attack, "scores": […],
 "embeddings": [[…]], "poison": [true, …], "budget", "dataset", "retriever", "victim", "arm", "attack",
 "target_positive": true}, of which scores or embeddings must be there. Answers of the split utility check.

detectors: min_score, gap, dispersion (scores); connectivity, conductance, modularity (embeddings; by
definitions of our own, see stressrag/aligned/graph_scores.py); or package.module:name for one of yours

options:
  --out FOLDER          write detectors.json, detectors.csv and, where there are answers, defended.jsonl:
                        their rows with flagged contexts answered by "I don't know."
  --rates PERCENT,…     nominal false-positive rates (default 1,5,10,20, without those that the number of
                        calibration contexts is too small for)
  --defend-rates …      rates at which defended.jsonl answers (default: the lowest of them, so that a report
                        has one method for each detector)
  --detectors NAME,…    which (default: all whose input the contexts have)
  --labels NAME         label rule that says which saved answers are target-positive (default endorsed)
  --neighbors K         neighbors of the passage graph (default 4)
  --calibration FILE    clean contexts to calibrate on, whatever split their lines say
  --check FILE          clean contexts to measure the realized false-positive rate on, likewise
  --check-share PERCENT without check contexts, the share of the calibration contexts, by a hash of the query
                        id, that check and do not calibrate (default 30)

examples:
  python -m stressrag aligned detect answers.jsonl --out detected
  python -m stressrag aligned detect attacked.jsonl --calibration clean.jsonl --check-share 40 --rates 5,10
  python -m stressrag aligned detect contexts.jsonl --detectors gap,dispersion --rates 1"""
_SHOWN = 50


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.cli.options import Options, refuse_inputs, user_path

    verb = "aligned detect"
    options = Options(verb)
    options.add_argument("files", nargs="*", metavar="FILE")
    for name in ("--out", "--detectors", "--calibration", "--check", "--check-share"):
        options.add_argument(name)
    for name in ("--rates", "--defend-rates"):
        options.add_argument(name)
    options.add_argument("--neighbors", default="4")
    options.add_argument("--labels", default="endorsed")
    args = options.read(argv)
    if not args.files:
        raise StressragError("aligned detect: give a file of answers or contexts, such as answers.jsonl")
    if args.check is not None and args.check_share is not None:
        raise StressragError("aligned detect: --check and --check-share exclude each other")
    if args.defend_rates is not None and args.out is None:
        raise StressragError("aligned detect: --defend-rates is for the files of --out FOLDER")
    rates, defend = _rates("--rates", args.rates), _rates("--defend-rates", args.defend_rates)
    share = None if args.check_share is None else _whole("--check-share", args.check_share)
    names = None if args.detectors is None else _listed("--detectors", args.detectors)
    neighbors = _whole("--neighbors", args.neighbors)
    out = None if args.out is None else _folder(args.out, user_path(verb, "--out", args.out))
    from stressrag.aligned.detector_output import FILES, detection_table, write_detection

    more_files = [("calibration", args.calibration), ("check", args.check)]
    read = [*args.files, *(file for _, file in more_files if file is not None)]
    for file in read:
        user_path(verb, "", file)
    for name in FILES:
        refuse_inputs(verb, "--out", out and out / name, read)
    from stressrag.aligned.contexts import read_contexts
    from stressrag.aligned.detect import evaluate
    from stressrag.aligned.labels import holds_target, rule
    from stressrag.aligned.records import Answer

    rule(args.labels)

    def label(a: Answer) -> bool | None:
        return holds_target(args.labels, a.answer, a.target, a.question, a.references)

    contexts, answers, problems = read_contexts(args.files, label=label)
    for split, file in more_files:
        if file is not None:
            more, saved, wrong = read_contexts([file], split=split)
            contexts, answers, problems = contexts + more, answers + saved, problems + wrong
    _refuse(problems)
    found = evaluate(contexts, names, rates, check_share=share, neighbors=neighbors)
    written = write_detection(found, out, answers, defend) if out is not None else []
    print(detection_table(found.results))
    if written:
        print("\nwritten: " + ", ".join(str(p) for p in written))
    return 0


def _refuse(problems: Sequence[Problem]) -> None:
    """Say every problem with its file and line, those of a kind once; one alone is the error itself."""
    from stressrag.collection.problems import collapsed

    for p in problems:
        if p.severity != "error":
            print(p, file=sys.stderr)
    errors = [p for p in problems if p.severity == "error"]
    kinds = collapsed(errors)
    if not kinds:
        return
    if len(kinds) == 1:
        raise StressragError(str(kinds[0]).replace(": error: ", ": ", 1))
    for kind in kinds[:_SHOWN]:
        print(kind, file=sys.stderr)
    unlisted = sum(kind.count for kind in kinds[_SHOWN:])
    more = f" ({unlisted} of them not listed)" if unlisted else ""
    raise StressragError(f"aligned detect: {len(errors)} problems{more}, nothing was evaluated")


def _listed(option: str, text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise StressragError(f"aligned detect: {option} {brief(text)} names nothing")
    return names


def _rates(option: str, text: str | None) -> list[int] | None:
    return None if text is None else [_whole(option, part) for part in _listed(option, text)]


def _whole(option: str, text: str) -> int:
    if not (text.isdecimal() and text.isascii() and len(text) < 10):
        raise StressragError(f"aligned detect: {option}: {brief(text)} is no whole number")
    return int(text)


def _folder(text: str, path: Path) -> Path:
    if not text.strip() or (path.exists() and not path.is_dir()):
        raise StressragError(f"aligned detect: --out {brief(text)} is no folder")
    return path
