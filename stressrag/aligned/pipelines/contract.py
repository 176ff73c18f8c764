"""Whether pipelines of the user's own keep to what is asked of them, before anything is paid."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from stressrag.aligned.generators.base import Completion, Prompt
from stressrag.aligned.generators.contract import check_json
from stressrag.aligned.pipelines.base import ABSTENTION, Pipeline, outcome_problem
from stressrag.aligned.records import Passage
from stressrag.errors import StressragError, brief
from stressrag.plugins import call_theirs

_ROUNDS = 20  # of a trial; what goes on longer is not looked at to its end


def check_pipeline(made: Pipeline, what: str, example: tuple[str, Sequence[Passage]]) -> None:
    """Refuse a pipeline whose settings are no JSON, or that breaks the protocol.

    It is tried on one context with made-up replies; nothing is asked, and what it raises on them says
    nothing.

    Parameters
    ----------
    made : Pipeline
        As its class made it.
    what : str
        Its import path, for messages.
    example : (str, sequence of Passage)
        A question with its context.

    Raises
    ------
    StressragError
        That names class and key, or what is wrong.
    """
    said = call_theirs(f"pipeline {what!r}", made.settings)
    check_json(said, f"pipeline {what!r}: {type(made).__name__}.settings()")
    steps = call_theirs(f"pipeline {what!r}", made.steps, *example)
    if not isinstance(steps, Generator):
        raise StressragError(
            f"pipeline {what!r}: {type(made).__name__}.steps is no generator function, it returned"
            f" {type(steps).__name__}; yield lists of prompts and return an Outcome"
        )
    try:
        _try(steps, f"pipeline {what!r}: {type(made).__name__}.steps")
    finally:
        steps.close()


def _try(steps: Any, what: str) -> None:
    replies: list[Completion] | None = None
    for _ in range(_ROUNDS):
        try:
            wanted = steps.send(replies)
        except StopIteration as stop:
            if problem := outcome_problem(stop.value):
                raise StressragError(f"{what} returned {problem}") from None
            return
        except Exception:  # it may not like made-up replies; the run will tell
            return
        if not isinstance(wanted, (list, tuple)) or not all(isinstance(p, Prompt) for p in wanted):
            raise StressragError(f"{what} yielded {brief(wanted)}, not a list of Prompt")
        replies = [Completion(ABSTENTION, "stop") for _ in wanted]
