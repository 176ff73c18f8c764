"""Reading saved answers: the paper's harness files, the long format, and the paper's record files."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stressrag.aligned.records import (
    AXES,
    CONDITIONS,
    FIELDS,
    HARNESS,
    NO_DEFENSE,
    ROLES,
    SPLITS,
    Answer,
    Passage,
    is_condition,
)
from stressrag.collection.beir import parse_line
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import Problem, ProblemLog
from stressrag.errors import StressragError, brief, nearest

_NEEDED = ("query_id", "question", "answer")
_SETTABLE = (*AXES, "method", "budget", "split", "reference_source")
_SUFFIXES = (".jsonl", ".jsonl.gz", ".parquet")


@dataclass
class Source:
    """A path of a command line with the settings given for its rows."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict)


def source(text: str | Path) -> Source:
    """The source that ``PATH`` or ``PATH@field=value,…`` names; the settings hold for rows without their own.

    Raises
    ------
    StressragError
        When there is no such path or a setting is not one of a row's.
    """
    if not str(text).strip():
        raise StressragError("an empty path of answers; name a folder or a file")
    whole = _expanded(str(text))
    if isinstance(text, Path) or whole.exists() or "@" not in text:
        if not whole.exists():
            raise StressragError(f"{text}: no such file or folder of answers")
        return Source(whole)
    name, _, words = text.rpartition("@")
    path = _expanded(name)
    if not path.exists():
        raise StressragError(f"{name}: no such file or folder of answers")
    settings: dict[str, Any] = {}
    for word in words.split(","):
        key, sign, value = (x.strip() for x in word.partition("="))
        if not sign or key not in _SETTABLE:
            raise StressragError(f"{text}: {word!r} is no setting of answers; {nearest(key, _SETTABLE)}")
        if key == "budget" and not (value.isdecimal() and value.isascii()):
            raise StressragError(f"{text}: budget={value} is no whole number")
        if key == "split" and value not in SPLITS:
            raise StressragError(f"{text}: split={value}; {nearest(value, SPLITS)}")
        settings[key] = int(value) if key == "budget" else value
    return Source(path, settings)


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError as e:  # ~nobody
        raise StressragError(f"{text}: no such home folder") from e


def read_answers(paths: str | Path | Iterable[str | Path]) -> list[Answer]:
    """All answers of some paths, checked.

    Parameters
    ----------
    paths : iterable of str or Path
        Folders with the harness's four files or with long files, long files (JSONL, Parquet), or the
        harness's record files (JSON); each may carry settings (:func:`source`).

    Raises
    ------
    StressragError
        When something cannot be worked with; the line names the first problem and how many there are.
    """
    answers, problems = problems_of(paths)
    refuse_errors(problems)
    return answers


def refuse_errors(problems: Iterable[Problem]) -> None:
    """Raise the first error among some problems, those with a line before others."""
    errors = sorted((p for p in problems if p.severity == "error"), key=lambda p: p.line is None)
    if errors:
        more = f"; {len(errors) - 1} more, all shown by: aligned validate" if len(errors) > 1 else ""
        where = errors[0].file + (f":{errors[0].line}" if errors[0].line else "")
        raise StressragError(f"{where}: {errors[0].message}{more}")


def gather(paths: Iterable[str | Path], log: ProblemLog) -> list[Answer]:
    """The answers of some paths as far as they can be read; what is wrong goes to ``log``."""
    answers: list[Answer] = []
    sources = [source(p) for p in paths]
    if not sources:
        raise StressragError("no answers given; name a folder or a file of answers")
    for s in sources:
        before = len(answers)
        for file, defaults in _files(s, log):
            answers += _read_file(file, defaults, log)
        if len(answers) == before and not log.problems():
            log.error(str(s.path), None, "holds no answers")
    return without_repeats(joined(answers, log))


def joined(answers: Sequence[Answer], log: ProblemLog) -> list[Answer]:
    """Answers that name their context by id, with its passages."""
    tables: dict[Path, dict[str, tuple[Passage, ...]]] = {}
    out = []
    for a in answers:
        if a.context_id and a.context is None:
            home = Path(a.file).parent
            if home not in tables:
                tables[home] = _contexts_beside(home, log)
            if a.context_id in tables[home]:
                a = replace(a, context=tables[home][a.context_id])
            elif tables[home]:
                log.error(a.file, a.line, f"no context {a.context_id!r} in contexts.jsonl")
        out.append(a)
    return out


def _contexts_beside(home: Path, log: ProblemLog) -> dict[str, tuple[Passage, ...]]:
    for path in (home / "contexts.jsonl", home.parent / "contexts.jsonl"):
        if path.is_file():
            out = {}
            for number, row in _json_lines(path, log):
                problems: list[str] = []
                passages = _context(row.get("passages"), problems)
                for p in problems:
                    log.error(str(path), number, p)
                if passages is not None:
                    out[str(row.get("context_id"))] = passages
            return out
    return {}


def _files(s: Source, log: ProblemLog) -> list[tuple[Path, dict[str, Any]]]:
    """The files of a source with what holds for their rows."""
    if not s.path.is_dir():
        return [(s.path, s.settings)]
    if (s.path / "answers").is_dir():  # an aligned run
        return [(p, s.settings) for p in _run_files(s.path)]
    there = sorted(p for p in s.path.iterdir() if p.name.endswith(_SUFFIXES) and not p.name.startswith("."))
    there = [p for p in there if _stem(p) != "contexts"]
    named = {p: _stem(p) for p in there if _stem(p) in HARNESS or is_condition(_stem(p))}
    if not any(stem in HARNESS for stem in named.values()):
        if not there:
            raise StressragError(
                f"{s.path}: no answers here; expected {', '.join(HARNESS)} (.jsonl), or .jsonl or .parquet"
                " files in the long format"
            )
        return [(p, s.settings) for p in there]
    lacking = [name for name in HARNESS if name not in named.values()]
    if lacking:
        raise StressragError(f"{s.path}: no {lacking[0]}.jsonl beside the others of the four conditions")
    for p in there:
        if p not in named:
            log.warn(str(p), None, "is not read: the folder has the harness's layout")
    out = []
    for p, stem in named.items():
        condition, defended = HARNESS.get(stem, (stem, False))
        given = {"_condition": condition, "_defended": defended, "_folder": s.path.resolve().name}
        out.append((p, {**s.settings, **given}))
    return out


def _run_files(folder: Path) -> list[Path]:
    """The answers of a run's pipelines; those of earlier commands in its folder are not part of it."""
    there = sorted((folder / "answers").glob("*.jsonl"))
    try:
        names = list(json.loads((folder / "run.json").read_bytes())["pipelines"])
    except (OSError, ValueError, KeyError, TypeError):
        return there
    return [p for p in there if p.name in {answers_file(n) for n in names}]


def answers_file(pipeline: str) -> str:
    """The name of the file that holds a pipeline's answers."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", pipeline) + ".jsonl"


def _stem(path: Path) -> str:
    return path.name.split(".")[0]


def _read_file(path: Path, defaults: Mapping[str, Any], log: ProblemLog) -> list[Answer]:
    if path.suffix == ".parquet":
        return _rows(_parquet(path, log), path, defaults, log)
    if path.suffix == ".json":
        from stressrag.aligned.artifact import read_artifact

        return read_artifact(path, defaults, log)
    return _rows(_json_lines(path, log), path, defaults, log)


def _json_lines(path: Path, log: ProblemLog) -> Iterable[tuple[int, Mapping[str, Any]]]:
    for number, text in read_lines(path, log):
        row = parse_line(text, str(path), number, log)
        if row is not None:
            yield number, row


def _parquet(path: Path, log: ProblemLog) -> Iterable[tuple[int, Mapping[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as e:
        log.error(str(path), None, f"not a Parquet file that can be read: {str(e).splitlines()[0]}")
        return
    for number, row in enumerate(rows, 1):
        yield number, {k: v for k, v in row.items() if v is not None or k in _NEEDED}


def _rows(
    rows: Iterable[tuple[int, Mapping[str, Any]]], path: Path, defaults: Mapping[str, Any], log: ProblemLog
) -> list[Answer]:
    out = []
    for number, row in rows:
        made = answer_of(row, path, number, defaults, log)
        if made is not None:
            out.append(made)
    return out


def answer_of(
    row: Mapping[str, Any], path: Path, number: int, defaults: Mapping[str, Any], log: ProblemLog
) -> Answer | None:
    """The answer of a row; ``None`` where it cannot be used, the reasons in ``log``."""
    problems: list[str] = []
    values: dict[str, Any] = {k: v for k, v in defaults.items() if not k.startswith("_")}
    for name, value in row.items():
        if name == "metadata":
            continue
        if name not in FIELDS:
            log.warn(str(path), number, f"unknown field {name!r} is not read; {nearest(name, FIELDS)}")
        elif value is not None or name in _NEEDED:
            values[name] = value
    if "_condition" in defaults:
        problems += _place(values, defaults)
    for name in _NEEDED:
        if name == "answer" and values.get("split") == "calibration":
            values.setdefault("answer", "")
        if name not in values:
            problems.append(f"no field {name!r}")
        elif values[name] is None:
            problems.append(f"{name} is null; give a text, or leave the row out of all conditions")
    problems += _typed(values)
    for p in problems:
        log.error(str(path), number, p)
    return None if problems else Answer(**values, file=str(path), line=number)


def _place(values: dict[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Condition and method of a row of the harness, whose file says them."""
    said, where = values.get("condition"), str(defaults["_condition"])
    values["condition"] = where
    named = values.get("method", NO_DEFENSE)
    out = []
    if defaults["_defended"]:
        method = defaults["_folder"] if named == NO_DEFENSE else named
        if method == NO_DEFENSE:
            out.append(
                "the folder is called none like undefended answers; name the method as PATH@method=NAME"
            )
        values["method"] = method
    elif where in CONDITIONS:
        values["method"] = NO_DEFENSE  # the harness writes the method into all four files
    known = {where, *(n for n, p in HARNESS.items() if p == (where, defaults["_defended"]))}
    if said is not None and said not in known:
        out.append(f"condition {str(said)[:40]!r} in a file of {where!r}")
    return out


def _typed(values: dict[str, Any]) -> list[str]:
    """Bring a row's values to their types; what does not fit."""
    out = []
    if isinstance(values.get("query_id"), int) and not isinstance(values["query_id"], bool):
        values["query_id"] = str(values["query_id"])
    if isinstance(values.get("group_id"), int) and not isinstance(values["group_id"], bool):
        values["group_id"] = str(values["group_id"])
    if isinstance(values.get("references"), str):
        values["references"] = [values["references"]]
    if isinstance(values.get("condition"), str) and values["condition"] in HARNESS:
        condition, defended = HARNESS[values["condition"]]
        values["condition"] = condition
        if defended and values.get("method", NO_DEFENSE) == NO_DEFENSE:
            out.append("a defended condition needs the name of its method")
        if not defended:
            values["method"] = NO_DEFENSE
    for name in FIELDS:
        if name in ("references", "context", "budget") or values.get(name) is None:
            continue
        if not isinstance(values[name], str):
            out.append(f"{name} is no text: {str(values[name])[:40]!r}")
    out += [
        f"{name} is empty"
        for name in ("query_id", "method")
        if isinstance(values.get(name), str) and not values[name].strip()
    ]
    said: Any = values.get("condition")
    if said is None:
        out.append("no field 'condition'")
    elif isinstance(said, str) and not is_condition(said):
        out.append(f"no condition {brief(said)}; {nearest(said, _CONDITIONS)}")
    if values.get("split", "attack") not in SPLITS:
        out.append(f"no split {brief(values['split'])}; {nearest(str(values['split']), SPLITS)}")
    budget = values.get("budget")
    if isinstance(budget, float) and budget.is_integer():
        values["budget"] = budget = int(budget)
    if budget is not None and (not isinstance(budget, int) or isinstance(budget, bool) or budget < 0):
        out.append(f"budget {brief(budget)} is no whole number from 0 on")
    references = values.get("references")
    if references is not None:
        if not isinstance(references, Sequence) or not all(
            isinstance(r, str) and r.strip() for r in references
        ):
            out.append("references is no list of texts that are not empty")
        else:
            values["references"] = tuple(references)
    if isinstance(values.get("target"), str) and not values["target"].strip():
        out.append("target is empty; leave it out (or null) where there is none")
    if values.get("context") is not None:
        values["context"] = _context(values["context"], out)
    return out


_CONDITIONS = [
    "clean",
    "poisoned",
    "no_poison",
    "no_own_poison",
    "poison_only",
    "support_background",
    "poison_background",
    "background_only",
    "single_poison_0",
    "leave_poison_0_out",
]


def _context(given: Any, problems: list[str]) -> tuple[Passage, ...] | None:
    if not isinstance(given, Sequence) or isinstance(given, str):
        problems.append("context is no list of passages")
        return None
    out = []
    for i, p in enumerate(given):
        if isinstance(p, str):
            p = {"text": p}
        if not isinstance(p, Mapping):
            problems.append(f"context: passage {i} is no object")
            continue
        unknown = [k for k in p if k not in Passage.__dataclass_fields__ and k != "title"]
        if unknown:
            problems.append(
                f"context: passage {i}: unknown field {unknown[0]!r};"
                f" {nearest(unknown[0], Passage.__dataclass_fields__)}"
            )
            continue
        score, role = p.get("score"), p.get("role") or "other"
        if score is not None and (not _finite(score)):
            problems.append(f"context: passage {i}: score {brief(score)} is no finite number")
            continue
        if role not in ROLES:
            problems.append(f"context: passage {i}: no role {brief(role)}; {nearest(str(role), ROLES)}")
            continue
        out.append(
            Passage(
                str(p.get("id") or ""),
                str(p.get("text") or ""),
                None if score is None else float(score),
                role,
                str(p.get("owner") or ""),
            )
        )
    return tuple(out)


def _finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def without_repeats(answers: Sequence[Answer]) -> list[Answer]:
    """Rows that say the same once, such as the undefended answers that every method's folder repeats."""
    seen: dict[Any, Answer] = {}
    out = []
    for a in answers:
        place = (a.setting, a.split, a.budget, a.method, a.condition, a.query_id)
        if place in seen and seen[place] == replace(a):
            continue
        seen.setdefault(place, a)
        out.append(a)
    return out


def problems_of(paths: str | Path | Iterable[str | Path]) -> tuple[list[Answer], list[Problem]]:
    """The answers that can be read and everything that is wrong with them.

    Where rows cannot be read, queries that lack conditions are not told: they lack for that reason.
    """
    from stressrag.aligned.check import check

    log = ProblemLog()
    answers = gather([paths] if isinstance(paths, (str, Path)) else paths, log)
    check(answers, log, whole=not any(p.severity == "error" for p in log.problems()))
    return answers, log.problems()
