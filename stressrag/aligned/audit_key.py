"""The key file of an audit, checked when it is read: it may have been edited since the export."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stressrag.aligned.audit import KEY, KEY_KIND
from stressrag.aligned.audit_sample import FLIPS
from stressrag.aligned.judgments import FIELDS, VALUES
from stressrag.collection.json_text import read_json
from stressrag.errors import StressragError, brief

_MODES = ("answers", "flips")


class _Odd(ValueError):
    """What is not as an export writes it, in words."""


def read_key(folder: Path) -> dict[str, Any]:
    """The key file of an export.

    Raises
    ------
    StressragError
        When it is no key file, or anything that an import uses is not as the export wrote it.
    """
    path = folder / KEY
    key = read_json(path)
    if not isinstance(key, dict) or key.get("kind") != KEY_KIND:
        raise StressragError(f"{path} is no key file of an audit")
    try:
        _check(key)
    except _Odd as e:
        raise StressragError(f"{path}: {e}; put back the file as audit-export wrote it") from e
    return key


def _check(key: Mapping[str, Any]) -> None:
    _text(key, "packet", "")
    mode = _get(key, "mode", "")
    if mode not in _MODES:
        raise _Odd(f"mode is {brief(mode)}, neither {' nor '.join(_MODES)}")
    population = _get(key, "population", "")
    counts = [population]
    if mode == "flips":
        _kind(population, dict, "population", "no object in an audit of flips")
        counts = [_get(population, kind, "population") for kind in FLIPS]
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in counts):
        raise _Odd(f"population is {brief(population)}, no whole number from 0 on")
    answers, items = _get(key, "answers", ""), _get(key, "items", "")
    _kind(answers, dict, "answers", "no object")
    _kind(items, list, "items", "no list")
    for name, about in answers.items():
        _kind(about, dict, f"answers: {brief(name)}", "no object")
        _check_answer(about, f"answer {brief(name)}")
    rules = {tuple(sorted(about["automatic"])) for about in answers.values()}
    if len(rules) > 1:
        raise _Odd("its answers do not all have labels of the same rules")
    shown: list[str] = []
    for n, item in enumerate(items, 1):
        _kind(item, dict, f"item {n}", "no object")
        shown += _check_item(item, mode, answers, f"item {n}")
    if len(set(shown)) < len(shown) or set(shown) != set(answers) or not shown:
        raise _Odd(f"its items show {len(set(shown))} answers, and it tells of {len(answers)}")


def _check_answer(about: Mapping[str, Any], where: str) -> None:
    for name in ("key", "cluster"):
        _text(about, name, where)
    _kind(_get(about, "has_target", where), bool, f"{where}: has_target", "neither true nor false")
    rows, automatic = _get(about, "rows", where), _get(about, "automatic", where)
    _kind(rows, list, f"{where}: rows", "no list")
    for row in rows:
        _kind(row, dict, f"{where}: a row", "no object")
        for name in ("condition", "method"):
            _text(row, name, f"{where}, a row")
    _kind(automatic, dict, f"{where}: automatic", "no object")
    for rule, said in automatic.items():
        if said is not None:
            _kind(said, bool, f"{where}: automatic {brief(rule)}", "neither true, false nor null")
    judge = _get(about, "judge", where)
    if judge is not None:
        _kind(judge, dict, f"{where}: judge", "no object")
        for field in FIELDS:
            if judge.get(field) not in (None, *VALUES):
                raise _Odd(f"{where}: {field} of the judge is {brief(judge[field])}")


def _check_item(item: Mapping[str, Any], mode: str, answers: Mapping[str, Any], where: str) -> list[str]:
    """The ids of an item's answers."""
    ids = _get(item, "answers", where)
    _kind(ids, list, f"{where}: answers", "no list")
    for i in ids:
        if not isinstance(i, str) or i not in answers:
            raise _Odd(f"{where}: there is no answer {brief(i)}")
    if len(ids) != (2 if mode == "flips" else 1):
        raise _Odd(f"{where} has {len(ids)} answers, which does not fit the mode {mode!r}")
    stratum = _text(item, "stratum", where)
    if mode == "flips":
        methods = _get(item, "methods", where)
        if stratum not in FLIPS:
            raise _Odd(f"{where}: stratum is {brief(stratum)}, neither {' nor '.join(FLIPS)}")
        if not isinstance(methods, list) or not all(isinstance(m, str) for m in methods):
            raise _Odd(f"{where}: methods is no list of texts: {brief(methods)}")
        return ids
    weight = _get(item, "weight", where)
    sound = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not (sound and 0 < weight < math.inf and weight < 1e300):
        raise _Odd(f"{where}: weight is {brief(weight)}, no number above 0")
    return ids


def _get(of: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in of:
        raise _Odd(f"{where + ': ' if where else ''}{name!r} is missing")
    return of[name]


def _text(of: Mapping[str, Any], name: str, where: str) -> str:
    found = _get(of, name, where)
    if not isinstance(found, str) or not found:
        raise _Odd(f"{where + ': ' if where else ''}{name} is {brief(found)}, no text")
    return found


def _kind(value: Any, kind: type, what: str, wanted: str) -> None:
    if not isinstance(value, kind):
        raise _Odd(f"{what} is {wanted}: {brief(value)}")
