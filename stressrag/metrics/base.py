"""What a metric sees and what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class TopK:
    """The judged part of a ranking: one row per query of one condition.

    Attributes
    ----------
    docs : int64 array (n, k)
        Document numbers, -1 where the list is short.
    owner : int64 array (n, k)
        The query that a poison document targets, -1 for clean documents and empty places.
    grade : int64 array (n, k)
        The judged grade of each document, 0 where it is not judged or is poison.
    query : int64 array (n,)
        The query's number among the judged queries.
    targeted : bool array (n,)
        Whether the attack targets the query.
    n_poison : int64 array (n,)
        Poison documents that the query can see.
    n_docs : int
        Clean documents.
    min_grade : int
        Lowest grade that counts as relevant.
    coverage : float array (n,)
        Share of the query's eligible terms that the attacker used.
    clean : bool
        Whether the condition has no poison at all.
    """

    docs: Ints
    owner: Ints
    grade: Ints
    query: Ints
    targeted: Bools
    n_poison: Ints
    n_docs: int
    min_grade: int
    coverage: Floats
    clean: bool = False

    @property
    def k(self) -> int:
        """Length of the lists."""
        return self.docs.shape[1]

    @property
    def poison(self) -> Bools:
        """Which places hold poison, (n, k)."""
        return self.owner >= 0

    @property
    def own_poison(self) -> Bools:
        """Which places hold poison that targets the row's own query, (n, k)."""
        return self.owner == self.query[:, None]

    @property
    def relevant(self) -> Bools:
        """Which places hold judged evidence, (n, k)."""
        return self.grade >= self.min_grade


@dataclass(frozen=True)
class Metric:
    """A name and a function from ``TopK`` to one number per row; NaN where it is not defined."""

    name: str
    compute: Callable[[TopK], npt.ArrayLike]

    def __call__(self, top: TopK) -> Floats:
        """The metric of each row, float64 (n,)."""
        return np.asarray(self.compute(top), np.float64)

    def __repr__(self) -> str:
        return self.name


def first_rank(there: Bools) -> Floats:
    """The first true place of each row, counted from 1; NaN where there is none."""
    return np.where(there.any(1), there.argmax(1) + 1.0, np.nan)
