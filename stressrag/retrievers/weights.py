"""BM25 term weights: one formula per variant, used by the slow and the fast way alike.

A score is the sum over query terms of ``idf(term) * part(tf, norm)`` with
``norm = 1 - b + b * length / average length``, plus ``constant`` times the sum of the idf.
All arithmetic is float64 NumPy, in this order of operations, so that both ways agree to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Lucene:
    """Lucene's BM25 with the factor ``k1 + 1`` kept: idf = ln(1 + (N - df + .5) / (df + .5)) > 0."""

    k1: float = 1.5
    b: float = 0.75
    constant: float = 0.0
    prunable = True  # every weight is positive, so bounds on idf and length bound the score
    needs_average = False
    concave = True  # in the term frequency: each further occurrence adds less

    def idf(self, n: Any, df: Any, average: Any = None) -> Floats:
        """Inverse document frequency; 0 where ``df`` is 0.

        Parameters
        ----------
        n : int or array
            Number of documents.
        df : int array
            Document frequencies.
        average : float, optional
            Mean idf of the vocabulary, for the variants that need it.
        """
        return np.where(df > 0, np.log(1.0 + (n - df + 0.5) / (df + 0.5)), 0.0)

    def norm(self, lengths: Any, average: Any) -> Floats:
        """Length normalisation of documents of so many tokens."""
        return np.asarray(1.0 - self.b + self.b * lengths / average)

    def part(self, tf: Any, norm: Any) -> Floats:
        """Term-frequency part, 0 where ``tf`` is 0."""
        below = tf + self.k1 * norm
        if self.k1 == 0 or self.b == 1:  # only then can it be 0 / 0
            below = np.where(below == 0, 1.0, below)
        return np.asarray(tf * (self.k1 + 1.0) / below)


@dataclass(frozen=True)
class Okapi(Lucene):
    """rank-bm25's ``BM25Okapi``: a negative idf becomes ``epsilon`` times the mean idf."""

    epsilon: float = 0.25
    prunable = False
    needs_average = True

    def raw(self, n: Any, df: Any) -> Floats:
        """The idf before the floor: ln(N - df + .5) - ln(df + .5)."""
        return np.asarray(np.log(n - df + 0.5) - np.log(df + 0.5))

    def idf(self, n: Any, df: Any, average: Any = None) -> Floats:
        raw = self.raw(n, df)
        return np.where(df > 0, np.where(raw < 0, self.epsilon * average, raw), 0.0)


@dataclass(frozen=True)
class Plus(Lucene):
    """rank-bm25's ``BM25Plus``: every known query term adds ``delta`` times its idf to every document."""

    constant: float = 1.0

    def idf(self, n: Any, df: Any, average: Any = None) -> Floats:
        return np.where(df > 0, np.log((n + 1.0) / np.maximum(df, 1)), 0.0)


@dataclass(frozen=True)
class L(Lucene):
    """rank-bm25's ``BM25L``, with the further factor ``tf`` that its code has and its paper does not."""

    delta: float = 0.5
    concave = False

    def idf(self, n: Any, df: Any, average: Any = None) -> Floats:
        return np.where(df > 0, np.log(n + 1.0) - np.log(df + 0.5), 0.0)

    def part(self, tf: Any, norm: Any) -> Floats:
        if self.b == 1:  # an empty document has norm 0, and no term
            norm = np.where(norm == 0, 1.0, norm)
        shifted = tf / norm + self.delta
        return np.asarray(tf * (self.k1 + 1.0) * shifted / (self.k1 + shifted))


VARIANTS: dict[str, type[Lucene]] = {"lucene": Lucene, "okapi": Okapi, "plus": Plus, "l": L}
