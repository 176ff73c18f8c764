"""The one kind of error that a user can mend, and the words that help to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class StressragError(Exception):
    """A mistake in the input: one line that says what, where and how to mend it.

    The command line prints the message without a traceback and leaves with exit code 2.
    """


def nearest(name: str, valid: Iterable[str]) -> str:
    """Words that point from a misspelt name to the valid ones.

    Parameters
    ----------
    name : str
        What was typed.
    valid : iterable of str
        What could have been typed.

    Returns
    -------
    str
        ``"did you mean 'bm25'?"`` where a valid name is close, else ``"choose from a, b, c"``.
    """
    names = sorted(set(valid))
    lowered = {n.lower(): n for n in names}
    close = difflib.get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(lowered[c]) for c in close) + "?"
    return "choose from " + ", ".join(names) if names else "there is none to choose from"
