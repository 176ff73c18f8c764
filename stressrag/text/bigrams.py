"""A bigram model of words, with each text's likelihood under the model of all other texts at hand."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stressrag.text.index import Ints

Floats = npt.NDArray[np.float64]

DISCOUNT = 0.75
"""What every count lends to words not seen there: about what bigrams lose from one half of a text to the
other (Church and Gale 1991)."""


class _Counts(NamedTuple):
    """What the probability of a word after another rests on: numbers, or arrays with a value per token."""

    pair: Ints  # how often the two stand side by side
    total: Ints  # how often the first has a word behind it
    after: Ints  # different words behind the first
    before: Ints  # different words before the second
    pairs: Ints | int  # different pairs
    words: Ints | int  # different words

    def surprisal(self) -> Floats:
        """Minus the logarithm of the interpolated Kneser-Ney probability, in nats."""
        pairs = np.maximum(self.pairs, 1)
        # Words never seen share one place beside the known ones; before any text all is that place.
        spare = np.where(np.asarray(self.pairs) > 0, DISCOUNT * self.words / pairs, 1.0)
        low = np.maximum(self.before - DISCOUNT, 0) / pairs + spare / (np.asarray(self.words) + 1)
        total = np.maximum(self.total, 1)
        high = np.maximum(self.pair - DISCOUNT, 0) / total + DISCOUNT * self.after / total * low
        found: Floats = -np.log(np.where(self.total > 0, high, low))
        return found


class Bigrams:
    """Interpolated Kneser-Ney bigrams (Kneser and Ney 1995, Chen and Goodman 1999) with one discount.

    ``p(v | u) = max(c(uv) - D, 0) / c(u) + D N(u·) / c(u) p(v)`` where ``N(u·)`` is the number of different
    words seen after ``u``, and ``p(v) = max(N(·v) - D, 0) / N(··) + D V / N(··) / (V + 1)``. The ``V`` words
    of the texts and one place for all others add up to 1. The beginning of a text counts as a word before
    the first one; its end is not modeled.

    Parameters
    ----------
    terms : int array (n_tokens,)
        Word numbers of all texts, one text after another.
    starts : int64 array (n_texts + 1,)
        Where each text starts, and the last ends.
    n_terms : int
        Numbers from here on are words that the texts do not have.
    """

    def __init__(self, terms: npt.NDArray[np.integer], starts: Ints, n_terms: int):
        self.n_terms = n_terms
        first, second = self._pairs(terms, starts)
        width = n_terms + 2  # a number for unknown words, and one for the beginning
        self._keys, self._times = np.unique(first * width + second, return_counts=True)
        self._total = np.bincount(first, minlength=width)
        self._after = np.bincount(self._keys // width, minlength=width)
        self._before = np.bincount(self._keys % width, minlength=width)
        self._words = int((self._before > 0).sum())

    def _pairs(self, terms: npt.NDArray[np.integer], starts: Ints) -> tuple[Ints, Ints]:
        """The word before each token and the token itself."""
        second = np.minimum(terms, self.n_terms).astype(np.int64)
        first = np.empty_like(second)
        first[1:] = second[:-1]
        first[starts[:-1][np.diff(starts) > 0]] = self.n_terms + 1
        return first, second

    def _find(self, first: Ints, second: Ints) -> tuple[Ints, Ints]:
        """The place of each pair among those of the model, and its count (0 where it has none)."""
        if not len(self._keys):
            return np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
        wanted = first * (self.n_terms + 2) + second
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return at, np.where(self._keys[at] == wanted, self._times[at], 0)

    def surprisal(self, terms: npt.NDArray[np.integer], starts: Ints) -> Floats:
        """Minus the log probability of each token of some texts in nats, (n_tokens,)."""
        first, second = self._pairs(terms, starts)
        counts = _Counts(
            self._find(first, second)[1],
            self._total[first],
            self._after[first],
            self._before[second],
            len(self._keys),
            self._words,
        )
        return counts.surprisal()

    def left_out(self, terms: npt.NDArray[np.integer], starts: Ints) -> Floats:
        """The same for the model's own texts, each under the model of all others.

        Exact: what a text alone brings (counts, pairs, words) is taken out again for its own tokens.

        Parameters
        ----------
        terms, starts : arrays
            What the model was made of.
        """
        n_texts, width = len(starts) - 1, self.n_terms + 2
        text = np.repeat(np.arange(n_texts), np.diff(starts))
        first, second = self._pairs(terms, starts)
        at, times = self._find(first, second)
        opening, which, own = _groups(text * max(1, len(self._keys)) + at)
        only = opening[own == times[opening]]  # a token for each pair that no other text has
        _, head, heads = _groups(text * width + first)
        opening, tail, tails = _groups(text * width + second)
        before = self._before[second] - np.bincount(tail[only], minlength=len(tails))[tail]
        gone = opening[before[opening] == 0]  # a token for each word that no other text has
        counts = _Counts(
            times - own[which],
            self._total[first] - heads[head],
            self._after[first] - np.bincount(head[only], minlength=len(heads))[head],
            before,
            (len(self._keys) - np.bincount(text[only], minlength=n_texts))[text],
            (self._words - np.bincount(text[gone], minlength=n_texts))[text],
        )
        return counts.surprisal()


def _groups(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Where each distinct key first stands, which one every place holds, and how often each is there."""
    _, opening, which, times = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    return opening, which, times
