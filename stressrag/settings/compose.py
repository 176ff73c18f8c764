"""From wishes to checked settings, one ``Settings`` per combination."""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stressrag.errors import StressragError, nearest
from stressrag.settings.overrides import Wish, grid_lines, hydra_words, parse, parse_value
from stressrag.settings.places import GRID, MAIN, config_folder
from stressrag.settings.schema import BOUNDS, CHOICES, TOKENIZERS, Retrieving, Settings


def expand(words: Sequence[str]) -> list[Settings]:
    """All combinations that some words ask for, each checked, in the order of the words.

    Raises
    ------
    StressragError
        For the first word that does not fit; nothing has been read by then but the config folder.
    """
    return list(_combinations(words, single=False))


def only(words: Sequence[str]) -> Settings:
    """The one combination that some words ask for; raises when there are several."""
    for wish in parse(words):
        if len(wish.values) > 1 or wish.key == GRID:
            raise StressragError(
                f"one condition is wanted here, and {wish.raw} asks for more; use sweep, or give one value"
            )
    return next(_combinations(words, single=True))


def _combinations(words: Sequence[str], *, single: bool) -> Iterator[Settings]:
    wishes = parse(words)
    grid = next((w for w in wishes if w.key == GRID), None)
    own = [w for w in wishes if w.key != GRID]
    taken = {w.key for w in own}
    lines = [[w for w in line if w.key not in taken] for line in grid_lines(grid.values[0])] if grid else [[]]
    for line in lines:
        yield from _product([*line, *own], single=single)


def _product(wishes: list[Wish], *, single: bool) -> Iterator[Settings]:
    fixed = [f"{w.key}={w.values[0]}" for w in wishes if not w.group and len(w.values) == 1]
    several = [w for w in wishes if not w.group and len(w.values) > 1]
    chosen = [w for w in wishes if w.group]
    asked = {w.key for w in wishes}
    for picks in itertools.product(*(w.values for w in chosen)):
        words = [word for w, text in zip(chosen, picks, strict=True) for word in hydra_words(w.key, text)]
        base = compose_root([*words, *fixed])
        axes = [(w.key, [parse_value(w.key, text) for text in w.values]) for w in several]
        own_grid = {f"attack.{k}": list(v) for k, v in (base.attack.grid or {}).items()}
        if base.attack.anchor != "terms":  # these say nothing then
            own_grid = {k: v for k, v in own_grid.items() if k not in ("attack.terms", "attack.strategy")}
        axes += [(key, values) for key, values in own_grid.items() if key not in asked]
        open_axes = [key for key in own_grid if key not in asked]
        if single and open_axes:
            n = len(list(itertools.product(*(own_grid[k] for k in open_axes))))
            hint = " and ".join(f"{k}={own_grid[k][0]}" for k in open_axes)
            raise StressragError(
                f"one condition is wanted here, and attack={base.attack.name} stands for {n}; "
                f"set {hint} (or other values), or use sweep"
            )
        for values in itertools.product(*(v for _, v in axes)):
            yield _checked(base, [k for k, _ in axes], values)


def compose_root(words: Sequence[str], root: str = MAIN, schema: type = Settings) -> Any:
    """What Hydra composes of a root and its words."""
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    ConfigStore.instance().store(name="schema" if root == MAIN else f"{root}_schema", node=schema)
    try:
        if not GlobalHydra.instance().is_initialized():
            initialize_config_dir(str(config_folder()), version_base="1.3")
        return compose(root, overrides=list(words))
    except (HydraException, OmegaConfBaseException) as e:
        raise StressragError(reason(e)) from e


def reason(error: BaseException) -> str:
    """What Hydra or OmegaConf object to, on one line, from the innermost cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    key = getattr(error, "full_key", None)
    first = str(error).strip().split("\n")[0]
    wrong = re.match(r"Value (.*) of type '\w+' could not be converted to (\w+)", first)
    if key and wrong:
        kind = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
        return f"{key}={wrong[1]}: must be {kind.get(wrong[2], wrong[2])}"
    return f"{key}: {first}" if key else first


def _checked(base: Any, keys: Sequence[str], values: Sequence[Any]) -> Settings:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    config = copy.deepcopy(base) if keys else base
    for key, value in zip(keys, values, strict=True):
        try:
            OmegaConf.update(config, key, value)
        except OmegaConfBaseException as e:
            raise StressragError(reason(e)) from e
    try:
        settings = OmegaConf.to_object(config)
    except OmegaConfBaseException as e:  # such as an interpolation of something that is not there
        raise StressragError(reason(e)) from e
    if not isinstance(settings, Settings):
        raise StressragError("conf/config.yaml does not start from the schema; restore its defaults list")
    check(settings)
    return settings


def from_hydra(config: Any) -> Settings:
    """Checked settings of a config that Hydra itself composed (multirun)."""
    return _checked(config, [], [])


def value_of(settings: Retrieving, key: str) -> Any:
    """The value at a dotted key."""
    for part in key.split("."):
        settings = getattr(settings, part)
    return settings


_FEWEST = 100  # resamples


def check(settings: Settings) -> None:
    """Refuse values outside their bounds or choices, and combinations that mean nothing."""
    check_values(settings, CHOICES, BOUNDS)
    check_tokenizers(settings, TOKENIZERS)
    if 0 < settings.resamples < _FEWEST:
        raise StressragError(
            f"resamples={settings.resamples}: too few for an interval; 0 for none or at least {_FEWEST}"
        )
    _check_attack(settings)
    check_retriever(settings)
    if not 0 < settings.defense.filter_rate <= 50:
        raise StressragError(
            f"defense.filter_rate={settings.defense.filter_rate}: a percentage above 0 and at most 50"
        )
    if settings.defense.names and settings.pool < settings.k:
        raise StressragError(
            f"pool={settings.pool} is below k={settings.k}; a defense needs at least k candidates"
        )


def check_values(
    settings: Retrieving,
    choices: Mapping[str, Sequence[str]],
    bounds: Mapping[str, tuple[float | None, float | None]],
) -> None:
    """Refuse values outside their choices or bounds."""
    for key, valid in choices.items():
        if value_of(settings, key) not in valid:
            raise StressragError(
                f"{key}={value_of(settings, key)}: {nearest(str(value_of(settings, key)), valid)}"
            )
    for key, (low, high) in bounds.items():
        value = value_of(settings, key)
        if isinstance(value, float) and not math.isfinite(value):
            raise StressragError(f"{key}={value}: must be a finite number")
        if value is not None and ((low is not None and value < low) or (high is not None and value > high)):
            ends = f"at least {low:,}" + (f" and at most {high:,}" if high is not None else "")
            raise StressragError(f"{key}={value}: must be {ends}")


def check_tokenizers(settings: Retrieving, tokenizers: Mapping[str, Sequence[str]]) -> None:
    """Refuse unknown tokenizers; an import path is looked at when it is used."""
    for key, names in tokenizers.items():
        value = value_of(settings, key)
        if value not in names and ":" not in value:
            raise StressragError(f"{key}={value}: {nearest(value, names)} (or package.module:function)")


def _check_attack(settings: Settings) -> None:
    a = settings.attack
    if a.anchor == "terms" and a.terms is None:
        raise StressragError(
            "attack.anchor=terms needs the number of terms: set attack.terms, such as attack.terms=2"
        )
    if a.wording == "optimal" and (a.target or a.anchor == "none") and a.name != "clean":
        what = f"attack={a.name}" if a.target else "attack.anchor=none"
        raise StressragError(
            f"attack.wording=optimal words what is known of the query, and {what} has nothing of it; "
            "set attack.anchor=terms or query"
        )
    if a.gradients and a.wording == "optimal" and a.anchor != "query":
        raise StressragError(
            "attack.gradients=true writes whatever words bring a document near the query, for which the "
            "attacker has to know it; set attack.anchor=query"
        )
    if not a.source.strip():
        raise StressragError("attack.source= is empty; name the source that poison gives, such as attacker")
    if a.name == "python" and not a.target:
        raise StressragError("attack=python needs attack.target=package.module:function")
    if isinstance(a.targets, bool | int | float):
        if isinstance(a.targets, bool) or not 0 < a.targets <= 1:
            raise StressragError(f"attack.targets={a.targets}: a fraction is above 0 and at most 1")
        a.targets = float(a.targets)
    elif isinstance(a.targets, list):
        if not a.targets:
            raise StressragError("attack.targets=[]: give query ids, a fraction, or all")
        a.targets = [str(t) for t in a.targets]
    elif a.targets != "all":
        raise StressragError(f"attack.targets={a.targets}: give all, a fraction such as 0.25, or [id1,id2]")


def check_retriever(settings: Retrieving) -> None:
    """Refuse a data set or retriever that lacks what it needs."""
    r = settings.retriever
    if r.kind in ("python", "embedder") and not r.target:
        raise StressragError(f"retriever={r.kind} needs retriever.target=package.module:name")
    if r.kind == "hybrid" and len(settings.rrf.retrievers) < 2:
        raise StressragError(f"rrf.retrievers={settings.rrf.retrievers}: fusion takes two or more retrievers")
    if settings.dataset.path and settings.dataset.name != "folder":
        raise StressragError("dataset.path goes with dataset=folder; write both, or neither")
    if settings.dataset.name == "folder" and not (settings.dataset.path or settings.dataset.corpus):
        raise StressragError("dataset=folder needs dataset.path=FOLDER")
