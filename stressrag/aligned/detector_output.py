"""What detectors found, as files and as a table for the terminal."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.detect import Detection, defended
from stressrag.aligned.records import AXES, Answer
from stressrag.aligned.shape import mismatch
from stressrag.collection.json_text import read_json
from stressrag.errors import StressragError, brief, line_of
from stressrag.records.files import json_of, write_together

_MEND = "choose another --out"
FILES = ("detectors.json", "detectors.csv", "defended.jsonl")
COLUMNS = (
    *(*AXES, "budget", "occupancy", "detector", "rate", "threshold", "n", "flagged", "flagged_rate"),
    *("flagged_low", "flagged_high", "denominator", "counted", "intercepted", "interception"),
    *("interception_low", "interception_high", "auroc", "auroc_low", "auroc_high", "auroc_same_queries"),
    *("auroc_same_queries_low", "auroc_same_queries_high", "median_poisoned", "median_check"),
    *("median_clean", "n_calibration", "n_unique", "observed", "n_check", "realized", "realized_low"),
    "realized_high",
)
_COPIED = (
    *("budget", "occupancy", "detector", "n", "denominator"),
    *("median_poisoned", "median_check", "median_clean"),
)


def write_detection(
    detection: Detection,
    folder: str | Path,
    answers: Iterable[Answer] = (),
    rates: Sequence[int] | None = None,
) -> list[Path]:
    """Write ``detectors.json``, ``detectors.csv`` and, where there are answers, ``defended.jsonl``.

    Parameters
    ----------
    detection : Detection
        What was found.
    folder : path
        Made where it is not there; files of these names are replaced.
    answers : iterable of Answer
        Undefended answers, of which those of flagged contexts become abstentions; see
        :func:`~stressrag.aligned.detect.defended`.
    rates : sequence of int, optional
        Of the answers; by default the lowest that was evaluated, so that there is one method a detector.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    StressragError
        When a file cannot be written, an answer's context cannot be looked at, or a rate was not evaluated.
    """
    folder, answers = Path(folder), list(answers)
    evaluated = detection.results["rates"]
    for rate in rates or ():
        if rate not in evaluated:
            raise StressragError(
                f"no answers at a false-positive rate of {rate}%, which was not evaluated; choose from "
                + ", ".join(map(str, evaluated))
            )
    texts = {
        folder / FILES[0]: json_of(detection.results),
        folder / FILES[1]: _csv(table_rows(detection.results)),
    }
    rows = [
        a.row()
        for detector in detection.detectors
        for a in defended(answers, detector, detection.thresholds, rates=rates or evaluated[:1])
    ]
    if rows:
        rows.sort(key=_place)
        texts[folder / FILES[2]] = "".join(
            json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows
        )
    write_together(texts, _MEND)
    return list(texts)


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    budget = row.get("budget")
    named = tuple(row.get(name, "") for name in (*AXES, "method", "condition", "query_id"))
    return (*named, -1 if budget is None else budget)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    out = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    return stream.getvalue()


def table_rows(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One flat row for each cell, occupancy, detector and rate, with the columns of :data:`COLUMNS`."""
    calibrated = {
        (c["dataset"], c["retriever"], c["arm"], c["detector"], t["rate"]): (c, t)
        for c in results["calibrations"]
        for t in c["thresholds"]
    }
    out = []
    for cell in results["cells"]:
        for at in cell["rates"]:
            c, t = calibrated[cell["dataset"], cell["retriever"], cell["arm"], cell["detector"], at["rate"]]
            row = {name: cell[name] for name in (*AXES, *_COPIED)}
            row |= {"rate": at["rate"], "threshold": at["threshold"], "flagged": at["flagged"]["count"]}
            row |= _interval("flagged", at["flagged"], "flagged_rate")
            row |= {"counted": at["intercepted"]["n"], "intercepted": at["intercepted"]["count"]}
            row |= _interval("interception", at["intercepted"], "interception")
            for name in ("auroc", "auroc_same_queries"):
                row |= {name: cell[name]["value"], f"{name}_low": cell[name]["low"]}
                row[f"{name}_high"] = cell[name]["high"]
            row |= {"n_calibration": c["n"], "n_unique": c["n_unique"], "n_check": c["n_check"]}
            row |= {"observed": t["observed"]} | _interval("realized", t["realized"], "realized")
            out.append(row)
    return out


def _interval(name: str, rate: Mapping[str, Any], value: str) -> dict[str, Any]:
    return {value: rate["rate"], f"{name}_low": rate["low"], f"{name}_high": rate["high"]}


def read_detection(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a ``detectors.json`` over all contexts, whatever their occupancy.

    Parameters
    ----------
    path : path
        Written by :func:`write_detection`; everything in it is checked.

    Returns
    -------
    list of dict
        As :func:`table_rows` makes them.

    Raises
    ------
    StressragError
        When it cannot be read, or is not as it was written.
    """
    path = Path(path)
    results = read_json(path)
    wrong = mismatch(results, _SCHEMA) or _contradiction(results)
    if wrong:
        raise StressragError(f"{path} is no detectors.json of aligned detect: {wrong}")
    return [r for r in table_rows(results) if r["occupancy"] is None]


def _contradiction(results: Mapping[str, Any]) -> str | None:
    """What is of the right kind and yet cannot be."""
    calibrated = set()
    for i, c in enumerate(results["calibrations"]):
        for t in c["thresholds"]:
            calibrated.add((c["dataset"], c["retriever"], c["arm"], c["detector"], t["rate"]))
            if wrong := _no_share(t["realized"], "rate"):
                return f"calibrations[{i}]: realized, {wrong}"
    for i, cell in enumerate(results["cells"]):
        for name in ("auroc", "auroc_same_queries"):
            if wrong := _no_share(cell[name], "value"):
                return f"cells[{i}]: {name}, {wrong}"
        for at in cell["rates"]:
            for name in ("flagged", "intercepted"):
                if wrong := _no_share(at[name], "rate"):
                    return f"cells[{i}]: {name}, {wrong}"
            place = (cell["dataset"], cell["retriever"], cell["arm"], cell["detector"], at["rate"])
            if place not in calibrated:
                said = f"{brief(cell['detector'])} at {at['rate']}%"
                return f"cells[{i}]: no threshold of {said} is among the calibrations"
        if not all(x is None or x <= _MOST for x in (cell["budget"], cell["occupancy"])):
            return f"cells[{i}]: budget or occupancy is above {_MOST}"
    return None


def _no_share(share: Mapping[str, Any], value: str) -> str | None:
    ends = {name: share[name] for name in (value, "low", "high")}
    for name, x in ends.items():
        if x is not None and not 0 <= x <= 1:
            return f"{name}: {brief(x)} is no share from 0 to 1"
    if value == "rate" and len({x is None for x in ends.values()}) > 1:
        return f"{value} and its interval: some are null and some are not"
    return None


_MOST = 10**9
_TEXT: dict[str, Any] = {"type": "string"}
_COUNT: dict[str, Any] = {"type": "integer", "minimum": 0}
_REAL: dict[str, Any] = {"type": ["number", "null"]}


def _table(required: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": dict(required)}


def _list(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": entry}


_RATE = _table({"count": _COUNT, "n": _COUNT, "rate": _REAL, "low": _REAL, "high": _REAL})
_AREA = _table({"value": _REAL, "low": _REAL, "high": _REAL})
_NOMINAL = {"rate": {"type": "integer", "minimum": 1}, "threshold": {"type": "number"}}
_SCHEMA = _table(
    {
        "calibrations": _list(
            _table(
                {
                    **dict.fromkeys(("dataset", "retriever", "arm", "detector"), _TEXT),
                    **dict.fromkeys(("n", "n_unique", "n_check"), _COUNT),
                    "thresholds": _list(
                        _table({**_NOMINAL, "observed": {"type": "number"}, "realized": _RATE})
                    ),
                }
            )
        ),
        "cells": _list(
            _table(
                {
                    **dict.fromkeys((*AXES, "detector", "denominator"), _TEXT),
                    **{name: {"type": ["integer", "null"], "minimum": 0} for name in ("budget", "occupancy")},
                    "n": _COUNT,
                    **dict.fromkeys(("median_poisoned", "median_check", "median_clean"), _REAL),
                    **dict.fromkeys(("auroc", "auroc_same_queries"), _AREA),
                    "rates": _list(_table({**_NOMINAL, "flagged": _RATE, "intercepted": _RATE})),
                }
            )
        ),
    }
)


def detection_table(results: Mapping[str, Any]) -> str:
    """The results in lines for a terminal: thresholds, then each cell."""
    out = [f"note: {note}" for note in results["notes"]]
    out += [f"left out: {name} ({why})" for name, why in results["left_out"].items()]
    for group in _grouped(results["calibrations"], ("dataset", "retriever", "arm")):
        c = group[0]
        out.append(
            f"\nthresholds{_said(c, ('dataset', 'retriever', 'arm'))}: {c['n']} calibration contexts, "
            f"{c['n_check']} check contexts ({c['check']})"
        )
        head = " ".join(f"{f'{rate}%: threshold, realized':>30}" for rate in results["rates"])
        out.append(f"  {'detector':14} {'unique':>6} {head}")
        for row in group:
            cells = [f"{t['threshold']:.4g}  {_percent(t['realized'])}".rjust(30) for t in row["thresholds"]]
            out.append(f"  {row['detector']:14} {row['n_unique']:6d} " + " ".join(cells))
    for group in _grouped(results["cells"], (*AXES, "budget")):
        first = group[0]
        out.append(
            f"\npoisoned{_said(first, (*AXES, 'budget'))}: {first['n']} contexts; intercepted among "
            + first["denominator"]
        )
        head = " ".join(f"{f'{rate}%':>9}" for rate in results["rates"])
        out.append(f"  {'detector':14} {'poison':>6} {'median':>9} {'clean':>9} {head}  AUROC")
        for row in group:
            hits = " ".join(
                f"{at['intercepted']['count']}/{at['intercepted']['n']}".rjust(9) for at in row["rates"]
            )
            held = "all" if row["occupancy"] is None else str(row["occupancy"])
            out.append(
                f"  {row['detector']:14} {held:>6} {row['median_poisoned']:9.4g} {row['median_check']:9.4g} "
                f"{hits}  {_area(row['auroc'])}"
            )
    return "\n".join(out).strip("\n")


def _grouped(rows: Iterable[Mapping[str, Any]], names: Sequence[str]) -> list[list[Mapping[str, Any]]]:
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(groups.values())


def _said(row: Mapping[str, Any], names: Sequence[str]) -> str:
    said = ", ".join(f"{name}={line_of(row[name])}" for name in names if row[name] not in ("", None))
    return f" ({said})" if said else ""


def _percent(rate: Mapping[str, Any]) -> str:
    return f"{100 * rate['rate']:.1f}% [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _area(area: Mapping[str, Any]) -> str:
    if area["low"] is None:
        return "—" if area["value"] is None else f"{area['value']:.3f}"
    return f"{area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"
