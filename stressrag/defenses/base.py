"""What a defense is: from a candidate pool to a ranking of what it lets through."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import NO_DOC, Ints, Ranking

_PAIRS = 640_000  # candidate pairs at a time


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates of some queries.

    Attributes
    ----------
    queries : list of str
        Query texts, one per row.
    candidates : Ranking
        Documents and scores, best first, (n_queries, pool size).
    n_docs : int
        Clean documents; candidate ``n_docs + j`` is poison document ``j``.
    poison : PoisonTexts
        The texts of the poison documents.
    """

    queries: list[str]
    candidates: Ranking
    n_docs: int
    poison: PoisonTexts

    def with_candidates(self, candidates: Ranking) -> Pool:
        """The pool of the next defense in a chain."""
        return Pool(self.queries, candidates, self.n_docs, self.poison)


class Defense(Protocol):
    """A defense works on any retriever's pool and may reject candidates or reorder them."""

    name: str

    def apply(self, pool: Pool, k: int) -> Ranking:
        """The candidates let through, in their new order; at least the first ``k`` must be final."""
        ...


Judges = Literal["text", "above", "all"]
"""What a defense's word on a candidate rests on: its own text, that and the candidates above it, or the whole
pool. The first two reject candidates and leave the others in their order."""


def judges(defense: Any) -> Judges:
    """What a defense says of itself in an attribute ``judges``; ``all`` where it says nothing."""
    said: Judges = getattr(defense, "judges", "all")
    return said


@dataclass(frozen=True)
class Evasion:
    """What an attacker who knows a defense does about it; several defenses in a chain are met all at once.

    Attributes
    ----------
    admits : callable, optional
        For admission by the query's terms: ``admits(query, terms, sets, beside)`` says of each set of terms,
        bool (n_sets, n_terms), whether a document that holds it and the text ``beside`` can pass, bool
        (n_sets,).
    differing : bool
        Documents of different wordings are worth trying.
    natural : bool
        Terms inside natural text of the corpus are worth trying.
    sources : bool
        Each poison document can name a source of its own.
    weaker : bool
        Documents that score less than they could, and any number of them, are worth trying.
    """

    admits: Callable[[str, Sequence[str], np.ndarray, str], np.ndarray] | None = None
    differing: bool = False
    natural: bool = False
    sources: bool = False
    weaker: bool = False


def evasion_of(defense: Any) -> Evasion | None:
    """How a defense is evaded; ``None`` where it says of itself that it cannot be, or says nothing.

    A defense says so by a method ``evasion()`` that returns an ``Evasion``, or the reason why there is none.
    Without one, an adaptive attacker still tries the drafts of the retrievers and of the other defenses.
    """
    said = defense.evasion() if hasattr(defense, "evasion") else None
    return said if isinstance(said, Evasion) else None


def in_blocks(docs: Ints) -> Iterator[slice]:
    """Slices of queries whose candidates can be compared with each other in bounded memory."""
    rows = max(1, _PAIRS // max(1, docs.shape[1] ** 2))
    for start in range(0, len(docs), rows):
        yield slice(start, start + rows)


def keep(candidates: Ranking, kept: np.ndarray) -> Ranking:
    """The kept candidates of each row, moved together; the rest of the row is empty."""
    kept = kept & (candidates.docs != NO_DOC)
    order: Ints = np.argsort(~kept, axis=1, kind="stable")
    there = np.take_along_axis(kept, order, 1)
    return Ranking(
        np.where(there, np.take_along_axis(candidates.docs, order, 1), NO_DOC),
        np.where(there, np.take_along_axis(candidates.scores, order, 1), -np.inf),
    )
