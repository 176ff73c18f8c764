"""Labels of saved answers from any source, one JSON object a line: a judge model, a human, another rule.

A row names its answer by ``key`` (:attr:`~stressrag.aligned.records.Answer.key`, in the compact or the spaced
form of the paper's files) or by identifying fields (``query_id``, ``method``, ``condition``, ``budget``,
``dataset``, …) that leave no doubt which answer is meant. It holds ``target_endorsed``, ``reference_correct``
or ``abstains``, each one of :data:`VALUES`, true or false, in the row itself or under ``labels``, ``human``
or ``judge``; it may hold ``source``, ``reviewer``, ``evidence`` and ``rationale``.

``uncertain`` is a verdict, ``invalid`` the lack of one: a judge's reply that could not be read. They are
never taken for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stressrag.aligned.answer_index import IDENTIFYING, AnswerIndex
from stressrag.aligned.records import Answer
from stressrag.collection.beir import parse_line
from stressrag.collection.json_text import NotJson, parse, parse_file
from stressrag.collection.lines import first_line, read_lines
from stressrag.collection.problems import ProblemLog, collapsed
from stressrag.errors import StressragError, brief, nearest

FIELDS = ("target_endorsed", "reference_correct", "abstains")
VALUES = ("yes", "no", "uncertain", "invalid", "not_applicable")
_NESTED = ("labels", "human", "judge")
_LISTED = 20
_ABSENT = object()


@dataclass(frozen=True)
class Labels:
    """What one source says of one answer.

    Attributes
    ----------
    target_endorsed, reference_correct, abstains : str or None
        One of :data:`VALUES`; ``None``: not said.
    source : str
        Who says so.
    evidence, rationale : str
        As given.
    file, line : str, int
        Where it was read.
    """

    target_endorsed: str | None = None
    reference_correct: str | None = None
    abstains: str | None = None
    source: str = ""
    evidence: str = ""
    rationale: str = ""
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Judgments:
    """Labels by source and key.

    Attributes
    ----------
    sources : dict
        Source to {key: Labels}, sources and keys in file order.
    unknown : dict
        By source, rows on answers that are not among those given.
    missing : dict
        By source, distinct answers without labels.
    repeated : int
        Rows that say again what an earlier one of the same source said.
    """

    sources: dict[str, dict[str, Labels]]
    unknown: dict[str, int]
    missing: dict[str, int]
    repeated: int = 0

    def only(self) -> dict[str, Labels]:
        """The labels of the one source there is.

        Raises
        ------
        StressragError
            When there are several or none.
        """
        if len(self.sources) != 1:
            names = ", ".join(brief(name) for name in list(self.sources)[:_LISTED]) or "no source"
            raise StressragError(f"labels of one source are needed; here are those of {names}")
        return next(iter(self.sources.values()))


def read_labels(
    paths: Sequence[str | Path], answers: Iterable[Answer] | None = None, source: str = ""
) -> Judgments:
    """Read label files.

    Parameters
    ----------
    paths : sequence of path
        JSONL, plain or gzipped.
    answers : iterable of Answer, optional
        What the labels are about. Without them rows must hold a key, which is kept as it stands.
    source : str
        The source of rows that name none; by default ``human`` for rows with labels under ``human``, else the
        file's name without its ending.

    Raises
    ------
    StressragError
        For everything that is wrong, all at once with file and line: broken rows, unknown values, rows that
        may mean several answers, conflicting rows of one source, files without a row.
    """
    log = ProblemLog()
    index = None if answers is None else AnswerIndex(answers)
    sources: dict[str, dict[str, Labels]] = {}
    unknown: dict[str, int] = {}
    repeated = 0
    for path in map(Path, paths):
        refuse_page_file(path)
        line, before = 0, len(log.problems())
        for line, raw in read_lines(path, log):
            row = parse_line(raw, str(path), line, log)
            labels = None if row is None else _labels(row, path, line, source, log)
            if row is None or labels is None:
                continue
            key = _key_of(row, index, labels, log)
            of_source = sources.setdefault(labels.source, {})
            unknown.setdefault(labels.source, 0)
            if key is None:
                unknown[labels.source] += 1
            elif key == "":  # already told
                continue
            elif key not in of_source:
                of_source[key] = labels
            else:
                of_source[key] = _merged(of_source[key], labels, log)
                repeated += 1
        if not line and len(log.problems()) == before:
            log.error(str(path), None, f"holds no label; a row has one of {', '.join(FIELDS)}")
    refuse(log)
    keys = [] if index is None else list(index.keys)
    missing = {name: sum(k not in found for k in keys) for name, found in sources.items()}
    return Judgments(sources, unknown, missing, repeated)


def refuse(log: ProblemLog) -> None:
    """Raise the errors of a log, a line for each kind; past twenty they are counted."""
    found = collapsed(p for p in log.problems() if p.severity == "error")
    if found:
        more = [f"and {len(found) - _LISTED} more"] if len(found) > _LISTED else []
        lines = [str(p).replace(": error: ", ": ", 1) for p in found[:_LISTED]]
        raise StressragError("\n".join([*lines, *more]))


def refuse_page_file(path: Path) -> None:
    """Point to ``audit-import`` where a file is what an audit's page saved, one JSON object in all."""
    start = first_line(path).strip()
    if not start.startswith("{"):
        return
    try:
        value = parse(start)
    except NotJson:
        try:
            value = parse_file(path)  # an object over several lines
        except NotJson:
            return
    if isinstance(value, dict) and "packet" in value and ("annotator" in value or "labels" in value):
        raise StressragError(
            f"{path}: saved from the page of an audit; give it to aligned audit-import with the folder of "
            "the export, and use the labels that this writes"
        )


def label_value(value: object) -> str | None:
    """The label that a JSON value means: one of :data:`VALUES`, or ``None`` where it means none."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    word = value.strip().lower() if isinstance(value, str) else ""
    return word if word in VALUES else None


def _labels(row: dict[str, Any], path: Path, line: int, default: str, log: ProblemLog) -> Labels | None:
    """The labels of a row; ``None``, and errors in the log, where it has none."""
    file = str(path)
    nested = next((name for name in _NESTED if isinstance(row.get(name), dict)), "")
    given = {**row, **row[nested]} if nested else row
    values: dict[str, str] = {}
    wrong = 0
    for name in FIELDS:
        value = given.get(name, _ABSENT)
        if value is _ABSENT:
            continue
        label = label_value(value)
        if label is None:
            told = "null: write uncertain, invalid or not_applicable" if value is None else brief(value)
            hint = f"; {nearest(value[:60], VALUES)}" if isinstance(value, str) else ""
            log.error(file, line, f"{name!r} is {told}{hint}")
            wrong += 1
        else:
            values[name] = label
    texts = {name: given.get(name, "") for name in ("source", "reviewer", "evidence", "rationale")}
    for name in ("source", "reviewer"):
        if not isinstance(texts[name], str):
            log.error(file, line, f"{name!r} is no string")
            wrong += 1
    if not values and not wrong:
        log.error(file, line, f"none of {', '.join(FIELDS)}")
    if wrong or not values:
        return None
    said = ":".join(t for t in (texts["source"], texts["reviewer"]) if t)
    name = said or default or ("human" if nested == "human" else path.name.split(".")[0])
    evidence, rationale = (
        t if isinstance(t, str) else repr(t) for t in (texts["evidence"], texts["rationale"])
    )
    return Labels(**values, source=name, evidence=evidence, rationale=rationale, file=file, line=line)


def _key_of(row: Mapping[str, Any], index: AnswerIndex | None, at: Labels, log: ProblemLog) -> str | None:
    """The key that a row is about; ``None``: of no answer here; ``""``: an error, which is in the log."""
    key, query = row.get("key"), row.get("query_id")
    if isinstance(query, int) and not isinstance(query, bool):
        query = str(query)
    if "key" in row and (not isinstance(key, str) or not key):
        log.error(at.file, at.line, "'key' is no filled string")
        return ""
    if index is None:
        if key is None:
            log.error(at.file, at.line, "no 'key', and no answers to find one in")
        return key or ""
    if key is not None:
        if found := index.keys.get(key) or index.spaced.get(key):
            return found
        keys = index.of_content(row)
    elif isinstance(query, str):
        keys = index.of_fields(row, query) or index.of_content(row)
    elif isinstance(row.get("answer"), str):
        keys = index.of_content(row)
    else:
        log.error(
            at.file, at.line, "neither 'key' nor a string 'query_id', nor question and answer themselves"
        )
        return ""
    if len(keys) > 1:
        differ = [n for n in IDENTIFYING if n not in row]
        log.error(at.file, at.line, f"may mean {len(keys)} answers; add key, or any of {', '.join(differ)}")
        return ""
    return next(iter(keys)) if keys else None


def _merged(earlier: Labels, later: Labels, log: ProblemLog) -> Labels:
    """Two rows of one source on one answer as one; what they say differently is an error."""
    values = {}
    for name in FIELDS:
        one, two = getattr(earlier, name), getattr(later, name)
        if one is not None and two is not None and one != two:
            where = f"line {earlier.line}" if earlier.file == later.file else f"{earlier.file}:{earlier.line}"
            log.error(
                later.file,
                later.line,
                f"{name} is {two}, but {one} in {where}, for the same answer and source "
                f"{brief(later.source)}",
            )
        values[name] = one if one is not None else two
    return replace(earlier, **values)
