"""``aligned``: aligned RAG evaluation of saved answers, by its own verbs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from stressrag.errors import StressragError, nearest

# Verb → module of this package, function there, what it does.
VERBS = {
    "run": ("aligned_run", "main", "retrieve, answer under all conditions, judge, score and report"),
    "build-split": ("aligned_split", "main", "write and verify triples for attack=split_knowledge"),
    "score": (
        "aligned_score",
        "score_main",
        "evaluate saved answers under four conditions, and write a report",
    ),
    "validate": ("aligned_validate", "validate_main", "show everything that is wrong with saved answers"),
    "init": ("aligned_validate", "init_main", "write example answers, the JSON Schema and a short guide"),
    "compare": ("aligned_score", "compare_main", "hold methods against each other on the same queries"),
    "agreement": ("aligned_agreement", "main", "agreement of label rules and judges with human labels"),
    "detect": ("aligned_detect", "main", "calibrate detectors of poisoned contexts and measure them"),
    "audit-export": ("aligned_audit", "export_main", "draw a blinded sample of answers for humans to label"),
    "audit-import": (
        "aligned_audit",
        "import_main",
        "read what humans labelled: agreement and weighted rates",
    ),
}


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if argv else 2
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise StressragError(f"aligned: no verb {verb!r}; {nearest(verb, VERBS)}")
    module, function, _ = VERBS[verb]
    code: int = getattr(importlib.import_module(f"stressrag.cli.{module}"), function)(rest)
    return code


def usage() -> str:
    """What ``aligned --help`` prints."""
    verbs = "\n".join(f"  {name:13} {what}" for name, (_, _, what) in VERBS.items())
    return f"""usage: python -m stressrag aligned VERB …

Evaluates defenses of a RAG system: for each query one answer with clean and one with poisoned retrieval, each
without and with the defense. run makes the answers; the other verbs work on answers that were saved.

verbs:
{verbs}

Answers are four files named as the paper's harness names them (clean_undefended.jsonl, …) in a folder, or
long files (JSONL, Parquet) that hold many methods, budgets and settings at once; see aligned init. A path may
carry what its rows leave out: runs/p1/mine@method=mine,budget=1

examples:
  python -m stressrag aligned init example
  python -m stressrag aligned score example/answers.jsonl --out example/report
  python -m stressrag aligned score runs/trustrag runs/keyword --judge judge.jsonl"""
