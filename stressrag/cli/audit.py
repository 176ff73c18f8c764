"""``audit``: the battery to run before a retriever meets documents of strangers."""

from __future__ import annotations

from collections.abc import Sequence

_HELP = """usage: python -m stressrag audit [battery=quick|full] [group=choice …] [setting=value …]

The battery that a reviewer wants before deployment: the clean baseline, how much of the query an attacker has
to know, poison budgets, isolated and multi-target scope, and what the defenses prevent at what clean cost.
Prints the tables and writes the run with report.html, report.md and a gate.yaml of the measured limits:
tighten them (the file is not written again) and let a pipeline hold every later version to them
(python -m stressrag gate RUN gate.yaml).

settings: those of sweep (python -m stressrag sweep --help); a value given here takes the battery's place
  battery=quick        about 26 conditions, under a minute on the embedded collection
  battery=full         every attack, more levels, finer frontiers

examples:
  python -m stressrag audit
  python -m stressrag audit dataset=folder dataset.path=my-collection retriever=hybrid
  python -m stressrag audit retriever=python retriever.target=my_search:Search attack.targets=0.05
  python -m stressrag audit battery=full retriever=bm25,hybrid"""


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    given = [w.partition("=")[2] for w in argv if w.startswith("battery=")]
    battery = given[-1] if given else "quick"
    words = [w for w in argv if not w.startswith("battery=")]
    from stressrag.api import audit
    from stressrag.report.table import table

    run = audit(*words, battery=battery)
    print(table(run.summary))
    print(f"\nwritten: {run.folder} (report.html, report.md, gate.yaml)")
    return 0
