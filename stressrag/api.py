"""The verbs as functions: the same words as on the command line, a finished run back."""

from __future__ import annotations

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


def _execute(verb: str, words: tuple[str, ...]) -> Run:
    from stressrag.experiment.plan import plan
    from stressrag.experiment.run import execute

    if not all(isinstance(word, str) for word in words):
        raise StressragError('settings are words such as "retriever=lsa"')
    return execute(plan(verb, words))
