"""A chain of defenses, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from stressrag.defenses.base import Defense, Pool
from stressrag.retrievers.ranking import Ints, Ranking


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
