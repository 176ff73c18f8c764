"""Exposure: does poison reach the top k? (retrieval paper, equations 1 and 2)"""

from __future__ import annotations

import numpy as np

from stressrag.metrics.base import Floats, Metric, TopK, first_rank


def _target(top: TopK) -> Floats:
    # A bystander has no poison of its own: not exposed is not the same as not asked.
    asked = top.targeted | top.clean
    return np.where(asked, top.own_poison.any(1).astype(float), np.nan)


TargetExp = Metric("TargetExp", _target)
"""1 when poison that targets the query is in its top k; not defined for a bystander."""

AnyExp = Metric("AnyExp", lambda top: np.asarray(top.poison.any(1)))
"""1 when any poison is in the top k."""

CrossExp = Metric("CrossExp", lambda top: np.asarray((top.poison & ~top.own_poison).any(1)))
"""1 when poison that targets another query is in the top k."""

PoisonCount = Metric("PoisonCount", lambda top: top.poison.sum(1))
"""Poison documents in the top k."""

PoisonFraction = Metric("PoisonFraction", lambda top: top.n_poison / (top.n_docs + top.n_poison))
"""Share of poison among all documents that the query can see."""

FirstPoisonRank = Metric("FirstPoisonRank", lambda top: first_rank(top.poison))
"""Rank of the first poison document, from 1; not defined where the top k holds none."""

Coverage = Metric("Coverage", lambda top: top.coverage)
"""Share of the query's eligible terms that the attacker used."""
