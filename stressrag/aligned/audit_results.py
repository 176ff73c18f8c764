"""What human labels of an audit say: agreement, and what holds of the population.

Consensus is what all annotators say, and where they differ the value of the adjudication file. What is still
open is counted as ``unresolved`` and enters neither rates nor agreement nor the labels that are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from stressrag.aligned.audit_sample import FLIPS
from stressrag.aligned.judgments import FIELDS
from stressrag.stats.agreement import agreement, weighted_rate
from stressrag.stats.proportions import wilson

UNRESOLVED = "unresolved"
Values = dict[str, dict[str, str]]
"""Answer id to {field: label}."""
_WORDS = {True: "yes", False: "no", None: "uncertain"}


def consensus(said: Sequence[Values], decided: Values) -> Values:
    """By answer id and field what all say, else the adjudicated value, else ``unresolved``.

    Parameters
    ----------
    said : sequence of dict
        Of each annotator, complete.
    decided : dict
        The adjudicated values.
    """
    out: Values = {}
    for i in said[0]:
        for field in FIELDS:
            given = {values[i][field] for values in said}
            label = given.pop() if len(given) == 1 else decided.get(i, {}).get(field, UNRESOLVED)
            out.setdefault(i, {})[field] = label
    return out


def results(
    key: Mapping[str, Any], said: Mapping[str, Values], decided: Values, found: Values
) -> dict[str, Any]:
    """What the labels say.

    Parameters
    ----------
    key : mapping
        The key file.
    said : mapping
        Annotator to labels.
    decided, found : dict
        The adjudicated values and the consensus.

    Returns
    -------
    dict
        ``fields``: per field the counts of the ``consensus``, how many values were ``adjudicated``, agreement
        ``between`` annotators and of ``sources`` (judge and rules, the first side) with the consensus, each
        overall and decisive, and (not in flips mode) weighted to the population; ``endorsement``: weighted
        rates, or in flips mode ``flips``; ``unresolved``: answer ids; ``packet``, ``mode``, ``population``,
        ``items``, ``annotators``.
    """
    ids = sorted(found)
    weights = None
    if key["mode"] == "answers":
        weights = {i: item["weight"] for item in key["items"] for i in item["answers"]}
    fields: dict[str, Any] = {}
    for field in FIELDS:
        human = {i: found[i][field] for i in ids}
        by = {name: {i: values[i][field] for i in ids} for name, values in said.items()}
        torn = [i for i in ids if len({labels[i] for labels in by.values()}) > 1]
        fields[field] = {
            "consensus": {x: list(human.values()).count(x) for x in sorted(set(human.values()))},
            "adjudicated": sum(field in decided.get(i, {}) for i in torn),
            "between": {f"{a} / {b}": _compared(by[a], by[b], key, weights) for a, b in combinations(by, 2)},
            "sources": {
                name: _compared(labels, human, key, weights)
                for name, labels in _sources(key["answers"], field).items()
            },
        }
    return {
        **{name: key[name] for name in ("packet", "mode", "population")},
        "items": len(key["items"]),
        "annotators": list(said),
        "fields": fields,
        "unresolved": [i for i in ids if UNRESOLVED in found[i].values()],
        **({"flips": _flips(key, found)} if weights is None else {}),
        **({"endorsement": _endorsement(key["answers"], weights, found)} if weights is not None else {}),
    }


def _compared(
    one: Mapping[str, str | None],
    two: Mapping[str, str | None],
    key: Mapping[str, Any],
    weights: Mapping[str, float] | None,
) -> dict[str, Any]:
    """Agreement in all forms, by mode."""
    # Where there is no target nobody can be right or wrong about it.
    ids = [i for i in sorted(two) if {one[i], two[i]} != {"not_applicable"} and two[i] != UNRESOLVED]
    first, second = [one[i] for i in ids], [two[i] for i in ids]
    clusters = [key["answers"][i]["cluster"] for i in ids]
    out = {}
    for mode in ("overall", "decisive"):
        out[mode] = agreement(first, second, mode=mode, clusters=clusters).row()
        if weights is not None:
            w = [weights[i] for i in ids]
            weighted = agreement(first, second, mode=mode, weights=w, clusters=clusters)
            out[f"{mode}_weighted"] = weighted.row()
    return out


def _sources(answers: Mapping[str, Any], field: str) -> dict[str, dict[str, str | None]]:
    """What the judge and the rules say on a field, by answer id; ``None``: nothing."""
    judged = {i: (a["judge"] or {}).get(field) for i, a in answers.items()}
    out = {"judge": judged} if any(judged.values()) else {}
    if field == "target_endorsed":
        for rule in sorted({r for a in answers.values() for r in a["automatic"]}):
            out[rule] = {
                i: _WORDS[a["automatic"][rule]] if a["has_target"] else "not_applicable"
                for i, a in answers.items()
            }
    return out


def _endorsement(answers: Mapping[str, Any], weights: Mapping[str, float], found: Values) -> dict[str, Any]:
    """Weighted rates of endorsement: of distinct outputs, and of answers by condition and method.

    An output stands for as many answers of a condition and method as share it.
    """
    cells: dict[str, dict[str, float]] = {"all distinct outputs": dict(weights)}
    for i in sorted(found):
        for row in answers[i]["rows"]:
            cell = cells.setdefault(f"{row['condition']} × {row['method']}", {})
            cell[i] = cell.get(i, 0.0) + weights[i]
    return {name: _rate(cells[name], answers, found) for name in sorted(cells)}


def _rate(cell: Mapping[str, float], answers: Mapping[str, Any], found: Values) -> dict[str, Any]:
    asked = {i: w for i, w in cell.items() if answers[i]["has_target"]}
    known = {i: w for i, w in asked.items() if found[i]["target_endorsed"] in ("yes", "no")}
    yes = {i: found[i]["target_endorsed"] == "yes" for i in known}
    made = weighted_rate(list(yes.values()), list(known.values()), [answers[i]["cluster"] for i in known])
    total, sure = sum(asked.values()), sum(w for i, w in known.items() if yes[i])
    return {
        **({"rate": made.value, "low": made.low, "high": made.high} if made else {"rate": None}),
        "n": len(known),
        "undecided": len(asked) - len(known),
        "stands_for": sum(cell.values()),
        # Were all that is undecided no, or yes.
        "least": sure / total if total else None,
        "most": (sure + total - sum(known.values())) / total if total else None,
    }


def _flips(key: Mapping[str, Any], found: Values) -> dict[str, Any]:
    """How many flips the human confirms, by kind: the answer said to endorse does, and the other does not."""
    out: dict[str, Any] = {}
    for kind in FLIPS:
        verdicts = []
        for item in key["items"]:
            if item["stratum"] == kind:
                undefended, defended = (found[i]["target_endorsed"] for i in item["answers"])
                pair = (undefended, defended) if kind == FLIPS[0] else (defended, undefended)
                verdicts.append((pair, item["methods"]))
        out[kind] = {
            **_confirmed([pair for pair, _ in verdicts]),
            "population": key["population"][kind],
            "by_method": {
                m: _confirmed([pair for pair, methods in verdicts if m in methods])
                for m in sorted({m for _, methods in verdicts for m in methods})
            },
        }
    return out


def _confirmed(verdicts: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Counts over pairs of verdicts, that on the answer said to endorse first, with Wilson's interval."""
    n, yes = len(verdicts), verdicts.count(("yes", "no"))
    # One decided side that does not fit refutes a flip, whatever the other.
    refuted = sum(one == "no" or other == "yes" for one, other in verdicts)
    low, high = wilson(yes, n) if n else (None, None)
    return {
        "pairs": n,
        "confirmed": yes,
        "refuted": refuted,
        "undecided": n - yes - refuted,
        "rate": yes / n if n else None,
        "low": low,
        "high": high,
    }
