"""``audit``: the battery to run before a retriever meets documents of strangers."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError, nearest

BATTERIES = ("quick", "full")
_HELP = """usage: python -m stressrag audit [battery=quick|full] [group=choice …] [setting=value …]

The battery that a reviewer wants before deployment: the clean baseline, how much of the query an attacker has
to know, poison budgets, isolated and multi-target scope, and what the defenses prevent at what clean cost.
Prints the tables and writes the run with report.html, report.md and a gate.yaml of the measured limits:
tighten them and let a pipeline hold every later version to them (python -m stressrag gate RUN gate.yaml).

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
    if battery not in BATTERIES:
        raise StressragError(f"battery={battery}: {nearest(battery, BATTERIES)}")
    words = [w for w in argv if not w.startswith("battery=")]
    if any(w.startswith("grid=") for w in words):
        raise StressragError("grid= has no place here: the battery is a grid; use sweep for your own")
    from stressrag.experiment.plan import plan
    from stressrag.experiment.run import execute
    from stressrag.records.files import write_text
    from stressrag.report.content import write_report
    from stressrag.report.gate_file import gate_file
    from stressrag.report.table import table

    planned = plan("sweep", [f"grid=audit_{battery}", *words])
    run = execute(planned)
    print(table(run.summary))
    write_report([run])
    write_text(run.folder / "gate.yaml", gate_file(run.summary))
    print(f"\nwritten: {run.folder} (report.html, report.md, gate.yaml)")
    return 0
