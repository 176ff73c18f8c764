"""``reproduce``: a paper's published experiments, run again and held against its values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    from stressrag.reproduce.carry_out import report_of

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
