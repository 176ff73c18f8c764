"""The typed settings: what may be set, and within which bounds. ``conf/config.yaml`` has the help texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Dataset:
    name: str = "pellmore"
    path: str | None = None
    split: str | None = None
    corpus: str | None = None
    queries: str | None = None
    qrels: str | None = None


@dataclass
class BM25:
    variant: str = "lucene"
    k1: float = 1.5
    b: float = 0.75
    tokenizer: str = "unicode"
    query_terms: str = "all"


@dataclass
class LSA:
    dimensions: int = 64
    seed: int = 0
    mode: str = "frozen"
    tokenizer: str = "unicode"


@dataclass
class Dense:
    model: str = "BAAI/bge-small-en-v1.5"
    similarity: str = "cosine"
    query_prompt: str = ""
    document_prompt: str = ""
    document_tokens: int | None = None
    query_tokens: int | None = None
    poison_tokens: int | None = None
    batch_size: int = 32
    device: str | None = None


@dataclass
class RRF:
    retrievers: list[str] = field(default_factory=lambda: ["bm25", "lsa"])
    constant: float = 60.0
    depth: int = 100


@dataclass
class Retriever:
    kind: str = "bm25"
    label: str = "bm25"
    target: str | None = None
    similarity: str = "cosine"


@dataclass
class Attack:
    name: str = "payload"
    anchor: str = "query"
    terms: int | None = None
    strategy: str = "random"
    wording: str = "once"
    max_tokens: int = 100
    adaptive: bool = True
    gradients: bool = False
    body: str = "payload"
    budget: int = 5
    scope: str = "isolated"
    targets: Any = "all"
    group_size: int = 10
    payloads: str = "builtin"
    payload_order: str = "hashed"
    snippet_tokens: int | None = None
    tokenizer: str = "unicode"
    target: str | None = None
    source: str = "attacker"
    grid: dict[str, Any] | None = None


@dataclass
class Statistics:
    isolated: str = "live"
    group: str = "live"
    multi: str = "live"


@dataclass
class Defense:
    names: list[str] = field(default_factory=list)
    tau: float = 0.55
    mmr_lambda: float = 0.7
    similarity: str = "lsa"
    near_threshold: float = 0.4
    near_similarity: str = "tfidf"
    copies: int = 1
    quota: int = 3
    filter_rate: float = 1.0
    detector: str = "gap"
    perplexity_window: int | None = None


@dataclass
class Retrieving:
    """What a retriever over a collection is made of."""

    dataset: Dataset = field(default_factory=Dataset)
    retriever: Retriever = field(default_factory=Retriever)
    bm25: BM25 = field(default_factory=BM25)
    lsa: LSA = field(default_factory=LSA)
    dense: Dense = field(default_factory=Dense)
    rrf: RRF = field(default_factory=RRF)
    k: int = 10
    seed: int = 0
    output_dir: str | None = None
    overwrite: bool = False


@dataclass
class Settings(Retrieving):
    """Everything that a condition is made of, and how it is run."""

    attack: Attack = field(default_factory=Attack)
    statistics: Statistics = field(default_factory=Statistics)
    defense: Defense = field(default_factory=Defense)
    pool: int = 50
    ties: str = "clean_first"
    grade: int = 1
    metrics: list[str] = field(default_factory=list)
    workers: int = 1
    partners: bool = True
    latency_sample: int = 50
    resamples: int = 10_000
    texts: bool = True


CHOICES: dict[str, tuple[str, ...]] = {
    "ties": ("clean_first", "poison_first"),
    "bm25.variant": ("lucene", "okapi", "plus", "l"),
    "bm25.query_terms": ("all", "unique"),
    "lsa.mode": ("frozen", "refit"),
    "dense.similarity": ("cosine", "dot"),
    "retriever.similarity": ("cosine", "dot"),
    "attack.anchor": ("none", "query", "terms"),
    "attack.strategy": ("random", "idf"),
    "attack.wording": ("once", "optimal"),
    "attack.body": ("none", "payload", "neutral", "corpus_neutral"),
    "attack.scope": ("isolated", "group", "multi"),
    "attack.payload_order": ("hashed", "cycle"),
    "statistics.isolated": ("live", "frozen"),
    "statistics.group": ("live", "frozen"),
    "statistics.multi": ("live", "frozen"),
    "defense.detector": ("min_score", "gap", "dispersion"),
    "defense.similarity": ("lsa", "dense", "tfidf"),
    "defense.near_similarity": ("lsa", "dense", "tfidf"),
}

# What retrieval runs and aligned runs have in common is checked in both.
BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "k": (1, 10_000),
    "pool": (1, 10_000),
    "grade": (1, None),
    "seed": (0, 2**63 - 1),
    "workers": (1, 1024),
    "latency_sample": (0, None),
    "resamples": (0, 1_000_000),
    "bm25.k1": (0, None),
    "bm25.b": (0, 1),
    "lsa.dimensions": (1, None),
    "lsa.seed": (0, 2**32 - 1),
    "dense.document_tokens": (1, None),
    "dense.query_tokens": (1, None),
    "dense.poison_tokens": (1, None),
    "dense.batch_size": (1, None),
    "rrf.constant": (0, None),
    "rrf.depth": (1, 10_000),
    "attack.terms": (1, None),
    "attack.max_tokens": (1, 100_000),
    "attack.snippet_tokens": (1, 1000),
    "attack.budget": (1, 10_000),
    "attack.group_size": (1, None),
    "defense.tau": (0, None),
    "defense.mmr_lambda": (0, 1),
    "defense.near_threshold": (0, None),
    "defense.copies": (1, None),
    "defense.quota": (1, None),
    "defense.perplexity_window": (1, None),
}

TOKENIZERS: dict[str, tuple[str, ...]] = {
    "bm25.tokenizer": ("unicode", "ascii"),
    "lsa.tokenizer": ("unicode", "ascii", "sklearn"),
    "attack.tokenizer": ("unicode", "ascii"),
}
"""Settings that take one of these names or an import path."""
