"""What an aligned run answers: its collection, queries, contexts, generator and pipelines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from stressrag.aligned.contexts import Context as DetectorContext
from stressrag.aligned.contexts import context_of
from stressrag.aligned.generators.base import Generator
from stressrag.aligned.pipelines.base import Pipeline
from stressrag.aligned.pipelines.none import NoDefense
from stressrag.aligned.pipelines.own_prompt import OwnPrompt, own_prompt
from stressrag.aligned.records import NO_DEFENSE, Answer
from stressrag.aligned.run.asking import Say, answering_of, generator_of, helper_of, quiet
from stressrag.aligned.run.cohort import Attacked, chosen, cohort, unwritten
from stressrag.aligned.run.contexts import Context, clean_contexts, controls, retrieve
from stressrag.aligned.run.defenses import check_options, make_pipelines
from stressrag.aligned.run.writing import Writer, Written
from stressrag.aligned.versus import listed
from stressrag.collection import Collection, load_dataset
from stressrag.errors import StressragError
from stressrag.experiment.conditions import RetrieverSpec, digest, retriever_spec, slug
from stressrag.retrievers.base import Retriever
from stressrag.settings.aligned import AlignedSettings

# Settings that decide how a run is carried out, not what comes of it.
_HOW: tuple[str, ...] = (
    "output_dir",
    "overwrite",
    "cache",
    "concurrency",
    "per_minute",
    "estimate",
    "price_in",
    "price_out",
)
_HOW += ("on_refusal",)


# Settings that came later name a folder only where they are set, so that older runs are found again.
_LATER = ("attack_texts", "writer", "prompts_from", "pipeline_options", "prompt")
_PUBLISHED = ("princeton-nlp/sup-simcse", "spacy")  # models of TrustRAG and RobustRAG


@dataclass
class Plan:
    """A run, with its contexts retrieved and nothing answered.

    Attributes
    ----------
    settings : AlignedSettings
        As asked.
    collection : Collection
        Retrieved from.
    attacked, held_out : list of Attacked
        The attacked queries, and those of the utility split.
    contexts : list of Context
        Clean and poisoned contexts, controls, and those of the utility and calibration splits.
    generator : Generator
        What answers.
    pipelines : list of Pipeline
        ``none`` first.
    detection : Detection or None
        Detectors calibrated on the collection's calibration queries, where it has enough of them.
    judge : Generator or None
        What labels the answers.
    written : Written or None
        The attack's texts where a generator wrote them.
    own : OwnPrompt or None
        The prompt of the user's system.
    with_own : list of str
        The names of the pipelines that answer with it.
    notes : list of str
        What a reader of the report should know.
    """

    settings: AlignedSettings
    collection: Collection
    attacked: list[Attacked]
    held_out: list[Attacked]
    contexts: list[Context]
    generator: Generator
    pipelines: list[Pipeline]
    detection: Any = None
    judge: Generator | None = None
    written: Written | None = None
    own: OwnPrompt | None = None
    with_own: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def about(self) -> list[str]:
        """What was run, and what stands in for what, in sentences."""
        s, g = self.settings, self.generator
        out = []
        if g.stand_in:
            out.append(
                f"{g.name} is a stand-in: it copies spans from the passages and is no language model. Results"
                " show how the evaluation works, not what a model would do."
            )
        budgets = " and ".join(map(str, _budgets(s)))
        n_groups = len({a.group for a in self.attacked})
        out.append(
            f"{len(self.attacked)} queries of {self.collection.name} attacked by {s.attack} with {budgets}"
            f" poison {'passage' if budgets == '1' else 'passages'} each, in {n_groups}"
            f" {'group' if n_groups == 1 else 'groups'}; retriever"
            f" {s.retriever.label}, {s.k} passages, answers by {g.name}."
        )
        out += self.written.about if self.written else []
        out += _own_prompt(self)
        for p in self.pipelines:
            said = p.settings()
            out += [
                f"{p.name}: {name.replace('_', ' ')} {said[name]} in the place of the published one."
                for name in ("embedding_model", "phrase_model")
                if name in said and not str(said[name]).lower().startswith(_PUBLISHED)
            ]
            if "prompts_file" in said:
                out.append(
                    f"{p.name}: prompts of {said['prompts']}, {said['prompts_file']} (SHA-256"
                    f" {said['prompts_file_sha256'][:16]}…)."
                )
            if said.get("weights"):
                out.append(f"{p.name}: words of the question weigh {said['weights']}.")
        return out

    @cached_property
    def by_id(self) -> dict[str, Attacked]:
        """The queries by their id."""
        return {a.query_id: a for a in (*self.attacked, *self.held_out)}

    @cached_property
    def _calibration(self) -> dict[str, str]:
        return dict(zip(self.collection.calibration.ids, self.collection.calibration.texts, strict=True))

    def calibration_text(self, query_id: str) -> str:
        """The text of a calibration query."""
        return self._calibration[query_id]

    @property
    def folder(self) -> Path:
        """Where the run's files go."""
        s = self.settings
        if s.output_dir:
            return Path(s.output_dir).expanduser()
        usual = asdict(AlignedSettings())
        what = {k: v for k, v in asdict(s).items() if k not in _HOW and not (k in _LATER and v == usual[k])}
        name = slug("-".join([self.collection.name, s.attack, s.retriever.label, self.generator.name]))
        return Path("runs") / f"aligned-{name}-{digest([what, self.generator.identity()])[:10]}"


def make_plan(settings: AlignedSettings, say: Say = quiet) -> Plan:
    """Load, retrieve and calibrate.

    Parameters
    ----------
    settings : AlignedSettings
        Checked settings.
    say : callable
        Told what is being done.

    Raises
    ------
    StressragError
        When the collection, its targets, the generator or a pipeline cannot be had.
    """
    s = settings
    check_options(s)
    # All that can be wrong with the settings is found before the long work.
    generator = generator_of(s.generator)
    own = own_prompt(**asdict(s.prompt))
    judge = helper_of(s, "judge", generator) if s.judge.kind else None
    writer = helper_of(s, "writer", generator) if s.attack_texts == "generate" else None
    d = s.dataset
    say(f"loading {d.name}")
    collection = load_dataset(
        d.name, split=d.split, path=d.path, corpus=d.corpus, queries=d.queries, qrels=d.qrels
    )
    written = None
    if writer is not None:
        everyone = unwritten(collection, file=s.targets, group_size=s.group_size)
    else:
        everyone = cohort(s.attack, collection, file=s.targets, group_size=s.group_size, anchor=s.anchor)
    attacked = chosen(everyone, s.queries)
    taken = {a.query_id for a in attacked}
    if writer is not None:
        written = _write(s, generator, writer, attacked, own, say)
        attacked = written.attacked
    held_out = [a for a in everyone if a.query_id not in taken and a.references][: s.utility]
    say(f"fitting {s.retriever.label}")
    retriever = build(retriever_spec(s)).fit(collection.corpus)
    contexts = retrieve(retriever, collection, attacked, _budgets(s), s.k, say)
    if s.controls:
        split_knowledge = s.attack == "split_knowledge"
        contexts += [x for c in contexts if c.condition == "poisoned" for x in controls(c, split_knowledge)]
    asked = [(a.query_id, a.question) for a in held_out]
    contexts += clean_contexts(retriever, collection, asked, s.k, "utility") if asked else []
    calibration = list(zip(collection.calibration.ids, collection.calibration.texts, strict=True))
    contexts += clean_contexts(retriever, collection, calibration, s.k, "calibration") if calibration else []
    plan = Plan(
        s, collection, attacked, held_out, contexts, generator, [], judge=judge, written=written, own=own
    )
    plan.notes += written.notes if written else []
    plan.detection = _detection(plan)
    plan.pipelines = make_pipelines(plan)
    _note(plan)
    return plan


def _write(
    s: AlignedSettings, generator: Generator, writer: Generator, todo: Sequence[Attacked],
    own: OwnPrompt | None, say: Say,
) -> Written:  # fmt: skip
    """Have targets and passages written."""
    writing = answering_of(s, writer, say)
    checking = writing if s.writer.check == "writer" else answering_of(s, generator, say)
    made = Writer(
        writing, checking, words=s.writer.words, tries=s.writer.tries,
        undefended=NoDefense(s.max_tokens, own),
        dry=s.estimate, say=say,
    )  # fmt: skip
    return made.write(todo, max(_budgets(s)))


def _budgets(s: AlignedSettings) -> Sequence[int]:
    return [1] if s.attack == "split_knowledge" else s.budgets


def build(spec: RetrieverSpec) -> Retriever:
    """A retriever of a specification, hybrids included, not fitted."""
    if not spec.components:
        return spec.build()
    from stressrag.retrievers.hybrid import Hybrid

    return Hybrid([c.build() for c in spec.components], **dict(spec.parameters))


def _detection(plan: Plan) -> Any:
    """Score detectors calibrated on the calibration queries; ``None`` where there are too few."""
    from stressrag.aligned.detect import evaluate

    rows = [c for c in detector_contexts(plan) if c.split != "check"]
    if not any(c.split == "calibration" for c in rows):
        return None
    names = list(dict.fromkeys(["min_score", "gap", "dispersion", plan.settings.detector]))
    rates = sorted({1, 5, 10, 20, plan.settings.detector_rate})
    try:
        return evaluate(rows, names, rates)
    except StressragError as e:
        plan.notes.append(f"Detectors are not available: {e}")
        return None


def detector_contexts(plan: Plan, answers: Sequence[Answer] = ()) -> list[DetectorContext]:
    """The undefended contexts as detectors see them; with answers, which of those are target-positive."""
    from stressrag.aligned.labels import holds_target

    def endorsed(a: Answer) -> bool | None:
        return holds_target("endorsed", a.answer, a.target, a.question, a.references)

    said = {(a.query_id, a.condition, a.budget, a.split): a for a in answers if a.method == NO_DEFENSE}
    out = []
    for c in plan.contexts:
        a = said.get((c.query_id, c.condition, c.budget, c.split)) or skeleton(plan, c)
        made = context_of(replace(a, context=c.passages), endorsed if a.answer else None)
        out += [made] if made else []
    return out


def skeleton(plan: Plan, c: Context, method: str = NO_DEFENSE, answer: str = "") -> Answer:
    """The row of an answer from a context."""
    known = plan.by_id
    a = known.get(c.query_id)
    s = plan.settings
    attacked = c.split == "attack"
    return Answer(
        c.query_id, a.question if a else plan.calibration_text(c.query_id), answer, c.condition, method,
        dataset=plan.collection.name, retriever=s.retriever.label, victim=plan.generator.name,
        attack=s.attack, budget=c.budget, split=c.split,
        group_id=a.group if a and attacked else "", target=a.target if a and attacked else None,
        references=a.references if a else (), reference_source=a.reference_source if a else "",
    )  # fmt: skip


def _note(plan: Plan) -> None:
    """What of the run limits its results."""
    s = plan.settings
    if s.utility and not plan.held_out and s.attack != "split_knowledge":
        plan.notes.append(
            "No clean utility: every query with a right answer is attacked; queries=100, say, holds others"
            " back."
        )


def _own_prompt(plan: Plan) -> list[str]:
    """Which answers come from a prompt of the user's own, and which do not."""
    s, own = plan.settings.prompt, plan.own
    if own is None:
        return []
    digests = {"instruction": own.instruction, "template": own.template}
    parts = [
        f"{name} of {path} (SHA-256 {hashlib.sha256(digests[name].encode()).hexdigest()[:16]}…)"
        for name in digests
        if (path := getattr(s, name))
    ]
    parts += [f"answers are what follows {own.answer_after!r}"] if own.answer_after else []
    others = [p.name for p in plan.pipelines if p.name not in plan.with_own]
    out = [f"Prompt of your own for {listed(plan.with_own)}: {', '.join(parts)}."]
    if others:
        out.append(
            f"{listed(others)} answer with prompts of their own: what they prevent and introduce is of prompt"
            " and defense together."
        )
    return out


def plan_hash(plan: Plan, pipeline: Pipeline) -> str:
    """What the answers of a pipeline depend on."""
    what = [
        pipeline.settings(),
        plan.generator.identity(),
        sorted(c.id + c.condition for c in plan.contexts if c.split != "calibration"),
    ]
    return hashlib.sha256(json.dumps(what, sort_keys=True, default=str).encode()).hexdigest()
