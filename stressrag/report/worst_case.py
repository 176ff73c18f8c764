"""Fixed texts and the attacker who knows the defense, side by side; the worse of the two is what counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from stressrag.report.frontier import dominates

STATIC_ONLY = (
    "measured only by attackers who do not know it; one who does may do better "
    "(attack=optimal, attack.adaptive=true)"
)


def is_adaptive(config: Mapping[str, Any]) -> bool:
    """Whether a condition's attacker writes what does best against the system that it meets."""
    settings = config["attack_settings"]
    known = settings.get("against")
    return settings.get("wording") == "optimal" and (known == "the defense" or config["defense"] == "none")


def worst_cases(
    conditions: Sequence[Mapping[str, Any]], baselines: Mapping[str, Mapping[str, str]]
) -> list[dict[str, Any]]:
    """Of each retriever, scope and defense the worst static and the worst adaptive attack of the run.

    Parameters
    ----------
    conditions : sequence of mapping
        As in ``summary.json``.
    baselines : mapping
        By condition id, the ids of its ``clean`` and ``undefended`` counterparts.

    Returns
    -------
    list of dict
        ``static`` and ``adaptive``: the condition (id) with the greatest TargetExp, or ``None``; ``worst``,
        the worse of them; ``clean``, the same system on clean traffic where the run has it; ``pareto``: no
        other defense of the retriever and scope leaves no more exposure by its worst attack at no less clean
        nDCG, and is better in one. Only for runs with a defense or a worst-case attack.
    """
    poisoned = [c for c in conditions if c["config"]["budget"] and c["metrics"].get("TargetExp") is not None]
    if not any(c["config"]["defense"] != "none" or is_adaptive(c["config"]) for c in poisoned):
        return []
    systems: dict[str, list[Mapping[str, Any]]] = {}
    for c in poisoned:
        systems.setdefault(_system(c["config"]), []).append(c)
    by_id = {c["id"]: c for c in conditions}
    out = []
    for members in systems.values():
        sides = {
            "static": _worst([c for c in members if not is_adaptive(c["config"])]),
            "adaptive": _worst([c for c in members if is_adaptive(c["config"])]),
        }
        clean = [baselines.get(c["id"], {}).get("clean") for c in members]
        out.append(
            {
                **{side: c and c["id"] for side, c in sides.items()},
                "worst": _worst([c for c in sides.values() if c])["id"],  # type: ignore[index]
                "clean": next((x for x in clean if x), None),
            }
        )
    for w in out:
        w["pareto"] = not any(_better(other, w, by_id) for other in out)
    return out


def _better(one: Mapping[str, Any], other: Mapping[str, Any], by_id: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether one system is at least as good in worst exposure and clean nDCG, and better in one."""
    a, b = by_id[one["worst"]], by_id[other["worst"]]
    if _place(a["config"]) != _place(b["config"]) or one["clean"] is None or other["clean"] is None:
        return False
    points = []
    for w, c in ((one, a), (other, b)):
        clean = by_id[w["clean"]]["metrics"]
        quality = next(m for m in clean if m.startswith("nDCG@"))
        points.append({"TargetExp": c["metrics"]["TargetExp"], "clean_nDCG": clean[quality]})
    return dominates(points[0], points[1])


def _worst(some: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return max(some, key=lambda c: c["metrics"]["TargetExp"], default=None)


_PLACE = (
    "dataset",
    "retriever",
    "scope",
    "statistics",
    "k",
    "ties",
    "grade",
    "split",
    "retriever_settings",
    "targets",
)


def _system(config: Mapping[str, Any]) -> str:
    """What is attacked, whatever by; a quota counts poison by source, which is the attacker's to choose."""
    defenses = {
        name: {k: v for k, v in settings.items() if k != "poison_source"}
        for name, settings in config["defense_settings"].items()
    }
    return json.dumps([_place(config), config["defense"], config["pool"], defenses], sort_keys=True)


def _place(config: Mapping[str, Any]) -> str:
    """What is defended."""
    return json.dumps([config[key] for key in _PLACE], sort_keys=True)


def static_only(summary: Mapping[str, Any]) -> list[str]:
    """The worst static condition (id) of each defended system that no adaptive attack was tried on."""
    defended = {c["id"] for c in summary["conditions"] if c["config"]["defense"] != "none"}
    return [w["static"] for w in summary["worst_cases"] if w["adaptive"] is None and w["static"] in defended]
