"""All poison of a family of conditions, as one table of documents, and who sees what of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stressrag.attacks.poison import AttackContext, Poison, Recipe, choose_targets, generate, groups
from stressrag.collection.model import Queries
from stressrag.experiment.conditions import Condition
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import Ints, Views

Key = tuple[Recipe, int, str | None, object, int | None]


def key(c: Condition) -> Key:
    """What of a condition decides which poison each query sees."""
    return (c.recipe, c.budget, c.scope, c.targets, c.group_size)


@dataclass(frozen=True, eq=False)
class Scenario:
    """The poison of one attack with budget, scope and targets.

    Attributes
    ----------
    first : int
        Number of its recipe's first document in the family's table.
    stride : int
        Documents per query there (the largest budget).
    budget : int
        Documents per target here.
    targeted : bool array (n_queries,)
        Which queries are attacked.
    groups : int64 array (n_queries,)
        Queries of one group see each other's poison.
    coverage : float array (n_queries,)
        Of the anchor; 0 where the query is not attacked.
    """

    first: int
    stride: int
    budget: int
    targeted: np.ndarray
    groups: Ints
    coverage: np.ndarray

    def of(self, targets: Ints) -> Ints:
        """The poison documents of some targets, ascending."""
        return (self.first + targets[:, None] * self.stride + np.arange(self.budget)).ravel()

    def visible(self, start: int, stop: int) -> tuple[list[Ints], list[int]]:
        """The views that queries ``start`` to ``stop`` need, and the view of each."""
        lists: list[Ints] = []
        which: list[int] = []
        numbers: dict[int, int] = {}
        for q in range(start, stop):
            group = int(self.groups[q])
            if group not in numbers:
                numbers[group] = len(lists)
                lists.append(self.of(np.flatnonzero(self.targeted & (self.groups == group))))
            which.append(numbers[group])
        return lists, which


class PoisonTable:
    """Every poison document of a family; document ``j`` is clean count + ``j`` in its rankings.

    Attributes
    ----------
    documents : PoisonTexts
        The texts, each distinct one once.
    scenarios : dict
        By ``key`` of a condition.
    poison : dict
        What each recipe generated.
    """

    def __init__(self, conditions: Sequence[Condition], contexts: Mapping[str, AttackContext]):
        largest: dict[Recipe, int] = {}
        for c in conditions:
            largest[c.recipe] = max(largest.get(c.recipe, 0), c.budget)
        queries = next(iter(contexts.values())).queries
        self.n_queries = len(queries)
        targeted = {r: np.zeros(len(queries), bool) for r in largest}
        for c in conditions:
            if not c.clean:
                targeted[c.recipe] |= choose_targets(c.targets, queries, c.recipe.seed)
        self.poison: dict[Recipe, Poison] = {
            r: generate(r, contexts[r.index], budget, targeted[r]) for r, budget in largest.items()
        }
        texts: list[str] = []
        first: dict[Recipe, int] = {}
        for recipe, poison in self.poison.items():
            first[recipe] = len(texts)
            texts.extend(t for row in poison.texts for t in row)
        self.documents = PoisonTexts(texts)
        self.first, self.largest = first, largest
        self.scenarios: dict[Key, Scenario] = {}
        for c in conditions:
            if key(c) not in self.scenarios:
                self.scenarios[key(c)] = self._scenario(c, queries)

    def _scenario(self, c: Condition, queries: Queries) -> Scenario:
        n = self.n_queries
        targeted = np.zeros(n, bool) if c.clean else choose_targets(c.targets, queries, c.recipe.seed)
        if c.scope == "multi":
            group = np.zeros(n, np.int64)
        elif c.scope == "group":
            group = groups(queries, c.group_size or 1)
        else:
            group = np.arange(n)
        coverage = np.where(targeted, self.poison[c.recipe].coverage, 0.0)
        return Scenario(self.first[c.recipe], self.largest[c.recipe], c.budget, targeted, group, coverage)

    def owner(self, scenario: Scenario, documents: Ints) -> Ints:
        """The query that poison documents target, and nothing else: their place in the table decides."""
        return np.asarray((documents - scenario.first) // max(1, scenario.stride))

    def views(self, scenarios: Sequence[Scenario], start: int, stop: int) -> Views:
        """The views of queries ``start`` to ``stop`` under each scenario, one scenario after another."""
        lists: list[Ints] = []
        which: list[int] = []
        for s in scenarios:
            found, of = s.visible(start, stop)
            which.extend(v + len(lists) for v in of)
            lists.extend(found)
        sizes = [len(x) for x in lists]
        documents = np.concatenate(lists) if lists else np.empty(0)
        return Views(
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            documents.astype(np.int64),
            np.array(which),
        )
