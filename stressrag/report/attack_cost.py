"""What an attack costs: the fewest known terms, documents or tokens with which it reaches so many queries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

MARKS = (10, 50, 90)
"""Percent of queries exposed."""
AXES = {"terms": "terms", "budget": "P", "max_tokens": "tokens"}
"""Settings that are a price, and their unit: known terms, documents per target, tokens of a document."""
METRICS = tuple(f"AttackCost{mark}.{axis}" for mark in MARKS for axis in AXES)


def attack_costs(conditions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The curve of exposure over each price, and where it reaches the marks.

    Parameters
    ----------
    conditions : sequence of mapping
        As in ``summary.json``.

    Returns
    -------
    list of dict
        For conditions that differ in one price alone, at least two of them: ``axis``, ``conditions`` (ids in
        the order of the price), ``curve`` (``value``, ``exposure``, ``low``, ``high``), and ``cost``, for
        each mark ``at_most`` (the smallest value tried that reaches it, ``None`` if none does),
        ``more_than`` (the largest tried before it that does not, ``None`` if there is none), ``low`` and
        ``high``, the smallest value at which the upper and the lower end of the exposure's interval reach the
        mark, and ``low_more_than``, the largest tried before ``low``.
    """
    out = []
    for axis in AXES:
        families: dict[str, list[Mapping[str, Any]]] = {}
        for c in conditions:
            known = c["metrics"].get("TargetExp") is not None
            if known and c["config"]["budget"] and price(c["config"], axis) is not None:
                families.setdefault(_without(c["config"], axis), []).append(c)
        for members in families.values():
            members = sorted(members, key=lambda c: price(c["config"], axis) or 0)
            if len(members) < 2:
                continue
            curve = [_point(c, axis) for c in members]
            out.append(
                {
                    "axis": axis,
                    "conditions": [c["id"] for c in members],
                    "curve": curve,
                    "cost": {str(mark): _cost(curve, mark / 100) for mark in MARKS},
                }
            )
    return out


def price(config: Mapping[str, Any], axis: str) -> int | None:
    """What a condition pays on an axis."""
    value = config["attack_settings"].get(axis) if axis == "max_tokens" else config[axis]
    return None if value is None else int(value)


def _without(config: Mapping[str, Any], axis: str) -> str:
    rest = {k: v for k, v in config.items() if k != axis}
    rest["attack_settings"] = {k: v for k, v in config["attack_settings"].items() if k != axis}
    return json.dumps(rest, sort_keys=True)


def _point(c: Mapping[str, Any], axis: str) -> dict[str, Any]:
    low, high = c["intervals"].get("TargetExp", (None, None))
    return {
        "value": price(c["config"], axis),
        "exposure": c["metrics"]["TargetExp"],
        "low": low,
        "high": high,
    }


def _cost(curve: Sequence[Mapping[str, Any]], mark: float) -> dict[str, Any]:
    def first(name: str) -> int | None:
        return next((p["value"] for p in curve if p[name] is not None and p[name] >= mark), None)

    def before(value: int | None) -> int | None:
        return max((p["value"] for p in curve if value is None or p["value"] < value), default=None)

    at_most, low = first("exposure"), first("high")  # more exposure is a lower cost: the upper end gives it
    return {
        "at_most": at_most,
        "more_than": before(at_most),
        "low": low,
        "low_more_than": before(low),
        "high": first("low"),
    }


def cost_text(cost: Mapping[str, Any]) -> str:
    """A cost as a cell: a value, what it lies between, or what it exceeds."""
    at_most, more_than = cost["at_most"], cost["more_than"]
    if at_most is None:
        return f"> {more_than}"
    text = f"{at_most}" if more_than in (None, at_most - 1) else f"{more_than + 1} to {at_most}"
    if more_than is None and at_most > 1:
        text = f"<= {at_most}"
    return text


def span_text(cost: Mapping[str, Any]) -> str:
    """The values at which the intervals of the exposures reach the mark; nothing without intervals."""
    if cost["low"] is None and cost["high"] is None:
        return ""
    low = "more" if cost["low"] is None else str(cost["low"])
    return f"[{low} {'more' if cost['high'] is None else cost['high']}]"


def judged_cost(cost: Mapping[str, Any], bound: str, use_interval: bool) -> float:
    """What a gate holds to its limit: the least (``min``) or greatest (``max``) value the cost can have.

    A mark that no value tried reaches costs more than the largest of them.
    """
    if bound == "max":
        value = cost["high"] if use_interval else cost["at_most"]
        return float("inf") if value is None else float(value)
    tried = cost["low_more_than" if use_interval else "more_than"]
    return 1.0 if tried is None else float(tried + 1)
