"""The verbs as functions: the same words as on the command line, a finished run back."""

from __future__ import annotations

from pathlib import Path

from stressrag.errors import StressragError, nearest
from stressrag.records.folder import Run, open_run

_BATTERIES = ("quick", "full")


def run(*words: str) -> Run:
    """Evaluate one condition.

    Parameters
    ----------
    words : str
        Settings as on the command line, such as ``"retriever=lsa"``.

    Returns
    -------
    Run
        The finished run, found or made.

    Raises
    ------
    StressragError
        When a word does not fit or asks for more than one condition.
    """
    return _execute("run", words)


def sweep(*words: str) -> Run:
    """Evaluate every combination of the values given; see ``run``."""
    return _execute("sweep", words)


def audit(*words: str, battery: str = "quick") -> Run:
    """Evaluate a battery of attacks and defenses, and write report and gate file into the run's folder.

    A gate file that is there already stays as it is.

    Parameters
    ----------
    words : str
        Settings as on the command line; they take the battery's place.
    battery : {"quick", "full"}
        How much is tried.

    Raises
    ------
    StressragError
        As in ``sweep``, or when there is no such battery.
    """
    from stressrag.records.files import write_text
    from stressrag.report.gate_file import gate_file

    if battery not in _BATTERIES:
        raise StressragError(f"battery={battery}: {nearest(battery, _BATTERIES)}")
    if any(word.startswith("grid=") for word in words):
        raise StressragError("grid= has no place here: the battery is a grid; use sweep for your own")
    made = sweep(f"grid=audit_{battery}", *words)
    write_report(made)
    if not (made.folder / "gate.yaml").exists():  # somebody may have tightened it
        write_text(made.folder / "gate.yaml", gate_file(made.summary))
    return made


def write_report(*runs: Run | str | Path, out: str | Path | None = None) -> Path:
    """Write ``report.html`` and ``report.md`` of finished runs.

    Parameters
    ----------
    runs : Run or path
        Finished runs; several become one page with a section each.
    out : str or Path, optional
        The folder; by default that of the run, where there is one.

    Returns
    -------
    Path
        The folder.
    """
    from stressrag.report import content

    if out is not None and not str(out).strip():
        raise StressragError("out is empty; give a folder")
    opened = [run if isinstance(run, Run) else open_run(run) for run in runs]
    return content.write_report(opened, None if out is None else Path(out))


def _execute(verb: str, words: tuple[str, ...]) -> Run:
    from stressrag.experiment.plan import plan
    from stressrag.experiment.run import execute

    if not all(isinstance(word, str) for word in words):
        raise StressragError('settings are words such as "retriever=lsa"')
    return execute(plan(verb, words))
