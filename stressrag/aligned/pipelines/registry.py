"""Pipelines by name.

==================  ================================================================================
none                the undefended system
caution             an instruction to distrust the passages
keyword_prompt      the keyword format without caution, the released prompt control
keyword_agg         RobustRAG's keyword aggregation over isolated passages
trustrag            TrustRAG's filter, then own knowledge, consolidation and a final answer
overlap             passages that hold too much of the question are rejected, then ``none``
near_duplicate      of nearly equal passages only so many stay, then ``none``
detector            abstains on contexts that a detector flags, else ``none``
==================  ================================================================================
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from stressrag.aligned.pipelines.base import Pipeline
from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, entry_point_names, import_target

_HERE = "stressrag.aligned.pipelines"
# By module and class, so that asking for one imports no other.
_KNOWN = {
    "none": "none:NoDefense",
    "caution": "caution:Caution",
    "keyword_prompt": "keyword_prompt:KeywordPrompt",
    "keyword_agg": "keyword_agg:KeywordAgg",
    "trustrag": "trustrag:TrustRAG",
    "overlap": "overlap:OverlapFilter",
    "near_duplicate": "near_duplicate:NearDuplicateFilter",
    "detector": "detector:DetectorAbstention",
}


def pipeline_names() -> list[str]:
    """The names of all pipelines, those of installed packages (``stressrag.pipelines``) last."""
    return [*_KNOWN, *sorted(set(entry_point_names("pipelines")) - set(_KNOWN))]


def is_built_in(name: str) -> bool:
    """Whether a pipeline comes with this package."""
    return name in _KNOWN


def get_pipeline(name: str | Pipeline, **options: Any) -> Pipeline:
    """A pipeline by name or import path, made with some options.

    Parameters
    ----------
    name : str or Pipeline
        A name of :func:`pipeline_names`, or ``package.module:Class`` for one of the user's own; a finished
        pipeline is given back.
    **options
        What its class takes.

    Raises
    ------
    StressragError
        For an unknown name or option, and for a class that makes no :class:`Pipeline`.
    """
    if isinstance(name, Pipeline):
        if options:
            raise StressragError(f"pipeline {name.name!r} is made already; its options cannot be set again")
        return name
    factory = pipeline_factory(name)
    _check_options(name, factory, options)
    made = call_theirs(f"pipeline {name!r}", lambda: factory(**options))
    if not isinstance(made, Pipeline):
        raise StressragError(f"pipeline {name!r} made {type(made).__name__}, not a Pipeline")
    if not isinstance(getattr(made, "name", None), str) or not made.name:
        raise StressragError(f"pipeline {name!r} has no name; set the attribute name of its class")
    return made


def option_names(name: str, named: bool = False) -> list[str] | None:
    """The options that the class of a pipeline takes; ``None``: any, or it cannot be told.

    Parameters
    ----------
    name : str
        As for :func:`get_pipeline`.
    named : bool
        Whether only those that it names are wanted, where it takes any besides.
    """
    try:
        parameters = inspect.signature(pipeline_factory(name)).parameters.values()
    except (TypeError, ValueError):  # some callables have no signature
        return None
    if not named and any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


def default_of(name: str, option: str) -> Any:
    """What an option of a pipeline is unless it is given; ``None`` where that cannot be told."""
    try:
        found = inspect.signature(pipeline_factory(name)).parameters[option].default
    except (TypeError, ValueError, KeyError):
        return None
    return None if found is inspect.Parameter.empty else found


def pipeline_factory(name: str) -> Any:
    """The class, or other factory, of a pipeline.

    Raises
    ------
    StressragError
        When there is none, with near names.
    """
    if name in _KNOWN:
        module, _, attribute = _KNOWN[name].partition(":")
        return getattr(importlib.import_module(f"{_HERE}.{module}"), attribute)
    if ":" in name:
        factory = import_target(name, "pipeline")
        if not callable(factory):
            raise StressragError(f"pipeline target {name!r} is {type(factory).__name__}, not a class")
        return factory
    points = entry_point_names("pipelines")
    if name in points:
        return call_theirs(f"pipeline {name!r}", points[name].load)
    raise StressragError(
        f"no pipeline {name!r}; {nearest(name, pipeline_names())} or package.module:Class for one of your own"
    )


def _check_options(name: str, factory: Any, options: dict[str, Any]) -> None:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some callables have no signature; calling them will tell
        return
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for option in options:
        if option not in parameters and not takes_any:
            raise StressragError(f"pipeline {name!r} has no option {option!r}; {nearest(option, parameters)}")
    needed = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in options
    ]
    if needed:
        raise StressragError(f"pipeline {name!r} needs {' and '.join(needed)}")
