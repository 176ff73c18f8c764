"""``reproduce``: a paper's published experiments, run again and held against its values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stressrag.errors import StressragError, nearest

_HELP = """usage: python -m stressrag reproduce retrieval-paper [setting=value …]

Runs every table, figure and prose claim of the paper on a data set, over SVD seeds 0 to 4, and says for each
published value what ours is, with an interval over queries, the band over seeds and whether it lies inside a
tolerance that was fixed beforehand. Writes report.md, report.csv, report.tex and reproduction.json.

settings:
  dataset=scifact      scifact, nfcorpus or both (with a comma); others are described, not compared
  dense.model=PATH     the dense rows, with BAAI/bge-small-en-v1.5 from a hub or folder; another model is
                       named as such, not compared (default: BGE-small if its weights are in the local cache)
  output_dir=FOLDER    where to write (default reproductions/retrieval-paper-DATASETS)
  resamples, workers, overwrite, latency_sample: as in sweep

examples:
  python -m stressrag reproduce retrieval-paper
  python -m stressrag reproduce retrieval-paper dataset=scifact,nfcorpus dense.model=models/bge-small-en-v1.5

The payloads are BIPIA's: python -m stressrag data fetch bipia"""
_PAPERS = ("retrieval-paper",)
_OWN = ("dataset", "dense.model", "output_dir")
_PASSED = ("resamples", "workers", "overwrite", "latency_sample")


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    papers = [w for w in argv if "=" not in w]
    if len(papers) != 1 or papers[0] not in _PAPERS:
        given = papers[0] if papers else ""
        hint = nearest(given, _PAPERS) if given else "such as: reproduce retrieval-paper"
        raise StressragError(f"reproduce needs one paper; {hint}")
    settings = dict(w.split("=", 1) for w in argv if "=" in w)
    for key in settings:
        if key not in (*_OWN, *_PASSED):
            raise StressragError(
                f"{key}: the paper fixes the settings; {nearest(key, (*_OWN, *_PASSED))} may be set here"
            )
    datasets = list(dict.fromkeys(n for n in settings.get("dataset", "scifact").strip("[]").split(",") if n))
    if not datasets:
        raise StressragError("dataset= is empty; give a name such as scifact")
    return _reproduce(datasets, settings)


def _reproduce(datasets: Sequence[str], settings: dict[str, str]) -> int:
    from stressrag.records.files import write_json, write_text
    from stressrag.report.reproduction import as_csv, latex, markdown

    default = f"reproductions/retrieval-paper-{'+'.join(datasets)}"
    folder = Path(settings.get("output_dir") or default).expanduser()
    passed = [f"{k}={v}" for k, v in settings.items() if k in _PASSED]
    value = report_of(datasets, folder, settings.get("dense.model"), passed)
    write_text(folder / "report.md", markdown(value))
    write_text(folder / "report.csv", as_csv(value["rows"]))
    write_text(folder / "report.tex", latex(value))
    write_json(folder / "reproduction.json", value["rows"])
    print(markdown(value))
    print(f"written: {folder}")
    return 0


def report_of(
    datasets: Sequence[str], folder: Path, model: str | None, passed: Sequence[str]
) -> dict[str, Any]:
    """Run what is missing and put the report together."""
    from stressrag.collection.catalogue import CATALOGUE
    from stressrag.collection.places import find_bipia, find_local, local_names
    from stressrag.experiment.plan import plan
    from stressrag.experiment.run import execute
    from stressrag.reproduce import retrieval_paper as paper

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


def _verdicts(rows: Sequence[Any], datasets: Sequence[str]) -> list[str]:
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
    from stressrag.reproduce.retrieval_paper import BGE

    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return None
    found = [try_to_load_from_cache(BGE, name) for name in ("model.safetensors", "pytorch_model.bin")]
    return BGE if any(isinstance(path, str) for path in found) else None
