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


def brief(value: object, length: int = 60) -> str:
    """A value of the user's for a message: as Python writes it, on one line and cut.

    Parameters
    ----------
    value : object
        Anything that was read.
    length : int
        Signs, quotes included, after which it is cut.
    """
    try:
        text = repr(value[:length] if isinstance(value, str) else value)
    except (RecursionError, ValueError):  # nested deeply, or a number of thousands of digits
        return f"a {type(value).__name__} too long to show"
    cut = len(text) > length or (isinstance(value, str) and len(value) > length)
    return text[: length - 2] + "…" + text[:1] * isinstance(value, str) if cut else text


def line_of(text: object, length: int = 60) -> str:
    """As :func:`brief` without the quotes, for names inside a message."""
    return brief(str(text), length)[1:-1]
