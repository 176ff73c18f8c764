"""The certificates of a worst-case condition, as columns of its records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.certificates.certify import Certifier
from stressrag.collection.model import Queries
from stressrag.defenses.base import Defense
from stressrag.experiment.conditions import Condition, DefenseSpec, RetrieverSpec
from stressrag.experiment.scenario import PoisonTable, key
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.bm25 import BM25

MOST_TERMS = 16
"""Up to how many terms ``CertTerms`` counts; it is one more where so many cannot enter."""


class Certificates:
    """Certifies the queries of worst-case conditions, block by block.

    Parameters
    ----------
    retrievers, defenses : mapping
        Fitted, by their values.
    queries : Queries
        All judged queries.
    table : PoisonTable
        The family's poison.
    """

    def __init__(
        self,
        retrievers: Mapping[RetrieverSpec, Retriever],
        defenses: Mapping[tuple[DefenseSpec, ...], Sequence[Defense]],
        queries: Queries,
        table: PoisonTable,
    ):
        self.retrievers, self.defenses, self.queries, self.table = retrievers, defenses, queries, table
        self._fewest: dict[tuple[Any, ...], np.ndarray] = {}

    def certifier(self, c: Condition) -> Certifier:
        """What certifies a condition's queries."""
        assert c.recipe.aim is not None
        return Certifier(
            [self.retrievers[leaf] for leaf in c.retriever.leaves],
            dict(c.retriever.parameters) if c.retriever.components else {},
            self.defenses[c.defense],
            statistics=str(c.statistics),
            copies=c.budget,
            k=c.k,
            pool=c.pool or c.k,
            max_tokens=c.recipe.aim.max_tokens,
        )

    def columns(self, c: Condition, start: int, stop: int) -> dict[str, np.ndarray]:
        """``CertSafe`` and ``CertTerms`` of a block of queries, (stop - start,) each, NaN where not attacked.

        ``CertSafe`` is 1 where no P documents can enter the top k that hold no other terms of the query than
        those that the attacker knows and the attack's documents hold. ``CertTerms`` is the smallest number
        of the query's terms, whichever they are, with which documents may enter. None of them where there is
        no certificate: the attack is no worst case, a query sees other queries' poison, or the retriever has
        no bound.
        """
        if c.recipe.aim is None or c.scope != "isolated":
            return {}
        certifier = self.certifier(c)
        if certifier.reason:
            return {}
        tokenize = self._tokenizer(c)
        poison, targeted = self.table.poison[c.recipe], self.table.scenarios[key(c)].targeted
        assert poison.known is not None
        rows = np.arange(start, stop)[targeted[start:stop]]
        queries = [self.queries.texts[q] for q in rows]
        terms = []
        for q in rows:
            held = {t for text in poison.texts[q][: c.budget] for t in tokenize(text)}
            terms.append([sorted({*poison.known[q], *held})])
        out = {name: np.full(stop - start, np.nan) for name in ("CertSafe", "CertTerms")}
        out["CertSafe"][rows - start] = [float(s[0]) for s in certifier.certified(queries, terms)]
        system = (c.retriever, c.defense, c.statistics, c.budget, c.k, c.pool, c.recipe.aim.max_tokens)
        same = (*system, rows.tobytes(), start)
        if same not in self._fewest:  # the same for every choice of known terms
            self._fewest = {k: v for k, v in self._fewest.items() if k[-1] == start}
            self._fewest[same] = certifier.fewest(queries, MOST_TERMS)
        out["CertTerms"][rows - start] = self._fewest[same]
        return out

    def _tokenizer(self, c: Condition) -> Callable[[str], list[str]]:
        found = (self.retrievers[leaf] for leaf in c.retriever.leaves)
        tokenizer = next(r for r in found if isinstance(r, BM25)).index_.tokenizer
        assert tokenizer is not None
        return tokenizer
