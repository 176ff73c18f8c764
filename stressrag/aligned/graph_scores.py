"""Three graph scores of a context's passages, by definitions of our own.

*Prevented is Not Protected* (arXiv 2610.40742, Appendix H) evaluates detectors by spectral connectivity,
conductance and modularity and does not publish what they are. Only that passages are embedded and normalized
and that K = 4 is known from its harness. Here:

* The graph is undirected and has the passages as nodes. The weight of two is their cosine, 0 where it is
  negative. Each passage keeps its K nearest (all that tie with the K-th), and an edge stands when either end
  keeps it (symmetric by maximum). No self loops. With k <= K + 1 passages every pair may have an edge, and
  only the weights tell contexts apart.
* The direction, from what poison of one query is expected to be: texts that resemble one another more than
  they resemble the rest, a tight cluster apart. Such a graph has a bottleneck, so low connectivity and low
  conductance are anomalous, and their scores are negated; it splits well, so high modularity is anomalous.
  Once poison fills the context there is no rest to be apart from, and nothing here turns the direction.

Results at the edges:

* Fewer than two passages: nothing can be apart, so the least anomalous value there is: an eigenvalue of 2, a
  conductance of 1, a modularity of -1/2 (the ends of their ranges).
* A graph in several parts, as with an embedding of zeros (similar to nothing) or passages of cosine 0: an
  eigenvalue and a conductance of 0, the most anomalous values. A modularity of 0 without any edge.
* Identical passages: the complete graph, so k / (k - 1), the conductance of halves and their modularity.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stressrag.errors import StressragError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
NEIGHBORS = 4
"""K of the paper's harness."""
EXHAUSTIVE = 10
"""Up to so many passages all splits in two are looked at (511)."""
_TIE = 1e-9  # cosines that differ by rounding are equal
_MULTIPLE = 1e-6  # eigenvalues (of 0 to 2) this close span one space: single vectors of it mean nothing
_SPLIT = 1e-8  # a sweep does not cut between coordinates that are equal up to rounding


def weights(embeddings: Floats, neighbors: int = NEIGHBORS) -> Floats:
    """The passage graph.

    Parameters
    ----------
    embeddings : float64 array (k, d)
        Of any length; a row of zeros is similar to nothing.
    neighbors : int
        K, the nearest that each passage keeps.

    Returns
    -------
    float64 array (k, k)
        Symmetric, between 0 and 1, zeros on the diagonal.
    """
    if neighbors < 1:
        raise StressragError(f"neighbors={neighbors}: the passage graph needs 1 or more")
    n = len(embeddings)
    if n < 2 or embeddings.shape[1] == 0:
        return np.zeros((n, n))
    # Over the greatest value first, so that squares neither overflow nor vanish.
    size = np.abs(embeddings).max(1, keepdims=True)
    scaled = embeddings / np.where(size > 0, size, 1.0)
    length = np.sqrt((scaled**2).sum(1, keepdims=True))
    unit = scaled / np.where(length > 0, length, 1.0)
    cosine = np.clip(unit @ unit.T, 0.0, 1.0)
    # Rounding is no similarity: what is orthogonal has no edge.
    cosine[cosine <= _TIE] = 0.0
    np.fill_diagonal(cosine, 0.0)
    cosine = np.maximum(cosine, cosine.T)
    kept = np.ones((n, n), bool)
    if n > neighbors + 1:
        kth = np.sort(cosine, axis=1)[:, n - neighbors]
        kept = cosine >= kth[:, None] - _TIE
    return np.where(kept | kept.T, cosine, 0.0)


def connectivity(embeddings: Floats, neighbors: int = NEIGHBORS) -> float:
    """Minus the second-smallest eigenvalue of the normalized Laplacian, -2 (one whole) to 0 (apart).

    L_sym = I - D^(-1/2) W D^(-1/2), with 0 on the diagonal for a node without edges, so that the eigenvalue
    0 occurs as often as the graph has parts (Chung 1997, Spectral Graph Theory, section 1.2).

    Parameters
    ----------
    embeddings, neighbors
        As in :func:`weights`.
    """
    w = weights(embeddings, neighbors)
    if len(w) < 2:
        return -2.0
    if _apart(w):
        return 0.0
    return -min(2.0, max(0.0, float(np.linalg.eigvalsh(_laplacian(w))[1])))


def conductance(embeddings: Floats, neighbors: int = NEIGHBORS) -> float:
    """Minus the conductance of the best sweep cut of the Fiedler vector, -1 (one whole) to 0 (apart).

    The Fiedler vector is D^(-1/2) u with u the eigenvector of the second-smallest eigenvalue of L_sym. A
    sweep cuts it between any two neighboring coordinates that differ, and a cut's conductance is its weight
    over the lesser volume of its sides. Where the eigenvalue is a multiple one (identical passages, say) no
    vector is *the* Fiedler vector: then all splits in two count up to 10 passages, and beyond the sweeps of
    all unit vectors' projections on the eigenspace, so that the order of passages never matters.

    Parameters
    ----------
    embeddings, neighbors
        As in :func:`weights`.
    """
    w = weights(embeddings, neighbors)
    if len(w) < 2:
        return -1.0
    if _apart(w):
        return 0.0
    values, vectors = np.linalg.eigh(_laplacian(w))
    space = vectors[:, 1:][:, values[1:] <= values[1] + _MULTIPLE]
    if space.shape[1] > 1 and len(w) <= EXHAUSTIVE:
        cuts = _splits(len(w))
    else:
        cuts = _sweeps(space, 1 / np.sqrt(w.sum(1)))
    one_side = cuts.astype(np.float64)
    volume = one_side @ w.sum(1)
    across = np.einsum("ci,ij,cj->c", one_side, w, 1 - one_side)
    return -float(np.clip((across / np.minimum(volume, w.sum() - volume)).min(), 0.0, 1.0))


def modularity(embeddings: Floats, neighbors: int = NEIGHBORS) -> float:
    """The greatest weighted modularity of a split in two (Newman 2004), -1/2 (one whole) to 1/2 (apart).

    Both sides hold a passage, so that a context without any structure has a negative value rather than the 0
    of no split, where most contexts would tie. All splits are looked at up to 10 passages; beyond, the sweep
    cuts of the modularity matrix's leading eigenvector (Newman 2006), or of the projections on its space.

    Parameters
    ----------
    embeddings, neighbors
        As in :func:`weights`.
    """
    w = weights(embeddings, neighbors)
    if len(w) < 2:
        return -0.5
    degree, total = w.sum(1), float(w.sum())
    if total == 0:
        return 0.0
    matrix = w - np.outer(degree, degree) / total
    if len(w) <= EXHAUSTIVE:
        cuts = _splits(len(w))
    else:
        values, vectors = np.linalg.eigh(matrix / total)
        cuts = _sweeps(vectors[:, values >= values[-1] - _MULTIPLE], np.ones(len(w)))
        if not len(cuts):  # an eigenvector without two different coordinates cuts nothing
            cuts = np.eye(len(w), dtype=bool)
    signs = np.where(cuts, 1.0, -1.0)
    # Rows of the matrix add to 0, so pairs on one side are half of (1 + s_i s_j).
    return float(np.einsum("ci,ij,cj->c", signs, matrix, signs).max() / (2 * total))


def _laplacian(w: Floats) -> Floats:
    degree = w.sum(1)
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    return np.diag((degree > 0).astype(np.float64)) - w / np.outer(root, root)


def _apart(w: Floats) -> bool:
    """Whether the graph falls into parts that no edge joins."""
    reached = np.zeros(len(w), bool)
    reached[0] = True
    for _ in range(len(w)):
        reached = reached | (w[reached] > 0).any(0)
    return not reached.all()


@lru_cache(maxsize=EXHAUSTIVE)
def _splits(n: int) -> Bools:
    """Every split of n nodes into two sides that hold something, bool (2^(n-1) - 1, n)."""
    return (np.arange(1, 2 ** (n - 1))[:, None] >> np.arange(n) & 1).astype(bool)


def _sweeps(space: Floats, scale: Floats) -> Bools:
    """The sweep cuts of a space's vectors: of the one it is spanned by, or of the unit vectors' projections.

    Parameters
    ----------
    space : float64 array (n, m)
        Orthonormal columns.
    scale : float64 array (n,)
        What coordinates are multiplied by before they are compared.
    """
    vectors = space.T if space.shape[1] == 1 else space @ space.T
    cuts = []
    for vector in vectors:
        x = vector * scale
        largest = float(np.abs(x).max())
        if largest <= _SPLIT:
            continue  # a unit vector that the space is orthogonal to
        x = x / largest
        order = np.argsort(x)
        for i in np.flatnonzero(np.diff(x[order]) > _SPLIT):
            side = np.zeros(len(x), bool)
            side[order[: i + 1]] = True
            cuts.append(side)
    return np.array(cuts, bool).reshape(len(cuts), len(scale))
