"""What a defense prevented and introduced: measures of four matched conditions, intervals and bounds.

Section 2.1 of the aligned RAG evaluation paper. A query with an unknown label in one of the four conditions
is in none of the measures, but it is counted, and the bounds say what the measures could be with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.aligned.cells import FOUR, Cell, Labeler
from stressrag.aligned.split_counts import split_counts
from stressrag.stats.bootstrap import LEVEL, N_RESAMPLES, Floats
from stressrag.stats.four import MEASURES, contrast, four_conditions, paired_p
from stressrag.stats.intervals import Difference, Estimate, estimates

RATES = ("r_c0", "r_p0", "r_c1", "r_p1")
UNKNOWN = ("uncertain", "invalid", "missing")
_SPAN = {"N": (-1.0, 1.0), "H": (-1.0, 1.0)}


def measure(
    cells: Sequence[Cell],
    labels: Sequence[Labeler],
    *,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> list[dict[str, Any]]:
    """One row per cell and label.

    Parameters
    ----------
    cells : sequence of Cell
        Those of method ``none`` are passed over unless their setting and budget have no other.
    labels : sequence of Labeler
        Rules and judges.
    seed, n_resamples, level
        As in :func:`~stressrag.stats.intervals.estimates`.

    Returns
    -------
    list of dict
        As in ``aligned.json``; see ``docs/aligned-evaluation.md`` for the fields.
    """
    wanted = evaluated(cells)
    columns = {(i, lab.name): _columns(c, lab) for i, c in enumerate(wanted) for lab in labels}
    made: dict[Any, dict[str, Estimate]] = {}
    for i, c in enumerate(wanted):
        for lab in labels:
            some = dict(columns[i, lab.name])
            gamma = some.pop("Gamma", None)
            bounds = {k: _SPAN.get(k, (0.0, 1.0)) for k in some}
            found = estimates(
                some,
                c.queries,
                clusters=c.groups,
                bounds=bounds,
                seed=seed,
                n_resamples=n_resamples,
                level=level,
            )
            if gamma is not None and {"N", "H"} <= set(found):
                found["Gamma"] = contrast(found["N"], found["H"], (some["N"], some["H"]), c.groups)
            made[i, lab.name] = found
    out = []
    for i, c in enumerate(wanted):
        for lab in labels:
            there = made[i, lab.name]
            out.append(_row(c, lab, there, seed))
    return out


def evaluated(cells: Sequence[Cell]) -> list[Cell]:
    """The cells of defenses, and where a setting and budget have none, the undefended one."""
    defended = {(c.setting, c.budget) for c in cells if c.method != "none"}
    return [c for c in cells if c.method != "none" or (c.setting, c.budget) not in defended]


def four(cell: Cell, labels: Labeler, event: str = "target") -> tuple[Floats, Floats, Floats, Floats]:
    """The columns of the four conditions, in the order clean, poisoned, clean defended, poisoned defended."""
    c0, p0, c1, p1 = (cell.column(labels, event, condition, defended) for _, condition, defended in FOUR)
    return c0, p0, c1, p1


def _columns(cell: Cell, labels: Labeler) -> dict[str, Floats | Difference]:
    c0, p0, c1, p1 = four(cell, labels)
    if cell.method == "none":
        known = np.where(np.isnan(c0 + p0), np.nan, 1.0)
        out: dict[str, Floats | Difference] = {"r_c0": c0 * known, "r_p0": p0 * known}
    else:
        out = dict(four_conditions(c0, p0, c1, p1))
        stopped = out["P"]
        assert not isinstance(stopped, Difference)
        out["prevention_rate"] = np.where(out["r_p0"] == 1, stopped, np.nan)
    for event in ("correct", "abstains"):
        for (name, _, _), column in zip(FOUR, four(cell, labels, event), strict=True):
            out[f"{event}_{name}"] = column
    return out


def _row(cell: Cell, labels: Labeler, there: Mapping[str, Estimate], seed: int) -> dict[str, Any]:
    c0, p0, c1, p1 = four(cell, labels)
    parts = (c0, p0) if cell.method == "none" else (c0, p0, c1, p1)
    applicable = _applicable(cell, labels)
    known = applicable & ~np.isnan(sum(parts))
    out: dict[str, Any] = {
        **cell.place,
        "label": labels.name,
        "n": int(known.sum()),
        "n_queries": len(cell.queries),
        "not_applicable": int((~applicable).sum()),
        "groups": None if cell.groups is None else len(set(cell.groups)),
    }
    sides = [f"{event}_{n}" for event in ("correct", "abstains") for n, _, _ in FOUR]
    for name in (*MEASURES, "prevention_rate", *sides):
        estimate = there.get(name)
        out[name] = None if estimate is None else estimate.value
    out["intervals"] = {name: [e.low, e.high] for name, e in there.items()}
    out["interval_methods"] = {name: e.method for name, e in there.items()}
    out["n_of"] = {name: e.n for name, e in there.items()}
    out["counts"] = {name: round(e.value * e.n) for name, e in there.items() if name in (*RATES, "P", "J")}
    if (split := split_counts(cell, labels)) is not None:
        out["split_knowledge"] = split
    if cell.method != "none":
        out |= _tests(cell, np.where(known, p0, np.nan), np.where(known, p1, np.nan), seed)
    out["unknown"] = _unknown(cell, labels, applicable)
    out["bounds"] = bounds_of(cell, labels) if out["n"] < int(applicable.sum()) else None
    return out


def _tests(cell: Cell, p0: Floats, p1: Floats, seed: int) -> dict[str, Any]:
    if np.isnan(p0 + p1).all():
        return {"mcnemar_p": None, "mcnemar_mid_p": None, "cluster_p": None}
    plain = paired_p(p0, p1)
    clustered = None if cell.groups is None else paired_p(p0, p1, cell.groups, seed)["p"]
    return {"mcnemar_p": plain["p"], "mcnemar_mid_p": plain["p_mid"], "cluster_p": clustered}


def _applicable(cell: Cell, labels: Labeler) -> np.ndarray:
    """Queries with a target; one without is no query that lacks a label."""
    never = np.zeros(len(cell.queries), bool)
    for _, condition, defended in FOUR:
        never |= np.array(
            [s == "not_applicable" for s in cell.statuses(labels, "target", condition, defended)]
        )
    return ~never


def _unknown(cell: Cell, labels: Labeler, applicable: np.ndarray) -> dict[str, dict[str, int]]:
    """Unknown target labels by condition and reason."""
    out = {}
    for name, condition, defended in FOUR:
        if defended and cell.method == "none":
            continue
        statuses = cell.statuses(labels, "target", condition, defended)
        counts = Counter(s for s, there in zip(statuses, applicable, strict=True) if there and s != "known")
        out[name] = {why: counts[why] for why in UNKNOWN if counts[why]}
    return {name: why for name, why in out.items() if why}


def bounds_of(cell: Cell, labels: Labeler) -> dict[str, list[float]] | None:
    """What each measure could be over all queries with a target, whatever the unknown labels are.

    The ends are sharp: each unknown label takes the value that pushes the measure furthest. For a rate that
    is all no and all yes.
    """
    there = _applicable(cell, labels)
    if not there.any():
        return None
    low, high = [], []
    for column in four(cell, labels)[: 2 if cell.method == "none" else 4]:
        some = column[there]
        low.append(np.nan_to_num(some, nan=0.0))
        high.append(np.nan_to_num(some, nan=1.0))
    if cell.method == "none":
        pairs = {"r_c0": (low[0], high[0]), "r_p0": (low[1], high[1])}
    else:
        least, most = (
            {"P": p * (1 - q), "J": (1 - r) * s}
            for p, q, r, s in ((low[1], high[3], high[1], low[3]), (high[1], low[3], low[1], high[3]))
        )
        pairs = {name: (low[i], high[i]) for i, name in enumerate(RATES)}
        pairs |= {name: (least[name], most[name]) for name in ("P", "J")}
        pairs["N"] = (low[1] - high[3], high[1] - low[3])
        pairs["H"] = (low[2] - high[0], high[2] - low[0])
        pairs["Gamma"] = (pairs["N"][0] + pairs["H"][0], pairs["N"][1] + pairs["H"][1])
    return {name: [float(a.mean()), float(b.mean())] for name, (a, b) in pairs.items()}


def transitions(cells: Sequence[Cell], labels: Sequence[Labeler]) -> list[dict[str, Any]]:
    """One row per cell, label and query: the four labels and what the defense changed."""
    out = []
    for c in evaluated(cells):
        for lab in labels:
            tables = {event: four(c, lab, event) for event in ("target", "correct", "abstains")}
            for i, q in enumerate(c.queries):
                c0, p0, c1, p1 = (_bit(column[i]) for column in tables["target"])
                row = {
                    **c.place,
                    "label": lab.name,
                    "query_id": q,
                    "group_id": "" if c.groups is None else c.groups[i],
                    "c0": c0,
                    "p0": p0,
                    "c1": c1,
                    "p1": p1,
                    "poisoned_transition": _change(p0, p1, "prevented", "introduced"),
                    "clean_transition": _change(c0, c1, "removed", "added"),
                    "attack_effect": _change(c0, p0, "removed", "newly induced"),
                }
                for event in ("correct", "abstains"):
                    row |= {
                        f"{event}_{n}": _bit(col[i])
                        for (n, _, _), col in zip(FOUR, tables[event], strict=True)
                    }
                out.append(row)
    return out


def _bit(value: float) -> int | None:
    return None if np.isnan(value) else int(value)


def _change(before: int | None, after: int | None, falls: str, rises: str) -> str:
    if before is None or after is None:
        return "unknown"
    return {(1, 0): falls, (0, 1): rises, (1, 1): "kept positive", (0, 0): "kept negative"}[(before, after)]
