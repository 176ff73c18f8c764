"""Evidence: what is left of the judged relevant documents (retrieval paper, equation 3, four states)."""

from __future__ import annotations

import numpy as np

from stressrag.metrics.base import Bools, Metric, TopK, first_rank


def _evidence(top: TopK) -> Bools:
    return np.asarray(top.relevant.any(1))


def _poison(top: TopK) -> Bools:
    return np.asarray(top.poison.any(1))


Evid = Metric("Evid", _evidence)
"""1 when at least one judged relevant document is in the top k."""

SafeR = Metric("SafeR", lambda top: _evidence(top) & ~_poison(top))
"""1 when there is evidence and no poison in the top k."""

Shortage = Metric("Shortage", lambda top: (top.docs < 0).any(1))
"""1 when the list holds fewer than k documents."""

FirstEvidenceRank = Metric("FirstEvidenceRank", lambda top: first_rank(top.relevant))
"""Rank of the first judged relevant document, from 1; not defined where the top k holds none."""

EvidClean = Metric("EvidClean", lambda top: _evidence(top) & ~_poison(top))
"""State: evidence, no poison. The same as ``SafeR``."""

EvidPoison = Metric("EvidPoison", lambda top: _evidence(top) & _poison(top))
"""State: evidence beside poison."""

NoEvidClean = Metric("NoEvidClean", lambda top: ~_evidence(top) & ~_poison(top))
"""State: neither evidence nor poison."""

NoEvidPoison = Metric("NoEvidPoison", lambda top: ~_evidence(top) & _poison(top))
"""State: poison and no evidence."""

STATES = (EvidClean, EvidPoison, NoEvidClean, NoEvidPoison)
