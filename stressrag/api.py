"""The verbs as functions: the same words as on the command line, a finished run back."""

from __future__ import annotations

from pathlib import Path

from stressrag.errors import StressragError
from stressrag.records.folder import Run


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


def write_report(*runs: Run, out: str | Path | None = None) -> Path:
    """Write ``report.html`` and ``report.md`` of finished runs.

    Parameters
    ----------
    runs : Run
        Finished runs; several become one page with a section each.
    out : str or Path, optional
        The folder; by default that of the run, where there is one.

    Returns
    -------
    Path
        The folder.
    """
    from stressrag.report import content

    return content.write_report(runs, None if out is None else Path(out))


def _execute(verb: str, words: tuple[str, ...]) -> Run:
    from stressrag.experiment.plan import plan
    from stressrag.experiment.run import execute

    if not all(isinstance(word, str) for word in words):
        raise StressragError('settings are words such as "retriever=lsa"')
    return execute(plan(verb, words))
