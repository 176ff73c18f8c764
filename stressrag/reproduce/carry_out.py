"""Carries a reproduction out: the runs that are missing, then the rows, the verdicts and the legend."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stressrag.collection.catalogue import CATALOGUE
from stressrag.collection.places import find_bipia, find_local, local_names
from stressrag.errors import StressragError, nearest
from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute
from stressrag.reproduce import retrieval_paper as paper


def report_of(
    datasets: Sequence[str], folder: Path, model: str | None, passed: Sequence[str]
) -> dict[str, Any]:
    """Run what is missing and put the report together."""
    model = model or _cached_model()
    # Everything is planned before anything is computed, so that a wrong word leaves nothing behind.
    plans = {}
    for name in datasets:
        where = (f"dataset={name}", f"output_dir={folder / 'runs' / name}")
        dense = None
        if model:
            where_dense = (f"dataset={name}", f"output_dir={folder / 'runs' / (name + '-dense')}")
            dense = plan("sweep", [*paper.DENSE_WORDS, f"dense.model={model}", *where_dense, *passed])
        plans[name] = (plan("sweep", [*paper.WORDS, *where, *passed]), dense)
    for name in datasets:
        if name not in CATALOGUE and not find_local(name):
            hint = nearest(name, [*CATALOGUE, *local_names()])
            raise StressragError(f"there is no dataset {name!r}; {hint}")
    if not find_bipia():
        raise StressragError("BIPIA's payloads are missing; get them: python -m stressrag data fetch bipia")
    rows: list[paper.Row] = []
    choices: list[dict[str, Any]] = []
    for name, (main_plan, dense_plan) in plans.items():
        run = execute(main_plan)
        dense_run = execute(dense_plan) if dense_plan else None
        cells = paper.Cells(run)
        timings = json.loads((run.folder / "timings.json").read_text("utf-8"))
        rows += paper.rows_of(
            cells, name, paper.Cells(dense_run) if dense_run else None, model, timings["latency_ms"]
        )
        choices += paper.choices(cells, name)
    return {
        "title": "The retrieval paper, reproduced",
        "paper": f"{paper.published()['paper']}.",
        "verdicts": _verdicts(rows, datasets),
        "rows": [r.plain() for r in rows],
        "choices": choices,
        "legend": _LEGEND,
    }


_LEGEND = (
    "*Ours* is the mean over the SVD seeds 0 to 4 where the LSA plays a part (and over the draws 0 to 4 "
    "where terms are drawn), *seeds* the least and greatest value. The interval is over queries, of that "
    "mean: the two kinds of uncertainty stay apart.",
    "",
    "*Inside* means: BM25 within .005; LSA, Hybrid, MMR and the frontier within .01 of the band over seeds; "
    "poison counts within .1; a dense model within .01; numbers of queries exactly.",
    "",
    "The share counts published values that are neither 0 nor 1 nor plain arithmetic on the data set (poison "
    "fractions, relative drops, numbers of queries).",
)


def _verdicts(rows: Sequence[paper.Row], datasets: Sequence[str]) -> list[str]:
    out = []
    for name in datasets:
        counted = [r for r in rows if r.dataset == name and r.counted]
        inside = sum(bool(r.inside) for r in counted)
        if counted:
            of = f"{inside} of {len(counted)} published values"
            out.append(f"**{name}: {of} inside tolerance ({inside / len(counted):.0%}).**")
        elif name == "nfcorpus-normalised":
            out.append(
                f"**{name}** is NFCorpus in a lower-cased, stop-word-free form with documents missing: "
                "another collection, described here and never compared with the paper's NFCorpus."
            )
        else:
            out.append(
                f"**{name}**: the paper has no values for this collection; it is described, not compared."
            )
    if any(r.verdict == "not run" for r in rows):
        out.append("The dense rows were not run.")
    return out


def _cached_model() -> str | None:
    """BGE-small, where its weights are on this machine; nothing is downloaded."""
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = [try_to_load_from_cache(paper.BGE, name) for name in ("model.safetensors", "pytorch_model.bin")]
    return paper.BGE if any(isinstance(path, str) for path in found) else None
