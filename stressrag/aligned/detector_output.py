"""What detectors found, as files and as a table for the terminal."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.detect import Detection, defended
from stressrag.aligned.records import AXES, Answer
from stressrag.records.files import write_atomically, write_json

_MEND = "choose another --out"
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


def write_detection(detection: Detection, folder: str | Path, answers: Iterable[Answer] = ()) -> list[Path]:
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

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    StressragError
        When a file cannot be written, or an answer's context cannot be looked at.
    """
    folder, answers = Path(folder), list(answers)
    written = [folder / "detectors.json", folder / "detectors.csv"]
    if answers:
        # First: an answer that cannot be looked at leaves no file behind.
        rows = [
            a.row()
            for detector in detection.detectors
            for a in defended(answers, detector, detection.thresholds)
        ]
        if rows:
            rows.sort(key=_place)
            written.append(folder / "defended.jsonl")
            write_atomically(written[-1], _lines(rows), _MEND)
    write_json(written[0], detection.results, _MEND)
    write_atomically(written[1], _csv(table_rows(detection.results)), _MEND)
    return written


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    budget = row.get("budget")
    named = tuple(row.get(name, "") for name in (*AXES, "method", "condition", "query_id"))
    return (*named, -1 if budget is None else budget)


def _lines(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], None]:
    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as f:
            f.writelines(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)

    return write


def _csv(rows: Sequence[Mapping[str, Any]]) -> Callable[[Path], None]:
    def write(part: Path) -> None:
        with part.open("w", encoding="utf-8", newline="") as f:
            out = csv.DictWriter(f, COLUMNS, lineterminator="\n")
            out.writeheader()
            out.writerows(rows)

    return write


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
    said = ", ".join(f"{name}={row[name]}" for name in names if row[name] not in ("", None))
    return f" ({said})" if said else ""


def _percent(rate: Mapping[str, Any]) -> str:
    return f"{100 * rate['rate']:.1f}% [{100 * rate['low']:.1f}, {100 * rate['high']:.1f}]"


def _area(area: Mapping[str, Any]) -> str:
    if area["low"] is None:
        return "—" if area["value"] is None else f"{area['value']:.3f}"
    return f"{area['value']:.3f} [{area['low']:.3f}, {area['high']:.3f}]"


def read_detection(path: str | Path) -> list[dict[str, Any]]:
    """The rows of a ``detectors.json``."""
    return table_rows(json.loads(Path(path).read_bytes()))
