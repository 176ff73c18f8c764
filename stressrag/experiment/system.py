"""A retriever with its defenses as one function of queries and planted documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stressrag.attacks.aim import Aim, Outcome
from stressrag.defenses.base import Defense, Pool
from stressrag.defenses.chain import defended
from stressrag.retrievers.base import PoisonTexts, Retriever
from stressrag.retrievers.hybrid import fuse
from stressrag.retrievers.ranking import Ints, Views

_ROWS = 2_000  # rows searched at once, which bounds memory


class RetrievalSystem:
    """What an attacker who owns a copy of the retriever and its defenses can ask of it.

    Parameters
    ----------
    aim : Aim
        Statistics, list length, pool and ties.
    leaves : sequence of Retriever
        What searches, fitted; several are fused.
    fusion : mapping
        ``constant`` and ``depth`` of a hybrid.
    defenses : sequence of Defense
        In order.
    n_docs : int
        Clean documents.
    say : callable
        Told how far a search is.
    """

    def __init__(
        self,
        aim: Aim,
        leaves: Sequence[Retriever],
        fusion: dict[str, Any],
        defenses: Sequence[Defense],
        n_docs: int,
        say: Callable[[str], None] = lambda _: None,
    ):
        self.aim, self.leaves, self.fusion = aim, tuple(leaves), fusion
        self.defenses, self.n_docs, self.say = tuple(defenses), n_docs, say

    def outcome(self, queries: Sequence[str], documents: Sequence[Sequence[str]]) -> Outcome:
        """What becomes of each query when its row of documents is planted for it alone."""
        first, count = np.full(len(queries), self.aim.k), np.zeros(len(queries), np.int64)
        for start in range(0, len(queries), _ROWS):
            rows = slice(start, start + _ROWS)
            docs = self._final(list(queries[rows]), documents[rows])
            bad = docs >= self.n_docs
            first[rows] = np.where(bad.any(1), bad.argmax(1), self.aim.k)
            count[rows] = bad.sum(1)
            done = min(start + _ROWS, len(queries))
            self.say(f"writing worst-case poison: {done} of {len(queries)} drafts")
        return Outcome(first, count)

    def _final(self, queries: list[str], documents: Sequence[Sequence[str]]) -> Ints:
        """The documents of the final lists, (n_queries, k)."""
        sizes = [len(d) for d in documents]
        poison = PoisonTexts([text for row in documents for text in row])
        views = Views(
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.arange(len(poison)),
            np.arange(len(queries)),
        )
        k = self.aim.k
        width = max(k, self.aim.pool) if self.defenses else k
        depth = self.fusion["depth"] if self.fusion else width
        found = [
            leaf.search_contaminated(
                queries,
                poison,
                views,
                depth,
                statistics=self.aim.statistics,  # type: ignore[arg-type]
                ties=self.aim.ties,  # type: ignore[arg-type]
            )
            for leaf in self.leaves
        ]
        ranking = found[0]
        if self.fusion:
            ranking = fuse(found, width, self.fusion["constant"], self.n_docs, self.aim.ties)  # type: ignore[arg-type]
        if self.defenses:
            pool = Pool(queries, ranking, self.n_docs, poison)
            ranking, _ = defended(self.defenses, pool, k, width)
        return ranking.docs[:, :k]
