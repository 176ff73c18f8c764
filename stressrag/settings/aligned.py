"""The typed settings of ``aligned run``; ``conf/aligned.yaml`` has the help texts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stressrag.errors import StressragError, nearest
from stressrag.settings.compose import check_retriever, check_tokenizers, check_values, compose_root, reason
from stressrag.settings.overrides import LISTS, Wish, hydra_words, parse, parse_value
from stressrag.settings.places import ALIGNED
from stressrag.settings.schema import BOUNDS, CHOICES, TOKENIZERS, Retrieving


@dataclass
class GeneratorSettings:
    kind: str = "extractive"
    model: str | None = None
    base_url: str | None = None
    key_from: str = "OPENAI_API_KEY"
    revision: str | None = None
    target: str | None = None
    timeout: float = 120.0
    context: int = 4096
    threads: int | None = None


@dataclass
class JudgeSettings(GeneratorSettings):
    kind: str | None = None  # type: ignore[assignment]
    max_tokens: int = 300


@dataclass
class WriterSettings(GeneratorSettings):
    kind: str | None = None  # type: ignore[assignment]
    words: int = 30
    tries: int = 5
    check: str = "generator"


@dataclass
class PromptSettings:
    instruction: str | None = None
    template: str | None = None
    answer_after: str | None = None


@dataclass
class PromptsFrom:
    robustrag: str | None = None
    trustrag: str | None = None


@dataclass
class AlignedSettings(Retrieving):
    """What an aligned run is made of, and how it is run."""

    k: int = 5
    generator: GeneratorSettings = field(default_factory=GeneratorSettings)
    pipeline: list[str] = field(default_factory=list)
    attack: str = "poisonedrag"
    attack_texts: str = "given"
    writer: WriterSettings = field(default_factory=WriterSettings)
    budgets: list[int] = field(default_factory=list)
    queries: int | None = None
    utility: int = 50
    controls: bool = True
    targets: str | None = None
    anchor: bool = True
    group_size: int = 10
    labels: list[str] = field(default_factory=list)
    judge: JudgeSettings = field(default_factory=JudgeSettings)
    overlap_tau: float = 0.55
    detector: str = "gap"
    detector_rate: int = 5
    embedder: str | None = None
    phrases: str | None = None
    prompt: PromptSettings = field(default_factory=PromptSettings)
    prompts_from: PromptsFrom = field(default_factory=PromptsFrom)
    pipeline_options: dict[str, Any] = field(default_factory=dict)
    max_tokens: int = 150
    on_refusal: str = "stop"
    concurrency: int | None = None
    per_minute: float | None = None
    price_in: float | None = None
    price_out: float | None = None
    estimate: bool = False
    cache: str | None = None


_ATTACK = "attack"
_OPTIONS = "pipeline_options."
_MARK = "prompt.answer_after="
_SCORED = ("min_score", "gap", "dispersion")
_SHARED = ("bm25.", "lsa.", "dense.", "rrf.", "retriever.", "k", "seed")
_CHOICES = {k: v for k, v in CHOICES.items() if k.startswith(_SHARED[:5])} | {
    "attack": ("poisonedrag", "split_knowledge", "instruction"),
    "attack_texts": ("given", "generate"),
    "on_refusal": ("stop", "record"),
    "writer.check": ("generator", "writer"),
}
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    **{k: v for k, v in BOUNDS.items() if k in _SHARED or k.startswith(_SHARED[:5])},
    "queries": (1, None),
    "utility": (0, None),
    "group_size": (1, None),
    "overlap_tau": (0, None),
    "detector_rate": (1, 99),
    "max_tokens": (1, 100_000),
    "concurrency": (1, 1024),
    "per_minute": (0.01, None),
    "price_in": (0, None),
    "price_out": (0, None),
    "writer.words": (5, 1000),
    "writer.tries": (1, 1000),
    "generator.timeout": (0.1, None),
    "generator.context": (128, None),
    "generator.threads": (1, None),
}


def aligned_settings(words: Sequence[str]) -> AlignedSettings:
    """Checked settings of some words such as ``generator=gguf``.

    Raises
    ------
    StressragError
        For the first word that does not fit.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own = [w for w in words if w.startswith((_OPTIONS, _OPTIONS[:-1] + "="))]
    # A mark is a text, in which commas, brackets and the like have no meaning.
    marks = [w.partition("=")[2] for w in words if w.startswith(_MARK)]
    wishes = parse([w for w in words if w not in own and not w.startswith(_MARK)], ALIGNED)
    for w in wishes:
        if len(w.values) > 1 and w.key not in LISTS:
            raise StressragError(
                f"aligned run: {w.raw} asks for several; lists are for pipeline, budgets and labels"
            )
    chosen = [word for w in wishes if w.group for word in hydra_words(w.key, w.values[0])]
    fixed = [_word(w) for w in wishes if not w.group and w.key != _ATTACK]
    try:
        config = compose_root([*chosen, *fixed], ALIGNED, AlignedSettings)
        # Hydra takes attack= for the group of retrieval attacks, so it is set here.
        for w in wishes:
            if w.key == _ATTACK:
                OmegaConf.update(config, _ATTACK, w.values[0])
        config.pipeline_options = _with_options(config.pipeline_options, own)
        settings = OmegaConf.to_object(config)
    except OmegaConfBaseException as e:
        raise StressragError(reason(e)) from e
    if not isinstance(settings, AlignedSettings):
        raise StressragError("conf/aligned.yaml does not start from its schema; restore its defaults list")
    for mark in marks:
        settings.prompt.answer_after = None if mark in ("", "null") else mark
    _check(settings)
    return settings


def _with_options(given: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """Options of pipelines, with those of words such as ``pipeline_options.NAME.OPTION=VALUE``."""
    out = {str(name): dict(options) for name, options in given.items()}
    for word in words:
        key, equals, text = word.removeprefix(_OPTIONS).partition("=")
        if key == _OPTIONS[:-1]:  # all of them at once
            value = parse_value("value", text)
            if not isinstance(value, Mapping) or not all(isinstance(v, Mapping) for v in value.values()):
                raise StressragError(f"{word}: options have names; write {_OPTIONS}NAME.OPTION=VALUE")
            out |= {str(k): dict(v) for k, v in value.items()}
            continue
        name, _, option = key.rpartition(".")
        if not equals or not name or not option.isidentifier():
            raise StressragError(f"{word!r}: write {_OPTIONS}NAME.OPTION=VALUE, NAME as in pipeline=")
        out.setdefault(name, {})[option] = parse_value("value", text)
    return out


def _word(wish: Wish) -> str:
    """A wish as Hydra takes it; ``a,b`` for a list is ``[a,b]``."""
    if len(wish.values) == 1:
        return f"{wish.key}={wish.values[0]}"
    return f"{wish.key}=[{','.join(v.strip('[]') for v in wish.values)}]"


def _check(s: AlignedSettings) -> None:
    check_values(s, _CHOICES, _BOUNDS)
    check_tokenizers(s, {k: v for k, v in TOKENIZERS.items() if not k.startswith("attack")})
    check_retriever(s)
    if not s.budgets or min(s.budgets) < 1 or len(set(s.budgets)) < len(s.budgets):
        raise StressragError(f"budgets={s.budgets}: give one or more different whole numbers from 1 on")
    kinds = ("same", "extractive", "openai", "gguf", "transformers", "python")
    helpers: dict[str, GeneratorSettings] = {"judge": s.judge, "writer": s.writer}
    for name, helper in helpers.items():
        kind: str | None = helper.kind
        if kind is not None and kind not in kinds:
            raise StressragError(f"{name}.kind={kind}: {nearest(kind, kinds)}")
        if kind is None and (helper.model or helper.base_url or helper.target):
            raise StressragError(f"{name}.model and the like need {name}.kind, such as {name}.kind=openai")
    if s.generator.kind == "extractive" and s.prompt != PromptSettings():
        raise StressragError(
            "prompt.* goes with a language model, such as generator=openai; the extractive reader knows one"
            " prompt and reads no instructions"
        )
    if s.attack_texts == "generate" and s.attack != "poisonedrag":
        other = "; aligned build-split writes triples" if s.attack == "split_knowledge" else ""
        raise StressragError(f"attack_texts=generate goes with attack=poisonedrag, not {s.attack}{other}")
    if s.attack_texts == "generate" and s.writer.kind is None:
        raise StressragError("attack_texts=generate needs writer.kind, such as writer.kind=same or openai")
    for node in (s.generator, *helpers.values()):
        if not re.fullmatch(r"[A-Za-z_]\w*", node.key_from):
            raise StressragError("key_from is the name of an environment variable, never the key itself")
    if s.detector not in _SCORED:
        raise StressragError(
            f"detector={s.detector}: {nearest(s.detector, _SCORED)} (the others need embeddings)"
        )
    if s.generator.kind == "python" and not s.generator.target:
        raise StressragError("generator=python needs generator.target=package.module:factory")
    for name in ("generator", *helpers):
        target = getattr(s, name).target
        if target is not None and ":" not in target:
            raise StressragError(
                f"{name}.target={target}: write package.module:factory, the function that makes the"
                f" generator, such as {target}:make"
            )
    from stressrag.aligned.labels import RULES

    for name in s.labels:
        if name not in RULES:
            raise StressragError(f"labels: no rule {name!r}; {nearest(name, RULES)}")
