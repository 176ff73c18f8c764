"""Bodies: what a poison document says besides its anchor."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from stressrag.attacks.draw import draw
from stressrag.attacks.payloads import Payloads
from stressrag.text.index import TermIndex

NEUTRAL = "This page was last reviewed in spring and gives general information without further comment."
"""The fixed neutral filler: one harmless sentence, the same in every document."""

_TRIES = 200  # places looked at for a neutral snippet


class Target(NamedTuple):
    """One target query as a body sees it: its id, text and place among all judged queries."""

    query_id: str
    query: str
    place: int


class Body(Protocol):
    """Gives the text of poison document ``number`` of a target, and whether it came out as asked."""

    def __call__(self, target: Target, number: int) -> tuple[str, bool]: ...


def no_body(target: Target, number: int) -> tuple[str, bool]:
    """Nothing: the anchor alone."""
    return "", True


def neutral(target: Target, number: int) -> tuple[str, bool]:
    """The fixed neutral filler."""
    return NEUTRAL, True


class Payload:
    """An injected instruction."""

    def __init__(self, payloads: Payloads, order: str, seed: int):
        self.payloads, self.order, self.seed = payloads, order, seed

    def __call__(self, target: Target, number: int) -> tuple[str, bool]:
        """The instruction of that document."""
        return self.payloads.choose(self.order, self.seed, target.query_id, target.place, number), True


class CorpusNeutral:
    """A run of words from the corpus that shares no term with the query, as long as the payload or as set.

    Its BM25 score for the query is zero. Documents and starting places are hashed from seed, query id and
    document number. Where no run is long enough from 200 places, the longest found is taken and the
    second value is ``False``.

    Parameters
    ----------
    texts : callable
        Document number → text.
    index : TermIndex
        Tokeniser and number of documents.
    payload : Payload
        Gives the length to match, in tokens.
    seed : int
        The config's seed.
    tokens : int, optional
        The length in tokens, in the place of the payload's.
    """

    def __init__(
        self,
        texts: Callable[[int], str],
        index: TermIndex,
        payload: Payload,
        seed: int,
        tokens: int | None = None,
    ):
        self.texts, self.index, self.payload, self.seed = texts, index, payload, seed
        self.tokens = tokens

    def __call__(self, target: Target, number: int) -> tuple[str, bool]:
        """The snippet of that document."""
        tokens = self.index.tokenizer
        assert tokens is not None
        length = self.tokens or len(tokens(self.payload(target, number)[0]))
        taboo = frozenset(tokens(target.query))
        longest: list[str] = []
        best = 0
        for attempt in range(_TRIES):
            where = draw(self.seed, "snippet", target.query_id, number, attempt)
            words = self.texts(where % self.index.n_docs).split()
            start = where // self.index.n_docs % max(1, len(words) - length)
            run, n = _run(words[start:], tokens, taboo, length)
            if n == length:
                return " ".join(run), True
            if n > best:
                longest, best = run, n
        return " ".join(longest), False


def _run(
    words: list[str], tokens: Callable[[str], list[str]], taboo: frozenset[str], length: int
) -> tuple[list[str], int]:
    """The first run of words with ``length`` tokens and none of ``taboo``, else the longest shorter one."""
    run: list[tuple[str, int]] = []
    n = 0
    longest: tuple[list[str], int] = ([], 0)
    for word in words:
        found = tokens(word)
        if not taboo.isdisjoint(found):
            run, n = [], 0
            continue
        run.append((word, len(found)))
        n += len(found)
        while n > length:
            n -= run.pop(0)[1]
        if n > longest[1]:
            longest = [w for w, _ in run], n
        if n == length:
            break
    return longest
