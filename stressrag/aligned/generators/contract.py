"""Whether generators of the user's own keep to what is asked of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stressrag.aligned.generators.base import Completion, Generator
from stressrag.errors import StressragError, brief
from stressrag.plugins import call_theirs


def check_generator(made: Generator, what: str) -> None:
    """Refuse a generator whose ``identity()`` is no JSON.

    Parameters
    ----------
    made : Generator
        As its factory gave it.
    what : str
        Its import path, for messages.

    Raises
    ------
    StressragError
        That names class and key.
    """
    said = call_theirs(f"generator {what!r}", made.identity)
    check_json(said, f"generator {what!r}: {type(made).__name__}.identity()")


def check_completion(completion: Any, who: str) -> None:
    """Refuse what a generator returned where it is no completion, or one with fields of other types."""
    if not isinstance(completion, Completion):
        raise StressragError(f"the generator {who} returned {type(completion).__name__}, not a Completion")
    counts = {name: getattr(completion, name) for name in ("prompt_tokens", "completion_tokens")}
    wrong = [name for name in ("text", "finish") if not isinstance(getattr(completion, name), str)]
    wrong += [n for n, v in counts.items() if v is not None and type(v) is not int]
    if wrong:
        value = getattr(completion, wrong[0])
        wanted = "int or None" if wrong[0] in counts else "str"
        raise StressragError(
            f"the generator {who} returned a Completion whose {wrong[0]} is {type(value).__name__}, not"
            f" {wanted}"
        )


def check_json(value: Any, what: str) -> None:
    """Refuse what is no JSON object, and name the first key that is not."""
    if not isinstance(value, Mapping):
        raise StressragError(f"{what} returned {type(value).__name__}, not a dict")
    for key, item in value.items():
        if not isinstance(key, str):
            raise StressragError(f"{what}: the key {brief(key)} is {type(key).__name__}, not str")
        try:
            json.dumps(item, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as e:
            raise StressragError(
                f"{what}: {key!r} is {brief(item)} ({type(item).__name__}), no JSON value: {e}; make it a"
                " list, number, text, true, false or None"
            ) from None
