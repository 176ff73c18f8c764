"""stressrag: stress-tests of retrieval and RAG against poisoned corpora.

>>> import stressrag as sr
>>> run = sr.sweep("retriever=bm25,lsa", "attack=query_only")  # doctest: +SKIP
>>> run.summary["conditions"][0]["metrics"]["nDCG@10"]  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from stressrag.aligned.read import read_answers
    from stressrag.aligned.records import Answer, Passage
    from stressrag.aligned.score import Evaluation, score_answers
    from stressrag.api import audit, run, sweep, write_report
    from stressrag.collection import Collection, Corpus, Qrels, Queries, load_dataset, load_folder
    from stressrag.errors import StressragError
    from stressrag.metrics.base import Metric, TopK
    from stressrag.records.folder import Run, open_run
    from stressrag.report.compare import compare
    from stressrag.report.export import export
    from stressrag.report.gate import gate
    from stressrag.retrievers.base import Retriever
    from stressrag.retrievers.bm25 import BM25
    from stressrag.retrievers.dense import Dense
    from stressrag.retrievers.hybrid import Hybrid
    from stressrag.retrievers.lsa import LSA
    from stressrag.retrievers.own import Embedder, Own
    from stressrag.retrievers.ranking import Ranking, Views

_HOMES = {
    "stressrag.aligned.read": ("read_answers",),
    "stressrag.aligned.records": ("Answer", "Passage"),
    "stressrag.aligned.score": ("Evaluation", "score_answers"),
    "stressrag.api": ("audit", "run", "sweep", "write_report"),
    "stressrag.collection": ("Collection", "Corpus", "Qrels", "Queries", "load_dataset", "load_folder"),
    "stressrag.errors": ("StressragError",),
    "stressrag.metrics.base": ("Metric", "TopK"),
    "stressrag.records.folder": ("Run", "open_run"),
    "stressrag.report.compare": ("compare",),
    "stressrag.report.export": ("export",),
    "stressrag.report.gate": ("gate",),
    "stressrag.retrievers.base": ("Retriever",),
    "stressrag.retrievers.bm25": ("BM25",),
    "stressrag.retrievers.dense": ("Dense",),
    "stressrag.retrievers.hybrid": ("Hybrid",),
    "stressrag.retrievers.lsa": ("LSA",),
    "stressrag.retrievers.own": ("Embedder", "Own"),
    "stressrag.retrievers.ranking": ("Ranking", "Views"),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BM25",
    "LSA",
    "Answer",
    "Collection",
    "Corpus",
    "Dense",
    "Embedder",
    "Evaluation",
    "Hybrid",
    "Metric",
    "Own",
    "Passage",
    "Qrels",
    "Queries",
    "Ranking",
    "Retriever",
    "Run",
    "StressragError",
    "TopK",
    "Views",
    "audit",
    "compare",
    "export",
    "gate",
    "load_dataset",
    "load_folder",
    "open_run",
    "read_answers",
    "run",
    "score_answers",
    "sweep",
    "write_report",
]


def __getattr__(name: str) -> Any:
    # Imported when first used, so that ``python -m stressrag --help`` stays quick.
    if name not in _WHERE:
        raise AttributeError(f"module 'stressrag' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
