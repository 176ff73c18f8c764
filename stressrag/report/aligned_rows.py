"""Rows of an aligned evaluation as a reader wants them: what varies, what is alike, in which order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stressrag.aligned.labels import RULES
from stressrag.aligned.records import AXES
from stressrag.aligned.versus import is_detector
from stressrag.report.visible import visible

Row = Mapping[str, Any]
_COMPARED = ("n", "r_c0", "r_p0", "r_c1", "r_p1", "P", "J", "N", "H", "Gamma", "correct_c1", "correct_p1")


def place_names(rows: Iterable[Row]) -> list[str]:
    """Settings in which some rows differ; a reader needs them to tell rows apart."""
    every = list(rows)
    return [a for a in (*AXES, "budget") if len({str(r.get(a)) for r in every}) > 1]


def constant(rows: Sequence[Row]) -> str:
    """The settings that all rows share, in words; ``""``: none is said."""
    vary = place_names(rows)
    first = rows[0] if rows else {}
    return ", ".join(f"{a} {visible(first[a])}" for a in (*AXES, "budget") if a not in vary and first.get(a))


def place(r: Row, vary: Sequence[str]) -> str:
    """What tells a row's setting and budget apart, in words."""
    return ", ".join(
        f"budget {r[a]}" if a == "budget" else str(r[a]) for a in vary if r.get(a) not in ("", None)
    )


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Detectors after other methods, their rates as numbers; else as they are."""

    def rank(item: tuple[int, Row]) -> tuple[Any, ...]:
        i, r = item
        if not is_detector(r["method"]):
            return (*_setting(r), 0, "", 0.0, i)
        name, _, rate = r["method"].partition("@")
        found = re.match(r"[\d.]+", rate)
        return (*_setting(r), 1, name, float(found.group()) if found else 0.0, i)

    return [r for _, r in sorted(enumerate(rows), key=rank)]


def _setting(r: Row) -> tuple[Any, ...]:
    return (*(str(r[a]) for a in AXES), -1 if r["budget"] is None else r["budget"])


def merged(rows: Sequence[Row]) -> list[tuple[Row, str]]:
    """Rows with the labels that give the same measures as one: row and labels (``all``: every one)."""
    out: list[tuple[Row, list[str]]] = []
    groups: dict[Any, list[tuple[Row, list[str]]]] = {}
    for r in rows:
        here = groups.setdefault((_setting(r), r["method"]), [])
        alike = next((g for g in here if all(g[0].get(k) == r.get(k) for k in _COMPARED)), None)
        if alike and str(alike[0]["label"]) in RULES and str(r["label"]) in RULES:
            alike[1].append(str(r["label"]))
        else:
            here.append((r, [str(r["label"])]))
            out.append(here[-1])
    names = {str(r["label"]) for r in rows}
    every = len(names) > 1
    return [(r, "all" if every and set(labels) == names else ", ".join(labels)) for r, labels in out]


def lead(labels: Sequence[str], rows: Sequence[Row]) -> str:
    """The label that sentences speak of: of a judge or humans before rules, ``endorsed`` before others."""
    sure = {r["label"] for r in rows if r["n"]}
    judges = [name for name in labels if name not in RULES and name in sure]
    return judges[0] if judges else "endorsed" if "endorsed" in labels else labels[0]
