"""Who is asked in an aligned run (generator, judge, writer), and how."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stressrag.aligned.generators.answering import Answering
from stressrag.aligned.generators.base import Generator
from stressrag.aligned.generators.registry import make_generator
from stressrag.collection.places import cache_root
from stressrag.errors import StressragError
from stressrag.settings.aligned import AlignedSettings, GeneratorSettings

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Say nothing."""


def generator_of(g: GeneratorSettings, node: str = "generator") -> Generator:
    """The generator that some settings describe; ``node`` is what they are called in messages."""
    if g.kind == "python":
        return make_generator({"kind": g.target})
    wanted: dict[str, Mapping[str, Any]] = {
        "extractive": {},
        "openai": {"model": g.model, "base_url": g.base_url, "key_env": g.key_from, "timeout": g.timeout},
        "gguf": {"path": g.model, "n_ctx": g.context, "threads": g.threads},
        "transformers": {"model": g.model, "revision": g.revision},
    }
    given = {k: v for k, v in wanted[g.kind].items() if v is not None}
    if g.kind != "extractive" and not g.model:
        raise StressragError(f"{node} {g.kind} needs {node}.model=NAME (gguf: a file)")
    if g.kind == "openai" and not g.base_url:
        raise StressragError(
            f"{node} openai needs {node}.base_url=URL, where prompts are sent: http://localhost:8000/v1 for a"
            " server of your own, https://api.openai.com/v1 for OpenAI"
        )
    return make_generator({"kind": g.kind, **given})


def helper_of(s: AlignedSettings, node: str, generator: Generator) -> Generator:
    """The judge or writer (``node``) of some settings; ``same`` is the generator itself."""
    settings: GeneratorSettings = getattr(s, node)
    return generator if settings.kind == "same" else generator_of(settings, node)


def answering_of(s: AlignedSettings, generator: Generator, say: Say) -> Answering:
    """A generator with the cache of its answers, at the pace of some settings."""
    cache = Path(s.cache).expanduser() if s.cache else cache_root() / "answers"
    begun = [-1]

    def progress(done: int, of: int) -> None:
        if of > 1 and 20 * done // of != begun[0]:
            begun[0] = 20 * done // of
            say(f"  {done} of {of} prompts answered by {generator.name}")

    with contextlib.suppress(AttributeError):  # a frozen class of the user's own
        generator.say = say
    return Answering(
        generator, cache, concurrency=s.concurrency, per_minute=s.per_minute, progress=progress,
        on_refusal=s.on_refusal,
    )  # fmt: skip
