"""The frontier of defenses: what each setting leaves of an attack, against what it costs on clean traffic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def frontier(
    conditions: Sequence[Mapping[str, Any]], baselines: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Points of each attack under at least two settings of defenses, with those that are Pareto-optimal.

    Parameters
    ----------
    conditions : sequence of mapping
        As in ``summary.json``.
    baselines : mapping
        By condition id, the ids of its ``clean`` and ``undefended`` counterparts.

    Returns
    -------
    list of dict
        Per point ``condition``, ``undefended``, ``clean``; ``TargetExp``, ``SafeR`` and ``Shortage`` under
        attack; ``clean_nDCG``, ``clean_Evid``, ``clean_SafeR`` and ``clean_Shortage`` with the same defense
        on clean traffic; ``pareto``: no other point of the attack, the undefended one included, has less
        exposure and no less clean nDCG, or more clean nDCG and no more exposure.
    """
    by_id = {c["id"]: c for c in conditions}
    families: dict[tuple[str, str | None], list[str]] = {}
    for name, kinds in baselines.items():
        if "undefended" in kinds and "clean" in kinds:
            # One who knows the defense and one who does not are two attackers with one undefended partner.
            against = by_id[name].get("config", {}).get("attack_settings", {}).get("against")
            families.setdefault((kinds["undefended"], against), []).append(name)
    out = []
    for (undefended, _), defended in families.items():
        if len(defended) < 2:
            continue
        points = [
            _point(by_id[name], by_id[baselines[name]["clean"]], undefended)
            for name in (undefended, *defended)
            if "clean" in baselines[name]
        ]
        for p in points:
            p["pareto"] = not any(dominates(other, p) for other in points)
        out += points
    return out


def _point(attacked: Mapping[str, Any], clean: Mapping[str, Any], undefended: str) -> dict[str, Any]:
    under, without = attacked["metrics"], clean["metrics"]
    ndcg = next(m for m in without if m.startswith("nDCG@"))
    return {
        "condition": attacked["id"],
        "undefended": undefended,
        "clean": clean["id"],
        **{m: under[m] for m in ("TargetExp", "SafeR", "Shortage")},
        "clean_nDCG": without[ndcg],
        **{f"clean_{m}": without[m] for m in ("Evid", "SafeR", "Shortage")},
    }


def dominates(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one point is at least as good in exposure and clean nDCG, and better in one."""
    no_worse = one["TargetExp"] <= other["TargetExp"] and one["clean_nDCG"] >= other["clean_nDCG"]
    return no_worse and (one["TargetExp"], one["clean_nDCG"]) != (other["TargetExp"], other["clean_nDCG"])
