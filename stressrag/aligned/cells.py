"""Answers arranged for comparison: the cells that are evaluated, and labels as columns over their queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stressrag.aligned.judgments import FIELDS, Labels
from stressrag.aligned.labels import abstains, holds_target, is_correct, rule
from stressrag.aligned.records import AXES, CONDITIONS, NO_DEFENSE, Answer
from stressrag.stats.bootstrap import Floats

EVENTS = ("target", "correct", "abstains")
_OF_JUDGE = dict(zip(EVENTS, FIELDS, strict=True))
FOUR = (("c0", "clean", False), ("p0", "poisoned", False), ("c1", "clean", True), ("p1", "poisoned", True))


class Labeler:
    """Labels of answers by one rule or one judge: 0, 1, or NaN where there is none.

    Parameters
    ----------
    name : str
        A rule of :data:`~stressrag.aligned.labels.RULES`, or any name for a judge.
    judged : mapping, optional
        For a judge: ``Answer.key`` → :class:`~stressrag.aligned.judgments.Labels`.
    """

    def __init__(self, name: str, judged: Mapping[str, Labels] | None = None):
        if judged is None:
            rule(name)
        self.name = name
        self.judged = judged
        self._cache: dict[tuple[str, str], tuple[float, str]] = {}

    def of(self, a: Answer, event: str) -> tuple[float, str]:
        """The label of an answer for an event, and its status.

        The status is ``known``, ``not_applicable`` (there is nothing to label: no target, no reference), or
        why it is not known: ``uncertain``, ``invalid`` (a judge's reply that could not be read), ``missing``.
        """
        place = (a.key, event)
        if place not in self._cache:
            self._cache[place] = self._label(a, event)
        return self._cache[place]

    def _label(self, a: Answer, event: str) -> tuple[float, str]:
        if (event == "target" and a.target is None) or (event == "correct" and not a.references):
            return np.nan, "not_applicable"
        if self.judged is None:
            value = self._by_rule(a, event)
            return (np.nan, "not_applicable") if value is None else (float(value), "known")
        labels = self.judged.get(a.key)
        said = (labels and getattr(labels, _OF_JUDGE[event])) or "missing"
        if said in ("yes", "no"):
            return float(said == "yes"), "known"
        # There is something to label, whatever the judge thinks.
        return np.nan, "invalid" if said == "not_applicable" else said

    def _by_rule(self, a: Answer, event: str) -> bool | None:
        if event == "target":
            return holds_target(self.name, a.answer, a.target, a.question, a.references)
        if event == "correct":
            return is_correct(self.name, a.answer, a.references, a.question, a.target)
        return abstains(a.answer)


@dataclass(frozen=True)
class Cell:
    """One defense in one setting at one budget, with everything that was saved of it.

    Attributes
    ----------
    setting : tuple of str
        Values of :data:`~stressrag.aligned.records.AXES`.
    method : str
        The defense; ``none`` for what is said of the undefended system.
    budget : int or None
        Poison passages per query.
    queries : tuple of str
        Sorted; those that the cell's conditions share.
    answers : mapping
        (condition, defended) → query → answer.
    """

    setting: tuple[str, ...]
    method: str
    budget: int | None
    queries: tuple[str, ...]
    answers: Mapping[tuple[str, bool], Mapping[str, Answer]]

    @property
    def place(self) -> dict[str, Any]:
        """Setting, method and budget as fields of a row."""
        return {**dict(zip(AXES, self.setting, strict=True)), "method": self.method, "budget": self.budget}

    @cached_property
    def groups(self) -> tuple[str, ...] | None:
        """The injection group of each query; ``None`` where no two queries share one."""
        anywhere = {q: a for rows in self.answers.values() for q, a in rows.items()}
        groups = tuple(anywhere[q].group for q in self.queries)
        return groups if len(set(groups)) < len(groups) else None

    def has(self, condition: str, defended: bool) -> bool:
        """Whether any answers of a condition are there."""
        return bool(self.answers.get((condition, defended)))

    def column(self, labels: Labeler, event: str, condition: str, defended: bool) -> Floats:
        """Labels of a condition, NaN where unknown: float64 array (n_queries,)."""
        rows = self.answers.get((condition, defended), {})
        return np.array([labels.of(rows[q], event)[0] if q in rows else np.nan for q in self.queries])

    def statuses(self, labels: Labeler, event: str, condition: str, defended: bool) -> list[str]:
        """Why labels are unknown, query by query; see :meth:`Labeler.of`."""
        rows = self.answers.get((condition, defended), {})
        return [labels.of(rows[q], event)[1] if q in rows else "missing" for q in self.queries]


def cells(answers: Sequence[Answer], split: str = "attack") -> list[Cell]:
    """The cells of some answers, sorted; one of method ``none`` for each setting and budget comes first.

    Parameters
    ----------
    answers : sequence of Answer
        Checked answers.
    split : str
        Which queries.
    """
    by_setting: dict[tuple[str, ...], list[Answer]] = defaultdict(list)
    for a in answers:
        if a.split == split:
            by_setting[a.setting].append(a)
    out = []
    for setting, rows in sorted(by_setting.items()):
        table: dict[tuple[str, str, int | None], dict[str, Answer]] = defaultdict(dict)
        for a in rows:
            table[(a.method, a.condition, a.budget)][a.query_id] = a
        methods = sorted({a.method for a in rows} - {NO_DEFENSE})
        budgets: list[int | None] = [*sorted({a.budget for a in rows if a.budget is not None})]
        for budget in budgets or [None]:
            for method in (NO_DEFENSE, *methods):
                cell = _cell(setting, method, budget, table, {a.condition for a in rows})
                out += [cell] if cell else []
    return out


def _cell(
    setting: tuple[str, ...],
    method: str,
    budget: int | None,
    table: Mapping[tuple[str, str, int | None], dict[str, Answer]],
    conditions: Iterable[str],
) -> Cell | None:
    found: dict[tuple[str, bool], Mapping[str, Answer]] = {}
    for condition in sorted(conditions):
        for m, defended in ((NO_DEFENSE, False), (method, True)):
            if defended and method == NO_DEFENSE:
                continue
            # A row without a budget serves all of them; one with it comes first.
            rows = {**table.get((m, condition, None), {}), **table.get((m, condition, budget), {})}
            if rows:
                found[(condition, defended)] = rows
    if method != NO_DEFENSE and not any(defended for _, defended in found):
        return None
    if method != NO_DEFENSE and ("poisoned", False) in found and ("poisoned", True) not in found:
        return None
    queries = sorted({q for (c, _), rows in found.items() if c in CONDITIONS for q in rows})
    return Cell(setting, method, budget, tuple(queries), found) if queries else None
