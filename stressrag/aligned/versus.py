"""Method against method on the same queries, and where two labels disagree about which is better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from stressrag.aligned.cells import Cell, Labeler
from stressrag.aligned.records import AXES, NO_DEFENSE
from stressrag.stats.bootstrap import LEVEL, Floats
from stressrag.stats.four import paired_p
from stressrag.stats.intervals import Difference, estimates
from stressrag.stats.proportions import holm


def versus(
    cells: Sequence[Cell], labels: Sequence[Labeler], *, seed: int = 0, level: float = LEVEL
) -> list[dict[str, Any]]:
    """One row per pair of methods, setting, budget, condition and label.

    The difference is the rate of target-positive answers of ``method`` less that of ``against``, over the
    queries whose labels are known on both sides; the bounds are over all, whatever the unknown labels are.
    Undefended answers take part as method ``none``; two detectors are not held against each other. Holm's
    correction is over the pairs of one setting, budget, condition and label; where queries share groups it
    corrects ``cluster_p``, else ``mcnemar_p``.
    """
    together: dict[Any, list[Cell]] = defaultdict(list)
    for c in cells:
        together[(c.setting, c.budget)].append(c)
    out = []
    for members in together.values():
        for lab in labels:
            for condition in ("poisoned", "clean"):
                rows = [
                    r
                    for a, b in combinations(members, 2)
                    if not (is_detector(a.method) and is_detector(b.method))
                    and (r := _pair(b, a, lab, condition, seed, level)) is not None
                ]
                for r, p in zip(rows, holm([_tested(r) for r in rows]), strict=True):
                    r["p_holm"], r["family"] = p, len(rows)
                out += rows
    return out


def _tested(r: Mapping[str, Any]) -> float:
    """The p-value that is corrected: over groups where queries share them."""
    p = r["mcnemar_p"] if r["cluster_p"] is None else r["cluster_p"]
    return float(p)


def is_detector(method: str) -> bool:
    """Whether a method is one of ``aligned detect`` or of the pipeline ``detector``."""
    return method.startswith("detector:")


def _column(cell: Cell, labels: Labeler, condition: str, queries: Sequence[str]) -> tuple[Floats, np.ndarray]:
    defended = cell.method != NO_DEFENSE
    values = dict(zip(cell.queries, cell.column(labels, "target", condition, defended), strict=True))
    statuses = dict(zip(cell.queries, cell.statuses(labels, "target", condition, defended), strict=True))
    return np.array([values[q] for q in queries]), np.array(
        [statuses[q] != "not_applicable" for q in queries]
    )


def _pair(
    one: Cell, other: Cell, labels: Labeler, condition: str, seed: int, level: float
) -> dict[str, Any] | None:
    shared = set(other.queries)
    queries = [q for q in one.queries if q in shared]
    if not queries:
        return None
    a, there = _column(one, labels, condition, queries)
    b, _ = _column(other, labels, condition, queries)
    if np.isnan(a).all() or np.isnan(b).all():
        return None
    known = ~np.isnan(a + b)
    group_of = None if one.groups is None else dict(zip(one.queries, one.groups, strict=True))
    groups = None if group_of is None else [group_of[q] for q in queries]
    masked = Difference(np.where(known, a, np.nan), np.where(known, b, np.nan))
    made = estimates(
        {"d": masked, "a": masked.first, "b": masked.second}, queries, clusters=groups, level=level
    )
    if "d" not in made:
        return None
    tests = paired_p(masked.first, masked.second)
    low_a, high_a, low_b, high_b = (np.nan_to_num(x[there], nan=v) for x in (a, b) for v in (0.0, 1.0))
    return {
        **dict(zip(AXES, one.setting, strict=True)),
        "budget": one.budget,
        "condition": condition,
        "label": labels.name,
        "method": one.method,
        "against": other.method,
        "n": int(known.sum()),
        "n_queries": int(there.sum()),
        "rate": made["a"].value,
        "rate_against": made["b"].value,
        "difference": made["d"].value,
        "interval": [made["d"].low, made["d"].high],
        "only_method": int(np.nansum(masked.first * (1 - masked.second))),
        "only_against": int(np.nansum((1 - masked.first) * masked.second)),
        "mcnemar_p": tests["p"],
        "cluster_p": None if groups is None else paired_p(masked.first, masked.second, groups, seed)["p"],
        "bounds": [float((low_a - high_b).mean()), float((high_a - low_b).mean())],
    }


def disagreements(pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each pair of methods that some labels rank one way and others the other way."""
    return [sentence for _, sentence in disagreements_by_pair(pairs)]


def disagreements_by_pair(pairs: Sequence[Mapping[str, Any]]) -> list[tuple[tuple[str, str], str]]:
    """The same with the pair that each sentence is of."""
    by_pair: dict[Any, list[Mapping[str, Any]]] = defaultdict(list)
    for r in pairs:
        if r["condition"] == "poisoned" and r["difference"]:
            by_pair[(*(r[a] for a in AXES), r["budget"], r["method"], r["against"])].append(r)
    out = []
    for rows in by_pair.values():
        sides = [[r for r in rows if (r["difference"] < 0) == better] for better in (True, False)]
        if all(sides):
            out.append(((rows[0]["method"], rows[0]["against"]), _sentence(*sides)))
    return out


def place_of(r: Mapping[str, Any]) -> str:
    """Setting and budget of a row in words; ``""`` where neither is said."""
    words = [str(r[a]) for a in AXES if r[a]]
    return ", ".join([*words, *([f"budget {r['budget']}"] if r.get("budget") is not None else [])])


def _sentence(better: Sequence[Mapping[str, Any]], worse: Sequence[Mapping[str, Any]]) -> str:
    def told(rows: Sequence[Mapping[str, Any]], first: str, second: str) -> str:
        rates = listed(
            f"{r['label']} ({100 * min(r['rate'], r['rate_against']):.0f}% against "
            f"{100 * max(r['rate'], r['rate_against']):.0f}%)"
            for r in rows
        )
        return f"{named(first)} is better than {named(second)} under {rates}"

    r = better[0]
    place = place_of(r)
    rows = [*better, *worse]
    unsure = [
        x["label"] for x in rows if x["interval"][0] is None or x["interval"][0] <= 0 <= x["interval"][1]
    ]
    doubt = f" The interval includes no difference under {listed(unsure)}." if unsure else ""
    return (
        f"{place + ': ' if place else ''}{told(better, r['method'], r['against'])}, but "
        f"{told(worse, r['against'], r['method'])}.{doubt}"
    )


def listed(words: Iterable[str]) -> str:
    """Words as a list in a sentence."""
    every = list(words)
    return " and ".join(every) if len(every) < 3 else f"{', '.join(every[:-1])} and {every[-1]}"


def named(method: str) -> str:
    """A method as a reader calls it."""
    return "no defense" if method == NO_DEFENSE else method
