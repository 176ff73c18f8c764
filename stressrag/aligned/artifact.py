"""Reader of the record files of the paper's code: a table of outputs and records that name them by hash.

``external_four_condition_records`` come from the released harness, ``factorial_records`` from the paper's
experiments (its code, sections on record artifacts). The hash that either carries is checked here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stressrag.aligned.records import HARNESS, NO_DEFENSE, Answer
from stressrag.collection.problems import ProblemLog

_KINDS = ("external_four_condition_records", "factorial_records")


def read_artifact(path: Path, defaults: Mapping[str, Any], log: ProblemLog) -> list[Answer]:
    """The answers of a record file; what is wrong goes to ``log``."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as e:
        log.error(str(path), None, f"not JSON that can be read: {e}")
        return []
    kind = value.get("kind") if isinstance(value, dict) else None
    if kind not in _KINDS:
        log.error(
            str(path),
            None,
            f"kind {kind!r} is no record file; expected {' or '.join(_KINDS)}, or answers as .jsonl",
        )
        return []
    if not _sound(value):
        log.error(
            str(path), None, "its sha256 does not fit its content: the file was changed after it was written"
        )
    outputs, records = value.get("outputs"), value.get("records")
    if not isinstance(outputs, dict) or not isinstance(records, list):
        log.error(str(path), None, "holds no table of outputs or no list of records")
        return []
    out: list[Answer] = []
    seen: set[Any] = set()
    for i, row in enumerate(_answer_rows(value, records), 1):
        key = row.pop("_key")
        if not isinstance(outputs.get(key), dict):
            log.error(
                str(path),
                i,
                f"record of query {row['query_id']!r} names an output that is not there: {key!r}",
            )
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


def _answer_rows(value: Mapping[str, Any], records: list[Any]) -> list[dict[str, Any]]:
    """Rows in the long format, the output's key under ``_key``."""
    said = value.get("axes")
    axes = said if isinstance(said, dict) else {}
    setting = {k: str(axes[k]) for k in ("dataset", "retriever", "victim") if k in axes}
    out = []
    for r in records:
        method = str(r.get("method") or value.get("method") or "defense")
        cell = str(r.get("cell") or "")
        budget = (
            int(cell[1:].split("_")[0]) if cell[:1] == "p" and cell[1:].split("_")[0].isdecimal() else None
        )
        base = {
            **setting,
            "query_id": str(r.get("id")),
            "group_id": str(r.get("group_id") or ""),
            "budget": budget,
        }
        for name, key in (r.get("conditions") or {}).items():
            condition, defended = HARNESS.get(name, (name, False))
            if method != "no_defense" or not defended:
                row = {
                    **base,
                    "condition": condition,
                    "method": method if defended else NO_DEFENSE,
                    "_key": key,
                }
                out.append(row if condition != "clean" else {**row, "budget": None})
        out += [
            {**base, "condition": c, "method": NO_DEFENSE, "_key": key}
            for c, key in (r.get("controls") or {}).items()
            if key
        ]
    for u in value.get("utility") or ():
        method = str(u.get("method"))
        base = {**setting, "query_id": str(u.get("id")), "condition": "clean", "split": "utility"}
        out.append({**base, "method": NO_DEFENSE, "_key": u.get("before")})
        if method != "no_defense":
            out.append({**base, "method": method, "_key": u.get("after")})
    return out
