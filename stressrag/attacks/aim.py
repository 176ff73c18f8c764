"""What a worst-case attack is written against, and the documents that it plants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stressrag.attacks.bodies import NEUTRAL
from stressrag.defenses.base import Defense
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.ranking import Ints
from stressrag.text.tokens import Tokenizer

Draft = tuple[str, ...]
"""The poison documents of one target, as they would be planted together."""


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
