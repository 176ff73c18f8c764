"""Why an answer is target-positive: removal controls, split knowledge, and what was in the context.

Section 2.2 of the aligned RAG evaluation paper. What needs a control that was not saved is ``None``, never
false; the counts say over how many queries a thing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.aligned.cells import Cell, Labeler
from stressrag.aligned.records import LEFT_OUT, SINGLE, Answer
from stressrag.stats.bootstrap import LEVEL, Floats
from stressrag.stats.intervals import estimates

# By name: what is shared out over (all queries, or those that are target-positive when poisoned).
EVENTS = {
    "newly_induced": "all",
    "injection_dependent": "positive",
    "injection_dependent_new": "all",
    "own_injection_dependent": "positive",
    "poison_only_sufficient": "positive",
    "single_sufficient": "positive",
    "redundant": "positive",
    "co_retrieved": "all",
    "strict": "all",
    "strict_newly_induced": "all",
    "strict_suppressed": "strict",
}


def control_rows(
    cells: Sequence[Cell], labels: Sequence[Labeler], level: float = LEVEL
) -> list[dict[str, Any]]:
    """One row per cell and label: each event's count, the queries where it is known, rate and interval.

    Cells of method ``none`` speak of the undefended answers; those of a defense only appear where controls
    were run under it, or to say how many strict cases it suppresses.
    """
    out = []
    for c in cells:
        for lab in labels:
            columns = control_columns(c, lab)
            if all(np.isnan(column).all() for column in columns.values()):
                continue
            made = estimates(columns, c.queries, clusters=c.groups, level=level)
            row: dict[str, Any] = {**c.place, "label": lab.name}
            for name in EVENTS:
                e = made.get(name)
                row[name] = (
                    None
                    if e is None
                    else {
                        "count": round(e.value * e.n),
                        "n": e.n,
                        "of": EVENTS[name],
                        "rate": e.value,
                        "interval": [e.low, e.high],
                    }
                )
            out.append(row)
    return out


def control_columns(cell: Cell, labels: Labeler) -> dict[str, Floats]:
    """The events query by query, NaN where unknown or where the query is not counted: float64 arrays (n,)."""
    defended = cell.method != "none"

    def of(condition: str) -> Floats:
        return cell.column(labels, "target", condition, defended)

    clean, poisoned = of("clean"), of("poisoned")
    bare = _planted(cell) == 0  # without poison in the context its removal changes nothing
    gone, own_gone = (
        np.where(np.isnan(x) & bare, poisoned, x) for x in (of("no_poison"), of("no_own_poison"))
    )
    only = of("poison_only")
    new = _both(poisoned, _not(clean))
    out = {
        "newly_induced": new,
        "injection_dependent": _among(poisoned, _not(gone)),
        # Over the queries whose control was run: a negative one without it says nothing of the others.
        "injection_dependent_new": new * _not(gone),
        "own_injection_dependent": _among(poisoned, _not(own_gone)),
        "poison_only_sufficient": _among(poisoned, only),
        "single_sufficient": _among(poisoned, _numbered(cell, labels, SINGLE, defended, "any")),
        "redundant": _among(poisoned, _numbered(cell, labels, LEFT_OUT, defended, "all")),
    }
    if defended:  # these three need controls of the defense itself
        kept = [n for n in out if n != "newly_induced"]
        out = {n: out[n] for n in kept}
        strict = strict_column(cell, labels, False)
        out["strict_suppressed"] = np.where(strict == 1, _not(poisoned), np.nan)
        return out
    strict = strict_column(cell, labels, False)
    return {
        **out,
        "co_retrieved": co_retrieved(cell),
        "strict": strict,
        "strict_newly_induced": np.where(np.isnan(strict), np.nan, _both(strict, _not(clean))),
    }


def strict_column(cell: Cell, labels: Labeler, defended: bool) -> Floats:
    """Positive with A + B + H and negative with A + H, B + H and H: the target needs both A and B.

    Unknown where a composition is missing, whatever the others say, so that the queries whose controls were
    run stand for all; A + H is the context without poison, so ``no_poison`` stands in
    for ``support_background``. Where contexts were saved, both A and B must have been retrieved.
    """

    def of(condition: str) -> Floats:
        return cell.column(labels, "target", condition, defended)

    both = of("poisoned")
    support = of("support_background")
    support = np.where(np.isnan(support), of("no_poison"), support)
    poison, rest = of("poison_background"), of("background_only")
    if np.isnan(poison).all() or np.isnan(rest).all():
        return _nan(both)
    strict = both * _not(support) * _not(poison) * _not(rest)
    together = co_retrieved(cell)
    return np.where(np.isnan(together), strict, np.where(together == 1, strict, 0.0))


def co_retrieved(cell: Cell) -> Floats:
    """Whether legitimate support and poison are both in the undefended poisoned context; NaN if not saved."""
    rows = cell.answers.get(("poisoned", False), {})
    out = []
    for q in cell.queries:
        context = rows[q].context if q in rows else None
        roles = {p.role for p in context or ()}
        out.append(np.nan if context is None else float({"poison", "support"} <= roles))
    return np.array(out)


def _numbered(cell: Cell, labels: Labeler, pattern: Any, defended: bool, how: str) -> Floats:
    """Over the controls of single passages: any of them positive, or (of two and more) all of them."""
    names = [c for (c, d) in cell.answers if d == defended and pattern.match(c)]
    if not names:
        return np.full(len(cell.queries), np.nan)
    table = np.stack([cell.column(labels, "target", name, defended) for name in names])
    there = ~np.isnan(table)
    rows = [cell.answers[name, defended] for name in names]
    saved = np.array([sum(q in r for r in rows) for q in cell.queries])
    # Every control that was saved, and every passage of a saved context, needs a known label.
    expected = np.fmax(saved, _planted(cell))
    complete = (there.sum(axis=0) > 0) & (there.sum(axis=0) >= expected)
    if how == "any":
        return np.where((table == 1).any(axis=0), 1.0, np.where(complete, 0.0, np.nan))
    lost = (table == 0).any(axis=0)
    enough = complete & (there.sum(axis=0) > 1)
    alone = complete & (there.sum(axis=0) == 1)  # a lone passage has nothing to stand in for it
    return np.where(lost, 0.0, np.where(enough, 1.0, np.where(alone, 0.0, np.nan)))


def _planted(cell: Cell) -> Floats:
    """Poison passages in each undefended poisoned context; NaN if not saved."""
    rows = cell.answers.get(("poisoned", False), {})
    contexts = [rows[q].context if q in rows else None for q in cell.queries]
    return np.array([np.nan if c is None else float(sum(p.role == "poison" for p in c)) for c in contexts])


def _not(column: Floats) -> Floats:
    return 1 - column


def _nan(column: Floats) -> Floats:
    return np.full(len(column), np.nan)


def _both(one: Floats, other: Floats) -> Floats:
    """Both, false as soon as one is known to be false."""
    return np.where((one == 0) | (other == 0), 0.0, one * other)


def _among(condition: Floats, column: Floats) -> Floats:
    """The column over the queries where the condition holds."""
    return np.where(condition == 1, column, np.nan)


def exposure_rows(
    cells: Sequence[Cell], labels: Sequence[Labeler], level: float = LEVEL
) -> list[dict[str, Any]]:
    """Target-positive answers by what the undefended poisoned context held; empty without saved contexts.

    Strata: ``support`` (of the legitimate support of the clean context, ``all``, ``some`` or ``none`` is
    still there; ``no support`` if there was none), ``poison`` (``own``, ``foreign``, ``own and foreign``,
    ``none``; ``unowned`` where the owner was not saved) and ``share`` (how much of the context is poison).
    """
    out = []
    for c in cells:
        strata = {"support": _support(c), "poison": _owners(c), "share": _shares(c)}
        for lab in labels:
            base, after = (c.column(lab, "target", "poisoned", d) for d in (False, True))
            for kind, values in strata.items():
                for value in sorted({v for v in values if v is not None}):
                    there = np.array([v == value for v in values])
                    row = {
                        **c.place,
                        "label": lab.name,
                        "stratum": kind,
                        "value": value,
                        "contexts": int(there.sum()),
                    }
                    columns = {"r_p0": np.where(there, base, np.nan)}
                    if c.method != "none":
                        columns |= {
                            "r_p1": np.where(there, after, np.nan),
                            "P": np.where(there, base * (1 - after), np.nan),
                            "J": np.where(there, (1 - base) * after, np.nan),
                        }
                    for name, e in estimates(columns, c.queries, clusters=c.groups, level=level).items():
                        row[name] = {
                            "count": round(e.value * e.n),
                            "n": e.n,
                            "rate": e.value,
                            "interval": [e.low, e.high],
                        }
                    out.append(row)
    return out


def _contexts(cell: Cell, condition: str) -> list[Answer | None]:
    rows: Mapping[str, Answer] = cell.answers.get((condition, False), {})
    return [rows[q] if q in rows and rows[q].context is not None else None for q in cell.queries]


def _names(a: Answer, role: str) -> set[str]:
    return {p.id or p.text for p in a.context or () if p.role == role}


def _support(cell: Cell) -> list[str | None]:
    out: list[str | None] = []
    for clean, poisoned in zip(_contexts(cell, "clean"), _contexts(cell, "poisoned"), strict=True):
        if clean is None or poisoned is None:
            out.append(None)
            continue
        before = _names(clean, "support")
        kept = before & _names(poisoned, "support")
        out.append("no support" if not before else "all" if kept == before else "some" if kept else "none")
    return out


def _owners(cell: Cell) -> list[str | None]:
    out: list[str | None] = []
    for a in _contexts(cell, "poisoned"):
        if a is None:
            out.append(None)
            continue
        owners = {p.owner for p in a.context or () if p.role == "poison"}
        kinds = [
            k
            for k, there in (("own", a.query_id in owners), ("foreign", bool(owners - {a.query_id, ""})))
            if there
        ]
        out.append(" and ".join(kinds) or ("unowned" if owners else "none"))
    return out


def _shares(cell: Cell) -> list[str | None]:
    out: list[str | None] = []
    for a in _contexts(cell, "poisoned"):
        n = len(a.context or ()) if a else 0
        out.append(f"{sum(p.role == 'poison' for p in (a.context or ()))}/{n}" if a and n else None)
    return out
