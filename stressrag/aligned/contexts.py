"""Contexts that detectors look at, from saved answers in the long format or from plain JSON lines.

A plain line is ``{"query_id": …, "condition": "clean" | "poisoned", "split": "calibration" | "check" |
"attack", "scores": […], "embeddings": [[…]], "poison": [true, …], "budget": 5, "group_id": …, "dataset": …,
"retriever": …, "victim": …, "arm": …, "attack": …, "target_positive": true}``. Scores or embeddings must be
there, ``split`` is ``attack`` unless it says otherwise. A line with ``question``, ``answer``,
``context`` or ``context_id`` is a row of the long format (see ``records``), of which the split
``calibration`` needs but query and context. Answers are read as everywhere, from files or folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.read import Source, answer_of, gather, joined, source, without_repeats
from stressrag.aligned.records import AXES, CONDITIONS, NO_DEFENSE, SCHEMA, Answer
from stressrag.aligned.shape import mismatch
from stressrag.collection.beir import parse_line
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import Problem, ProblemLog
from stressrag.errors import brief

SPLITS = ("calibration", "check", "attack")
_MOST = 10**9
_OF_SPLIT = {"calibration": "calibration", "check": "utility"}
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
_LONG = {"question", "answer", "context", "context_id"}


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
        return f"{self.file}:{self.line}" if self.file else f"query {brief(self.query_id)}"

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
    """Read files of contexts, of answers, or of both, and folders of answers.

    Parameters
    ----------
    paths : iterable of path
        JSON lines, plain or gzipped; for answers also all that
        :func:`~stressrag.aligned.read.gather` reads: folders, finished aligned runs, Parquet.
    split : {"calibration", "check"}, optional
        What every row is for, whatever it says; all must be clean then.
    label : callable, optional
        As in :func:`context_of`.

    Returns
    -------
    contexts : list of Context
    answers : list of Answer
        The rows that hold an answer.
    problems : list of Problem
        Everything that cannot be worked with, by file and line, and warnings of what is not read.
    """
    log = ProblemLog()
    contexts: list[Context] = []
    every: list[Answer] = []
    for path in paths:
        found = source(path)
        lines = not found.path.is_dir() and found.path.suffix not in (".parquet", ".json")
        plain, rows = _lines(found, split, log) if lines else ([], gather([_for(path, found, split)], log))
        if split:
            rows = [replace(a, split=_OF_SPLIT[split]) for a in rows]
        made = [(a, c) for a in rows if (c := _of_answer(a, split, label, log))]
        # Undefended rows that several folders repeat are one.
        every += rows
        kept = {id(a) for a in without_repeats(every)}
        contexts += [*plain, *(c for a, c in made if id(a) in kept)]
        if not (plain or made or any(p.severity == "error" for p in log.problems())):
            what = "context of an undefended clean or poisoned answer" if rows else "line"
            log.error(str(found.path), None, f"holds no {what}")
    answers = [a for a in without_repeats(every) if a.answer or a.split != "calibration"]
    return contexts, answers, log.problems()


def _for(path: str | Path, found: Source, split: str | None) -> str:
    """The path with what it is for as a setting, so that rows need not say it."""
    joint = "@" if Path(path).expanduser() == found.path else ","
    return f"{path}{joint}split={_OF_SPLIT[split]}" if split else str(path)


def _lines(found: Source, split: str | None, log: ProblemLog) -> tuple[list[Context], list[Answer]]:
    """The plain contexts of a file of JSON lines, and its rows in the long format."""
    file, settings = str(found.path), found.settings
    usual = {k: v for k, v in settings.items() if k in CONTEXT_SCHEMA["properties"]}
    usual["split"] = _UTILITY[settings.get("split", "attack")]
    plain: list[Context] = []
    rows: list[Answer] = []
    for line, text in read_lines(found.path, log):
        row = parse_line(text, file, line, log)
        if row is None:
            continue
        if _LONG & set(row):
            row |= {"split": _OF_SPLIT[split]} if split else {}
            if row.get("split", settings.get("split")) == "calibration" and "answer" not in row:
                row = {"question": "", "condition": "clean", **row}
            made = answer_of(row, found.path, line, settings, log)
            rows += [made] if made else []
            continue
        try:
            row = {**usual, **row, **({"split": split} if split else {})}
            plain.append(_checked(_plain(row, file, line)))
        except ValueError as e:
            log.error(file, line, str(e))
    return plain, joined(rows, log)


def _of_answer(a: Answer, split: str | None, label: Label | None, log: ProblemLog) -> Context | None:
    try:
        if split and a.condition != "clean":
            raise ValueError(f"condition: a {split} context is clean, not {a.condition}")
        made = context_of(a, label)
        return made and _checked(made)
    except ValueError as e:
        log.error(a.file, a.line, str(e))
        return None


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
    if [] in row.get("embeddings", ()):
        raise ValueError("embeddings: a vector without numbers")
    values = {k: v for k, v in row.items() if k not in (*sizes, "metadata")}
    if "embeddings" in row:
        rows = row["embeddings"]
        values["embeddings"] = np.array(rows, np.float64).reshape(len(rows), len(rows[0]) if rows else 0)
    if "scores" in row:
        values["scores"] = np.array(row["scores"], np.float64)
    if "poison" in row:
        values["poison"] = np.array(row["poison"], bool)
    return Context(**values, file=file, line=line)


def _checked(c: Context) -> Context:
    """The context, if it is what it says."""
    if c.split != "attack" and c.condition != "clean":
        raise ValueError(f"condition: a {c.split} context is clean, not {c.condition}")
    if c.condition == "clean" and c.occupancy:
        raise ValueError("poison: a clean context holds none")
    if c.budget is not None and c.budget > _MOST:
        raise ValueError(f"budget: {brief(c.budget)} is above {_MOST}")
    return c
