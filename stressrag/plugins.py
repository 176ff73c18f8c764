"""What others bring: import paths in configs and entry points of installed packages."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from stressrag.errors import StressragError, nearest


def import_target(target: str, what: str) -> Any:
    """The object at an import path such as ``package.module:name``.

    The current directory is importable, as for a script, so that a file beside the user's data works.

    Raises
    ------
    StressragError
        When the path has no colon, the module cannot be imported or lacks the name.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise StressragError(f"{what} target {target!r} is no import path; write package.module:name")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.append(os.getcwd())
    try:
        value: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as e:  # whatever the foreign module raises while it loads
        raise StressragError(f"{what} target {target!r}: cannot import {module_name!r}: {e}") from e
    for part in attribute.split("."):
        if not hasattr(value, part):
            there = [n for n in dir(value) if not n.startswith("_")]
            raise StressragError(f"{what} target {target!r}: no {part!r} there; {nearest(part, there)}")
        value = getattr(value, part)
    return value


def call_theirs(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the user's code; what it raises becomes one line that says whose it is and where.

    Raises
    ------
    StressragError
        For any exception of theirs.
    """
    try:
        return function(*arguments)
    except StressragError:
        raise
    except (Exception, SystemExit) as e:
        frames = traceback.extract_tb(e.__traceback__)
        where = f" at {frames[-1].filename}:{frames[-1].lineno}" if len(frames) > 1 else ""
        raise StressragError(f"{what} raised {type(e).__name__}: {e}{where}") from e


def entry_point_names(kind: str) -> dict[str, EntryPoint]:
    """Entry points that installed packages declare under ``stressrag.<kind>``, by name."""
    return {e.name: e for e in entry_points(group=f"stressrag.{kind}")}
