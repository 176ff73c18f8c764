"""Latency of single queries, warm: what one search, fusion or defense takes when asked alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from stressrag.defenses.base import Defense, Pool
from stressrag.experiment.conditions import Condition
from stressrag.experiment.engine import Engine
from stressrag.retrievers.base import PoisonTexts, Retriever
from stressrag.retrievers.hybrid import fuse


def probe(engine: Engine, sample: int) -> dict[str, Any]:
    """Median and 95th percentile in milliseconds by retriever and stage, on clean traffic.

    Parameters
    ----------
    engine : Engine
        A family whose retrievers are fitted.
    sample : int
        How many queries are timed, spread over the collection; 0 for none.
    """
    n = len(engine.queries)
    if sample == 0 or n == 0:
        return {}
    queries = [engine.queries.texts[i] for i in np.unique(np.linspace(0, n - 1, min(sample, n)).astype(int))]
    out: dict[str, Any] = {}
    for c in engine.family:
        name = c.retriever.label + "".join(f"+{d.name}" for d in c.defense)
        if not c.clean or name in out:
            continue
        out[name] = {stage: _time(run, queries) for stage, run in _stages(engine, c, queries).items()}
    return out


def _stages(engine: Engine, c: Condition, queries: list[str]) -> dict[str, Callable[[str], Any]]:
    """What is timed for one condition, each stage on the results of the one before."""
    parameters = dict(c.retriever.parameters)
    fused = bool(c.retriever.components)
    depth = parameters["depth"] if fused else c.depth
    leaves = {leaf.label: engine.retrievers[leaf] for leaf in c.retriever.leaves}

    def searcher(r: Retriever) -> Callable[[str], Any]:
        return lambda q: r.search([q], depth)

    def defender(d: Defense) -> Callable[[str], Any]:
        return lambda q: d.apply(pools[q], c.k)

    stages = {f"search {label}": searcher(r) for label, r in leaves.items()}
    lists = {q: [r.search([q], depth) for r in leaves.values()] for q in queries}
    candidates = {q: found[0].top(c.depth) for q, found in lists.items()}
    if fused:
        stages["fuse"] = lambda q: fuse(lists[q], c.depth, parameters["constant"], engine.n_docs)
        candidates = {q: stages["fuse"](q) for q in queries}
    nothing = PoisonTexts([])
    pools = {q: Pool([q], found, engine.n_docs, nothing) for q, found in candidates.items()}
    stages.update({f"defend {d.name}": defender(d) for d in engine.defenses[c.defense]})
    return stages


def _time(run: Callable[[str], Any], queries: list[str]) -> dict[str, float]:
    run(queries[0])  # warm
    taken = []
    for q in queries:
        start = time.perf_counter()
        run(q)
        taken.append(1000 * (time.perf_counter() - start))
    return {"median": float(np.median(taken)), "p95": float(np.percentile(taken, 95)), "queries": len(taken)}
