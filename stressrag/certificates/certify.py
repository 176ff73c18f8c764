"""Certificates: no document with only these of a query's terms can enter the top k, whatever else it holds.

A planted document enters a list of k only when fewer than k clean documents stay above it. So it cannot where
k of them, all let through by the defense, are sure to score more than it can; nor where so many as the pool
holds do, because then no defense sees it. What a clean document is sure of, and what a planted one can reach,
is ``keyword_bound`` for BM25; in a hybrid it is the reciprocal ranks that follow: a clean document
falls by at most P places in each list, and the planted one may come first in every list without a bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from stressrag.attacks.keywords import maximal
from stressrag.certificates.keyword_bound import KeywordBound
from stressrag.certificates.sides import Clean, Sides, Threat
from stressrag.defenses.base import Defense, Pool, evasion_of, judges
from stressrag.defenses.chain import defended
from stressrag.retrievers.base import PoisonTexts, Retriever
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.hybrid import fuse
from stressrag.retrievers.ranking import NO_DOC, Ints, Ranking
from stressrag.retrievers.vectors import VectorRetriever

_SUBSETS = 12  # terms whose subsets are looked through against admission


class Certifier:
    """Certifies queries of one system against planted keyword documents.

    Parameters
    ----------
    leaves : sequence of Retriever
        What searches, fitted; at least one must be BM25.
    fusion : mapping
        ``constant`` and ``depth`` of a hybrid, else empty.
    defenses : sequence of Defense
        In order.
    statistics : {"live", "frozen"}
        Of the index that the documents enter.
    copies : int
        P, the documents planted together.
    k, pool : int
        Length of the list to keep clean and of the pool that defenses see.
    max_tokens : int, optional
        Longest planted document; ``None`` for any length.

    Attributes
    ----------
    reason : str or None
        Why nothing can be certified, where that is so.
    """

    def __init__(
        self,
        leaves: Sequence[Retriever],
        fusion: Mapping[str, Any],
        defenses: Sequence[Defense],
        *,
        statistics: str,
        copies: int,
        k: int,
        pool: int,
        max_tokens: int | None = None,
    ):
        self.leaves, self.fusion, self.defenses = tuple(leaves), dict(fusion), tuple(defenses)
        self.pool = max(pool, k) if defenses else k
        self.live = statistics == "live"
        self.bounds = [
            KeywordBound(x, statistics, copies, max_tokens) if isinstance(x, BM25) else None for x in leaves
        ]
        self.threat = Threat(self.bounds, self.fusion, copies, k, self.pool if defenses else None)
        self.reason = self._reason()
        # A document that admission refuses later may have pushed clean ones out before.
        first = takewhile(lambda d: judges(d) == "text", self.defenses)
        self.admits = [e.admits for e in map(evasion_of, first) if e and e.admits]

    def _reason(self) -> str | None:
        known = [b for b in self.bounds if b]
        if not known:
            return "the retriever has no bound: a keyword document can be as near a query as any other"
        if len({b.bm25.tokenizer for b in known}) > 1:
            return "the hybrid fuses BM25 under different tokenizers, for which a term is not the same"
        for leaf, bound in zip(self.leaves, self.bounds, strict=True):
            still = isinstance(leaf, VectorRetriever) and getattr(leaf, "mode", "frozen") == "frozen"
            if bound is None and not still:
                return "a retriever of the hybrid may score clean documents anew with every poison document"
        return next((b.reason for b in known if b.reason), None)

    # ---- questions -------------------------------------------------------------------------------

    def certified(self, queries: Sequence[str], terms: Sequence[Sequence[Sequence[str]]]) -> list[np.ndarray]:
        """Whether no documents of given terms can enter a query's list.

        Parameters
        ----------
        queries : sequence of str
            Query texts.
        terms : sequence of lists of term lists
            For each query some sets of its terms.

        Returns
        -------
        list of bool array (n_sets,)
            Of each query.
        """
        out = []
        for query, some, clean in zip(queries, terms, self._clean(queries), strict=True):
            sides = Sides(self.threat, query, clean)
            sets = [sides.mask(names) for names in some]
            # Each set is bounded by the strongest part of it that admission lets pass.
            owner, parts = self._parts(query, sets, sides)
            safe = sides.safe(parts, np.array(sets)[owner]) if len(parts) else np.ones(0, bool)
            out.append(np.array([safe[owner == i].all() for i in range(len(sets))], bool))
        return out

    def fewest(self, queries: Sequence[str], most: int) -> Ints:
        """Of each query the smallest n such that documents with some n of its terms, all the same, may enter.

        Returns
        -------
        int64 array (n_queries,)
            From 0 to ``most``; ``most + 1`` where no ``most`` terms suffice. Sound: with fewer, no choice
            of terms enters. It is 0 where a hybrid's other retriever may bring in a document without any of
            the query's terms.
        """
        out = np.full(len(queries), most + 1)
        for row, (query, clean) in enumerate(zip(queries, self._clean(queries), strict=True)):
            sides = Sides(self.threat, query, clean)
            for n in range(0 if self.fusion else 1, most + 1):
                if not self._worst(query, n, sides):
                    out[row] = n
                    break
        return out

    # ---- one query -------------------------------------------------------------------------------

    def _worst(self, query: str, n: int, sides: Sides) -> bool:
        """Whether no choice of ``n`` terms can enter."""
        size = len(sides.names)
        if not (self.admits and size <= _SUBSETS):
            return bool(sides.safe(None, None, n).all())
        every = self._subsets(size)
        sets = every[every.sum(1) <= n]
        sets = sets[self._pass(query, sets, sides)]
        return bool(sides.safe(sets, None, n).all())

    def _parts(self, query: str, sets: Sequence[np.ndarray], sides: Sides) -> tuple[Ints, np.ndarray]:
        """Parts of some sets of terms that admission lets pass, and the set of each."""
        size = len(sides.names)
        owner, parts = [], []
        for i, held in enumerate(sets):
            places = np.flatnonzero(held)
            some = np.zeros((1, size), bool)
            some[0, places] = True
            if self.admits and len(places) <= _SUBSETS:
                every = self._subsets(len(places))
                some = np.zeros((len(every), size), bool)
                some[:, places] = every
                some = some[self._pass(query, some, sides)]
            owner += [i] * len(some)
            parts.append(some)
        return np.array(owner, np.int64), np.concatenate(parts) if parts else np.zeros((0, size), bool)

    def _subsets(self, size: int) -> np.ndarray:
        """Subsets of so many terms, (n_subsets, size), the empty one where it can enter."""
        first = 0 if self.fusion else 1
        return np.asarray((np.arange(first, 2**size)[:, None] >> np.arange(size)) % 2 == 1)

    def _pass(self, query: str, sets: np.ndarray, sides: Sides) -> np.ndarray:
        """Which sets of terms admission lets pass; of sets within others only the largest."""
        out = np.ones(len(sets), bool)
        for admits in self.admits:
            out &= admits(query, sides.names, sets, "")
        out[out] = maximal(sets[out])
        return out

    def _clean(self, queries: Sequence[str]) -> list[Clean]:
        """Each query's clean candidates to hold against, and what the defense makes of the pool."""
        width = self.fusion["depth"] if self.fusion else self.pool + (50 if self.live else 0)
        found = [leaf.search(list(queries), width) for leaf in self.leaves]
        if self.fusion:
            ranking = fuse(found, self.pool, self.fusion["constant"], len(self.leaves[0].corpus_))
            docs = [np.unique(np.concatenate([r.docs[i] for r in found])) for i in range(len(queries))]
            docs = [d[d != NO_DOC] for d in docs]
        else:
            ranking, docs = found[0].top(self.pool), [found[0].row(i)[0] for i in range(len(queries))]
        rows = [[r.row(i) for r in found] for i in range(len(queries))]
        kinds = {judges(d) for d in self.defenses}
        moves = self.live or bool(self.fusion)  # then clean documents may change places among themselves
        if "all" in kinds or ("above" in kinds and moves):
            return [Clean(d, None, lists) for d, lists in zip(docs, rows, strict=True)]
        through = self._through(queries, ranking)
        out = []
        for i, here in enumerate(docs):
            refused = np.setdiff1d(ranking.docs[i], through.docs[i])
            beyond = ~np.isin(here, ranking.docs[i])
            admitted = ~np.isin(here, refused) & ~(beyond & bool(self.defenses))
            out.append(Clean(here, admitted, rows[i]))
        return out

    def _through(self, queries: Sequence[str], ranking: Ranking) -> Ranking:
        if not self.defenses:
            return ranking
        pool = Pool(list(queries), ranking, len(self.leaves[0].corpus_), PoisonTexts([]))
        return defended(self.defenses, pool, self.pool, self.pool)[0]
