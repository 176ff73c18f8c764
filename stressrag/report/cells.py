"""Settings and numbers as the cells of a printed table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

SETTINGS = (
    "dataset",
    "retriever",
    "attack",
    "terms",
    "strategy",
    "budget",
    "scope",
    "defense",
    "k",
    "targets",
)
_DEEP = (
    "anchor",
    "body",
    "group_size",
    "pool",
    "statistics",
    "seed",
    "ties",
    "grade",
    "retriever_settings",
    "attack_settings",
    "defense_settings",
)
NAMES = {"budget": "P"}


def flat(config: Mapping[str, Any], node: str = "") -> dict[str, str]:
    """The deeper settings by dotted name, or only those of one node such as ``retriever_settings``.

    A name that stands in several nodes, as ``seed`` may, is told apart by retriever or node in the later one.
    """
    out: dict[str, str] = {}
    of_node: dict[str, str] = {}

    def walk(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for k, v in value.items():
                walk(f"{name}.{k}", v)
        else:
            (of_node if top == node else out)[name] = "" if value is None else str(value)

    for top in _DEEP:
        if not top.endswith("_settings"):
            walk(top, config[top])
            continue
        owner = config["retriever"] if top == "retriever_settings" else top.removesuffix("_settings")
        for key, value in config[top].items():
            walk(f"{owner}.{key}" if key in out else key, value)
    return of_node if node else out


def differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Deeper settings that tell two conditions apart which no short setting tells apart."""
    by_short: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for c in configs:
        by_short.setdefault(tuple(str(c[s]) for s in SETTINGS), []).append(flat(c))
    names: dict[str, None] = {}
    for same in by_short.values():
        for name in dict.fromkeys(n for one in same for n in one):
            if len({one.get(name) for one in same}) > 1:
                names[name] = None
    return list(names)


def setting(name: str, config: Mapping[str, Any]) -> str:
    """A short setting as a cell."""
    value = config[name]
    if name == "budget" and value == 0:
        return "-"
    return "-" if value is None else str(value)


def number(name: str, value: float | None) -> str:
    """A metric's value as a cell."""
    if value is None:
        return "-"
    if name == "PoisonCount":
        return f"{value:.2f}"
    return f"{value:.3f}"


def interval(name: str, ends: Sequence[float | None] | None) -> str:
    """An interval as a cell, empty where there is none."""
    if ends is None or ends[0] is None or ends[1] is None:
        return ""
    low, high = (f"{end:.1f}" if name == "PoisonCount" else f"{end:.2f}" for end in ends)
    return short(f"[{low} {high}]".replace("-0.00", "0.00"))


def span_cell(name: str, ends: Sequence[float] | None) -> str:
    return "" if ends is None else short(f"{number(name, ends[0])}-{number(name, ends[1])}")


def short(text: str) -> str:
    """Numbers without their leading zero (.5, but 10.5)."""
    return re.sub(r"(?<!\d)0\.", ".", text)


def p_text(value: float) -> str:
    """A p-value as a cell."""
    return "<.001" if value < 0.001 else f"{value:.3f}"


def align(head: list[str], rows: list[list[str]], left: int) -> list[str]:
    """The lines of a table whose first ``left`` columns are words."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]

    def line(cells: list[str]) -> str:
        return "  ".join(
            c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()

    return [line(head), "  ".join("-" * w for w in widths), *map(line, rows)]
