"""Detectors of poisoned contexts: six scores of one retrieved context, and thresholds from clean contexts.

Every score is oriented "higher = more anomalous". The direction is fixed here, from what poison is expected
to look like, and never turned after an attack has been seen: that would tune the detector on the attack
(*Prevented is Not Protected*, arXiv 2610.40742, Appendix H). A context is flagged iff its score is strictly
greater than the threshold.

=============  ==============================================================================================
min_score      Minus the least retrieval score of the context.
gap            Greatest less least retrieval score: poison made for a query stands out above the rest.
dispersion     Population standard deviation (ddof 0) of the retrieval scores, for the same reason.
connectivity   Minus the second-smallest eigenvalue of the normalized Laplacian of the passage graph.
conductance    Minus the conductance of the best sweep cut of that graph.
modularity     Weighted modularity of the graph's best split in two.
=============  ==============================================================================================

The paper names the last three and leaves their definitions unpublished; those in ``graph_scores`` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stressrag.aligned.graph_scores import NEIGHBORS, conductance, connectivity, modularity
from stressrag.defenses.context_scores import SCORES
from stressrag.errors import StressragError, brief, nearest
from stressrag.plugins import call_theirs, import_target

Floats = NDArray[np.float64]
RATES = (1, 5, 10, 20)
"""The nominal false-positive rates of the paper, in percent."""
NEEDS = ("scores", "embeddings")


@dataclass(frozen=True)
class Detector:
    """A score of one context.

    Attributes
    ----------
    name : str
        What it is called in results.
    needs : {"scores", "embeddings"}
        Whether the function takes the retrieval scores, float64 (k,), or the passages' embeddings,
        float64 (k, d); k may be 0.
    function : callable
        From that array to a finite number, higher = more anomalous.
    """

    name: str
    needs: str
    function: Callable[[Floats], float]

    def __post_init__(self) -> None:
        if self.needs not in NEEDS:
            raise StressragError(f"detector {self.name!r} needs scores or embeddings, not {self.needs!r}")
        if not self.name or any(c in self.name for c in "@,\n"):
            raise StressragError(f"{self.name!r} is no name of a detector: it is empty or has @ or a comma")

    def __call__(self, values: Any) -> float:
        """The score of one context.

        Raises
        ------
        StressragError
            When the input or the score is not finite or has the wrong shape.
        """
        array = np.asarray(values, np.float64)
        if self.needs == "embeddings" and array.size == 0:
            array = array.reshape(0, 0) if array.ndim < 2 else array
        if array.ndim != NEEDS.index(self.needs) + 1:
            raise StressragError(f"detector {self.name!r}: {self.needs} of shape {array.shape}")
        if not np.isfinite(array).all():
            raise StressragError(f"detector {self.name!r}: a value of the {self.needs} is not finite")
        with np.errstate(over="ignore"):
            made = call_theirs(f"detector {self.name!r}", self.function, array)
        try:
            score = float(made)
        except (TypeError, ValueError) as e:
            raise StressragError(f"detector {self.name!r} gave {type(made).__name__}, not a number") from e
        if not np.isfinite(score):
            raise StressragError(f"detector {self.name!r} gave {score}, which is not finite")
        return score


_KNOWN: dict[str, Detector] = {
    d.name: d for d in (Detector(name, "scores", score) for name, score in SCORES.items())
}
_GRAPH = {"connectivity": connectivity, "conductance": conductance, "modularity": modularity}


def register(detector: Detector) -> Detector:
    """Make a detector known by its name, in this process.

    Raises
    ------
    StressragError
        When the name is taken.
    """
    if detector.name in _KNOWN or detector.name in _GRAPH:
        raise StressragError(f"there is a detector {detector.name!r} already; give yours another name")
    _KNOWN[detector.name] = detector
    return detector


def get_detectors(
    names: Iterable[str | Detector] | None = None, *, neighbors: int = NEIGHBORS
) -> list[Detector]:
    """Detectors by name, import path or as they are.

    Parameters
    ----------
    names : iterable of str or Detector, optional
        By default all that are registered. ``package.module:name`` is the import path of a ``Detector``.
    neighbors : int
        K of the graph scores.

    Raises
    ------
    StressragError
        For an unknown name, a name given twice, or no detector at all.
    """
    if neighbors < 1:
        raise StressragError(f"neighbors={neighbors}: the passage graph needs 1 or more")
    known = _KNOWN | {
        name: Detector(name, "embeddings", partial(score, neighbors=neighbors))
        for name, score in _GRAPH.items()
    }
    out: dict[str, Detector] = {}
    for name in known if names is None else names:
        if isinstance(name, Detector):
            found: Any = name
        elif ":" in name:
            found = import_target(name, "detector")
            if not isinstance(found, Detector):
                raise StressragError(
                    f"detector target {brief(name)} is {type(found).__name__}, not a Detector"
                )
        elif name in known:
            found = known[name]
        else:
            raise StressragError(f"no detector {brief(name)}; {nearest(name[:60], known)}")
        if found.name in out:
            raise StressragError(f"detector {brief(found.name)} is given twice")
        out[found.name] = found
    if not out:
        raise StressragError("no detector is named; " + nearest("", known))
    return list(out.values())


@dataclass(frozen=True)
class Calibration:
    """A threshold from clean contexts.

    Attributes
    ----------
    rate : int
        The nominal false-positive rate in percent.
    threshold : float
        Contexts that score strictly more are flagged.
    n, n_unique : int
        Calibration contexts, and how many different scores they have.
    exceeding : int
        Calibration contexts above the threshold; never more than ``rate * n / 100``.
    """

    rate: int
    threshold: float
    n: int
    n_unique: int
    exceeding: int

    @property
    def observed(self) -> float:
        """The share of calibration contexts above the threshold."""
        return self.exceeding / self.n

    def flags(self, scores: Any) -> NDArray[np.bool_]:
        """Whether each of some scores is flagged."""
        return np.asarray(np.asarray(scores, np.float64) > self.threshold)


def calibrate(scores: Any, rate: int, what: str = "") -> Calibration:
    """The threshold of a nominal false-positive rate.

    The ``ceil((100 - rate) * n / 100)``-th smallest of n scores, in integers: binary fractions are one rank
    off at times (18% of 500). With the strict comparison the share above it is at most the rate, whatever
    the ties.

    Parameters
    ----------
    scores : float array (n,)
        Scores of clean contexts.
    rate : int
        Percent, 1 to 99.
    what : str
        What is calibrated, for messages.

    Raises
    ------
    StressragError
        When n is below ``100 / rate``, so that not even one context could exceed the threshold.
    """
    check_rates([rate])
    values = np.sort(np.asarray(scores, np.float64))
    n, needed = len(values), -(-100 // rate)
    if n * rate < 100:
        raise StressragError(
            f"{what + ': ' if what else ''}a false-positive rate of {rate}% needs {needed} clean calibration "
            f"contexts or more, and there are {n}; add some or leave that rate out"
        )
    if not np.isfinite(values).all():
        raise StressragError(f"{what + ': ' if what else ''}a calibration score is not finite")
    rank = -(-(100 - rate) * n // 100)
    threshold = float(values[rank - 1])
    return Calibration(rate, threshold, n, len(np.unique(values)), int((values > threshold).sum()))


def check_rates(rates: Sequence[int]) -> list[int]:
    """Nominal rates in percent, ascending; raises ``StressragError`` unless all are whole, 1 to 99, once."""
    for rate in rates:
        if isinstance(rate, bool) or not isinstance(rate, int) or not 1 <= rate <= 99:
            raise StressragError(f"{brief(rate)} is no false-positive rate: give whole percent from 1 to 99")
    if len(set(rates)) != len(rates) or not rates:
        raise StressragError("give at least one false-positive rate, each once, such as 1,5,10,20")
    return sorted(rates)


def median(scores: Any) -> float | None:
    """The median of some scores; ``None`` of none. Exact in the middle, so that no pair of them overflows."""
    values = np.sort(np.asarray(scores, np.float64))
    if not len(values):
        return None
    low, high = float(values[(len(values) - 1) // 2]), float(values[len(values) // 2])
    return low if low == high else float((Fraction(low) + Fraction(high)) / 2)
