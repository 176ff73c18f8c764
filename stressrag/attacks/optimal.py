"""Worst-case wording: how an attacker who knows some terms, the retriever and the defense writes documents.

For BM25 alone, or behind overlap admission, the best document is computed (``keywords``): exactly for lucene,
plus and l, for okapi under frozen statistics without a payload. For every other
system there is no closed form: drafts are written (``drafts``), each is searched for in the real system, and
the best is taken. What that finds is a lower bound of what an attacker can do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from stressrag.attacks.bodies import NEUTRAL
from stressrag.attacks.drafts import Draft, Drafts
from stressrag.attacks.keywords import Given, best_counts, water_filling, written
from stressrag.defenses.base import Defense, evasion_of
from stressrag.errors import StressragError
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.ranking import Floats, Ints
from stressrag.text.tokens import Tokenizer

MOST_TERMS = 14
"""Known terms whose subsets are looked through against admission by coverage."""


@dataclass(frozen=True)
class Aim:
    """What a worst-case attack is written against; with the known terms this decides its texts.

    Attributes
    ----------
    retriever : hashable
        The retriever as a value.
    max_tokens : int
        Longest poison document, payload included, in tokens of the attack's term index.
    statistics : {"live", "frozen"} or None
        Of the index that the poison enters.
    copies : int
        Poison documents per target that enter with it.
    defense : tuple
        The defenses that the attacker knows, in order.
    k, pool : int
        Length of the list to get into and of the pool that defenses see.
    ties : str
        What goes first among equal scores.
    gradients : bool
        Whether the attacker uses the weights of dense retrievers.
    """

    retriever: Any
    max_tokens: int
    statistics: str | None = "live"
    copies: int = 1
    defense: tuple[Any, ...] = ()
    k: int = 0
    pool: int = 0
    ties: str = "clean_first"
    gradients: bool = False


class Outcome(NamedTuple):
    """What came of some sets of poison documents, one set per row.

    Attributes
    ----------
    first : int64 array (n,)
        Place of the first poison document in the final list, from 0; k where there is none.
    shown : int64 array (n,)
        Poison documents in it.
    """

    first: Ints
    shown: Ints


class System(Protocol):
    """A retriever with its defenses, as an attacker who owns a copy of it can use it."""

    @property
    def aim(self) -> Aim: ...

    @property
    def leaves(self) -> Sequence[Retriever]: ...

    @property
    def defenses(self) -> Sequence[Defense]: ...

    def outcome(self, queries: Sequence[str], documents: Sequence[Sequence[str]]) -> Outcome:
        """What becomes of each query when its row of documents is planted for it alone."""
        ...


class Target(NamedTuple):
    """One query under attack.

    Attributes
    ----------
    query : str
        Its text.
    terms : list of str
        What the attacker knows of it.
    payloads : list of str
        What each poison document has to carry; empty texts for nothing.
    """

    query: str
    terms: list[str]
    payloads: list[str]


def worst_documents(system: System, targets: Sequence[Target], drafts: Drafts) -> list[list[str]]:
    """The poison documents of each target, as many as it has payloads.

    Raises
    ------
    StressragError
        When a payload leaves no room for a term.
    """
    for t in targets:
        longest = max(t.payloads, key=drafts.length)
        if drafts.length(longest) >= system.aim.max_tokens:
            raise StressragError(
                f"attack.max_tokens={system.aim.max_tokens}: no room for terms beside a payload of "
                f"{drafts.length(longest)} tokens; set more, or attack.body=none"
            )
    some = _exact(system, targets) if exact(system) else drafts.of(system, targets)
    for documents in (d for of_one in some for d in of_one):
        assert max(map(drafts.length, documents), default=0) <= system.aim.max_tokens
    if all(len(of_one) == 1 for of_one in some):
        return [list(of_one[0]) for of_one in some]
    return _searched(system, targets, some)


def exact(system: System) -> bool:
    """Whether the best document is computed rather than searched for."""
    known = all(d.name == "overlap" for d in system.defenses)
    return len(system.leaves) == 1 and isinstance(system.leaves[0], BM25) and known


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


def planted(target: Target, words: str, holders: int, decoy: str) -> Draft:
    """The documents of a target: so many hold the words beside their payload, the others none of them.

    Under live statistics every document that holds a term makes it less telling, so that one among decoys
    may do better than as many as the budget allows.
    """
    rest = [p or decoy for p in target.payloads[holders:]]
    return (*(f"{words} {p}".strip() for p in target.payloads[:holders]), *rest)


def decoy(max_tokens: int, tokenizer: Tokenizer) -> str:
    """A harmless text of at most so many tokens."""
    return cut(NEUTRAL, max_tokens, tokenizer)


def cut(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    """The first words of a text that have at most so many tokens."""
    words = text.split()
    while words and len(tokenizer(" ".join(words))) > tokens:
        words.pop()
    return " ".join(words)


def holders(aim: Aim) -> list[int]:
    """How many of the documents may be the ones that hold the terms."""
    return sorted({1, aim.copies}) if aim.statistics == "live" else [aim.copies]


def _exact(system: System, targets: Sequence[Target]) -> list[list[Draft]]:
    """Copies of the best document, as many as the aim has or one among decoys."""
    bm25 = system.leaves[0]
    assert isinstance(bm25, BM25)
    writers = {n: KeywordWriter(bm25, system.aim, n) for n in holders(system.aim)}
    out = []
    for target in targets:
        some: dict[Draft, None] = {}
        for n, writer in writers.items():
            words = {p: _best(writer, system, target, p) for p in dict.fromkeys(target.payloads)}
            n = n if system.aim.statistics == "live" else len(target.payloads)
            docs = [planted(target, words[p], n, writer.decoy)[at] for at, p in enumerate(target.payloads)]
            some[tuple(docs)] = None
        out.append(list(some))
    return out


def _best(writer: KeywordWriter, system: System, target: Target, payload: str) -> str:
    """The wording with the highest score among those that admission lets pass."""
    if not system.defenses:
        return writer.write(target.query, target.terms, payload)[0]
    terms, sets, limits = admitted(writer, system, target, payload)
    if not len(sets):  # nothing passes
        room = system.aim.max_tokens - len(writer.tokenizer(payload))
        return cut(" ".join(target.terms), room, writer.tokenizer)
    best, best_score = "", -np.inf
    for subset, limit in zip(sets, limits, strict=True):
        if limit <= best_score:  # no document of this subset, nor of those after it, scores more
            break
        text, score = writer.write(target.query, [terms[i] for i in subset], payload)
        if score > best_score:
            best, best_score = text, score
    return best


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


def _searched(
    system: System, targets: Sequence[Target], drafts: Sequence[Sequence[Draft]]
) -> list[list[str]]:
    """The best of each target's drafts, each tried in the system."""
    queries = [t.query for t, some in zip(targets, drafts, strict=True) for _ in some]
    flat: list[Draft] = [draft for some in drafts for draft in some]
    tried = system.outcome(queries, flat)
    out, start = [], 0
    for some in drafts:
        rows = range(start, start + len(some))
        best = max(rows, key=lambda r: (tried.shown[r] > 0, tried.shown[r], -tried.first[r], -r))
        out.append(list(flat[best]))
        start += len(some)
    return out
