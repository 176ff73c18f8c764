"""Settings of an aligned run that were given but play no part: most often a choice forgotten beside them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from stressrag.aligned.pipelines.own_prompt import own_prompt, sent_as_they_are
from stressrag.aligned.run.defenses import names_of
from stressrag.experiment.conditions import retriever_spec
from stressrag.settings.aligned import AlignedSettings, GeneratorSettings

_PIPELINES = {
    "overlap_tau": ("overlap",),
    "detector": ("detector",),
    "detector_rate": ("detector",),
    "embedder": ("trustrag",),
    "phrases": ("keyword_agg",),
    "prompts_from.robustrag": ("keyword_agg", "keyword_prompt"),
    "prompts_from.trustrag": ("trustrag",),
}
_GENERATORS = {
    "model": ("openai", "gguf", "transformers"),
    "base_url": ("openai",),
    "key_from": ("openai",),
    "timeout": ("openai",),
    "revision": ("transformers",),
    "target": ("python",),
    "context": ("gguf",),
    "threads": ("gguf",),
}
_RETRIEVERS = {"bm25": "bm25", "lsa": "lsa", "dense": "dense", "rrf": "hybrid"}


def unused(words: Iterable[str], s: AlignedSettings) -> list[str]:
    """A line for each setting of some words on which nothing depends.

    Parameters
    ----------
    words : iterable of str
        Overrides as typed.
    s : AlignedSettings
        What they came to.
    """
    out = []
    for word in words:
        key = word.partition("=")[0]
        if needs := _needs(key, s):
            out.append(f"note: {word} plays no part here; it goes with {needs}")
        elif key == "overlap_tau" and s.overlap_tau > 1:
            out.append(f"note: {word} rejects nothing; it is a share, from 0 to 1")
    if own := own_prompt(**asdict(s.prompt)):
        out += [
            f"note: {braces} in the prompt is sent as it is; what is filled in, in prompt.template, are"
            " {passages}, {numbered_passages} and {question}"
            for braces in sent_as_they_are(own)
        ]
    return out


def _needs(key: str, s: AlignedSettings) -> str:
    """What a setting goes with that is not there; ``""``: it plays a part."""
    node, _, name = key.partition(".")
    pipelines = names_of(s)
    if key in _PIPELINES and not set(_PIPELINES[key]) & set(pipelines):
        return "pipeline=" + " or ".join(_PIPELINES[key])
    if node == "generator" and name:
        return _generator(name, s.generator, "generator=")
    if node == "judge" and name not in ("", "kind"):
        if s.judge.kind is None:
            return "judge.kind"
        return "" if name == "max_tokens" else _generator(name, s.judge, "judge.kind=")
    if node == "writer" and s.attack_texts != "generate":
        return "attack_texts=generate"
    if node == "writer" and name in _GENERATORS:
        return _generator(name, s.writer, "writer.kind=")
    if node in _RETRIEVERS and name and not _retrieves(node, name, s):
        return f"retriever={_RETRIEVERS[node]}"
    return _attack(key, s)


def _generator(name: str, g: GeneratorSettings, by: str) -> str:
    fits = _GENERATORS.get(name, (g.kind,))
    return "" if g.kind in fits else by + " or ".join(fits)


def _retrieves(node: str, name: str, s: AlignedSettings) -> bool:
    spec = retriever_spec(s)
    kinds = {k.removeprefix("rank_") for k in (spec.kind, *(leaf.kind for leaf in spec.leaves))}
    # Pipeline overlap weighs words as BM25 takes texts apart.
    return _RETRIEVERS[node] in kinds or ((node, name) == ("bm25", "tokenizer") and "overlap" in names_of(s))


def _attack(key: str, s: AlignedSettings) -> str:
    split = s.attack == "split_knowledge"
    missing = {
        "attack_texts": s.attack != "poisonedrag" and "attack=poisonedrag",
        "anchor": not split and "attack=split_knowledge",
        "budgets": split and "other attacks than split_knowledge, which plants one passage",
        "group_size": (split or not s.targets) and "targets=FILE, in which nothing says what a group is",
        "price_in": not s.estimate and "estimate=true",
        "price_out": not s.estimate and "estimate=true",
    }
    return missing.get(key) or ""
