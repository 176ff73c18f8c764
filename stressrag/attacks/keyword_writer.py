"""The document that BM25 scores highest, written out; and the sets of terms that admission lets pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stressrag.attacks.aim import Aim, System, Target, decoy
from stressrag.attacks.keywords import Given, best_counts, maximal, water_filling, written
from stressrag.defenses.base import evasion_of
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.ranking import Floats, Ints

MOST_TERMS = 14
"""Known terms whose subsets are looked through against admission by coverage."""


class KeywordWriter:
    """Writes the document that BM25 scores highest.

    Parameters
    ----------
    bm25 : BM25
        Fitted.
    aim : Aim
        Gives length, statistics and copies.
    holders : int, optional
        How many of the copies hold the terms; all by default.
    """

    def __init__(self, bm25: BM25, aim: Aim, holders: int | None = None):
        self.bm25, self.aim, self.holders = bm25, aim, holders or aim.copies
        self.live = aim.statistics == "live"
        tokenizer = bm25.index_.tokenizer
        assert tokenizer is not None
        self.tokenizer, self.decoy = tokenizer, decoy(aim.max_tokens, tokenizer)
        # Tokens of documents without the terms.
        self.beside = (aim.copies - self.holders) * len(tokenizer(self.decoy))

    def weights(self, query: str, terms: Sequence[str], payload: str = "") -> tuple[Floats, Given]:
        """What each term adds to a score per unit of its frequency part, and what the payload brings.

        Under live statistics the document and its copies count in the document frequencies.
        """
        b = self.bm25
        asked, times = np.unique(b.terms(query), return_counts=True)
        numbers = np.array([b.index_.vocabulary[t] for t in terms], np.int64)
        counts = b.index_.count([payload])
        held = dict(zip(counts.terms.tolist(), counts.tf.tolist(), strict=True))
        mine = set(numbers.tolist())
        beside = np.array([t for t in asked.tolist() if t in held and t not in mine], np.int64)
        both = np.concatenate((numbers, beside))
        df, there = b.known_df(both), b.statistics_
        if self.live:
            df = df + self.holders
            new = np.unique(np.concatenate((both, counts.terms)))
            length = self.holders * int(counts.lengths[0]) + self.beside
            repeated = np.repeat(new, self.holders)
            there = b.with_poison(there, repeated, self.aim.copies, length)
        idf = b.weights_.idf(there.n_docs, df, b.average_idf(there))
        place = np.minimum(np.searchsorted(asked, both), max(len(asked) - 1, 0))
        wanted = np.where(asked[place] == both, times[place], 0) if len(asked) else np.zeros(len(both))
        weights = np.asarray(idf * wanted)
        n = len(numbers)
        given = Given(
            int(counts.lengths[0]),
            np.array([held.get(t, 0) for t in numbers.tolist()], np.int64),
            weights[n:],
            np.array([held[t] for t in beside.tolist()], np.int64),
        )
        return weights[:n], given

    def average(self, lengths: Ints) -> Floats:
        """The average document length once documents of so many tokens are indexed."""
        s = self.bm25.statistics_
        if not self.live:
            return np.full(len(lengths), s.average_length)
        length = s.length + self.holders * lengths + self.beside
        return np.asarray(length / (s.n_docs + self.aim.copies))

    def write(
        self, query: str, terms: Sequence[str], payload: str = "", max_tokens: int | None = None
    ) -> tuple[str, float]:
        """The best wording of the terms beside the payload, and the document's score."""
        weights, given = self.weights(query, terms, payload)
        room = max_tokens or self.aim.max_tokens
        counts, score = best_counts(weights, self.bm25.weights_, self.average, room, given)
        return written(terms, counts.tolist()), score


def admitted(
    writer: KeywordWriter, system: System, target: Target, payload: str
) -> tuple[list[str], list[Ints], Floats]:
    """Subsets of the known terms that every defense with a say on terms lets pass, the strongest first.

    Returns
    -------
    terms : list of str
        The terms looked at, at most ``MOST_TERMS``: of more the heaviest and the four lightest.
    sets : list of int array
        Places in ``terms``.
    limits : float array
        What no document of each subset scores more than.
    """
    weights, given = writer.weights(target.query, target.terms, payload)
    order = np.argsort(-weights, kind="stable")
    few = min(4, max(0, len(order) - MOST_TERMS))  # a low threshold may let only light ones pass
    heaviest = np.sort(np.concatenate((order[: MOST_TERMS - few], order[len(order) - few :])))
    terms, weights = [target.terms[i] for i in heaviest], weights[heaviest]
    masks = (np.arange(1, 2 ** len(terms))[:, None] >> np.arange(len(terms))) % 2 == 1
    for defense in system.defenses:
        evasion = evasion_of(defense)
        if evasion and evasion.admits:
            masks = masks[evasion.admits(target.query, terms, masks, payload)]
    masks = masks[maximal(masks)]
    formula, n = writer.bm25.weights_, system.aim.max_tokens
    norm = float(formula.norm(np.array([n]), writer.average(np.array([n])))[0])
    c = formula.k1 * norm / max(1, n - given.length + int(given.counts.sum()))
    # What the payload holds of further query terms counts as if there were nothing else.
    held = np.where(given.counts[heaviest] > 0, np.maximum(weights, 0.0), 0.0)
    others = (~masks) @ held + np.maximum(given.others, 0).sum()
    limits = (water_filling(np.where(masks, weights, 0.0), c) + others) * (formula.k1 + 1)
    if not formula.concave:
        limits = np.full(len(masks), np.inf)
    order = np.argsort(-limits, kind="stable")
    return terms, [np.flatnonzero(m) for m in masks[order]], limits[order] * (1 + 1e-12)
