"""Carrying out an aligned run: answers under all conditions, judgments, report; each in files of its own.

``contexts.jsonl`` holds what was retrieved, ``answers/NAME.jsonl`` the answers of a pipeline, joined to it by
``context_id``, ``traces/NAME.jsonl`` every stage with prompt hashes and raw texts, ``attack.jsonl`` the
targets and passages where a generator wrote them, as ``targets=`` reads them. Scoring again asks
nothing, and a pipeline whose settings change is answered again without touching the others.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from stressrag.aligned.generators.answering import Answering, prompt_hash
from stressrag.aligned.generators.base import REFUSED
from stressrag.aligned.pipelines.base import Outcome, Pipeline, run_pipelines, whole
from stressrag.aligned.pipelines.own_prompt import WHOLE
from stressrag.aligned.read import answers_file
from stressrag.aligned.records import CONDITIONS, NO_DEFENSE
from stressrag.aligned.run.asking import Say, answering_of, quiet
from stressrag.aligned.run.contexts import Context, seen
from stressrag.aligned.run.plan import Plan, detector_contexts, make_plan, plan_hash, skeleton
from stressrag.aligned.score import ALIGNED, FILES, Evaluation, score_answers
from stressrag.errors import StressragError
from stressrag.experiment.conditions import digest
from stressrag.records.files import write_json, write_text
from stressrag.records.replacing import BEFORE, LOCK, held, replacing
from stressrag.settings.aligned import AlignedSettings

MEND = "choose another output_dir"


def aligned_run(settings: AlignedSettings, say: Say = quiet) -> tuple[Plan, Evaluation]:
    """Retrieve, answer, judge and score; what is there already is not done again.

    Parameters
    ----------
    settings : AlignedSettings
        Checked settings.
    say : callable
        Told what is being done.

    Raises
    ------
    StressragError
        When something cannot be had or some prompts could not be answered; all answers so far are cached.
    """
    if settings.output_dir:  # before any work
        check_folder(Path(settings.output_dir).expanduser())
    plan = make_plan(settings, say)
    folder = plan.folder
    check_folder(folder)
    with held(folder), replacing(folder, OWN_FILES, ALIGNED, settings.overwrite):
        known = None if settings.overwrite else check_folder(folder)
        return plan, _carried_out(plan, folder, known, say)


def _carried_out(plan: Plan, folder: Path, known: dict[str, Any] | None, say: Say) -> Evaluation:
    """Answers, judgments and report of a plan, in its folder."""
    _prepare(plan, folder, known, say)
    answering = answering_of(plan.settings, plan.generator, say)
    for pipeline in plan.pipelines:
        answer_pipeline(plan, pipeline, folder, answering, say)
    if refused := len(refused_prompts(folder, [p.name for p in plan.pipelines])):
        plan.notes.append(
            f"{refused} prompts were refused by {plan.generator.name}; each counts as an empty reply, and"
            " an empty answer is wrong, not the target, and an abstention."
        )
    for pipeline in plan.pipelines:
        plan.notes += _less_sure(folder, pipeline)
    return evaluate_run(plan, folder, _judge(plan, folder, say), say)


RUN, ATTACK, CONTEXTS = "run.json", "attack.jsonl", "contexts.jsonl"
OWN_FILES: tuple[str, ...] = (
    "answers",
    "traces",
    CONTEXTS,
    ATTACK,
    "config.json",
    RUN,
    "judgments.jsonl",
    "defended.jsonl",
)
_RESULTS = ("detectors.json", "detectors.csv", *FILES)
OWN_FILES += _RESULTS
"""What a run writes; anything else in its folder is the user's."""


def check_folder(folder: Path) -> dict[str, Any] | None:
    """What a folder's ``run.json`` says; ``None``: the folder is new or empty.

    Raises
    ------
    StressragError
        When it holds something else, which is never touched.
    """
    for path in (folder, *folder.parents):
        if path.exists() and not path.is_dir():
            raise StressragError(f"{path} is no folder; {MEND}")
    names = {p.name for p in folder.iterdir()} if folder.exists() else set()
    if names <= {LOCK, BEFORE}:
        return None
    try:
        value = json.loads((folder / RUN).read_bytes())
        return {name: value[name] for name in ("identity", "pipelines")}
    except (ValueError, KeyError, TypeError, OSError) as e:
        # Of a run that was killed, or damaged; a run.json alone may be anybody's.
        if BEFORE in names or (RUN in names and CONTEXTS in names):
            return {"identity": None}
        raise StressragError(f"{folder} is not empty and holds no aligned run; {MEND}") from e


def _prepare(plan: Plan, folder: Path, known: dict[str, Any] | None, say: Say) -> None:
    """The folder with its config and contexts; refused where it holds another run (``known``)."""
    config = {k: v for k, v in asdict(plan.settings).items() if k not in ("cache", "overwrite", "estimate")}
    identity = digest([sorted(c.id + c.condition for c in plan.contexts), plan.generator.identity()])
    if known is not None and known["identity"] != identity:
        why = "other contexts or another generator" if known["identity"] else f"a {RUN} that cannot be read"
        raise StressragError(
            f"{folder} holds a run with {why}; choose another output_dir, or overwrite=true to replace it"
            " (cached answers stay)"
        )
    for pipeline in plan.pipelines:
        if (folder / "answers" / answers_file(pipeline.name)).exists() and not _answered(
            plan, pipeline, folder
        ):
            say(f"{pipeline.name}: other settings than before, so answering again")
            _forget(folder, pipeline)
    stored = {c.id: c for c in plan.contexts}
    write_text(folder / CONTEXTS, "".join(_line(_context_row(c)) for c in stored.values()), MEND)
    if plan.written is not None:
        write_text(folder / ATTACK, "".join(map(_line, plan.written.rows)), MEND)
    write_json(folder / "config.json", config, MEND)
    run = {"identity": identity, "generator": plan.generator.identity(), "about": plan.about}
    run |= {"notes": plan.notes, "pipelines": {p.name: p.settings() for p in plan.pipelines}}
    write_json(folder / RUN, run, MEND)


def _line(row: Any) -> str:
    return whole(json.dumps(row, ensure_ascii=False, sort_keys=False, default=str)) + "\n"


def _context_row(c: Context) -> dict[str, Any]:
    return {"context_id": c.id, "query_id": c.query_id, "passages": [asdict(p) for p in c.passages]}


def jobs_of(plan: Plan, pipeline: Pipeline) -> list[Context]:
    """The contexts that a pipeline answers from: a defense has no controls of its own."""
    every = [c for c in plan.contexts if c.split != "calibration"]
    if pipeline.name == NO_DEFENSE:
        return every
    return [c for c in every if c.condition in CONDITIONS]


def answer_pipeline(plan: Plan, pipeline: Pipeline, folder: Path, answering: Answering, say: Say) -> None:
    """Answer all contexts of a pipeline, unless its answers are there: those of other settings are gone."""
    path = folder / "answers" / answers_file(pipeline.name)
    if path.exists():
        say(f"{pipeline.name}: answered before")
        return
    contexts = jobs_of(plan, pipeline)
    say(f"{pipeline.name}: answering {len(contexts)} contexts")
    questions = [question_of(plan, c) for c in contexts]
    jobs = [(pipeline, q, seen(c)) for q, c in zip(questions, contexts, strict=True)]
    outcomes = run_pipelines(jobs, answering.complete)
    rows, traces = [], []
    for c, o in zip(contexts, outcomes, strict=True):
        method = pipeline.name
        rows.append(_line(replace(skeleton(plan, c, method, o.answer), context_id=c.id).row()))
        traces.append(_line(_trace(c, method, o, answering)))
    _forget(folder, pipeline)
    write_text(folder / "traces" / path.name, "".join(traces), MEND)
    write_text(path, "".join(rows), MEND)
    stamp = {"hash": plan_hash(plan, pipeline), "settings": pipeline.settings()}
    write_json(path.with_suffix(".json"), stamp, MEND)


def _answered(plan: Plan, pipeline: Pipeline, folder: Path) -> bool:
    """Whether the answers of a pipeline are there, with the same settings."""
    path = folder / "answers" / answers_file(pipeline.name)
    if not path.exists() or _stamped(path.with_suffix(".json")) != plan_hash(plan, pipeline):
        return False
    # Refusals that were recorded earlier do not stand where they are to stop a run.
    return plan.settings.on_refusal != "stop" or not refused_prompts(folder, [pipeline.name])


def _forget(folder: Path, pipeline: Pipeline) -> None:
    """Remove the answers of a pipeline and all that rests on them; in the cache they stay."""
    name = answers_file(pipeline.name)
    answers = folder / "answers" / name
    for path in (answers, answers.with_suffix(".json"), folder / "traces" / name):
        path.unlink(missing_ok=True)
    for result in _RESULTS:
        (folder / result).unlink(missing_ok=True)


def refused_prompts(folder: Path, pipelines: Sequence[str]) -> set[str]:
    """The hashes of the prompts that were refused, from the traces of some pipelines."""
    out: set[str] = set()
    for name in pipelines:
        for stage in (s for row in _traces(folder, name, f'"{REFUSED}"') for s in row["stages"]):
            out |= {h for h, end in zip(stage["prompts"], stage["finishes"], strict=False) if end == REFUSED}
    return out


_OFTEN = 0.05  # of the answers


def _less_sure(folder: Path, pipeline: Pipeline) -> list[str]:
    """A sentence for each reason why many answers of a pipeline are less sure."""
    rows = [row for row in _traces(folder, pipeline.name) if row["stages"]]
    cut = sum("length" in row["stages"][-1]["finishes"] for row in rows)
    unmarked = sum(any(note.endswith(WHOLE) for note in row["notes"]) for row in rows)
    mark = pipeline.settings().get("answer_after")
    told = {
        "were cut off at their length limit (max_tokens), so that what they come to is less sure": cut,
        f"hold no {mark!r} and count whole": unmarked,
    }
    return [
        f"{pipeline.name}: {n} of {len(rows)} answers {what}."
        for what, n in told.items()
        if n > _OFTEN * len(rows)
    ]


def _traces(folder: Path, pipeline: str, holding: str = "") -> Iterator[dict[str, Any]]:
    """The traces of a pipeline whose line holds a text; none where they cannot be read."""
    with (
        contextlib.suppress(OSError, ValueError),
        (folder / "traces" / answers_file(pipeline)).open(encoding="utf-8") as lines,
    ):
        yield from (json.loads(x) for x in lines if holding in x)


def _stamped(path: Path) -> str | None:
    """The hash in a pipeline's stamp; ``None`` where there is none that can be read."""
    try:
        return str(json.loads(path.read_bytes())["hash"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def question_of(plan: Plan, c: Context) -> str:
    """The question that a context was retrieved for."""
    return plan.by_id[c.query_id].question


def _trace(c: Context, method: str, o: Outcome, answering: Answering) -> dict[str, Any]:
    """An answer's stages: prompts by hash, replies whole."""
    stages = []
    for stage in o.stages:
        row = stage.row()
        row["prompts"] = [prompt_hash(answering.identity, p) for p in stage.prompts]
        stages.append(row)
    place = {"query_id": c.query_id, "condition": c.condition, "budget": c.budget, "split": c.split}
    return {**place, "method": method, "context_id": c.id, "stages": stages, "notes": list(o.notes)}


def _judge(plan: Plan, folder: Path, say: Say) -> Path | None:
    """Judgments of every distinct answer, where a judge is asked for."""
    if plan.settings.judge.kind is None:
        return None
    from stressrag.aligned.run.judging import judge_answers

    return judge_answers(plan, folder, say)


def evaluate_run(plan: Plan, folder: Path, judged: Path | None, say: Say) -> Evaluation:
    """Score the answers of a run folder and write the report."""
    from stressrag.aligned.detector_output import write_detection
    from stressrag.aligned.read import read_answers

    answers = read_answers([folder])
    detectors = None
    if plan.detection is not None:
        from stressrag.aligned.detect import evaluate

        names = [d.name for d in plan.detection.detectors]
        rates = sorted({c.rate for made in plan.detection.thresholds.values() for c in made})
        write_detection(evaluate(detector_contexts(plan, answers), names, rates), folder)
        detectors = folder / "detectors.json"
    say("scoring")
    # What judging found out belongs to the run as well.
    run = json.loads((folder / RUN).read_bytes())
    refused = len(refused_prompts(folder, [p.name for p in plan.pipelines]))
    write_json(folder / RUN, {**run, "notes": plan.notes, "refused": refused}, MEND)
    evaluation = score_answers(
        [folder],
        labels=plan.settings.labels,
        judges=[judged] if judged else [],
        detectors=detectors,
        seed=plan.settings.seed,
    )
    evaluation.write(folder)
    return evaluation
