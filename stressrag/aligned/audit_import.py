"""Reading what annotators saved from an audit's page, and writing what they agree on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.audit import KEY, PAGE
from stressrag.aligned.audit_key import read_key
from stressrag.aligned.audit_results import UNRESOLVED, Values, consensus, results
from stressrag.aligned.judgments import FIELDS, label_value, refuse
from stressrag.collection.json_text import NotJson, parse_file
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError, brief, line_of
from stressrag.records.files import json_of, write_together

LABELS, AGREEMENT = "human_labels.jsonl", "agreement.json"
_ALLOWED = ("yes", "no", "uncertain")
_SHOWN = 5


def audit_import(
    folder: str | Path,
    labels: Sequence[str | Path],
    *,
    adjudication: str | Path | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Read annotators' files, write the consensus and what it says.

    Parameters
    ----------
    folder : path
        Of the export; its key file is read.
    labels : sequence of path
        What each annotator's page saved.
    adjudication : path, optional
        A file of the same form with values for answers on which annotators differ.
    out : path, optional
        Takes the consensus, rows that :func:`~stressrag.aligned.judgments.read_labels` reads; by default
        ``human_labels.jsonl`` in ``folder``. ``agreement.json`` is written beside it.
    overwrite : bool
        Whether files that are there may be replaced.

    Returns
    -------
    dict
        What ``agreement.json`` holds: ``annotators``, ``labeled_twice_differently`` (ids of one answer in
        several pairs) and all of :func:`~stressrag.aligned.audit_results.results`.

    Raises
    ------
    StressragError
        For everything that is wrong with the files, all at once.
    """
    if not labels:
        raise StressragError("no labels to import; give the files that the page saved")
    target = Path(folder) / LABELS if out is None else Path(out)
    report = target.with_name(AGREEMENT)
    read = [Path(folder) / KEY, Path(folder) / PAGE, *map(Path, labels)]
    read += [] if adjudication is None else [Path(adjudication)]
    # --overwrite is for the files of an earlier import, never for what this one rests on.
    if {target.resolve(), report.resolve()} & {p.resolve() for p in read} or target == report:
        raise StressragError(f"{target} (or {AGREEMENT} beside it) is needed itself; choose another --out")
    for path in (target, report):
        if path.exists() and not overwrite:
            raise StressragError(f"{path} is there already; choose another --out or add --overwrite")
    key = read_key(Path(folder))
    log = ProblemLog()
    said: dict[str, Values] = {}
    notes: dict[str, dict[str, str]] = {}
    for path in map(Path, labels):
        name, values, noted = _read(path, key, log, complete=True)
        if name in said:
            log.error(str(path), None, f"a second file by {brief(name)}; each annotator has one")
        said[name], notes[name] = values, noted
    decided: Values = {}
    if adjudication is not None:
        decided = _read(Path(adjudication), key, log, complete=False)[1]
        _check_adjudication(Path(adjudication), decided, said, log)
    refuse(log)
    found = consensus(list(said.values()), decided)
    rows, torn = _rows(key, found, notes)
    result = {**results(key, said, decided, found), "labeled_twice_differently": torn}
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    write_together({report: json_of(result), target: "".join(lines)}, "choose another --out")
    return result


def _read(
    path: Path, key: Mapping[str, Any], log: ProblemLog, complete: bool
) -> tuple[str, Values, dict[str, str]]:
    """The annotator, labels and notes of one file; what is wrong goes to the log."""
    file, name = str(path), path.stem
    try:
        value = parse_file(path)
    except NotJson as e:
        log.error(file, None, str(e))
        return name, {}, {}
    if not isinstance(value, dict) or not isinstance(value.get("labels"), dict):
        log.error(file, None, "no labels file of the audit page: it has no 'labels'")
        return name, {}, {}
    if value.get("packet") != key["packet"]:
        log.error(
            file, None, f"belongs to packet {brief(value.get('packet'))}, the key to {brief(key['packet'])}"
        )
        return name, {}, {}
    if isinstance(value.get("annotator"), str) and value["annotator"].strip():
        name = line_of(" ".join(value["annotator"].split()))
    answers = key["answers"]
    _tell(log, file, "unknown answers", [i for i in value["labels"] if i not in answers])
    out: Values = {}
    missing = []
    for i, about in answers.items():
        given = value["labels"].get(i, {})
        if not isinstance(given, dict):
            log.error(file, None, f"the labels of {line_of(i)} are no object")
            continue
        for field in FIELDS:
            if given.get(field) is None:
                missing.append(f"{i} {field}")
                continue
            label = label_value(given[field])
            allowed: tuple[str, ...] = _ALLOWED
            if field == "target_endorsed" and not about["has_target"]:
                allowed = ("not_applicable",)
            if label in allowed:
                out.setdefault(i, {})[field] = str(label)
            else:
                told = brief(given[field])
                log.error(file, None, f"{field} of {i} is {told}; may be {', '.join(allowed)}")
        _tell(log, file, f"unknown fields of {i}", [f for f in given if f not in FIELDS])
    if complete:
        _tell(log, file, "not labeled", missing)
    noted = value.get("notes")
    notes = {k: v for k, v in noted.items() if isinstance(v, str)} if isinstance(noted, dict) else {}
    return name, out, notes


def _tell(log: ProblemLog, file: str, what: str, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        shown = ", ".join(line_of(n) for n in names[:_SHOWN])
        log.error(file, None, f"{what} ({len(names)}): {shown}{more}")


def _check_adjudication(path: Path, decided: Values, said: Mapping[str, Values], log: ProblemLog) -> None:
    """An adjudicated value must not go against what all annotators say."""
    for i, values in decided.items():
        for field, label in values.items():
            given = {v[i][field] for v in said.values() if field in v.get(i, {})}
            if len(given) == 1 and given != {label}:
                log.error(
                    str(path), None, f"{field} of {i} is {label}, but the annotators agree on {given.pop()}"
                )


def _rows(
    key: Mapping[str, Any], found: Values, notes: Mapping[str, Mapping[str, str]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows of the labels file, and the answers that were shown more than once and labeled differently.

    In flips mode one undefended answer may be in several pairs; what is said of it twice and differently is
    no label.
    """
    by_key: dict[str, list[str]] = {}
    for i in sorted(found):
        by_key.setdefault(key["answers"][i]["key"], []).append(i)
    rows, torn = [], []
    for output, ids in sorted(by_key.items()):
        labels = {f: {found[i][f] for i in ids} - {UNRESOLVED} for f in FIELDS}
        if any(len(given) > 1 for given in labels.values()):
            torn += ids
        known = {f: next(iter(given)) for f, given in labels.items() if len(given) == 1}
        told = [f"{name}: {noted[i]}" for i in ids for name, noted in notes.items() if noted.get(i)]
        row: dict[str, Any] = {"key": output, "source": "human", **known}
        if told:
            row["rationale"] = "\n".join(told)
        if known:
            rows.append(row)
    return rows, torn
