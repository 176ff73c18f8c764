"""What BM25 gives at most to a document with only some of a query's terms, and at least to clean ones.

Frozen statistics: with shares of its length a document scores ``(k1 + 1) sum w_i a_i / (a_i + c)``, and
``c >= k1 b / average`` however long it is, so that water-filling (``attacks.keywords``) bounds it.

Live statistics: up to P documents enter with it. Each of its terms has then a document frequency between
``df + 1`` and ``df + P``, the number of documents is known, and the average length A lies somewhere above
what it would be with empty documents. Both sides grow with A, so the line of A is cut into cells: a document
is bounded at the upper end of a cell (and by the greatest length that this A allows), clean ones at its
lower end. Where clean documents stay above in every cell, no A helps the attacker.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from stressrag.attacks.keywords import water_filling
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.ranking import Floats, Ints

_STEP, _FAR = 1.05, 1e3  # ratio of neighboring cell borders; from where on one cell reaches to infinity


class KeywordBound:
    """Bounds for documents of at most so many tokens, ``copies`` of which are planted at a time.

    Parameters
    ----------
    bm25 : BM25
        Fitted.
    statistics : {"live", "frozen"}
        Of the index that the documents enter.
    copies : int
        P, the documents planted together; each may hold the same terms in its own way.
    max_tokens : int, optional
        Longest document; ``None`` for any length.

    Attributes
    ----------
    reason : str or None
        Why there is no bound; then nothing can be certified.
    """

    def __init__(self, bm25: BM25, statistics: str, copies: int, max_tokens: int | None = None):
        self.bm25, self.live, self.copies, self.max_tokens = bm25, statistics == "live", copies, max_tokens
        formula = bm25.weights_
        self.reason: str | None = None
        if not formula.concave and max_tokens is None:
            self.reason = "BM25L as rank-bm25 codes it grows without limit; set attack.max_tokens"
        elif formula.needs_average and self.live:
            self.reason = "Okapi's floor moves with every new word of the poison; use statistics=frozen"

    @cached_property
    def cells(self) -> tuple[Floats, Floats]:
        """Lower and upper ends of the cells of A, (n_cells,)."""
        s = self.bm25.statistics_
        if not self.live:
            here: Floats = np.array([s.average_length])
            return here, here
        n, p = s.n_docs + self.copies, self.copies
        low = (s.length + 1) / n  # all others may be empty
        high = np.inf if self.max_tokens is None else (s.length + p * self.max_tokens) / n
        count = int(np.ceil(np.log(min(high / low, _FAR)) / np.log(_STEP)))
        borders = np.float64(low) * _STEP ** np.arange(max(1, count) + 1)
        borders[-1] = high
        return np.asarray(borders[:-1]), np.asarray(borders[1:])

    def of(self, query: str, docs: Ints) -> QueryBound:
        """The bounds of one query against some clean documents."""
        return QueryBound(self, query, docs)


class QueryBound:
    """Bounds of one query.

    Parameters
    ----------
    bound : KeywordBound
        The retriever and the threat.
    query : str
        Its text.
    docs : int64 array (n_docs,)
        Clean documents to hold against.

    Attributes
    ----------
    terms : int64 array (n_terms,)
        The query's distinct terms, by number, in its order.
    high, low, plain : float array (n_terms,)
        Weights of the terms: the greatest that planted documents leave them, the least, and that of a term
        that no planted document holds.
    """

    def __init__(self, bound: KeywordBound, query: str, docs: Ints):
        self.bound = bound
        b, p = bound.bm25, bound.copies
        asked = b.terms(query).tolist()
        self.terms = np.array(list(dict.fromkeys(asked)), np.int64)
        times = np.array([asked.count(t) for t in self.terms.tolist()], np.int64)
        df, n = b.known_df(self.terms), b.statistics_.n_docs

        def weights(more: int, idf_of: Ints) -> Floats:
            size = n + p if bound.live else n
            return np.asarray(b.weights_.idf(size, idf_of + more, b.average_idf_) * times)

        self.clean = np.asarray(b.weights_.idf(n, df, b.average_idf_) * times)
        self.plain = weights(0, df)
        self.high = weights(1, df) if bound.live else self.plain
        self.low = weights(p, df) if bound.live else self.plain
        self.lengths = b.index_.lengths[docs]
        self.tf = np.zeros((len(self.terms), len(docs)))
        at, found, tf = b.index_.postings(self.terms)
        order = np.argsort(docs, kind="stable")
        place = np.minimum(np.searchsorted(docs, found, sorter=order), max(len(docs) - 1, 0))
        if len(docs):
            there = docs[order[place]] == found
            self.tf[at[there], order[place[there]]] = tf[there]

    def heaviest(self, n: int) -> np.ndarray:
        """The ``n`` terms with which a document can score most, bool (1, n_terms)."""
        out = np.zeros((1, len(self.terms)), bool)
        out[0, np.argsort(-self.high, kind="stable")[:n]] = True
        return out

    def upper(self, sets: np.ndarray) -> Floats:
        """What no document exceeds that holds only these terms, (n_sets, n_cells).

        Parameters
        ----------
        sets : bool array (n_sets, n_terms)
            The terms that it may hold.
        """
        b, bound = self.bound.bm25, self.bound
        formula = b.weights_
        weights = np.where(sets, np.maximum(self.high, 0.0), 0.0)
        _, high = bound.cells
        most = np.full(len(high), np.inf if bound.max_tokens is None else float(bound.max_tokens))
        if bound.live:  # a document cannot be longer than the average that it makes allows
            s = b.statistics_
            most = np.minimum(most, high * (s.n_docs + bound.copies) - s.length)
        if not formula.concave:
            part = formula.part(most, formula.norm(most, high))
            return np.asarray(weights.max(1, initial=0.0)[:, None] * part)
        c = formula.k1 * ((1 - formula.b) / most + formula.b / high)
        return (formula.k1 + 1) * water_filling(weights[:, None, :], c[None, :])

    def lower(self, sets: np.ndarray) -> Floats:
        """What each clean document scores at least, (n_sets, n_cells, n_docs).

        Parameters
        ----------
        sets : bool array (n_sets, n_terms)
            The terms that planted documents hold.
        """
        weights = np.where(sets, self.low, self.plain)
        return np.asarray(np.einsum("st,ctd->scd", weights, self._parts))

    def lower_worst(self, n: int) -> Floats:
        """What each clean document scores at least when any ``n`` terms may be planted, (n_cells, n_docs)."""
        whole = np.einsum("t,ctd->cd", self.plain, self._parts)
        lost = (self.plain - self.low)[None, :, None] * self._parts
        return np.asarray(whole - -np.sort(-lost, axis=1)[:, :n].sum(1))

    def higher(self) -> tuple[Floats, Floats]:
        """What each clean document scores at most, and by how much any can exceed its clean score.

        Returns
        -------
        scores : float array (n_cells, n_docs)
        raised : float array (n_cells,)
            A factor.
        """
        b, (_, high) = self.bound.bm25, self.bound.cells
        norm = b.weights_.norm(self.lengths[None, :], high[:, None])
        parts = b.weights_.part(self.tf[None], norm[:, None, :])
        scores = np.einsum("t,ctd->cd", self.plain, parts)
        before = self.clean > 0
        ratio = (self.plain[before] / self.clean[before]).max(initial=1.0)
        return scores, ratio * np.maximum(1.0, high / b.statistics_.average_length)

    @cached_property
    def _parts(self) -> Floats:
        """Frequency parts of the clean documents, (n_cells, n_terms, n_docs)."""
        formula, (low, _) = self.bound.bm25.weights_, self.bound.cells
        norm = formula.norm(self.lengths[None, :], low[:, None])
        return formula.part(self.tf[None], norm[:, None, :])
