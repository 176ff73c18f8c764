"""Contexts that detectors look at, from saved answers in the long format or from plain JSON lines.

A plain line is ``{"query_id": …, "condition": "clean" | "poisoned", "split": "calibration" | "check" |
"attack", "scores": […], "embeddings": [[…]], "poison": [true, …], "budget": 5, "group_id": …, "dataset": …,
"retriever": …, "victim": …, "arm": …, "attack": …, "target_positive": true}``. Scores or embeddings must be
there, ``split`` is ``attack`` unless it says otherwise. A line with ``question``, ``answer`` or ``context``
is a row of the long format (see ``records``), of which the split ``calibration`` needs but query and context.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.records import AXES, CONDITIONS, NO_DEFENSE, SCHEMA, Answer, Passage
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import Problem, ProblemLog

SPLITS = ("calibration", "check", "attack")
_UTILITY = {"calibration": "calibration", "utility": "check", "attack": "attack"}
_NUMBERS = {"type": "array", "items": {"type": "number"}}
CONTEXT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "stressrag contexts for detectors, one object per line",
    "type": "object",
    "required": ["query_id", "condition"],
    "additionalProperties": False,
    "properties": {
        "query_id": {"type": "string", "minLength": 1},
        "condition": {"enum": list(CONDITIONS)},
        "split": {"enum": list(SPLITS), "default": "attack"},
        "scores": _NUMBERS,
        "embeddings": {"type": "array", "items": _NUMBERS},
        "poison": {"type": "array", "items": {"type": "boolean"}},
        "target_positive": {"type": ["boolean", "null"]},
        **{name: SCHEMA["properties"][name] for name in (*AXES, "budget", "group_id", "metadata")},
    },
}
# A calibration context was only retrieved: nobody answered.
_UNANSWERED: dict[str, Any] = {**SCHEMA, "required": ["query_id", "context"]}


@dataclass(frozen=True, eq=False)
class Context:
    """One retrieved context.

    Attributes
    ----------
    query_id, dataset, retriever, victim, arm, attack, budget, group_id, file, line
        As in :class:`~stressrag.aligned.records.Answer`.
    condition : {"clean", "poisoned"}
    split : {"calibration", "check", "attack"}
        Check contexts are clean ones of other queries, on which thresholds are tried.
    scores : float64 array (k,) or None
        Retrieval scores, in the order of the context.
    embeddings : float64 array (k, d) or None
        Of the passages.
    poison : bool array (k,) or None
        Which passages are injected; ``None``: not known.
    target_positive : bool or None
        Whether the undefended answer gives the attacker's target; ``None``: not labelled.
    """

    query_id: str
    condition: str
    split: str = "attack"
    scores: NDArray[np.float64] | None = None
    embeddings: NDArray[np.float64] | None = None
    poison: NDArray[np.bool_] | None = None
    target_positive: bool | None = None
    dataset: str = ""
    retriever: str = ""
    victim: str = ""
    arm: str = ""
    attack: str = ""
    budget: int | None = None
    group_id: str = ""
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    @property
    def group(self) -> str:
        """The injection group, by default the query."""
        return self.group_id or self.query_id

    @property
    def retrieval(self) -> tuple[str, str, str]:
        """What thresholds are calibrated for: data set, retriever and arm, whatever victim and attack."""
        return (self.dataset, self.retriever, self.arm)

    @property
    def setting(self) -> tuple[Any, ...]:
        """The values of ``AXES`` and the budget."""
        return (*(getattr(self, name) for name in AXES), self.budget)

    @property
    def occupancy(self) -> int | None:
        """How many passages are poison; ``None``: not known."""
        return None if self.poison is None else int(self.poison.sum())

    @property
    def where(self) -> str:
        """File and line, or the query."""
        return f"{self.file}:{self.line}" if self.file else f"query {self.query_id!r}"

    def values(self, needs: str) -> NDArray[np.float64] | None:
        """The ``scores`` or ``embeddings``."""
        return self.scores if needs == "scores" else self.embeddings


Label = Callable[[Answer], "bool | None"]


def context_of(answer: Answer, label: Label | None = None) -> Context | None:
    """The context of an undefended clean or poisoned answer; ``None`` for others and where it was not saved.

    Parameters
    ----------
    answer : Answer
        A row of the long format. Its split ``utility`` (clean queries that are not attacked) is ``check``.
    label : callable, optional
        Says of an answer whether it is target-positive, ``None`` where it has no target.
    """
    unused = answer.method != NO_DEFENSE or answer.condition not in CONDITIONS
    if unused or answer.context is None or (answer.condition == "poisoned" and answer.split != "attack"):
        return None
    raw = [p.score for p in answer.context]
    scores = None if None in raw else np.array(raw, np.float64)
    return Context(
        scores=scores,
        poison=np.array([p.role == "poison" for p in answer.context], bool),
        target_positive=None if label is None or not answer.question else label(answer),
        split=_UTILITY[answer.split],
        **{
            name: getattr(answer, name)
            for name in ("query_id", "condition", *AXES, "budget", "group_id", "file", "line")
        },
    )


def read_contexts(
    paths: Iterable[str | Path], *, split: str | None = None, label: Label | None = None
) -> tuple[list[Context], list[Answer], list[Problem]]:
    """Read files of contexts, of answers, or of both.

    Parameters
    ----------
    paths : iterable of path
        JSON lines, plain or gzipped.
    split : {"calibration", "check"}, optional
        What every line is for, whatever it says; all must be clean then.
    label : callable, optional
        As in :func:`context_of`.

    Returns
    -------
    contexts : list of Context
    answers : list of Answer
        The rows that hold an answer.
    problems : list of Problem
        Everything that cannot be worked with, by file and line.
    """
    log = ProblemLog()
    contexts: list[Context] = []
    answers: list[Answer] = []
    for path in paths:
        number, before = 0, len(contexts)
        for number, text in read_lines(Path(path), log):
            try:
                row = json.loads(text)
                context, answer = _parse(row, split, label, str(path), number)
            except (ValueError, RecursionError) as e:
                log.error(
                    str(path), number, f"not JSON: {e}" if isinstance(e, json.JSONDecodeError) else str(e)
                )
                continue
            contexts += [context] if context else []
            answers += [answer] if answer else []
        if not number and not log.problems():
            log.error(str(path), None, "holds no line")
        elif len(contexts) == before and not log.problems():
            log.error(str(path), None, "holds no context of an undefended clean or poisoned answer")
    return contexts, answers, log.problems()


def _parse(
    row: Any, split: str | None, label: Label | None, file: str, line: int
) -> tuple[Context | None, Answer | None]:
    """A line as a context, and as the answer that it is."""
    if not isinstance(row, dict):
        raise ValueError("the line is no JSON object")
    if not {"question", "answer", "context"} & set(row):
        context = _plain({"split": "attack", **row, **({"split": split} if split else {})}, file, line)
        _check_clean(context)
        return context, None
    if split:
        row = {**row, "split": {"check": "utility"}.get(split, split)}
    unanswered = row.get("split") == "calibration" and "answer" not in row
    if message := mismatch(row, _UNANSWERED if unanswered else SCHEMA):
        raise ValueError(message)
    passages = row.get("context")
    values = {k: v for k, v in row.items() if k not in ("context", "references", "metadata")}
    answer = Answer(
        **{"question": "", "answer": "", "condition": "clean", **values},
        references=tuple(row.get("references", ())),
        context=None if passages is None else tuple(Passage(**p) for p in passages),
        file=file,
        line=line,
    )
    if split and answer.condition != "clean":
        raise ValueError(f"condition: a {split} context is clean, not {answer.condition}")
    made = context_of(answer, label)
    if made:
        _check_clean(made)
    return made, None if unanswered else answer


def _plain(row: Mapping[str, Any], file: str, line: int) -> Context:
    if message := mismatch(row, CONTEXT_SCHEMA):
        raise ValueError(message)
    if not {"scores", "embeddings"} & set(row):
        raise ValueError("scores and embeddings are both missing: give one of them")
    sizes = {name: len(row[name]) for name in ("scores", "embeddings", "poison") if name in row}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{n} {name}" for name, n in sizes.items())
        raise ValueError(f"of different lengths, which are to be the number of passages: {said}")
    if len({len(e) for e in row.get("embeddings", ())}) > 1:
        raise ValueError("embeddings: vectors of different lengths")
    values = {k: v for k, v in row.items() if k not in (*sizes, "metadata")}
    if "embeddings" in row:
        rows = row["embeddings"]
        values["embeddings"] = np.array(rows, np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    if "scores" in row:
        values["scores"] = np.array(row["scores"], np.float64)
    if "poison" in row:
        values["poison"] = np.array(row["poison"], bool)
    return Context(**values, file=file, line=line)


def _check_clean(c: Context) -> None:
    if c.split != "attack" and c.condition != "clean":
        raise ValueError(f"condition: a {c.split} context is clean, not {c.condition}")
    if c.condition == "clean" and c.occupancy:
        raise ValueError("poison: a clean context holds none")


_KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
    "null": type(None),
}


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, (int, float)) and kind == "number":
        try:
            return math.isfinite(value)
        except OverflowError:  # an integer beyond a float's range
            return False
    return isinstance(value, _KINDS[kind])


def mismatch(value: Any, schema: Mapping[str, Any], where: str = "") -> str | None:
    """The first thing in a value that its JSON Schema does not allow, in words; ``None`` where it fits.

    Knows what the schemas here use: type (numbers are finite), enum, pattern, minLength, minimum, required,
    properties, additionalProperties and items.
    """
    at = f"{where}: " if where else ""
    kinds: Sequence[str] = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ())
    shown = json.dumps(value, ensure_ascii=False, default=str)[:60]
    if kinds and not any(_is(value, kind) for kind in kinds):
        return f"{at}{shown} is no {' or '.join(kinds)}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{at}{shown} is none of {', '.join(schema['enum'])}"
    if isinstance(value, str):
        if len(value) < schema.get("minLength", 0):
            return f"{at}is empty"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            return f"{at}{shown} is not a known one"
    if isinstance(value, int) and value < schema.get("minimum", -math.inf):
        return f"{at}{shown} is below {schema['minimum']}"
    if isinstance(value, dict):
        known = schema.get("properties")
        for name in schema.get("required", ()):
            if name not in value:
                return f"{at}{name} is missing"
        for name, inner in value.items():
            if known is not None and name not in known and schema.get("additionalProperties") is False:
                return f"{at}unknown field {name!r}"
            if known is not None and (
                m := mismatch(inner, known.get(name, {}), f"{where}.{name}".lstrip("."))
            ):
                return m
    if isinstance(value, list):
        for i, inner in enumerate(value):
            if m := mismatch(inner, schema.get("items", {}), f"{where}[{i}]"):
                return m
    return None
