"""The whole evaluation of some saved answers, and its files."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stressrag.aligned.cells import Cell, Labeler, cells
from stressrag.aligned.check import check, degenerate
from stressrag.aligned.controls import control_rows, exposure_rows
from stressrag.aligned.detector_output import read_detection
from stressrag.aligned.judgments import read_labels
from stressrag.aligned.labels import DEFAULT_RULES
from stressrag.aligned.measures import UNKNOWN, measure, transitions
from stressrag.aligned.read import problems_of, refuse_errors
from stressrag.aligned.records import AXES, CONDITIONS, Answer, is_condition
from stressrag.aligned.utility import utility_rows
from stressrag.aligned.versus import disagreements, versus
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError, nearest
from stressrag.records.files import write_json, write_text
from stressrag.stats.bootstrap import LEVEL, N_RESAMPLES

ALIGNED, TRANSITIONS = "aligned.json", "transitions.csv"
DETAILS = ("comparisons", "controls", "exposure", "utility")
FILES = (ALIGNED, TRANSITIONS, *(f"{d}.json" for d in DETAILS), "report.html", "report.md")


@dataclass(repr=False)
class Evaluation:
    """An aligned evaluation.

    Attributes
    ----------
    rows : list of dict
        What ``aligned.json`` holds: one row per setting, method, budget and label.
    comparisons, controls, exposure, utility : list of dict
        Method against method, removal controls, strata of exposure, clean utility.
    transitions : list of dict
        One row per cell, label and query.
    disagreements : list of str
        Sentences, one for each pair of methods that two labels rank in opposite order.
    notes : list of str
        What a reader should know of the answers: targets that rules cannot tell, labels that are missing.
    labels : list of str
        Names of rules and judges, in order.
    cells : list of Cell
        What was evaluated.
    about : list of str
        What was run, where an aligned run made the answers.
    """

    rows: list[dict[str, Any]]
    comparisons: list[dict[str, Any]]
    controls: list[dict[str, Any]]
    exposure: list[dict[str, Any]]
    utility: list[dict[str, Any]]
    transitions: list[dict[str, Any]]
    disagreements: list[str]
    notes: list[str]
    labels: list[str]
    cells: list[Cell] = field(repr=False, default_factory=list)
    level: float = LEVEL
    detectors: list[dict[str, Any]] = field(default_factory=list)
    about: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"Evaluation({len(self.rows)} rows, labels {', '.join(self.labels)})"

    def write(self, folder: str | Path) -> Path:
        """Write all files of an evaluation into a folder, which is made; earlier ones are replaced."""
        from stressrag.report.aligned import html, markdown

        out = Path(folder)
        mend = "choose another --out"
        texts = {TRANSITIONS: _csv(self.transitions), "report.html": html(self), "report.md": markdown(self)}
        for name, text in texts.items():
            write_text(out / name, text, mend)
        for name in DETAILS:
            write_json(out / f"{name}.json", getattr(self, name), mend)
        write_json(out / ALIGNED, self.rows, mend)
        return out


def score_answers(
    paths: str | Path | Sequence[str | Path] | Sequence[Answer],
    *,
    labels: str | Sequence[str] = DEFAULT_RULES,
    judges: str | Path | Sequence[str | Path] = (),
    detectors: str | Path | None = None,
    pool: str | Sequence[str] = (),
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> Evaluation:
    """Evaluate saved answers under four matched conditions.

    Parameters
    ----------
    paths : path, or sequence of paths or Answer
        As in :func:`~stressrag.aligned.read.read_answers`.
    labels : sequence of str
        Names of label rules (:data:`~stressrag.aligned.labels.RULES`).
    judges : sequence of path
        Files of judge or human labels; each source in them is a further label.
    detectors : path, optional
        A ``detectors.json`` of ``aligned detect``, whose interception the report shows.
    pool : sequence of str
        Settings (:data:`~stressrag.aligned.records.AXES`) over which rows are taken together; by default none
        is. Queries and groups of different values stay different ones.
    seed, n_resamples, level
        Of the intervals.

    Returns
    -------
    Evaluation

    Raises
    ------
    StressragError
        When answers or labels cannot be worked with.
    """
    answers, warnings = load(paths)
    about, run_notes, run_judges, run_detectors = _of_runs(paths)
    if about:  # a run's own answers are no copied files: a defense may do nothing
        warnings = [w for w in warnings if "copied" not in w]
    labels = [labels] if isinstance(labels, str) else labels
    judges = [judges] if isinstance(judges, (str, Path)) else judges
    judges = judges or run_judges
    detectors = detectors or run_detectors
    if not labels and not judges:
        raise StressragError("no label to score by; name rules or files of judge labels")
    rules = [Labeler(name) for name in dict.fromkeys(labels)]
    judged, notes = _judged(judges, answers, {r.name for r in rules})
    every = rules + judged
    answers = pooled(answers, [pool] if isinstance(pool, str) and pool else pool or ())
    attacked, held_out = cells(answers), cells(answers, "utility")
    if not attacked and not held_out:
        raise StressragError(
            "there is no answer to clean or poisoned retrieval to score, only controls or calibration"
        )
    pairs = versus(attacked, every, seed=seed, level=level)
    return Evaluation(
        measure(attacked, every, seed=seed, n_resamples=n_resamples, level=level),
        pairs,
        control_rows(attacked, every, level),
        exposure_rows(attacked, every, level),
        utility_rows(held_out, every, seed=seed, n_resamples=n_resamples, level=level),
        transitions(attacked, every),
        disagreements(pairs),
        [*run_notes, *warnings, *_notes(answers), *notes, *_unknown(answers, judged)],
        [lab.name for lab in every],
        attacked,
        level,
        [] if detectors is None else read_detection(detectors),
        about,
    )


def load(paths: str | Path | Sequence[str | Path] | Sequence[Answer]) -> tuple[list[Answer], list[str]]:
    """Answers from paths, or given as they are; and warnings of what looks wrong with them as a whole."""
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    rows = [a for a in given if isinstance(a, Answer)]
    if (rows and len(rows) < len(given)) or not all(isinstance(p, (str, Path, Answer)) for p in given):
        wrong = next(x for x in given if not isinstance(x, Answer if rows else (str, Path)))
        raise StressragError(
            f"answers are paths or stressrag.Answer, not {type(wrong).__name__}; a dict is made one by"
            " Answer(**row)"
        )
    if rows:
        log = ProblemLog()
        for a in rows:
            if not is_condition(a.condition):
                log.error("answers", None, f"query {a.query_id!r}: no condition {a.condition!r}")
        check(rows, log)
        problems = log.problems()
    else:
        rows, problems = problems_of([p for p in given if isinstance(p, (str, Path))])
    refuse_errors(problems)
    looks = ("swapped", "copied", "unknown field", "empty answer")
    return rows, [str(p) for p in problems if any(word in p.message for word in looks)]


def pooled(answers: Sequence[Answer], axes: Sequence[str]) -> list[Answer]:
    """Answers with some settings taken together, under which queries keep apart by their value."""
    for axis in axes:
        if axis not in AXES:
            raise StressragError(f"no setting {axis!r} to pool over; {nearest(axis, AXES)}")
        if len({getattr(a, axis) for a in answers}) > 1:
            answers = [_pooled(a, axis) for a in answers]
    return list(answers)


def _pooled(a: Answer, axis: str) -> Answer:
    value = getattr(a, axis)
    group = f"{value}:{a.group_id}" if a.group_id else ""
    changed: dict[str, Any] = {axis: "pooled", "query_id": f"{value}:{a.query_id}", "group_id": group}
    return replace(a, **changed)


def _of_runs(paths: Any) -> tuple[list[str], list[str], list[Path], Path | None]:
    """What the folders of aligned runs say of themselves: about, notes, judgments and detectors."""
    about: list[str] = []
    notes: list[str] = []
    judges: list[Path] = []
    detectors: list[Path] = []
    for path in [paths] if isinstance(paths, (str, Path)) else paths:
        folder = Path(path) if isinstance(path, (str, Path)) else None
        if folder is None or not (folder / "run.json").is_file():
            continue
        try:
            run = json.loads((folder / "run.json").read_bytes())
            about += map(str, run.get("about") or ())
            notes += map(str, run.get("notes") or ())
        except (OSError, ValueError, AttributeError, TypeError) as e:
            raise StressragError(f"{folder / 'run.json'}: cannot be read; run the same command again") from e
        judges += [p for p in (folder / "judgments.jsonl",) if p.is_file()]
        detectors += [p for p in (folder / "detectors.json",) if p.is_file()]
    return about, notes, judges, detectors[0] if len(detectors) == 1 else None


def _judged(
    files: Sequence[str | Path], answers: Sequence[Answer], taken: set[str]
) -> tuple[list[Labeler], list[str]]:
    """Labelers of judges and humans, and what is to be said of their coverage."""
    if not files:
        return [], []
    judgments = read_labels(files, [a for a in answers if a.split != "calibration"])
    notes = []
    for name in judgments.sources:
        if name in taken:
            raise StressragError(
                f"a source of labels is called {name!r} like a rule; rename it (field 'source')"
            )
        if judgments.unknown[name]:
            notes.append(f"{name}: {judgments.unknown[name]} labels are of answers that are not here.")
        if judgments.missing[name]:
            notes.append(
                f"{name}: {judgments.missing[name]} distinct answers have no label; they are unknown, not"
                " negative."
            )
    return [Labeler(name, by_key) for name, by_key in judgments.sources.items()], notes


def _notes(answers: Sequence[Answer]) -> list[str]:
    reasons: dict[str, set[tuple[str, ...]]] = {}
    attacked = {(*a.setting, a.query_id): a for a in answers if a.split == "attack"}
    for place, a in attacked.items():
        for why in degenerate(a.target, a.question, a.references) if a.target else ["is missing"]:
            reasons.setdefault(why, set()).add(place)
    out = []
    for why, places in sorted(reasons.items(), key=lambda item: -len(item[1])):
        n, of = len(places), len(attacked)
        so = "they are in no target rate" if why == "is missing" else "their labels are less sure"
        out.append(
            f"In {n} of {of} quer{'y' if of == 1 else 'ies'} the target {why}; {so} (aligned validate names"
            " them)."
        )
    return out


def _unknown(answers: Sequence[Answer], judged: Sequence[Labeler]) -> list[str]:
    """How many distinct answers each judge left open, under the four conditions."""
    distinct = {a.key: a for a in answers if a.split == "attack" and a.condition in CONDITIONS}
    out = []
    for lab in judged:
        counts = Counter(lab.of(a, "target")[1] for a in distinct.values())
        told = ", ".join(f"{counts[why]} {why}" for why in UNKNOWN if counts[why])
        if told:
            out.append(
                f"{lab.name}: of {len(distinct)} distinct answers {told}. A query with an unknown label in"
                " one of its four conditions is left out of the measures; the bounds say what they could be"
                " with it."
            )
    return out


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    stream = io.StringIO()
    names = list(dict.fromkeys(name for r in rows for name in r))
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
