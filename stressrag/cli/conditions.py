"""What ``run`` and ``sweep`` share: words to a plan, a finished run, a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from stressrag.cli.help import settings_help

_HYDRA = ("-m", "--multirun", "--cfg", "-c", "--resolve", "--package", "-p", "--info", "-i", "--hydra-help")


def execute_words(verb: str, argv: Sequence[str], what: str, examples: Sequence[str]) -> int:
    """Carry out a verb that takes settings; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(settings_help(verb, what, examples, grid=verb == "sweep"))
        return 0
    if any(word in _HYDRA or word.startswith(("hydra.", "hydra/")) for word in argv):
        from stressrag.cli.multirun import hydra_main

        return hydra_main(verb, argv)
    from stressrag.experiment.plan import plan

    return report(plan(verb, argv))


def report(planned: object) -> int:
    """Execute a plan and print its table; returns the exit code."""
    from stressrag.experiment.plan import Plan
    from stressrag.experiment.run import execute
    from stressrag.experiment.unused import unused
    from stressrag.records.folder import DONE
    from stressrag.report.table import table

    assert isinstance(planned, Plan)
    for line in unused(planned.words, planned.conditions):
        print(line, file=sys.stderr)
    there = (planned.folder / DONE).exists() and not planned.settings.overwrite
    run = execute(planned)
    print(table(run.summary))
    print(f"\n{'found finished' if there else 'written'}: {run.folder}")
    return 0
