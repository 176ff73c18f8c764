"""The best document made of given terms, for BM25: a separable concave problem with an exact answer.

A document that holds term i ``t_i`` times scores ``sum w_i (k1 + 1) t_i / (t_i + K)``, where ``w_i`` is the
idf (times how often the query asks for the term) and ``K = k1 (1 - b + b L / average)`` depends on the
document's length L alone. Three facts make the best document computable:

* for a given L the sum is concave in the counts, so taking the largest gain token by token is optimal;
* with shares ``a_i = t_i / L`` and ``c = K / L`` it is ``sum w_i (k1 + 1) a_i / (a_i + c)``, whose maximum
  over shares that add up to 1 is water-filling: of the terms in use, ``a_i + c`` is proportional to the
  square root of ``w_i``, and the maximum is ``(k1 + 1) (W - c S^2 / (1 + m c))`` with W the sum of the m
  weights in use and S that of their roots;
* c falls as L grows, so that a longer document is never worse but for the rounding of counts, and
  ``c = k1 b / average`` bounds every document, however long.

BM25L as rank-bm25 codes it is convex in the counts instead: one term takes them all, and there is no bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from stressrag.retrievers.ranking import Floats, Ints
from stressrag.retrievers.weights import Lucene


def water_filling(weights: Floats, c: Floats | float) -> Floats:
    """The largest value of ``sum w_i a_i / (a_i + c)`` over shares ``a_i >= 0`` that add up to 1.

    Parameters
    ----------
    weights : float array (..., n_terms)
        Zero or more; zeros count for nothing.
    c : float or array (...)
        Zero or more, against the leading axes of ``weights``.

    Returns
    -------
    float array (...)
    """
    w = -np.sort(-np.maximum(np.asarray(weights, np.float64), 0.0), axis=-1)
    c = np.asarray(c, np.float64)
    shape = np.broadcast_shapes(w.shape[:-1], c.shape)
    if not w.shape[-1]:
        return np.zeros(shape)
    root, c = np.sqrt(w), c[..., None]
    size = np.arange(1, w.shape[-1] + 1)
    level = c * np.cumsum(root, -1) / (1 + size * c)  # the root of the multiplier, were these terms in use
    used = np.broadcast_to(root > level, (*shape, w.shape[-1]))
    last = np.maximum(used.sum(-1) - 1, 0)[..., None]  # terms in use are the largest weights
    value = np.cumsum(w, -1) - c * np.cumsum(root, -1) ** 2 / (1 + size * c)
    value = np.broadcast_to(value, (*shape, w.shape[-1]))
    return np.asarray(np.take_along_axis(value, last, -1)[..., 0])


def maximal(sets: np.ndarray) -> np.ndarray:
    """Which of some sets of terms have no other of them with just one term more.

    With more terms to write a document scores no less, so the others need not be looked at.

    Parameters
    ----------
    sets : bool array (n_sets, n_terms)
        At most some 20 terms.

    Returns
    -------
    bool array (n_sets,)
    """
    codes = sets @ (1 << np.arange(sets.shape[1]))
    there = np.zeros(1 << sets.shape[1], bool)
    there[codes] = True
    out = np.ones(len(sets), bool)
    for term in range(sets.shape[1]):
        out &= sets[:, term] | ~there[codes | (1 << term)]
    return out


class Given(NamedTuple):
    """What of a document is fixed before the attacker's terms are written.

    Attributes
    ----------
    length : int
        Its tokens.
    counts : int array (n_terms,)
        How often it holds each of the attacker's terms.
    others : float array (n_others,)
        Weights of further query terms that it holds.
    other_counts : int array (n_others,)
        How often it holds these.
    """

    length: int
    counts: Ints
    others: Floats
    other_counts: Ints

    @classmethod
    def nothing(cls, n_terms: int) -> Given:
        """An empty document."""
        return cls(0, np.zeros(n_terms, np.int64), np.zeros(0), np.zeros(0, np.int64))


def best_counts(
    weights: Floats,
    formula: Lucene,
    average: Callable[[Ints], Floats],
    max_tokens: int,
    given: Given | None = None,
) -> tuple[Ints, float]:
    """How often to write each term, so that BM25 scores the document highest.

    Exact: no other counts within ``max_tokens`` score more (up to rounding of floats).

    Parameters
    ----------
    weights : float array (n_terms,)
        idf of each term times its occurrences in the query; terms at or below 0 are not written.
    formula : Lucene
        The variant with its ``k1`` and ``b``.
    average : callable
        The average length of the index that holds documents of so many tokens (an int array).
    max_tokens : int
        The longest document, given part included.
    given : Given, optional
        A payload.

    Returns
    -------
    counts : int64 array (n_terms,)
        What to write beside the given part.
    score : float
        The document's score without a constant that all documents share.
    """
    given = given or Given.nothing(len(weights))
    weights = np.maximum(np.asarray(weights, np.float64), 0.0)
    room = max_tokens - given.length
    best = np.zeros(len(weights), np.int64)
    norm = formula.norm(np.array([given.length]), average(np.array([given.length])))
    best_score = float(_scores(weights, formula, norm, best[None] + given.counts, given)[0])
    if room < 1 or not (weights > 0).any():
        return best, best_score
    lengths = given.length + np.arange(1, room + 1)
    norms = formula.norm(lengths, average(lengths))
    if not formula.concave:
        return max((best, best_score), _convex(weights, formula, norms, given), key=lambda found: found[1])
    limits = _limits(weights, formula, lengths, norms, given)
    for at in np.argsort(-limits, kind="stable"):
        if limits[at] <= best_score:
            break
        counts = _greedy(weights, formula, float(norms[at]), int(at) + 1, given.counts)
        score = float(_scores(weights, formula, norms[at : at + 1], (counts + given.counts)[None], given)[0])
        if score > best_score:
            best, best_score = counts, score
    return best, best_score


def _limits(weights: Floats, formula: Lucene, lengths: Ints, norms: Floats, given: Given) -> Floats:
    """What no document of each length exceeds: shares free, and the given counts free to move among terms."""
    tokens = lengths - given.length + given.counts.sum()
    if formula.k1 == 0:
        free = np.full(len(lengths), weights.sum())
    else:
        free = water_filling(weights, formula.k1 * norms / tokens)
    others = formula.part(given.other_counts[None, :], norms[:, None]) @ given.others
    return np.asarray((free * (formula.k1 + 1) + others) * (1 + 1e-12))


def _greedy(weights: Floats, formula: Lucene, norm: float, room: int, held: Ints) -> Ints:
    """``room`` tokens, each to the term that gains most by it."""
    steps = np.arange(room + 1)
    value = weights[:, None] * formula.part(held[:, None] + steps, norm)
    gain = np.diff(value, axis=1)
    order = np.argsort(-gain, axis=None, kind="stable")[:room]
    return np.bincount(order // room, minlength=len(weights))


def _convex(weights: Floats, formula: Lucene, norms: Floats, given: Given) -> tuple[Ints, float]:
    """All tokens to one term, of every length."""
    best, best_score = np.zeros(len(weights), np.int64), -np.inf
    room = np.arange(1, len(norms) + 1)
    for term in np.flatnonzero(weights > 0):
        counts = np.repeat(given.counts[None], len(room), 0)
        counts[:, term] += room
        scores = _scores(weights, formula, norms, counts, given)
        at = int(scores.argmax())
        if scores[at] > best_score:
            best, best_score = counts[at] - given.counts, float(scores[at])
    return best, best_score


def _scores(weights: Floats, formula: Lucene, norms: Floats, counts: Ints, given: Given) -> Floats:
    """Scores of documents with these counts (n_documents, n_terms) beside the given further terms."""
    own = formula.part(counts, norms[:, None]) @ weights
    return np.asarray(own + formula.part(given.other_counts[None, :], norms[:, None]) @ given.others)


def written(terms: Sequence[str], counts: Sequence[int]) -> str:
    """A text that holds each term so often, spread evenly rather than in runs."""
    places = [((j + 0.5) / n, i) for i, n in enumerate(map(int, counts)) for j in range(n)]
    return " ".join(terms[i] for _, i in sorted(places))
