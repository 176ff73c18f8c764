"""Perplexity filter: reject texts that are unlikely under a language model of the clean corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stressrag.defenses.filter import TextFilter, largest
from stressrag.retrievers.ranking import Floats, Ints
from stressrag.text.bigrams import Bigrams
from stressrag.text.index import TermIndex

_UNIT = 1e-6  # of a nat: sums of whole numbers do not depend on what stands before a text


class Perplexity(TextFilter):
    """Rejects texts whose perplexity is above that of nearly all clean documents.

    Perplexity filters (Alon and Kamfonas 2023; Jain et al. 2023) ask a neural language model. The bigram
    model of the clean corpus is a substitute that needs no download: it finds words in an order, or from a
    domain, that the corpus does not have, and it cannot tell fluent text from text that is so for two
    words at a time. A clean document is scored by the model of all others, since a model finds the texts that
    it was made of too likely.

    Parameters
    ----------
    index, texts, rate
        As in ``TextFilter``.
    window : int, optional
        Score a text by its most perplexing so many tokens (windowed perplexity, Jain et al. 2023), so that
        natural text behind an odd opening does not hide it; by default by all of its tokens. A shorter
        text is one window.
    """

    name = "perplexity"

    def __init__(self, index: TermIndex, texts: Sequence[str], rate: float, window: int | None = None):
        self.window = window
        super().__init__(index, texts, rate)

    def _clean(self, terms: npt.NDArray[np.int32], starts: Ints) -> Floats:
        self._model = Bigrams(terms, starts, self.index.n_terms)
        return self._perplexity(self._model.left_out(terms, starts), starts)

    def _score(self, terms: npt.NDArray[np.int32], starts: Ints) -> Floats:
        return self._perplexity(self._model.surprisal(terms, starts), starts)

    def _perplexity(self, surprisal: Floats, starts: Ints) -> Floats:
        """Perplexity of each text, (n_texts,); 1 for a text without tokens, which surprises nobody."""
        lengths = np.diff(starts)
        window = self.window or max(1, int(lengths.max(initial=0)))
        until = np.concatenate(([0], np.cumsum(np.rint(surprisal / _UNIT).astype(np.int64))))
        ends = np.minimum(np.arange(len(surprisal)) + window, np.repeat(starts[1:], lengths))
        most = largest(until[ends] - until[:-1], starts, window)
        out: Floats = np.exp(_UNIT * most / np.clip(lengths, 1, window))
        return out
