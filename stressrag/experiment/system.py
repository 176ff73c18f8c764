"""A retriever with its defenses as one function of queries and planted documents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from stressrag.attacks.optimal import Aim, Outcome
from stressrag.defenses.base import Defense, Pool
from stressrag.retrievers.base import PoisonTexts, Retriever
from stressrag.retrievers.hybrid import fuse
from stressrag.retrievers.ranking import Ints, Ranking, Views

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


def defended(
    defenses: Sequence[Defense],
    pool: Pool,
    k: int,
    width: int,
    clock: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> tuple[Ranking, Ints]:
    """What a chain of defenses makes of a pool.

    Parameters
    ----------
    defenses : sequence of Defense
        In order.
    pool : Pool
        The candidates.
    k : int
        Length of the final list.
    width : int
        How many candidates a defense hands on to the next.
    clock : callable
        A context that times the defense of that name.

    Returns
    -------
    final : Ranking (n_queries, k)
    rejected : int64 array (n_queries,)
        Candidates that the chain refused; those that merely came too late are not counted.
    """
    rejected = np.zeros(len(pool.candidates), np.int64)
    before = (pool.candidates.docs >= 0).sum(1)
    for i, defense in enumerate(defenses):
        last = i == len(defenses) - 1
        with clock(defense.name):
            after = defense.apply(pool, k if last else width)
        left = (after.docs >= 0).sum(1)
        if after.docs.shape[1] == pool.candidates.docs.shape[1]:
            rejected += before - left
        pool, before = pool.with_candidates(after), left
    final = Ranking.empty(len(pool.candidates), k)
    shown = min(k, pool.candidates.docs.shape[1])
    final.docs[:, :shown] = pool.candidates.docs[:, :shown]
    final.scores[:, :shown] = pool.candidates.scores[:, :shown]
    return final, rejected
