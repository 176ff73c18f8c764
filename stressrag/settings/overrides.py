"""From the words on the command line to lists of values per setting.

Hydra's own parser reads them, but the lists are expanded here: Hydra refuses ``retriever=bm25,lsa``
outside multirun, silently reduces ``retriever=[bm25,lsa]`` to its last entry, and a typed scalar takes
no list.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

from stressrag.errors import StressragError, nearest
from stressrag.plugins import entry_point_names
from stressrag.settings.places import GRID, MAIN, choices, config_folder, groups, settings

LISTS = {"rrf.retrievers", "metrics", "attack.targets", "defense.names", "pipeline", "budgets", "labels"}
"""Settings whose value is a list; everywhere else a list is several values."""

_WHOLE_RUN = {"output_dir", "overwrite", "workers", "partners", "latency_sample", "metrics"}
"""Settings of a run as a whole, which cannot differ between its conditions."""

_MOST_VALUES = 10_000

_SET_BY = {"retriever.kind": "retriever", "attack.name": "attack", "generator.kind": "generator"}

_PLUGINS = {"retriever": "retrievers", "attack": "attacks", "defense": "defenses"}


@dataclass
class Wish:
    """What is asked of one setting or group: its values, each as it would stand behind ``key=``."""

    key: str
    values: list[str]
    raw: str
    group: bool = field(default=False)


@lru_cache(maxsize=1)
def _parser() -> Any:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def parse_value(key: str, text: str) -> Any:
    """The value of one ``key=text``."""
    return _parse(f"{key}={text}").value()


def parse(words: Sequence[str], root: str = MAIN) -> list[Wish]:
    """Read words such as ``attack.budget=1,3``; a setting named twice keeps its last values.

    Raises
    ------
    StressragError
        For a word that is no ``key=value``, an unknown key or choice (with near names).
    """
    wishes: dict[str, Wish] = {}
    for word in words:
        wish = _wish(word, root)
        wishes.pop(wish.key, None)
        wishes[wish.key] = wish
    return list(wishes.values())


def _wish(word: str, root: str) -> Wish:
    if word.startswith(("+", "~")):
        raise StressragError(f"{word!r}: settings are neither added nor removed; write key=value")
    key, equals, text = word.partition("=")
    if not equals or not key:
        raise StressragError(f"{word!r} is no setting; write key=value, such as attack.budget=5")
    known_groups = groups(root)
    keys = {s.key for s in settings(root)}
    if key in known_groups:
        values = _group_values(key, _parse(word))
        return Wish(key, values, word, group=True)
    if key == GRID and root == MAIN:
        if text not in choices(GRID):
            raise StressragError(f"grid={text}: no such grid; {nearest(text, choices(GRID))}")
        return Wish(key, [text], word)
    if key not in keys:
        valid = keys | set(known_groups) | ({GRID} if root == MAIN else set())
        raise StressragError(f"unknown setting {key!r}: {_near_key(key, valid)}")
    if key in _SET_BY:
        raise StressragError(f"{key} is set by {_SET_BY[key]}=; {nearest(word, choices(_SET_BY[key]))}")
    values = _values(_parse(word), key)
    if len(values) > 1 and key in _WHOLE_RUN:
        raise StressragError(f"{word}: {key} holds for the whole run; give one value")
    if key in LISTS - {"attack.targets"}:  # one name is a list of one
        values = [v if v.startswith("[") else f"[{v}]" for v in values]
    return Wish(key, values, word)


def _near_key(key: str, valid: set[str]) -> str:
    node = key.partition(".")[0]
    inside = {k for k in valid if k.startswith(node + ".")}
    if "." in key and inside:  # a right node with a wrong name: look among its own first
        return nearest(key, inside)
    return nearest(key, valid)


def _parse(word: str) -> Any:
    from hydra.errors import HydraException

    key, _, text = word.partition("=")
    try:
        return _parser().parse_override(word)
    except HydraException:
        # A bare ~/x, a(b) or é is no word of Hydra's grammar; as a quoted string it is one.
        quoted = text.replace("\\", "\\\\").replace("'", "\\'")
        try:
            return _parser().parse_override(f"{key}='{quoted}'")
        except HydraException as e:
            raise StressragError(f"cannot read {word!r}: {str(e).splitlines()[0]}") from e


def _values(override: Any, key: str) -> list[str]:
    """Each value as text; sweeps and, for scalar settings, lists are taken apart."""
    from hydra.core.override_parser.types import Glob, IntervalSweep, Override

    if override.is_sweep_override():
        if isinstance(override._value, Glob):
            raise StressragError(f"{key}: glob() works for groups only; list the values")
        if isinstance(override._value, IntervalSweep):
            raise StressragError(f"{key}: an interval has no end of values; list them, or use range()")
        found = [str(v) for v in itertools.islice(override.sweep_string_iterator(), _MOST_VALUES + 1)]
        if len(found) > _MOST_VALUES:
            raise StressragError(f"{key}: more than {_MOST_VALUES} values; list fewer")
    elif isinstance(override.value(), list) and key not in LISTS:
        found = [Override._get_value_element_as_str(v) for v in override.value()]
    else:
        found = [override.get_value_element_as_str()]
    if not found:
        raise StressragError(f"{key}: an empty list of values")
    return list(dict.fromkeys(found))


def _group_values(group: str, override: Any) -> list[str]:
    from hydra.core.override_parser.types import Glob

    offered = choices(group)
    value = override._value
    if isinstance(value, Glob):
        names = [n for n in offered if any(fnmatch.fnmatch(n, g) for g in value.include)]
        found = [n for n in names if not any(fnmatch.fnmatch(n, g) for g in value.exclude)]
        if not found:
            raise StressragError(f"{override.input_line}: matches none of {', '.join(offered)}")
        return found
    if group == "defense":  # a list is a chain, commas are several defenses
        found = _values(override, "defense.names")
    else:
        found = _values(override, group)
    for text in found:
        for name in text.strip("[]").split(",") if group == "defense" else [text]:
            _check_choice(group, name.strip().strip("'\"").replace("\\", ""), offered)
    return found


def _check_choice(group: str, name: str, offered: dict[str, str]) -> None:
    if name in offered or (group == "preset" and name == "null"):
        return
    if group == "dataset":
        return  # names of collections are the catalogue's business
    if group == "defense" and ":" in name:
        return  # an import path, looked at when it is used
    plugins = entry_point_names(_PLUGINS[group]) if group in _PLUGINS else {}
    if name not in plugins:
        valid = {*offered, *plugins} | ({"null"} if group == "preset" else set())
        raise StressragError(f"{group}={name}: no such {group}; {nearest(name, valid)}")


def hydra_words(group: str, text: str) -> list[str]:
    """The overrides that Hydra gets for one choice of a group."""
    if group == "defense" and text.startswith("["):
        return ["defense=none", f"defense.names={text}"]
    if group == "preset" and text == "null":
        return []  # the default, which Hydra's compose takes no word for
    if text in choices(group):
        return [f"{group}={text}"]
    if group == "dataset":
        return [f"dataset.name={text}"]
    if group == "defense":
        return ["defense=none", f"defense.names=[{text}]"]
    point = entry_point_names(_PLUGINS[group])[text]
    label = "label" if group == "retriever" else "name"
    return [f"{group}=python", f"{group}.{label}={text}", f"{group}.target='{point.value}'"]


def grid_lines(name: str) -> list[list[Wish]]:
    """The lines of a named grid, each as wishes."""
    lines = yaml.safe_load((config_folder() / GRID / f"{name}.yaml").read_text("utf-8"))
    return [parse(line.split()) for line in lines]
