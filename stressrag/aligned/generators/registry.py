"""Generators by their kind, as configs name them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from stressrag.aligned.generators.base import Generator
from stressrag.aligned.generators.contract import check_generator
from stressrag.aligned.generators.extractive import ExtractiveReader
from stressrag.aligned.generators.gguf import GGUF
from stressrag.aligned.generators.openai import OpenAIChat
from stressrag.aligned.generators.transformers_ import Transformers
from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, import_target

KINDS: dict[str, Callable[..., Generator]] = {
    "extractive": ExtractiveReader,
    "openai": OpenAIChat,
    "gguf": GGUF,
    "transformers": Transformers,
}
_NOT_SETTINGS = ("sleep", "jitter")


def make_generator(spec: Mapping[str, Any]) -> Generator:
    """The generator that a mapping describes.

    Parameters
    ----------
    spec : mapping
        ``kind`` (``extractive``, ``openai``, ``gguf``, ``transformers``, or an import path
        ``package.module:factory`` of your own, which must return a :class:`Generator`) and its settings.

    Raises
    ------
    StressragError
        For an unknown kind, unknown or missing settings, or a setting of the wrong type.
    """
    settings = {str(name): value for name, value in spec.items() if name != "kind"}
    kind = spec.get("kind")
    if not isinstance(kind, str) or not kind:
        raise StressragError(f"a generator needs a kind; {nearest('', KINDS)}, or package.module:factory")
    if ":" in kind:
        return _theirs(kind, settings)
    if kind not in KINDS:
        raise StressragError(f"no generator {kind!r}; {nearest(kind, KINDS)}")
    parameters = inspect.signature(KINDS[kind]).parameters
    known = [name for name in parameters if name not in _NOT_SETTINGS]
    for name in settings:
        if name not in known:
            raise StressragError(
                f"a generator of kind {kind} has no setting {name!r}; {nearest(name, known)}"
            )
    for name in known:
        if parameters[name].default is inspect.Parameter.empty and settings.get(name) in (None, ""):
            raise StressragError(f"a generator of kind {kind} needs the setting {name!r}")
    try:
        return KINDS[kind](**settings)
    except (TypeError, ValueError, AttributeError) as e:
        raise StressragError(f"a setting of the generator of kind {kind} has the wrong type: {e}") from e


def _theirs(kind: str, settings: Mapping[str, Any]) -> Generator:
    factory = import_target(kind, "generator")
    if not callable(factory):
        raise StressragError(f"generator {kind!r} is nothing that can be called")
    made = call_theirs(f"generator {kind!r}", lambda: factory(**settings))
    if not isinstance(made, Generator) or not isinstance(getattr(made, "name", None), str):
        raise StressragError(f"generator {kind!r} returns {type(made).__name__}, not a named Generator")
    check_generator(made, kind)
    return made
