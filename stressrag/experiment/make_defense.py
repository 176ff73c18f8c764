"""From the value that names a defense to the defense, fitted to a collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from stressrag.collection.model import Collection, Corpus
from stressrag.defenses.base import Defense
from stressrag.defenses.own import Own
from stressrag.defenses.similarity import Similarity, TermSimilarity, VectorSimilarity
from stressrag.experiment.conditions import DefenseSpec, RetrieverSpec
from stressrag.plugins import entry_point_names, import_target
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.hybrid import fuse
from stressrag.retrievers.ranking import Floats
from stressrag.retrievers.vectors import VectorRetriever
from stressrag.text.index import TermIndex


def make_defense(
    spec: DefenseSpec,
    index: Callable[[str], TermIndex],
    collection: Collection,
    retrievers: Mapping[RetrieverSpec, Retriever],
) -> Defense:
    """The defense that a value names.

    Parameters
    ----------
    spec : DefenseSpec
        Its name and parameters.
    index : callable
        The corpus's term index under a tokenizer's name.
    collection : Collection
        The clean collection; its calibration queries, or where it has none the judged ones, set the limit of
        a detector.
    retrievers : mapping
        Fitted, the one whose vectors a similarity needs among them.
    """
    parameters, corpus = dict(spec.parameters), collection.corpus

    def similarity() -> Similarity:
        if spec.similarity is None:
            return TermSimilarity(index(parameters["tokenizer"]))
        vectors = retrievers[spec.similarity]
        assert isinstance(vectors, VectorRetriever)
        return VectorSimilarity(vectors)

    if spec.name == "overlap":
        from stressrag.defenses.overlap import Overlap

        return Overlap(index(parameters["tokenizer"]), parameters["tau"])
    if spec.name == "mmr":
        from stressrag.defenses.mmr import MMR

        return MMR(similarity(), parameters["lambda"])
    if spec.name == "near_duplicate":
        from stressrag.defenses.near_duplicate import NearDuplicate

        return NearDuplicate(similarity(), parameters["threshold"], parameters["copies"])
    if spec.name == "quota":
        return _quota(corpus, parameters.get("poison_source"), parameters["quota"])
    if spec.name == "repetition":
        from stressrag.defenses.repetition import Repetition

        return Repetition(index(parameters["tokenizer"]), corpus.texts, parameters["rate"])
    if spec.name == "perplexity":
        from stressrag.defenses.perplexity import Perplexity

        words = index(parameters["tokenizer"])
        return Perplexity(words, corpus.texts, parameters["rate"], parameters["window"])
    if spec.name == "score_detector":
        from stressrag.defenses.score_detector import ScoreDetector

        assert spec.retriever is not None
        queries = collection.calibration if len(collection.calibration) else collection.evaluated
        clean = _clean_lists(spec.retriever, retrievers, queries.texts, parameters["k"])
        return ScoreDetector(parameters["score"], clean, parameters["rate"])
    installed = entry_point_names("defenses")
    factory = import_target(spec.name, "defense") if ":" in spec.name else installed[spec.name].load()
    return Own(spec.name, factory)


def _quota(corpus: Corpus, poison: str | None, quota: int) -> Defense:
    from stressrag.defenses.quota import OWN_SOURCES, Quota

    named = [str(m.get("source") or "") for m in corpus.metadata]
    known = dict.fromkeys([*named, *([] if poison in (None, OWN_SOURCES) else [str(poison)])])
    numbers = {source: i for i, source in enumerate(known) if source}
    sources = np.array([numbers.get(s, -1) for s in named], np.int64)
    return Quota(sources, numbers.get(str(poison), -1), quota)


def _clean_lists(
    spec: RetrieverSpec, retrievers: Mapping[RetrieverSpec, Retriever], queries: Sequence[str], k: int
) -> list[Floats]:
    """The scores of the clean top k of some queries."""
    parameters = dict(spec.parameters)
    depth = parameters["depth"] if spec.components else k
    found = [retrievers[leaf].search(list(queries), depth) for leaf in spec.leaves]
    ranking = found[0]
    if spec.components:
        ranking = fuse(found, k, parameters["constant"], len(retrievers[spec.leaves[0]].corpus_))
    return [ranking.row(i)[1] for i in range(len(queries))]
