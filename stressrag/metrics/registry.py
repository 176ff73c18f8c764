"""The metrics of a run: ours, then the user's."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError, nearest
from stressrag.metrics import evidence, exposure
from stressrag.metrics.base import Metric
from stressrag.plugins import entry_point_names, import_target

STANDARD: tuple[Metric, ...] = (
    exposure.TargetExp,
    exposure.AnyExp,
    exposure.CrossExp,
    evidence.Evid,
    evidence.SafeR,
    exposure.PoisonCount,
    exposure.PoisonFraction,
    evidence.Shortage,
    exposure.FirstPoisonRank,
    evidence.FirstEvidenceRank,
    exposure.Coverage,
    *evidence.STATES,
)


def get_metrics(extra: Sequence[str], k: int) -> list[Metric]:
    """The standard metrics and some further ones by entry point or import path.

    Raises
    ------
    StressragError
        When a name leads to no ``Metric``, or to one whose name is taken.
    """
    metrics = list(STANDARD)
    taken = {m.name for m in metrics} | {f"nDCG@{k}", f"Recall@{k}"}
    for name in extra:
        known = entry_point_names("metrics")
        if ":" not in name and name not in known:
            raise StressragError(
                f"metrics: no metric {name!r} is installed; {nearest(name, known)} or package.module:name"
            )
        metric = import_target(name, "metric") if ":" in name else known[name].load()
        if not isinstance(metric, Metric):
            raise StressragError(
                f"metrics: {name!r} is no stressrag.Metric; give one, such as Metric('Mine', my_function)"
            )
        if metric.name in taken:
            raise StressragError(f"metrics: the name {metric.name!r} of {name!r} is taken")
        taken.add(metric.name)
        metrics.append(metric)
    return metrics
