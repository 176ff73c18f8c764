"""Reader of the record files of the paper's code: a table of outputs and records that name them by hash.

``external_four_condition_records`` come from the released harness, ``factorial_records`` from the paper's
experiments (its code, sections on record artifacts). The hash that either carries is checked here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stressrag.aligned.records import HARNESS, NO_DEFENSE, Answer
from stressrag.collection.json_text import NotJson, parse_file
from stressrag.collection.problems import ProblemLog
from stressrag.errors import brief

_KINDS = ("external_four_condition_records", "factorial_records")
_DIGITS = 9


class _Odd(ValueError):
    """What is wrong with one record, in words."""


def read_artifact(path: Path, defaults: Mapping[str, Any], log: ProblemLog) -> list[Answer]:
    """The answers of a record file; what is wrong goes to ``log``."""
    file = str(path)
    try:
        value = parse_file(path)
    except NotJson as e:
        log.error(file, None, str(e))
        return []
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in _KINDS:
        log.error(
            file,
            None,
            f"kind {brief(kind)} is no record file; expected {' or '.join(_KINDS)}, or answers as .jsonl",
        )
        return []
    if not _sound(value):
        log.error(
            file, None, "its sha256 does not fit its content: the file was changed after it was written"
        )
    outputs, records = value.get("outputs"), value.get("records")
    if not isinstance(outputs, dict) or not isinstance(records, list):
        log.error(file, None, "holds no table of outputs or no list of records")
        return []
    out: list[Answer] = []
    seen: set[Any] = set()
    for i, row in enumerate(_rows(value, records, file, log), 1):
        key = row.pop("_key")
        if not isinstance(outputs.get(key), dict):
            why = (
                "names an output that is not there"
                if key not in outputs
                else "names an output that is no object"
            )
            log.error(file, i, f"record of query {brief(row['query_id'])} {why}: {brief(key)}")
            continue
        place = tuple(
            str(row.get(x)) for x in ("dataset", "budget", "method", "condition", "query_id", "split", "arm")
        )
        if place in seen:
            continue
        seen.add(place)
        from stressrag.aligned.read import answer_of

        made = answer_of({**outputs[key], **row}, path, i, defaults, log)
        out += [made] if made else []
    return out


def _sound(value: dict[str, Any]) -> bool:
    """Whether the hash of the content is the one it carries, in either way of writing JSON."""
    said = value.get("sha256")
    bare = {k: v for k, v in value.items() if k != "sha256"}
    return said is None or any(
        hashlib.sha256(
            json.dumps(bare, sort_keys=True, ensure_ascii=False, separators=s).encode()
        ).hexdigest()
        == said
        for s in ((",", ":"), (", ", ": "))
    )


def _rows(
    value: Mapping[str, Any], records: list[Any], file: str, log: ProblemLog
) -> Iterator[dict[str, Any]]:
    """Rows in the long format, the output's key under ``_key``; records that make none go to the log."""
    try:
        axes = _table(value, "axes")
        setting: dict[str, str] = {k: _name(axes, k) for k in ("dataset", "retriever", "victim") if k in axes}
        usual = _name(value, "method", "defense")
    except _Odd as e:
        log.error(file, None, str(e))
        return
    utility = value.get("utility") or []
    if not isinstance(utility, list):
        log.error(file, None, f"utility is no list: {brief(utility)}")
        utility = []
    for what, entries, rows_of in (("record", records, _attacked), ("utility", utility, _held_out)):
        for n, r in enumerate(entries, 1):
            try:
                if not isinstance(r, dict):
                    raise _Odd(f"is no object: {brief(r)}")
                yield from rows_of(r, setting, usual)
            except _Odd as e:
                log.error(file, None, f"{what} {n}: {e}")


def _attacked(r: Mapping[str, Any], setting: Mapping[str, str], usual: str) -> list[dict[str, Any]]:
    """The rows of an attacked query."""
    method = _name(r, "method", usual)
    base: dict[str, Any] = {**setting, "query_id": _name(r, "id", None), "group_id": _name(r, "group_id", "")}
    base["budget"] = _budget(_name(r, "cell", ""))
    out = []
    for name, key in _keys(r, "conditions"):
        condition, defended = HARNESS.get(name, (name, False))
        if method != "no_defense" or not defended:
            row = {
                **base,
                "condition": condition,
                "method": method if defended else NO_DEFENSE,
                "_key": key,
            }
            out.append(row if condition != "clean" else {**row, "budget": None})
    return out + [
        {**base, "condition": c, "method": NO_DEFENSE, "_key": key} for c, key in _keys(r, "controls") if key
    ]


def _held_out(u: Mapping[str, Any], setting: Mapping[str, str], usual: str) -> list[dict[str, Any]]:
    """The rows of a clean query that was not attacked."""
    method = _name(u, "method", usual)
    base = {**setting, "query_id": _name(u, "id", None), "condition": "clean", "split": "utility"}
    keys = dict(_keys({"outputs": {x: u.get(x) for x in ("before", "after")}}, "outputs"))
    out = [{**base, "method": NO_DEFENSE, "_key": keys["before"]}]
    return out if method == "no_defense" else [*out, {**base, "method": method, "_key": keys["after"]}]


def _table(r: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = r.get(name)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _Odd(f"{name} is no object: {brief(found)}")
    return found


def _keys(r: Mapping[str, Any], name: str) -> list[tuple[str, str | None]]:
    """What a table says of each name: the key of an output."""
    found = _table(r, name)
    for k, v in found.items():
        if v is not None and not isinstance(v, str):
            raise _Odd(f"{name}: {brief(k)} names no output: {brief(v)}")
    return list(found.items())


def _name(r: Mapping[str, Any], name: str, default: str | None = "") -> str:
    """A text or a number as text; the default where there is none or an empty one."""
    found = r.get(name)
    if found in (None, ""):
        if default is None:
            raise _Odd(f"has no {name}")
        return default
    if isinstance(found, bool) or not isinstance(found, (str, int)):
        raise _Odd(f"{name} is no text: {brief(found)}")
    return str(found)


def _budget(cell: str) -> int | None:
    """The budget in a cell's name, such as 5 in ``p5_k10``."""
    digits = cell[1:].split("_")[0]
    if cell[:1] != "p" or not (digits.isdecimal() and digits.isascii()):
        return None
    if len(digits) > _DIGITS:
        raise _Odd(f"cell {brief(cell)} has a budget of more than {_DIGITS} digits")
    return int(digits)
