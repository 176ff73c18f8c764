"""Anchors: what of its target query a poison document repeats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stressrag.attacks.draw import draw
from stressrag.text.index import TermIndex


class Anchor(NamedTuple):
    """The anchor of one target.

    Attributes
    ----------
    text : str
        What opens each of its poison documents.
    coverage : float
        Share of the query's eligible terms in it; 1 for the full query, 0 for none.
    """

    text: str
    coverage: float


def no_anchor(query: str, query_id: str, eligible: Sequence[str]) -> Anchor:
    """Nothing of the query."""
    return Anchor("", 0.0)


def full_query(query: str, query_id: str, eligible: Sequence[str]) -> Anchor:
    """The query word for word."""
    return Anchor(query, 1.0)


class Terms:
    """``n`` eligible terms, in the query's order; all of them where there are fewer.

    Parameters
    ----------
    n : int
        How many terms the attacker knows.
    strategy : {"random", "idf"}
        ``random``: the first ``n`` of an order hashed from seed, query id and term, so that a larger
        ``n`` adds terms and changes none. ``idf``: the ``n`` rarest of the clean corpus.
    index : TermIndex
        Gives the document frequencies.
    seed : int
        The config's seed.
    """

    def __init__(self, n: int, strategy: str, index: TermIndex, seed: int):
        self.n, self.strategy, self.index, self.seed = n, strategy, index, seed

    def __call__(self, query: str, query_id: str, eligible: Sequence[str]) -> Anchor:
        """The anchor of one query."""
        if not eligible:
            return Anchor("", 0.0)
        chosen = self.chosen(query_id, eligible)
        return Anchor(" ".join(chosen), len(chosen) / len(eligible))

    def chosen(self, query_id: str, eligible: Sequence[str]) -> list[str]:
        """The terms of one query, in its order."""
        first = set(sorted(eligible, key=lambda t: self._rank(t, query_id))[: self.n])
        return [t for t in eligible if t in first]

    def _rank(self, term: str, query_id: str) -> int:
        if self.strategy == "random":
            return draw(self.seed, "terms", query_id, term)
        return int(self.index.df[self.index.vocabulary[term]])  # a stable sort: equals keep the query's order
