"""Conditions: what one line of a result table rests on, and nothing else.

Settings hold more than a condition depends on (``lsa.seed`` says nothing of a BM25 run). A ``Condition``
keeps what can move its numbers; two combinations of settings that come to the same one are run once.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from omegaconf import OmegaConf

from stressrag.attacks.aim import Aim
from stressrag.attacks.poison import Recipe
from stressrag.defenses.quota import OWN_SOURCES
from stressrag.errors import StressragError, nearest
from stressrag.retrievers.base import Retriever
from stressrag.settings.places import choices, config_folder
from stressrag.settings.schema import Retrieving, Settings

_NODES = {"bm25": "bm25", "rank_bm25": "bm25", "lsa": "lsa", "dense": "dense"}


@dataclass(frozen=True)
class RetrieverSpec:
    """A retriever as a value: its label, kind, parameters and, for a hybrid, what it fuses."""

    label: str
    kind: str
    parameters: tuple[tuple[str, Any], ...] = ()
    components: tuple[RetrieverSpec, ...] = ()

    @property
    def leaves(self) -> tuple[RetrieverSpec, ...]:
        """The retrievers that search for it."""
        return self.components or (self,)

    @property
    def slow(self) -> bool:
        """Whether its contaminated search re-indexes for every view."""
        refit = ("mode", "refit") in self.parameters
        return self.kind in ("rank_bm25", "python") or refit or any(c.slow for c in self.components)

    def build(self) -> Retriever:
        """A new retriever, not fitted; only leaves are built."""
        parameters = dict(self.parameters)
        if self.kind == "bm25":
            from stressrag.retrievers.bm25 import BM25 as Kind
        elif self.kind == "rank_bm25":
            from stressrag.retrievers.rank_bm25 import RankBM25 as Kind  # type: ignore[assignment]
        elif self.kind == "lsa":
            from stressrag.retrievers.lsa import LSA as Kind  # type: ignore[assignment]
        elif self.kind == "dense":
            from stressrag.retrievers.dense import Dense as Kind  # type: ignore[assignment]
        elif self.kind == "embedder":
            from stressrag.retrievers.own import Embedder as Kind  # type: ignore[assignment]
        else:
            from stressrag.retrievers.own import Own as Kind  # type: ignore[assignment]
        return Kind(**parameters)

    def describe(self) -> dict[str, Any]:
        """Its parameters by name, those of components below their labels."""
        own = dict(self.parameters)
        return {**own, **{c.label: c.describe() for c in self.components}} if self.components else own


@dataclass(frozen=True)
class DefenseSpec:
    """A defense as a value: its name and what it depends on; ``retriever`` where it is calibrated on one."""

    name: str
    parameters: tuple[tuple[str, Any], ...] = ()
    similarity: RetrieverSpec | None = None
    retriever: RetrieverSpec | None = None


@dataclass(frozen=True)
class Condition:
    """One cell of an experiment.

    Attributes
    ----------
    dataset : tuple
        Name, path, split and explicit files.
    budget : int
        Poison documents per target; 0 for clean.
    scope, statistics : str or None
        ``None`` for clean.
    targets : "all", float or tuple of str
        Which queries are attacked.
    partner : bool
        Added for comparison rather than asked for; no part of the identity.
    """

    dataset: tuple[tuple[str, str | None], ...]
    retriever: RetrieverSpec
    recipe: Recipe
    budget: int
    scope: str | None
    statistics: str | None
    targets: Any
    group_size: int | None
    defense: tuple[DefenseSpec, ...]
    k: int
    pool: int | None
    ties: str
    grade: int
    partner: bool = False

    @property
    def clean(self) -> bool:
        """Whether there is no poison."""
        return self.budget == 0

    @property
    def depth(self) -> int:
        """Candidates needed of the retriever."""
        return max(self.k, self.pool or 0)

    def config(self) -> dict[str, Any]:
        """The condition as plain values, the short ones first."""
        r, named = self.recipe, self.recipe.anchor == "terms"
        return {
            "dataset": dict(self.dataset)["name"],
            "retriever": self.retriever.label,
            "attack": r.name,
            "anchor": r.anchor,
            "terms": r.terms if named else None,
            "strategy": r.strategy if named else None,
            "body": r.body,
            "budget": self.budget,
            "scope": self.scope,
            "defense": "+".join(d.name for d in self.defense) or "none",
            "statistics": self.statistics,
            "targets": list(self.targets) if isinstance(self.targets, tuple) else self.targets,
            "k": self.k,
            "pool": self.pool,
            "ties": self.ties,
            "grade": self.grade,
            "seed": None if self.clean else r.seed,
            "group_size": self.group_size,
            "split": dict(self.dataset)["split"],
            "retriever_kind": self.retriever.kind,
            "retriever_settings": self.retriever.describe(),
            "attack_settings": {
                **{k: v for k, v in asdict(r).items() if k in _ATTACK_SETTINGS and v is not None},
                **_aim_settings(r.aim, self.defense),
            },
            "defense_settings": {d.name: _defense_settings(d) for d in self.defense},
        }

    @cached_property
    def id(self) -> str:
        """A readable name with a hash of the whole condition."""
        parts = [self.retriever.label, self.recipe.name]
        if self.recipe.anchor == "terms":
            parts.append(f"{self.recipe.strategy}{self.recipe.terms}")
        if not self.clean:
            parts += [f"P{self.budget}", str(self.scope)]
        parts += [d.name for d in self.defense]
        return f"{slug('-'.join(parts))}-{digest({**self.config(), 'dataset': self.dataset})[:8]}"


def poison_key(recipe: Recipe) -> str | None:
    """What tells the poison of one recipe from another's in saved texts; ``None`` for clean."""
    return None if recipe.clean else digest(asdict(recipe))[:12]


_ATTACK_SETTINGS = ("payloads", "payload_order", "snippet_tokens", "tokenizer", "target")


def _aim_settings(aim: Aim | None, defense: tuple[DefenseSpec, ...]) -> dict[str, Any]:
    """What a worst-case attack is written against, for records and labels."""
    if aim is None:
        return {}
    if aim.defense and aim.defense == defense:
        against = "the defense"
    else:
        against = "+".join(_short(d) for d in aim.defense) or "none"
    gradients = {"gradients": True} if aim.gradients else {}
    return {"wording": "optimal", "max_tokens": aim.max_tokens, "against": against, **gradients}


def _short(defense: DefenseSpec) -> str:
    """A defense in a word: its name and its numbers."""
    numbers = [f"{k}={v}" for k, v in defense.parameters if isinstance(v, int | float)]
    return f"{defense.name}({','.join(numbers)})" if numbers else defense.name


def _defense_settings(defense: DefenseSpec) -> dict[str, Any]:
    out = dict(defense.parameters)
    if defense.similarity:
        out["similarity"] = {defense.similarity.label: defense.similarity.describe()}
    return out


def digest(value: Any) -> str:
    """SHA-256 of a plain value, the same in every process."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def slug(text: str) -> str:
    """A text as part of a file name."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", text)


def condition(settings: Settings) -> Condition:
    """The condition that some settings come to."""
    s, a = settings, settings.attack
    # A body or draw that an attack does not use must not tell two conditions apart.
    spec = retriever_spec(s)
    uses_payload = a.body in ("payload", "corpus_neutral") and not a.target
    recipe = Recipe(
        name=a.name,
        anchor=a.anchor,
        body=a.body,
        terms=a.terms if a.anchor == "terms" else None,
        strategy=a.strategy if a.anchor == "terms" else None,
        payloads=a.payloads if uses_payload else "builtin",
        payload_order=a.payload_order if uses_payload else "hashed",
        snippet_tokens=a.snippet_tokens if a.body == "corpus_neutral" and not a.target else None,
        tokenizer=a.tokenizer,
        target=a.target,
        seed=s.seed,
        index=_index_tokenizer(spec, a.tokenizer),
    )
    defense = tuple(_defense_spec(name, s) for name in s.defense.names)
    if a.wording == "optimal" and not recipe.clean:
        recipe = replace(recipe, aim=_aim(s, spec, defense))
    clean = recipe.clean
    targets = tuple(a.targets) if isinstance(a.targets, list) else a.targets
    return Condition(
        dataset=tuple(
            (n, getattr(s.dataset, n)) for n in ("name", "path", "split", "corpus", "queries", "qrels")
        ),
        retriever=spec,
        recipe=clean_recipe(recipe) if clean else recipe,
        budget=0 if clean else a.budget,
        scope=None if clean else a.scope,
        statistics=None if clean else getattr(s.statistics, a.scope),
        targets="all" if clean else targets,
        group_size=a.group_size if a.scope == "group" and not clean else None,
        defense=_without_poison(defense) if clean else defense,
        k=s.k,
        pool=s.pool if s.defense.names else None,
        ties="clean_first" if clean else s.ties,
        grade=s.grade,
    )


def _aim(s: Settings, spec: RetrieverSpec, defense: tuple[DefenseSpec, ...]) -> Aim:
    """What an attack is written against."""
    a = s.attack
    known = defense if a.adaptive else ()
    statistics = getattr(s.statistics, a.scope)
    dense = a.gradients and any(leaf.kind == "dense" for leaf in spec.leaves)
    return _canonical(Aim(spec, a.max_tokens, statistics, a.budget, known, s.k, s.pool, s.ties, dense))


def _canonical(aim: Aim) -> Aim:
    """The aim without what does not move its texts."""
    computed = aim.retriever.kind == "bm25" and all(d.name == "overlap" for d in aim.defense)
    if computed and (aim.copies == 1 or aim.statistics != "live"):  # one draft, never tried in the system
        return replace(aim, copies=1, k=0, pool=0, ties="clean_first")
    return aim if aim.defense else replace(aim, pool=0)


def _index_tokenizer(retriever: RetrieverSpec, own: str) -> str:
    """What cuts the corpus that an attack looks at: the retriever's BM25 has the say, where it has one."""
    cuts = (
        dict(leaf.parameters)["tokenizer"] for leaf in retriever.leaves if _NODES.get(leaf.kind) == "bm25"
    )
    return next(cuts, own)


def clean_recipe(recipe: Recipe) -> Recipe:
    """The recipe of the clean condition beside an attack."""
    return Recipe("clean", "none", "none", tokenizer=recipe.tokenizer, index=recipe.index)


def partners(asked: Iterable[Condition]) -> list[Condition]:
    """Conditions in order, once each, with the clean and undefended ones that comparison needs."""
    wanted = list(dict.fromkeys(asked))
    out: dict[Condition, None] = {}
    for c in wanted:
        bare = _undefended(c)
        out.update(dict.fromkeys((_clean(bare), _clean(c), bare, c)))
    marked = [c if c in wanted else replace(c, partner=True) for c in out]
    return sorted(marked, key=lambda c: not c.clean)


def baselines(c: Condition) -> dict[str, Condition]:
    """What a condition is held against: the same on ``clean`` traffic, the same ``undefended``."""
    out = {} if c.clean else {"clean": _clean(c)}
    return out | ({"undefended": _undefended(c)} if c.defense else {})


def _undefended(c: Condition) -> Condition:
    """The same without a defense; an attacker who knew the defense now knows that there is none."""
    recipe = c.recipe
    if recipe.aim and recipe.aim.defense:
        recipe = replace(recipe, aim=_canonical(replace(recipe.aim, defense=())))
    return replace(c, defense=(), pool=None, recipe=recipe)


def _clean(c: Condition) -> Condition:
    return replace(
        c,
        recipe=clean_recipe(c.recipe),
        defense=_without_poison(c.defense),
        budget=0,
        scope=None,
        statistics=None,
        targets="all",
        group_size=None,
        ties="clean_first",
    )


def _without_poison(defense: tuple[DefenseSpec, ...]) -> tuple[DefenseSpec, ...]:
    """A defense on clean traffic, to which it is all one what source poison would name."""

    def plain(spec: DefenseSpec) -> DefenseSpec:
        return replace(spec, parameters=tuple(p for p in spec.parameters if p[0] != "poison_source"))

    return tuple(map(plain, defense))


def retriever_spec(settings: Retrieving) -> RetrieverSpec:
    """The retriever that some settings name."""
    r = settings.retriever
    if r.kind == "hybrid":
        rrf = settings.rrf
        leaves = tuple(_leaf(name, settings) for name in rrf.retrievers)
        if len(set(leaves)) != len(leaves):
            raise StressragError(f"rrf.retrievers={rrf.retrievers}: a retriever stands there twice")
        return RetrieverSpec(r.label, "hybrid", (("constant", rrf.constant), ("depth", rrf.depth)), leaves)
    return _leaf(r.kind, settings, r.label)


def _leaf(name: str, settings: Retrieving, label: str | None = None) -> RetrieverSpec:
    r = settings.retriever
    if name == "python":
        return RetrieverSpec(label or name, name, (("target", r.target),))
    if name == "embedder":
        return RetrieverSpec(label or name, name, (("target", r.target), ("similarity", r.similarity)))
    if name in _NODES:
        return RetrieverSpec(label or name, name, tuple(asdict(getattr(settings, _NODES[name])).items()))
    valid = {n for n in choices("retriever") if n not in ("hybrid",)}
    if name not in valid:
        raise StressragError(f"rrf.retrievers: no retriever {name!r}; {nearest(name, valid)}")
    choice: Any = OmegaConf.to_container(OmegaConf.load(config_folder() / "retriever" / f"{name}.yaml"))
    merged = {**asdict(settings.dense), **choice["dense"]}
    return RetrieverSpec(name, "dense", tuple(merged.items()))


def _defense_spec(name: str, settings: Settings) -> DefenseSpec:
    d = settings.defense

    def terms(similarity: str) -> tuple[tuple[str, Any], ...]:
        own = (("similarity", "tfidf"), ("tokenizer", settings.bm25.tokenizer))
        return own if similarity == "tfidf" else ()

    def vectors(similarity: str) -> RetrieverSpec | None:
        return None if similarity == "tfidf" else _leaf(similarity, settings)

    if name == "overlap":
        index = (("tokenizer", settings.bm25.tokenizer),)
        return DefenseSpec(name, (("tau", d.tau), *index))
    if name == "mmr":
        return DefenseSpec(name, (("lambda", d.mmr_lambda), *terms(d.similarity)), vectors(d.similarity))
    if name == "near_duplicate":
        parameters = (("threshold", d.near_threshold), ("copies", d.copies), *terms(d.near_similarity))
        return DefenseSpec(name, parameters, vectors(d.near_similarity))
    if name == "quota":
        evading = settings.attack.wording == "optimal" and settings.attack.adaptive
        source = OWN_SOURCES if evading else settings.attack.source
        return DefenseSpec(name, (("quota", d.quota), ("poison_source", source)))
    if name in ("repetition", "perplexity"):
        window = (("window", d.perplexity_window),) if name == "perplexity" else ()
        return DefenseSpec(name, (("rate", d.filter_rate), *window, ("tokenizer", settings.bm25.tokenizer)))
    if name == "score_detector":
        parameters = (("score", d.detector), ("rate", d.filter_rate), ("k", settings.k))
        return DefenseSpec(name, parameters, retriever=retriever_spec(settings))
    from stressrag.plugins import entry_point_names

    if ":" not in name and name not in entry_point_names("defenses"):
        own = ("overlap", "mmr", "near_duplicate", "quota", "repetition", "perplexity", "score_detector")
        valid = {*own, *entry_point_names("defenses")}
        raise StressragError(
            f"defense.names: no defense {name!r}; {nearest(name, valid)} or package.module:name"
        )
    return DefenseSpec(name)
