"""TrustRAG's filter of retrieved passages: a tight cluster of them is taken for planted.

*TrustRAG* (Zhou et al., arXiv 2501.00879), its first stage, by the code released with it:

1. Unless two passages share words (ROUGE-L above a threshold), nothing is filtered.
2. The embeddings are standardized over the passages, brought to length 1 and parted by k-means in two.
3. A cluster is tight when the mean cosine of its pairs, of the raw embeddings, is above a threshold.

   * One cluster has a single passage: if the other is tight, it goes and the single one stays, unless the
     first passages of the two are above the threshold too, in which case all go. If it is not tight, the
     single one goes.
   * Both have more: if both are tight, all go. If neither is, an n-gram filter goes over each. If one is, it
     goes, and the n-gram filter goes over the other.

Where the released code leaves a result to chance or stops, this is defined here:

* Fewer than two passages stay as they are.
* Two passages: each is a cluster of its own, and a mean over no pair is not a number, whereupon the code
  keeps one by its cluster's number. Here both go if their cosine is above the threshold, else both stay.
* Embeddings that are all the same have no direction once standardized. They are as tight as can be, so
  all go. A single passage at the mean of all keeps the zero vector.
* Passages stay in the order of retrieval; the code puts one cluster after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.pipelines.embedders import Floats, cosines
from stressrag.aligned.pipelines.rouge import rouge_l_of
from stressrag.text.tokens import unicode_tokens

ROUGE = 0.25
COSINE = 0.88
_NOTHING = 1e-9  # what standardizing leaves of equal values is rounding, not a direction


@dataclass(frozen=True)
class Filtered:
    """What the filter let through.

    Attributes
    ----------
    case : str
        Which of the cases it was.
    dropped : dict of int to str
        Passages that go, each with the reason.
    similarity : tuple of float or None
        Mean cosine within the cluster of the first passage and within the other; ``None`` for a single one.
    clusters : tuple of int
        By passage 0 or 1; cluster 0 has the first passage.
    """

    case: str
    dropped: dict[int, str] = field(default_factory=dict)
    similarity: tuple[float | None, ...] = ()
    clusters: tuple[int, ...] = ()


def overlaps(texts: Sequence[str]) -> Floats:
    """ROUGE-L of all pairs of passages."""
    words = [unicode_tokens(text) for text in texts]
    out = np.zeros((len(texts), len(texts)))
    for i, j in combinations(range(len(texts)), 2):
        out[i, j] = out[j, i] = rouge_l_of(words[i], words[j])
    return out


def filter_passages(embeddings: Floats, rouge: Floats, least_rouge: float, least_cosine: float) -> Filtered:
    """Which passages go.

    Parameters
    ----------
    embeddings : float64 array (k, d)
        Of the passages, k at least 2, as the model gives them.
    rouge : float64 array (k, k)
        As :func:`overlaps` gives them.
    least_rouge, least_cosine : float
        The thresholds; what is above them is similar.
    """
    cosine = cosines(embeddings)
    everyone = range(len(embeddings))
    if not (rouge[np.triu_indices(len(rouge), 1)] > least_rouge).any():
        return Filtered("no two passages share enough words")
    if len(embeddings) == 2:
        if cosine[0, 1] > least_cosine:
            return Filtered("two passages, alike", _all(everyone, "the only two passages are alike"))
        return Filtered("two passages, not alike")
    directions = _directions(embeddings)
    if not directions.any():
        if cosine[0, 1] > least_cosine:
            return Filtered("identical embeddings", _all(everyone, "all embeddings are the same"))
        return Filtered("embeddings without direction")
    clusters = _two_means(directions)
    parts = [np.flatnonzero(clusters == c).tolist() for c in (0, 1)]
    means = tuple(_mean_cosine(cosine, part) for part in parts)
    labels = tuple(int(c) for c in clusters)
    if min(map(len, parts)) == 1:
        case, dropped = _with_single(parts, means, cosine, least_cosine)
    else:
        case, dropped = _two_clusters(parts, means, rouge, least_rouge, least_cosine)
    return Filtered(case, dropped, means, labels)


def _with_single(
    parts: list[list[int]], means: tuple[float | None, ...], cosine: Floats, least: float
) -> tuple[str, dict[int, str]]:
    """One cluster of a single passage and one of more."""
    single, more = sorted(parts, key=len)
    mean = max(m for m in means if m is not None)
    if mean <= least:
        return "a single passage and a loose cluster", _all(single, "apart from a loose cluster")
    if cosine[single[0], more[0]] > least:
        return "a single passage like a tight cluster", _all(single + more, "all passages are alike")
    return "a single passage and a tight cluster", _all(more, f"in a tight cluster, mean cosine {mean:.3f}")


def _two_clusters(
    parts: list[list[int]],
    means: tuple[float | None, ...],
    rouge: Floats,
    least_rouge: float,
    least_cosine: float,
) -> tuple[str, dict[int, str]]:
    """Two clusters of two or more passages each."""
    values = [m for m in means if m is not None]
    high = 0 if values[0] >= values[1] else 1
    if min(values) > least_cosine:
        return "two tight clusters", _all(sorted(parts[0] + parts[1]), "both clusters are tight")
    why = "shares words with a passage of its cluster"
    if values[high] < least_cosine:
        shared = [i for part in parts for i in shared_words(part, rouge, least_rouge)]
        return "two loose clusters", _all(shared, why)
    dropped = _all(parts[high], f"in a tight cluster, mean cosine {values[high]:.3f}")
    shared = shared_words(parts[1 - high], rouge, least_rouge)
    return "a tight and a loose cluster", {**dropped, **_all(shared, why)}


def shared_words(passages: Sequence[int], rouge: Floats, least: float) -> list[int]:
    """The n-gram filter: passages of a cluster that share words with another of it.

    For each that has not gone, the first later one that shares words with it goes, and so does it itself. The
    first of all that went so is remembered, and whoever shares words with that one goes too.
    """
    gone: set[int] = set()
    first: int | None = None
    for place, i in enumerate(passages):
        if i in gone:
            continue
        for j in passages[place + 1 :]:
            if rouge[i, j] > least:
                gone |= {i, j}
                first = i if first is None else first
                break
        if first is not None and first != i and rouge[i, first] > least:
            gone.add(i)
    return sorted(gone)


def _all(passages: Sequence[int], why: str) -> dict[int, str]:
    return dict.fromkeys(passages, why)


def _mean_cosine(cosine: Floats, part: Sequence[int]) -> float | None:
    pairs = [cosine[i, j] for i, j in combinations(part, 2)]
    return float(np.mean(pairs)) if pairs else None


def _directions(embeddings: Floats) -> Floats:
    """Embeddings standardized over the passages, each of length 1, or 0 where it lies at the mean."""
    size = float(np.abs(embeddings).max(initial=0.0)) or 1.0
    scaled = embeddings / size
    centered = scaled - scaled.mean(0)
    spread = scaled.std(0)
    standard = centered / np.where(spread > _NOTHING, spread, np.inf)
    length = np.sqrt((standard**2).sum(1, keepdims=True))
    return standard / np.where(length > _NOTHING, length, np.inf)


def _two_means(directions: Floats) -> NDArray[np.int64]:
    """K-means in two with the settings of the released code; cluster 0 is the one of the first passage."""
    from sklearn.cluster import KMeans

    labels = KMeans(n_clusters=2, n_init=10, max_iter=500, random_state=0).fit(directions).labels_
    return np.asarray(labels != labels[0], np.int64)
