"""What a retriever is, and the honest slow way to search a poisoned corpus."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.retrievers.ranking import Ints, Ranking, Ties, Views

Statistics = Literal["live", "frozen"]
Self = TypeVar("Self", bound="Retriever")
T = TypeVar("T")


class PoisonTexts:
    """Texts of poison documents, each distinct text kept once.

    Attributes
    ----------
    texts : list of str
        The distinct texts, in order of first occurrence.
    slots : int64 array (n_poison,)
        The text of each poison document.
    """

    def __init__(self, documents: Sequence[str]):
        numbers: dict[str, int] = {}
        self.slots: Ints = np.array([numbers.setdefault(t, len(numbers)) for t in documents], np.int64)
        self.texts = list(numbers)

    def __len__(self) -> int:
        return len(self.slots)


class Retriever:
    """Base of all retrievers: ``fit``, ``search`` and the contaminated search.

    The constructor stores its parameters untouched, ``fit`` validates, fitted state ends in ``_``.
    The contaminated search here re-indexes corpus and poison for every view; subclasses that know better
    override it and are held to this one by the contract test.
    """

    knows: ClassVar[tuple[Statistics, ...]] = ("live",)
    """The corpus statistics that the contaminated search can use."""

    corpus_: Corpus
    _prepared: tuple[PoisonTexts, Any] | None = None

    def fit(self: Self, corpus: Corpus) -> Self:
        """Index a corpus. Raises ``StressragError`` when it holds no document."""
        if len(corpus) == 0:
            raise StressragError("the corpus holds no document")
        self.corpus_ = corpus
        return self

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        """The ``k`` best documents of each query, in the order of ``ranking``."""
        raise NotImplementedError

    def clone(self: Self) -> Self:
        """A retriever with the same parameters, not fitted."""
        names = list(inspect.signature(type(self).__init__).parameters)[1:]
        return type(self)(**{n: getattr(self, n) for n in names})

    def over(self: Self, corpus: Corpus) -> Self:
        """A retriever over other documents that keeps the statistics fitted here (``frozen``)."""
        raise StressragError(f"{type(self).__name__} has no frozen statistics; use statistics=live")

    def resolve(self, statistics: Statistics) -> Statistics:
        """The statistics that a setting comes to here; a retriever may know but one."""
        if statistics not in self.knows:
            known = " and ".join(self.knows)
            raise StressragError(f"{type(self).__name__} knows {known} statistics, not {statistics!r}")
        return statistics

    def search_contaminated(
        self,
        queries: Sequence[str],
        poison: PoisonTexts | Sequence[str],
        views: Views,
        k: int,
        *,
        statistics: Statistics = "live",
        ties: Ties = "clean_first",
    ) -> Ranking:
        """Search the corpus with the poison that each query sees.

        Parameters
        ----------
        queries : sequence of str
            Query texts; the same text may stand in several rows with different views.
        poison : sequence of str or PoisonTexts
            The text of each poison document. Poison document ``j`` is number ``n_docs + j``.
        views : Views
            The poison documents that each query sees.
        k : int
            Length of each row.
        statistics : {"live", "frozen"}
            ``live``: as an engine that indexed the visible poison. ``frozen``: all documents scored
            under the statistics of the clean corpus; a term that it does not know counts nothing.
        ties : {"clean_first", "poison_first"}
            What goes first among equal scores.

        Returns
        -------
        Ranking
            Equal to that of a retriever built afresh over corpus and visible poison.
        """
        return self.search_slowly(queries, poison, views, k, statistics=statistics, ties=ties)

    def search_slowly(
        self,
        queries: Sequence[str],
        poison: PoisonTexts | Sequence[str],
        views: Views,
        k: int,
        *,
        statistics: Statistics = "live",
        ties: Ties = "clean_first",
    ) -> Ranking:
        """The contaminated search by definition: for every view an index of corpus and visible poison."""
        poison = self.checked(queries, poison, views)
        statistics = self.resolve(statistics)
        out = Ranking.empty(len(queries), k)
        n_docs = len(self.corpus_)
        for v in range(len(views)):
            rows = np.flatnonzero(views.of_query == v)
            visible = views.view(v)
            texts = [poison.texts[s] for s in poison.slots[visible]]
            first = ties == "poison_first"
            extended = self.corpus_.extended(texts, first=first)
            there = self.clone().fit(extended) if statistics == "live" else self.over(extended)
            found = there.search([queries[int(r)] for r in rows], k)
            if first:
                numbers = np.concatenate((n_docs + visible, np.arange(n_docs), [-1]))
            else:
                numbers = np.concatenate((np.arange(n_docs), n_docs + visible, [-1]))
            out.docs[rows], out.scores[rows] = numbers[found.docs], found.scores
        return out

    @staticmethod
    def checked(queries: Sequence[str], poison: PoisonTexts | Sequence[str], views: Views) -> PoisonTexts:
        """The poison as ``PoisonTexts``; raises when the views do not fit it or the queries."""
        if not isinstance(poison, PoisonTexts):
            poison = PoisonTexts(poison)
        views.check(len(queries), len(poison))
        return poison

    def prepared(self, poison: PoisonTexts, prepare: Callable[[list[str]], T]) -> T:
        """What ``prepare`` makes of the distinct texts, kept for the next call with the same poison."""
        if self._prepared is None or self._prepared[0] is not poison:
            self._prepared = (poison, prepare(poison.texts))
        value: T = self._prepared[1]
        return value


def distinct(texts: Sequence[str]) -> tuple[list[str], Ints]:
    """The distinct texts in order of first occurrence, and which of them each text is."""
    numbers: dict[str, int] = {}
    which = np.array([numbers.setdefault(t, len(numbers)) for t in texts], np.int64)
    return list(numbers), which
