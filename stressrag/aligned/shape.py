"""Values held to a JSON Schema, with the first thing that does not fit in words."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.errors import brief, line_of

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


def _shown(value: Any) -> str:
    """As JSON writes it, on one line and cut."""
    if isinstance(value, (list, dict)):
        return brief(value)
    try:
        text = json.dumps(value[:60] if isinstance(value, str) else value, ensure_ascii=False)
    except ValueError:  # a number of thousands of digits
        return brief(value)
    cut = len(text) > 60
    return line_of(text[:60], 200) + "…" * cut if cut or not text.isprintable() else text


def mismatch(value: Any, schema: Mapping[str, Any], where: str = "") -> str | None:
    """The first thing in a value that its JSON Schema does not allow, in words; ``None`` where it fits.

    Knows what the schemas here use: type (numbers are finite), enum, pattern, minLength, minimum, required,
    properties, additionalProperties and items.
    """
    at = f"{where}: " if where else ""
    kinds: Sequence[str] = [schema["type"]] if isinstance(schema.get("type"), str) else schema.get("type", ())
    shown = _shown(value)
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
                return f"{at}unknown field {brief(name)}"
            if known is not None and (
                m := mismatch(inner, known.get(name, {}), f"{where}.{name}".lstrip("."))
            ):
                return m
    if isinstance(value, list):
        for i, inner in enumerate(value):
            if m := mismatch(inner, schema.get("items", {}), f"{where}[{i}]"):
                return m
    return None
