"""JSON as it is read everywhere: what cannot be taken at its word is refused in a few words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from stressrag.errors import StressragError, brief

DEEPEST = 100
"""Levels of lists and objects; nothing that is read here needs more."""
_HALF_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


class NotJson(ValueError):
    """Why a text is not taken as JSON, in words for the user."""


def parse(text: str) -> Any:
    """The value of a JSON text.

    Raises
    ------
    NotJson
        For broken JSON, a key that stands twice in one object (which of the two is meant cannot be told), an
        escape of half a surrogate pair, and nesting beyond :data:`DEEPEST`.
    """
    try:
        value = _DECODER.decode(text)
    except NotJson:
        raise
    except json.JSONDecodeError as e:
        where = f"column {e.colno}" if e.lineno == 1 else f"line {e.lineno}, column {e.colno}"
        raise NotJson(f"broken JSON: {e.msg} at {where}") from e
    except RecursionError as e:
        raise NotJson(_DEEP) from e
    except ValueError as e:
        raise NotJson("broken JSON: a whole number has too many digits to be one") from e
    if text.count("[") + text.count("{") > DEEPEST and _too_deep(value):
        raise NotJson(_DEEP)
    if _HALF_PAIR.search(text) and not _encodable(value):
        raise NotJson("an escape \\ud800 to \\udfff without its other half is not text")
    return value


_DEEP = f"broken JSON: nested too deeply, beyond {DEEPEST} levels"


def parse_file(path: Path) -> Any:
    """The value of a file that is one JSON text; a byte order mark is dropped.

    Raises
    ------
    NotJson
        As :func:`parse`, and for a file that cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as e:
        raise NotJson(f"cannot be read: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise NotJson(f"not UTF-8: byte 0x{e.object[e.start]:02x} at byte {e.start + 1}") from e
    return parse(text)


def read_json(path: Path) -> Any:
    """As :func:`parse_file`, with the file in a :class:`~stressrag.errors.StressragError`."""
    try:
        return parse_file(path)
    except NotJson as e:
        raise StressragError(f"{path}: {e}") from e


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        seen: set[str] = set()
        twice = next(k for k, _ in pairs if k in seen or seen.add(k))  # type: ignore[func-returns-value]
        raise NotJson(f"the key {brief(twice)} stands twice in one object; leave one of them")
    return out


_DECODER = json.JSONDecoder(object_pairs_hook=_object)


def _too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for v in level:
            values = v.values() if isinstance(v, dict) else v if isinstance(v, list) else ()
            if not {list, dict}.isdisjoint(map(type, values)):
                inner += [x for x in values if isinstance(x, (list, dict))]
        if not inner:
            return False
        level = inner
    return True


def _encodable(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
