"""Choosing conditions by their settings: ``scope=isolated,budget=5``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stressrag.errors import StressragError, nearest

Where = str | Mapping[str, Any] | None


def parse_where(text: str) -> dict[str, str]:
    """``key=value,key=value`` as a mapping; commas inside brackets belong to a value.

    Raises
    ------
    StressragError
        When a part is no ``key=value`` or a key stands there twice.
    """
    out: dict[str, str] = {}
    for part in re.split(r",(?![^\[]*\])", text):
        key, equals, value = (x.strip() for x in part.partition("="))
        if not (key and equals and value):
            raise StressragError(f"where: {part!r} is no key=value, such as scope=isolated,budget=5")
        if key in out:
            raise StressragError(f"where: {key} stands there twice; give it one value")
        out[key] = value
    return out


def as_where(where: Where) -> dict[str, Any]:
    """A filter given as words or as a mapping.

    Raises
    ------
    StressragError
        When it is neither.
    """
    if where is None:
        return {}
    if isinstance(where, str):
        return dict(parse_where(where))
    if not isinstance(where, Mapping) or not all(isinstance(key, str) for key in where):
        raise StressragError(f"where: {where!r} has no keys with values, such as scope: isolated")
    for key, value in where.items():
        scalars = value if isinstance(value, list) and key == "targets" else [value]
        if not all(v is None or isinstance(v, str | int | float) for v in scalars):
            raise StressragError(f"where: {key} takes one value, not {value!r}")
    return dict(where)


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """A condition's config with dotted names for what lies deeper (``defense_settings.overlap.tau``)."""
    out: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            out.update({f"{key}.{name}": v for name, v in flatten(value).items()})
        else:
            out[key] = value
    return out


def check_keys(conditions: Iterable[Mapping[str, Any]], where: Mapping[str, Any]) -> None:
    """Refuse a filter by a key that no condition has.

    Raises
    ------
    StressragError
        With the nearest keys.
    """
    known = {key for c in conditions for key in flatten(c["config"])}
    for key in where:
        if key not in known:
            raise StressragError(f"where: no setting {key!r}; {nearest(key, known)}")


def fits(condition: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    """Whether a condition of ``summary.json`` has all the values of a filter."""
    config = flatten(condition["config"])
    return all(key in config and _same(config[key], value) for key, value in where.items())


def select(conditions: Sequence[Mapping[str, Any]], where: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions that fit a filter, at least one.

    Raises
    ------
    StressragError
        When a key is unknown, or nothing fits: then with the values that the keys have.
    """
    check_keys(conditions, where)
    out = [c for c in conditions if fits(c, where)]
    if not out:
        configs = [flatten(c["config"]) for c in conditions]
        for key, value in where.items():
            if not any(key in config and _same(config[key], value) for config in configs):
                there = dict.fromkeys(word(config[key]) for config in configs if key in config)
                raise StressragError(f"where: no condition has {key}={word(value)}; there is {_some(there)}")
        raise StressragError(f"where: no condition has {words(where)} together; each alone occurs")
    return out


def words(where: Mapping[str, Any]) -> str:
    """A filter as it is typed."""
    return ",".join(f"{key}={word(value)}" for key, value in where.items())


def word(value: Any) -> str:
    """A setting's value as it is typed."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(word, value)) + "]"
    return str(value)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "")


def _same(value: Any, asked: Any) -> bool:
    """Whether a setting has a value; numbers are compared as numbers, ``none`` means null too."""
    if value is None:
        return asked is None or str(asked).lower() in ("none", "null")
    if isinstance(value, list):
        names = asked if isinstance(asked, list) else [x.strip() for x in str(asked).strip("[]").split(",")]
        return [str(v) for v in value] == [str(n) for n in names]
    if isinstance(value, bool) or isinstance(asked, bool):
        return word(value) == word(asked).lower()
    if isinstance(value, int | float):
        try:
            return float(asked) == float(value)
        except (TypeError, ValueError):
            return False
    return str(value) == word(asked)
