"""Filters: each document is judged by its own text; the clean corpus says how odd one may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stressrag.defenses.base import Evasion, Judges, Pool, keep
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import Floats, Ints, Ranking
from stressrag.text.index import TermIndex


class TextFilter:
    """Rejects candidates whose text scores above all but a given percentage of clean documents.

    Subclasses say what a text scores. Clean documents are judged once, so that their texts need not be
    kept; of poison each distinct text is scored once.

    Parameters
    ----------
    index : TermIndex
        The clean corpus.
    texts : sequence of str
        Its documents' texts, as the index has read them.
    rate : float
        The nominal rate: what percentage of clean documents may be rejected, above 0 and at most 50.

    Attributes
    ----------
    threshold : float
        The highest score that is let in.
    rejected : bool array (n_docs,)
        The clean documents that are not.
    """

    name: str
    judges: Judges = "text"

    def __init__(self, index: TermIndex, texts: Sequence[str], rate: float):
        self.index, self.rate = index, rate
        scores = self._clean(*index.read(texts))
        self.threshold = threshold(scores, rate)
        self.rejected = scores > self.threshold
        self._poison: tuple[PoisonTexts, npt.NDArray[np.bool_]] | None = None

    def evasion(self) -> Evasion:
        """Put the terms inside natural text of the corpus: less of each, and nothing odd."""
        return Evasion(natural=True)

    def apply(self, pool: Pool, k: int) -> Ranking:
        if self._poison is None or self._poison[0] is not pool.poison:
            self._poison = (pool.poison, self.scores(pool.poison.texts) > self.threshold)
        docs = pool.candidates.docs
        kept = np.ones(docs.shape, bool)
        clean, bad = (docs >= 0) & (docs < pool.n_docs), docs >= pool.n_docs
        kept[clean] = ~self.rejected[docs[clean]]
        kept[bad] = ~self._poison[1][pool.poison.slots[docs[bad] - pool.n_docs]]
        return keep(pool.candidates, kept)

    def scores(self, texts: Sequence[str]) -> Floats:
        """The scores of further texts, (n_texts,)."""
        return self._score(*self.index.read(texts))

    def _score(self, terms: npt.NDArray[np.int32], starts: Ints) -> Floats:
        """Scores of texts given as term numbers and where each text starts."""
        raise NotImplementedError

    def _clean(self, terms: npt.NDArray[np.int32], starts: Ints) -> Floats:
        """Scores of the clean documents."""
        return self._score(terms, starts)


def threshold(scores: Floats, rate: float) -> float:
    """The lowest of some scores that at most ``rate`` percent of them lie above."""
    above = int(len(scores) * rate / 100 + 1e-9)
    return float(np.sort(scores)[len(scores) - 1 - above])


def largest(sums: Ints, starts: Ints, window: int) -> Ints:
    """The largest of each text's windows, (n_texts,); 0 for a text without tokens.

    Parameters
    ----------
    sums : int64 array (n_tokens,)
        What the window that begins at each token adds up to, at least 0; those that reach over the text's
        end do not count, except the only one of a text shorter than a window.
    starts : int64 array (n_texts + 1,)
        Where each text starts, and the last ends.
    window : int
        Tokens of a window.
    """
    lengths = np.diff(starts)
    last = np.repeat(starts[:-1] + np.maximum(lengths - window, 0), lengths)
    whole = np.where(np.arange(len(sums)) <= last, sums, 0)
    out = np.zeros(len(lengths), np.int64)
    if len(sums):
        out[lengths > 0] = np.maximum.reduceat(whole, starts[:-1][lengths > 0])
    return out
