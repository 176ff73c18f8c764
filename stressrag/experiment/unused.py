"""Settings that were given but play no part: most often a choice that was forgotten beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stressrag.experiment.conditions import Condition, RetrieverSpec

_DEFENSES = {
    "defense.tau": ("overlap",),
    "defense.mmr_lambda": ("mmr",),
    "defense.similarity": ("mmr",),
    "defense.near_threshold": ("near_duplicate",),
    "defense.near_similarity": ("near_duplicate",),
    "defense.copies": ("near_duplicate",),
    "defense.quota": ("quota",),
    "attack.source": ("quota",),
    "defense.filter_rate": ("repetition", "perplexity", "score_detector"),
    "defense.detector": ("score_detector",),
    "defense.perplexity_window": ("perplexity",),
}
_NODES = {"lsa": "retriever=lsa or hybrid", "dense": "retriever=dense", "rrf": "retriever=hybrid"}


def unused(words: Iterable[str], conditions: Iterable[Condition]) -> list[str]:
    """A line for each setting of some words that no condition depends on.

    Parameters
    ----------
    words : iterable of str
        Overrides as typed.
    conditions : iterable of Condition
        What they came to.
    """
    asked = [c for c in conditions if not c.partner]
    defenses = {d.name for c in asked for d in c.defense}
    kinds = {spec.kind for c in asked for spec in _specs(c)}
    anchors, bodies = {c.recipe.anchor for c in asked}, {c.recipe.body for c in asked}
    no_aim = all(c.recipe.aim is None for c in asked)
    missing = {
        "attack.terms": "terms" not in anchors and "attack.anchor=terms",
        "attack.strategy": "terms" not in anchors and "attack.anchor=terms",
        **{f"attack.{s}": no_aim and "attack.wording=optimal" for s in ("max_tokens", "adaptive")},
        "attack.gradients": all(c.recipe.aim is None or not c.recipe.aim.gradients for c in asked)
        and "attack=optimal and a dense retriever",
        "attack.snippet_tokens": "corpus_neutral" not in bodies and "attack=corpus_neutral",
        "attack.group_size": all(c.scope != "group" for c in asked) and "attack.scope=group",
    }
    out = []
    for word in words:
        key = word.lstrip("+").partition("=")[0]
        node = key.partition(".")[0]
        needs = missing.get(key) or ""
        if key in _DEFENSES and defenses.isdisjoint(_DEFENSES[key]):
            needs = f"defense={' or '.join(_DEFENSES[key])}"
        elif node in _NODES and node != key and {"rrf": "hybrid"}.get(node, node) not in kinds:
            needs = _NODES[node]
        if needs:
            out.append(f"note: {word} plays no part here; it goes with {needs}")
    return out


def _specs(c: Condition) -> Iterator[RetrieverSpec]:
    """Every retriever that a condition uses, the defenses' included."""
    yield c.retriever
    yield from c.retriever.leaves
    yield from (d.similarity for d in c.defense if d.similarity)
