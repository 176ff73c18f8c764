"""What a pipeline is, and how many of them run at once.

A pipeline is a coroutine: it yields the prompts that it needs answered next, receives their completions and
returns an :class:`Outcome`. It never calls a generator, so that the prompts of many questions can be answered
in one batch, from a cache, or by a script in a test.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stressrag.aligned.generators.base import REFUSED, Completion, Prompt
from stressrag.aligned.records import Passage
from stressrag.errors import StressragError

ABSTENTION = "I don't know."
"""What a pipeline answers that abstains without asking the generator, or with too little to ask about."""
_ENDS = {"length": "replies were cut off at max_tokens", REFUSED: "prompts were refused"}
_LONE = re.compile("[\ud800-\udfff]")
_BREAKS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


@dataclass(frozen=True)
class Stage:
    """One step of a pipeline.

    Attributes
    ----------
    name : str
        What the step does.
    prompts : tuple of Prompt
        What was asked; a filter asks nothing.
    texts, finishes : tuple of str
        The raw replies in the order of the prompts, and how each ended (``stop``, ``length`` or ``refused``).
    kept : tuple of int
        Passages that go on to the next step, by their place in the context, from 0.
    dropped : dict of int to str
        Passages that do not, each with the reason.
    facts : dict
        What else was decided: keywords with counts, similarities, scores; JSON values.
    """

    name: str
    prompts: tuple[Prompt, ...] = ()
    texts: tuple[str, ...] = ()
    finishes: tuple[str, ...] = ()
    kept: tuple[int, ...] = ()
    dropped: Mapping[int, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def row(self) -> dict[str, Any]:
        """The stage in JSON values."""
        asked = [
            {
                "system": p.system,
                "user": p.user,
                "max_tokens": p.max_tokens,
                "stop": list(p.stop),
                "schema": p.schema,
            }
            for p in self.prompts
        ]
        return {
            "name": self.name,
            "prompts": asked,
            "texts": list(self.texts),
            "finishes": list(self.finishes),
            "kept": list(self.kept),
            "dropped": {str(i): why for i, why in sorted(self.dropped.items())},
            "facts": dict(self.facts),
        }


@dataclass(frozen=True)
class Outcome:
    """What a pipeline answers.

    Attributes
    ----------
    answer : str
        The whole final answer, all its lines; only white space around it is taken off.
    stages : tuple of Stage
        Every step in order.
    notes : tuple of str
        What a reader of the answer should know: substitutes, replies that were cut off.
    """

    answer: str
    stages: tuple[Stage, ...]
    notes: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The outcome in JSON values."""
        return {
            "answer": self.answer,
            "stages": [stage.row() for stage in self.stages],
            "notes": list(self.notes),
        }


Steps = Generator[list[Prompt], list[Completion], Outcome]
"""A pipeline at work: yields prompts, receives their completions, returns an outcome."""


class Pipeline(abc.ABC):
    """A way to answer a question from retrieved passages.

    Attributes
    ----------
    name : str
        What it is called in records.

    Notes
    -----
    A pipeline is given whole :class:`~stressrag.aligned.records.Passage` rows and must look at their id, text
    and score alone: role and owner are what the evaluation knows and a defended system does not.
    """

    name: str

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Everything that decides the result, in JSON values: instructions, models, thresholds."""

    @abc.abstractmethod
    def steps(self, question: str, passages: Sequence[Passage]) -> Steps:
        """Work on one question; see :data:`Steps`. The result depends on the arguments and replies alone."""


def asked(
    name: str,
    prompts: Sequence[Prompt],
    replies: Sequence[Completion],
    kept: Sequence[int] = (),
    dropped: Mapping[int, str] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Stage:
    """The stage in which some prompts were answered."""
    texts, finishes = tuple(r.text for r in replies), tuple(r.finish for r in replies)
    return Stage(name, tuple(prompts), texts, finishes, tuple(kept), dict(dropped or {}), dict(facts or {}))


def outcome(answer: str, stages: Sequence[Stage], notes: Sequence[str] = ()) -> Outcome:
    """An outcome whose notes also say which stages had replies cut off at their length limit, or refused."""
    cut = [
        f"stage {s.name}: {n} of {len(s.finishes)} {what}"
        for s in stages
        for finish, what in _ENDS.items()
        if (n := s.finishes.count(finish))
    ]
    return Outcome(answer.strip(), tuple(stages), (*notes, *cut))


def whole(text: str) -> str:
    """A text that can be written as UTF-8: lone halves of surrogate pairs become U+FFFD."""
    return _LONE.sub("\ufffd", text)


def inset(text: str) -> str:
    """A text inside a prompt: its further lines are indented, so that none can pass for a field of it."""
    return _BREAKS.sub("\n    ", text)


def check_counts(name: str, **counts: int) -> None:
    """Refuse parameters of a pipeline that are not whole numbers from 1."""
    for parameter, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise StressragError(f"pipeline {name!r}: {parameter}={value!r} must be a whole number from 1")


# ---- running many ------------------------------------------------------------------------------------

Job = tuple[Pipeline, str, Sequence[Passage]]


def run_pipelines(
    jobs: Sequence[Job],
    complete: Callable[[Sequence[Prompt]], list[Completion]],
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Run pipelines in rounds, so that all prompts that can be answered at one time are one batch.

    Parameters
    ----------
    jobs : sequence of (Pipeline, str, sequence of Passage)
        Pipeline, question and context of each answer that is wanted.
    complete : callable
        From prompts to completions in their order; equal prompts of a round are all passed on.
    progress : callable, optional
        Called with the jobs finished and all jobs, after each round.

    Returns
    -------
    list of Outcome
        In the order of the jobs, and whatever that order is, the same ones.

    Raises
    ------
    StressragError
        When a pipeline raises or breaks the protocol; the message names it and the question. What
        ``complete`` raises comes through as it is.
    """
    running = [_Running(*job) for job in jobs]
    try:
        for job in running:
            job.send(None)
        while True:
            if progress is not None:
                progress(sum(job.outcome is not None for job in running), len(running))
            active = [job for job in running if job.outcome is None]
            if not active:
                return [job.outcome for job in running if job.outcome is not None]
            prompts = [prompt for job in active for prompt in job.prompts]
            replies = list(complete(prompts))
            if len(replies) != len(prompts):
                raise StressragError(f"{len(prompts)} prompts were given and {len(replies)} completions came")
            start = 0
            for job in active:
                end = start + len(job.prompts)
                job.send(replies[start:end])
                start = end
    finally:
        for job in running:
            job.close()


def outcome_problem(value: object) -> str:
    """What keeps a value from being an :class:`Outcome` with fields of the right types; ``""``: nothing."""
    if not isinstance(value, Outcome):
        return f"{type(value).__name__}, not an Outcome"
    if not isinstance(value.answer, str):
        return f"an Outcome whose answer is {type(value.answer).__name__}, not str"
    for name, kind in (("stages", Stage), ("notes", str)):
        items = getattr(value, name)
        if not isinstance(items, (list, tuple)):
            return f"an Outcome whose {name} are {type(items).__name__}, not a list"
        wrong = [item for item in items if not isinstance(item, kind)]
        if wrong:
            return f"an Outcome whose {name} hold {type(wrong[0]).__name__}, not {kind.__name__}"
    return ""


class _Running:
    """One job under way."""

    def __init__(self, pipeline: Pipeline, question: str, passages: Sequence[Passage]):
        self.pipeline, self.question, self.passages = pipeline, question, passages
        self.prompts: list[Prompt] = []
        self.outcome: Outcome | None = None
        self._broken = 0
        self._steps: Steps | None = None

    def send(self, replies: list[Completion] | None) -> None:
        """Go on until prompts are wanted or the outcome is there."""
        try:
            if self._steps is None:
                self._steps = self.pipeline.steps(self.question, tuple(self.passages))
                wanted = next(self._steps)
            else:
                wanted = self._steps.send([self._whole(r) for r in replies or []])
            while not wanted:  # nothing to ask is answered at once, without a round
                wanted = self._steps.send([])
            if not all(isinstance(prompt, Prompt) for prompt in wanted):
                raise StressragError("it yielded something that is no Prompt")
            self.prompts = list(wanted)
        except StopIteration as stop:
            if problem := outcome_problem(stop.value):
                raise self._error(f"it returned {problem}") from None
            self.outcome = self._noted(stop.value)
        except StressragError as e:
            raise self._error(str(e)) from e
        except Exception as e:
            raise self._error(f"{type(e).__name__}: {e}") from e

    def _whole(self, reply: Completion) -> Completion:
        """A reply whose text no file and no tokenizer stumbles over."""
        text = whole(reply.text)
        self._broken += text != reply.text
        return reply if text == reply.text else replace(reply, text=text)

    def _noted(self, done: Outcome) -> Outcome:
        if not self._broken:
            return done
        note = f"{self._broken} replies held lone surrogates, which are no text; U+FFFD stands in their place"
        return replace(done, notes=(*done.notes, note))

    def _error(self, what: str) -> StressragError:
        name = getattr(self.pipeline, "name", type(self.pipeline).__name__)
        question = self.question if len(self.question) <= 200 else self.question[:199] + "…"
        return StressragError(f"pipeline {name!r}, question {question!r}: {what}")

    def close(self) -> None:
        """Let the coroutine go, finished or not."""
        if self._steps is not None and hasattr(self._steps, "close"):
            self._steps.close()
