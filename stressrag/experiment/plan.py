"""The plan of a run: its conditions, where they go, and the blocks of work they are cut into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stressrag.experiment.conditions import (
    Condition,
    RetrieverSpec,
    baselines,
    condition,
    digest,
    partners,
    poison_key,
    slug,
)
from stressrag.settings.compose import expand, only
from stressrag.settings.schema import Settings

_ROWS = 20_000  # rows (conditions x queries) of a block, which bounds its memory
_MOST, _SLOW = 64, 64  # queries of a block; re-indexed views of one with a slow retriever


@dataclass(frozen=True)
class Plan:
    """What a run computes and how.

    Attributes
    ----------
    verb : str
        ``run`` or ``sweep``.
    words : tuple of str
        The overrides as typed.
    conditions : tuple of Condition
        In the order of the result table.
    metrics : tuple of str
        Further metrics.
    settings : Settings
        The first combination, for what concerns the run as a whole.
    """

    verb: str
    words: tuple[str, ...]
    conditions: tuple[Condition, ...]
    metrics: tuple[str, ...]
    settings: Settings

    @property
    def hash(self) -> str:
        """Identity of the run: its conditions and metrics, not how or where it is computed."""
        statistics = [self.settings.seed, self.settings.resamples]
        return digest(
            {
                "conditions": [c.id for c in self.conditions],
                "metrics": self.metrics,
                "statistics": statistics,
            }
        )

    def poison_key(self, c: Condition) -> str | None:
        """Under which name a condition's poison stands in the saved texts."""
        return poison_key(c.recipe)

    def baselines(self, c: Condition) -> dict[str, str]:
        """What a condition is compared with, by id: ``clean`` traffic and the same without ``undefended``."""
        here = {d.id for d in self.conditions}
        return {kind: d.id for kind, d in baselines(c).items() if d.id in here}

    @property
    def folder(self) -> Path:
        """The output folder."""
        if self.settings.output_dir:
            return Path(self.settings.output_dir).expanduser()
        asked = [c for c in self.conditions if not c.partner]
        parts = [self.verb, _some(dict(c.dataset)["name"] for c in asked)]
        parts += [_some(c.retriever.label for c in asked), _some(c.recipe.name for c in asked)]
        return Path("runs") / f"{slug('-'.join(parts))}-{self.hash[:10]}"


def _some(names: Any) -> str:
    unique = list(dict.fromkeys(names))
    return "+".join(unique) if len(unique) <= 3 else f"{len(unique)}"


def plan(verb: str, words: Sequence[str]) -> Plan:
    """The plan that some words ask for.

    Raises
    ------
    StressragError
        When a word does not fit; nothing but the config folder has been read by then.
    """
    return plan_of(verb, words, [only(words)] if verb == "run" else expand(words))


def plan_of(verb: str, words: Sequence[str], combinations: Sequence[Settings]) -> Plan:
    """The plan of some checked settings."""
    conditions = list(dict.fromkeys(condition(s) for s in combinations))
    if verb == "sweep" and combinations[0].partners:
        conditions = partners(conditions)
    first = combinations[0]
    return Plan(verb, tuple(words), tuple(conditions), tuple(first.metrics), first)


def families(conditions: Sequence[Condition]) -> list[tuple[Condition, ...]]:
    """Conditions that share a collection and, directly or through a hybrid, a retriever.

    Each family's retrievers are fitted, used and let go before the next one's.
    """
    out: list[tuple[set[tuple[Any, RetrieverSpec]], list[Condition]]] = []
    for c in conditions:
        leaves = {(c.dataset, leaf) for leaf in c.retriever.leaves}
        joined = [f for f in out if f[0] & leaves]
        merged = (leaves.union(*(f[0] for f in joined)), [x for f in joined for x in f[1]] + [c])
        out = [f for f in out if f not in joined] + [merged]
    order = {c: i for i, c in enumerate(conditions)}
    lists = [tuple(sorted(f[1], key=order.__getitem__)) for f in out]
    return sorted(lists, key=lambda f: order[f[0]])


def block_size(family: Sequence[Condition]) -> int:
    """Queries per block: fixed by the plan alone, so that a resumed run cuts the same blocks."""
    if any(c.retriever.slow for c in family):
        return max(1, _SLOW // max(1, sum(not c.clean for c in family)))
    return max(1, min(_MOST, _ROWS // len(family)))
