"""Repetition filter: reject texts that say the same words over and over (keyword stuffing)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stressrag.defenses.filter import TextFilter, largest
from stressrag.retrievers.ranking import Floats, Ints

WINDOW = 50
FEWEST = 10


class Repetition(TextFilter):
    """Rejects texts whose most repetitive 50 tokens repeat too much for this corpus.

    A text's score is the largest share of tokens in a window of 50 that stand in the same window before:
    one minus the lowest type-token ratio of a moving window (Covington and McFall 2010), which does not
    depend on the text's length and finds a stuffed opening before natural text. A text below 50 tokens is
    one window, below 10 tokens it counts as 10, the missing ones being all different, so that a word said
    twice is no stuffing. Filters of training texts judge repetition by whole documents and fixed limits
    (Rae et al. 2021, table A1); here the limit is that of the clean documents.

    Parameters and attributes are those of ``TextFilter``.
    """

    name = "repetition"

    def _score(self, terms: npt.NDArray[np.int32], starts: Ints) -> Floats:
        size = np.clip(np.diff(starts), FEWEST, WINDOW)
        return largest(repeats(terms, starts, WINDOW), starts, WINDOW) / size


def repeats(terms: npt.NDArray[np.int32], starts: Ints, window: int) -> Ints:
    """How many tokens of the window that begins at each token have stood in it before, (n_tokens,)."""
    text = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    order = np.lexsort((terms, text))  # stable: occurrences of a word in a text side by side, in order
    same = (terms[order[1:]] == terms[order[:-1]]) & (text[order[1:]] == text[order[:-1]])
    here, before = order[1:][same], order[:-1][same]
    # A token repeats in the windows that begin at or before its last occurrence and reach as far as itself.
    first = np.maximum(starts[text[here]], here - window + 1)
    reached = first <= before
    begins = np.bincount(first[reached], minlength=len(terms) + 1)
    ends = np.bincount(before[reached] + 1, minlength=len(terms) + 1)
    counts: Ints = np.cumsum(begins - ends)[:-1]
    return counts
