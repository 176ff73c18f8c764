"""The pipelines of a run, made with the options that its settings give them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.pipelines.base import Pipeline
from stressrag.aligned.pipelines.contract import check_pipeline
from stressrag.aligned.pipelines.registry import (
    default_of,
    get_pipeline,
    is_built_in,
    option_names,
    pipeline_factory,
)
from stressrag.aligned.pipelines.upstream import RobustPrompts, TrustPrompts
from stressrag.aligned.records import NO_DEFENSE, Passage
from stressrag.aligned.run.contexts import seen
from stressrag.errors import StressragError, nearest
from stressrag.settings.aligned import AlignedSettings
from stressrag.text.index import TermIndex
from stressrag.text.tokens import get_tokenizer

_MAX_TOKENS = ("none", "caution", "keyword_prompt", "overlap", "near_duplicate", "keyword_agg", "detector")
_OWN = ("none", "caution", "overlap", "near_duplicate", "detector")  # answer with a prompt of the user's own
_PROMPTS = {"keyword_agg": "robustrag", "keyword_prompt": "robustrag", "trustrag": "trustrag"}
_SET = {  # options of built-in pipelines that have a setting of their own
    "max_tokens": "max_tokens",
    "own": "prompt.instruction, prompt.template or prompt.answer_after",
    "index": "bm25.tokenizer",
    "prompts_from": "prompts_from.robustrag or prompts_from.trustrag",
    ("overlap", "tau"): "overlap_tau",
    ("keyword_agg", "phrase_model"): "phrases",
    ("trustrag", "embed"): "embedder",
    ("detector", "detector"): "detector",
    ("detector", "threshold"): "detector_rate",
    ("detector", "rate"): "detector_rate",
}


def names_of(s: AlignedSettings) -> list[str]:
    """The pipelines that are asked for, each once and the undefended system first."""
    return [NO_DEFENSE, *(n for n in dict.fromkeys(s.pipeline) if n != NO_DEFENSE)]


def check_options(s: AlignedSettings) -> dict[str, dict[str, Any]]:
    """The further options of each pipeline, by its name in ``pipeline=``.

    A pipeline of the user's own goes by its import path, its module, its class or its ``name``.

    Raises
    ------
    StressragError
        When there is no such pipeline, or it takes no such option.
    """
    names = names_of(s)
    known = {spoken: name for name in names for spoken in _spoken(name)}
    out: dict[str, dict[str, Any]] = {}
    for spoken, options in s.pipeline_options.items():
        at = f"pipeline_options.{spoken}"
        if spoken not in known:
            raise StressragError(
                f"{at}: no such pipeline in pipeline={','.join(names)}; {nearest(spoken, known)}"
            )
        if not isinstance(options, Mapping):
            raise StressragError(f"{at}={options}: options have names, such as {at}.NAME={options}")
        name = known[spoken]
        takes = option_names(name)
        for option in options:
            if own := _SET.get(option, _SET.get((name, option))) if is_built_in(name) else None:
                raise StressragError(f"{at}.{option}: set {own} instead")
            if takes is not None and option not in takes:
                raise StressragError(f"{at}: no option {option!r}; {nearest(str(option), takes)}")
            _check_number(f"{at}.{option}", name, option, options[option])
        out.setdefault(name, {}).update(options)
    for name in names:  # before the long work as well
        if folder := _checkout(s, name):
            (RobustPrompts if _PROMPTS[name] == "robustrag" else TrustPrompts)(folder)
    return out


def _check_number(at: str, name: str, option: str, value: Any) -> None:
    """Refuse a text where the option is a number by default, which constructors seldom look at."""
    usual = default_of(name, option)
    number = isinstance(usual, int | float) and not isinstance(usual, bool)
    if number and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise StressragError(f"{at}={value}: must be a number, such as {usual}")


def _checkout(s: AlignedSettings, name: str) -> Path | None:
    """The folder from which a pipeline's prompts are to be read."""
    folder = getattr(s.prompts_from, _PROMPTS[name]) if name in _PROMPTS else None
    return Path(folder).expanduser() if folder else None


def _spoken(name: str) -> list[str]:
    """What a pipeline may be called in ``pipeline_options``."""
    factory = pipeline_factory(name)
    module, _, attribute = name.partition(":")
    own = getattr(factory, "name", "")
    found = [name, attribute, module.rpartition(".")[2] if attribute else "", own]
    return [n for n in found if isinstance(n, str) and n]


def make_pipelines(plan: Any) -> list[Pipeline]:
    """The pipelines of a plan, the undefended system first; a detector without calibration is noted."""
    s: AlignedSettings = plan.settings
    further = check_options(s)
    out: list[Pipeline] = []
    for name in names_of(s):
        options = _options(plan, name)
        if options is None:
            plan.notes.append("Pipeline detector is not available: no clean queries to calibrate on.")
            continue
        out.append(get_pipeline(name, **{**options, **further.get(name, {})}))
        _check_name(out)
        plan.with_own += [out[-1].name] if "own" in options else []
        if not is_built_in(name):
            check_pipeline(out[-1], name, _example(plan))
    return out


def _example(plan: Any) -> tuple[str, Sequence[Passage]]:
    """A question with its context, to try a pipeline on."""
    c = next(c for c in plan.contexts if c.split == "attack")
    return plan.by_id[c.query_id].question, seen(c)


def _options(plan: Any, name: str) -> dict[str, Any] | None:
    """What settings of their own say of a pipeline; ``None`` where it cannot be had."""
    s: AlignedSettings = plan.settings
    options: dict[str, Any] = {}
    if name in _MAX_TOKENS or (
        not is_built_in(name) and "max_tokens" in (option_names(name, named=True) or ())
    ):
        options["max_tokens"] = s.max_tokens
    if plan.own and (
        name in _OWN or (not is_built_in(name) and "own" in (option_names(name, named=True) or ()))
    ):
        options["own"] = plan.own
    if name == "overlap":
        tokenizer = get_tokenizer(s.bm25.tokenizer)
        options["index"] = TermIndex.from_texts(plan.collection.corpus.texts, tokenizer)
        options["tau"] = s.overlap_tau
    if name == "keyword_agg" and s.phrases:
        options["phrase_model"] = s.phrases
    if name == "trustrag":
        options |= {"answer_tokens": s.max_tokens, "consolidation_tokens": s.max_tokens}
        options |= {"embed": s.embedder} if s.embedder else {}
    if folder := _checkout(s, name):
        options["prompts_from"] = folder
    if name == "detector":
        threshold = _threshold(plan)
        if threshold is None:
            return None
        options |= {"detector": s.detector, "threshold": threshold, "rate": s.detector_rate}
    return options


def _check_name(pipelines: Sequence[Pipeline]) -> None:
    """Refuse a name that is taken, that of undefended answers, or that no file could have."""
    name = pipelines[-1].name
    if name in [p.name for p in pipelines[:-1]]:
        raise StressragError(f"two pipelines are called {name!r}; give one another name")
    if not re.fullmatch(r"\w[\w:@%.+ -]{0,79}", name):
        raise StressragError(
            f"pipeline name {name[:80]!r}: letters, digits and _ : @ % . + - only, 80 at most"
        )


def _threshold(plan: Any) -> float | None:
    if plan.detection is None:
        return None
    for (_, name), made in plan.detection.thresholds.items():
        if name == plan.settings.detector:
            return next(float(c.threshold) for c in made if c.rate == plan.settings.detector_rate)
    return None
