"""A finished run for other programs: TREC files, CSV tables, LaTeX tables."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.compute as pc

from stressrag.errors import StressragError, nearest
from stressrag.records.files import cannot_write, write_text
from stressrag.records.folder import Run, open_run
from stressrag.report.cells import SETTINGS, number, p_text, setting
from stressrag.report.reproduction import tex
from stressrag.report.select import Where, as_where, select
from stressrag.report.summary import summary_csv
from stressrag.report.table import shown_metrics

FORMATS = ("trec", "csv", "latex")
MANIFEST = "export.json"
TAG = "stressrag"


def export(
    run: Run | str | Path,
    format: str,
    out: str | Path | None = None,
    *,
    where: Where = None,
    dataset: str | Path | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a finished run as files of another format.

    Parameters
    ----------
    run : Run or path
        The run.
    format : {'trec', 'csv', 'latex'}
        ``trec``: for each condition ``ID.run`` and ``ID.qrels``, on which trec_eval (``-c``) and ir_measures
        give the nDCG and Recall of the summary. Scores are k, k - 1, …, 1, so that no tie is left to
        break; the qrels hold all judgments of the queries that enter the means (with ``grade=2``, Recall
        is ir_measures' ``R(rel=2)``). White space, control signs
        and ``%`` in ids are percent-encoded in both files. ``csv``: ``conditions``, ``comparisons`` and
        ``four_conditions``. ``latex``: the same as ``booktabs`` tables.
    out : path, optional
        The folder to write, by default ``RUN-FORMAT`` in the working directory.
    where : str or mapping, optional
        Only conditions with these settings.
    dataset : path, optional
        The folder of the collection, where the run does not lead to it (``trec`` alone needs it).
    overwrite : bool
        Replace an earlier export.

    Returns
    -------
    Path
        The folder written.

    Raises
    ------
    StressragError
        When the folder exists, or the collection is not the one of the run; nothing is written then.
    """
    run = run if isinstance(run, Run) else open_run(run)
    if format not in FORMATS:
        raise StressragError(f"export: no format {format!r}; {nearest(str(format), FORMATS)}")
    conditions = select(run.summary["conditions"], as_where(where))
    folder = Path(out or f"{run.folder.resolve().name}-{format}").expanduser()
    _check_folder(folder, overwrite)
    if format == "trec":
        files = trec_files(run, conditions, dataset)
    elif format == "csv":
        files = csv_files(run.summary, conditions)
    else:
        files = latex_files(run.summary, conditions)
    about = {"format": format, "plan": run.plan_hash, "files": sorted(files)}
    _write_folder(folder, {**files, MANIFEST: json.dumps(about, indent=1) + "\n"})
    return folder


# ---- folders -------------------------------------------------------------------------------------


def _check_folder(folder: Path, overwrite: bool) -> None:
    """Refuse what exists; with ``overwrite`` all but an export or an empty folder."""
    if not (folder.exists() or folder.is_symlink()):
        return
    if not overwrite:
        raise StressragError(f"{folder} exists; choose another --out, or --overwrite to replace an export")
    foreign = StressragError(f"{folder} holds more than an export; choose another --out")
    if not folder.is_dir() or folder.is_symlink():
        raise foreign
    names = {p.name for p in folder.iterdir()}
    try:
        ours = {MANIFEST, *json.loads((folder / MANIFEST).read_text("utf-8"))["files"]} if names else set()
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise foreign from e
    if names - ours:
        raise foreign


def _write_folder(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files beside the folder's place, then put them there in one step."""
    folder = folder.absolute()
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    made = [p for p in folder.parents if not p.exists()]
    try:
        for name, text in files.items():
            write_text(part / name, text, "choose another --out")
        if folder.exists():
            shutil.rmtree(folder)
        os.replace(part, folder)
    except BaseException as e:
        shutil.rmtree(part, ignore_errors=True)
        for p in made:
            if p.is_dir() and not any(p.iterdir()):
                p.rmdir()
        if isinstance(e, OSError):
            raise cannot_write(folder, e, "choose another --out") from e
        raise


# ---- TREC ----------------------------------------------------------------------------------------


def trec_files(
    run: Run, conditions: Sequence[Mapping[str, Any]], dataset: str | Path | None = None
) -> dict[str, str]:
    """The TREC files of some conditions, by name."""
    records, rankings = run.records(), run.rankings()
    qrels: dict[tuple[str, str | None], Mapping[str, Mapping[str, int]]] = {}
    documents: dict[tuple[str, str | None], set[str]] = {}
    for c in conditions:
        key = (c["config"]["dataset"], c["config"]["split"])
        if key not in qrels:
            collection = _collection(run, key[0], key[1], dataset)
            documents[key] = set(collection.corpus.ids)
            # As when the run was judged: grades of documents that the corpus lacks have no effect.
            qrels[key] = {
                q: {d: g for d, g in collection.qrels[q].items() if d in documents[key]}
                for q in collection.evaluated.ids
            }
    out = {}
    for c in conditions:
        key = (c["config"]["dataset"], c["config"]["split"])
        here = records.filter(pc.equal(records["condition"].cast("string"), c["id"]))
        judged = [
            q for q, e in zip(here["query_id"].to_pylist(), here["evaluated"].to_pylist(), strict=True) if e
        ]
        ranked = rankings.filter(pc.equal(rankings["condition"].cast("string"), c["id"]))
        out[f"{c['id']}.run"] = _run_file(ranked, set(judged), c["config"]["k"], documents[key])
        out[f"{c['id']}.qrels"] = _qrels_file({q: qrels[key][q] for q in judged})
    return out


def _collection(run: Run, name: str, split: str | None, dataset: str | Path | None) -> Any:
    """The collection that a run was made on, as its content hash says."""
    from stressrag.collection import load_dataset

    expected = run.summary["content_sha256"][name]
    files = {"path": str(dataset)} if dataset is not None else _dataset_words(run)
    try:
        collection = load_dataset(name, split=split, **files)
    except StressragError as e:
        hint = "" if dataset else " (--dataset FOLDER says where the collection lies)"
        raise StressragError(f"export: qrels need the collection of the run: {e}{hint}") from e
    found = collection.hashes["content"]
    if found != expected:
        raise StressragError(
            f"export: {name} is not the collection of {run.folder} any more (content {found[:12]}, then "
            f"{expected[:12]}); --dataset FOLDER says where that one lies, or run again"
        )
    return collection


def _dataset_words(run: Run) -> dict[str, str]:
    """Files that the run's command named; the content hash says whether they are the ones."""
    import yaml

    try:
        command = yaml.safe_load((run.folder / "config.yaml").read_text("utf-8"))["command"]
        pairs = [
            str(w).removeprefix("dataset.").split("=", 1) for w in command if str(w).startswith("dataset.")
        ]
        out = {name: value.strip("'\"") for name, value in pairs}
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return {}
    return {n: v for n, v in out.items() if n in ("path", "corpus", "queries", "qrels") and "," not in v}


def trec_id(name: str) -> str:
    """An id as one word: white space, control signs and ``%`` percent-encoded, all else as it is."""
    return re.sub(r"[\s%\x00-\x1f\x7f-\x9f]", lambda m: quote(m[0], safe=""), name)


def _run_file(ranked: Any, judged: set[str], k: int, documents: set[str]) -> str:
    """Lines ``query Q0 document rank score tag``, the scores k, k - 1, …, 1 exact in any float."""
    columns = (ranked[n].to_pylist() for n in ("query_id", "doc_id", "rank", "poison"))
    lines = []
    for query, document, rank, poison in zip(*columns, strict=True):
        if query not in judged:
            continue
        if poison and document in documents:
            raise StressragError(
                f"export: poison and a document of the corpus are both called {document!r}; rename that"
            )
        lines.append(f"{trec_id(query)} Q0 {trec_id(document)} {rank} {k - rank + 1} {TAG}\n")
    return "".join(lines)


def _qrels_file(grades: Mapping[str, Mapping[str, int]]) -> str:
    return "".join(
        f"{trec_id(q)} 0 {trec_id(d)} {grade}\n" for q, docs in grades.items() for d, grade in docs.items()
    )


# ---- tables --------------------------------------------------------------------------------------


def _narrowed(summary: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A summary of some conditions, with the rows about them."""
    ids = {c["id"] for c in conditions}
    rows = {n: [r for r in summary[n] if r["condition"] in ids] for n in ("comparisons", "four_conditions")}
    return {**summary, "conditions": list(conditions), **rows}


def csv_files(summary: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Conditions, comparisons and the four conditions, numbers in full; empty cells where undefined."""
    s = _narrowed(summary, conditions)
    comparisons = [
        {"condition": c["condition"], "baseline": c["baseline"], "against": c["against"], "metric": name, **m}
        for c in s["comparisons"]
        for name, m in c["metrics"].items()
    ]
    four = []
    for row in s["four_conditions"]:
        ends = {
            f"{m}_{end}": x
            for m, interval in row["intervals"].items()
            for end, x in zip(("low", "high"), interval, strict=True)
        }
        four.append({**{k: v for k, v in row.items() if k != "intervals"}, **ends})
    return {
        "conditions.csv": summary_csv(s),
        "comparisons.csv": _csv(
            ["condition", "baseline", "against", "metric", "n", "difference", "low", "high", "method"],
            comparisons,
        ),
        "four_conditions.csv": _csv(
            ["condition", "undefended", "clean", "clean_defended", "event", "n"], four
        ),
    }


def _csv(head: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys([*head, *(n for r in rows for n in r)]))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({n: "" if v is None else v for n, v in r.items()} for r in rows)
    return stream.getvalue()


def latex_files(summary: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Conditions, comparisons and the four conditions as ``booktabs`` tables."""
    s = _narrowed(summary, conditions)
    vary = [n for n in SETTINGS if len({str(c["config"][n]) for c in conditions}) > 1] or [
        "retriever",
        "attack",
    ]
    settings = {c["id"]: [setting(n, c["config"]) for n in vary] for c in summary["conditions"]}
    metrics = shown_metrics(conditions)
    level = f"{summary['statistics']['level']:.0%}"
    rows = [
        [
            *settings[c["id"]],
            str(c["n_queries"]),
            *(_with_ends(m, c["metrics"].get(m), c["intervals"].get(m)) for m in metrics),
        ]
        for c in conditions
    ]
    comparisons = [
        [
            *settings[c["condition"]],
            c["against"],
            name,
            str(m["n"]),
            _with_ends("", m["difference"], [m["low"], m["high"]]),
            p_text(m["p"]) if "p" in m else "-",
            p_text(m["p_holm"]) if "p_holm" in m else "-",
        ]
        for c in s["comparisons"]
        for name, m in c["metrics"].items()
        if name in metrics
    ]
    measures = {"prevented": "P", "introduced": "J", "net": "N", "clean change": "H", "contrast": "Gamma"}
    four = [
        [
            *settings[r["condition"]],
            r["event"],
            str(r["n"]),
            *(_with_ends("", r[m], r["intervals"].get(m)) for m in measures.values()),
            p_text(r["p"]),
        ]
        for r in s["four_conditions"]
    ]
    n = len(vary)
    return {
        "conditions.tex": _latex(f"Means with {level} intervals.", [*vary, "n", *metrics], rows, n),
        "comparisons.tex": _latex(
            f"Differences from the baseline with {level} intervals; exact McNemar p, and corrected (Holm).",
            [*vary, "against", "metric", "n", "difference", "p", "p (Holm)"],
            comparisons,
            n + 2,
        ),
        "four_conditions.tex": _latex(
            f"What the defenses did, with {level} intervals; McNemar p, not corrected.",
            [*vary, "event", "n", *measures, "p"],
            four,
            n + 1,
        ),
    }


def _with_ends(name: str, value: float | None, ends: Sequence[float | None] | None) -> str:
    """A number with its interval."""
    known = ends is not None and None not in ends
    return number(name, value) + (" [{}, {}]".format(*(number(name, x) for x in ends or ())) if known else "")


def _latex(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """One table for ``booktabs``; the first ``left`` columns are words."""

    def line(cells: Sequence[str]) -> str:
        return " & ".join("{" + tex(c) + "}" if c[:1] in ("[", "*") else tex(c) for c in cells) + " \\\\"

    lines = [
        "% \\usepackage{booktabs}",
        "\\begin{table}",
        f"\\caption{{{tex(caption)}}}",
        "\\begin{tabular}{" + "l" * left + "r" * (len(head) - left) + "}",
        "\\toprule",
        line(head),
        "\\midrule",
        *map(line, rows),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
        "",
    ]
    return "\n".join(lines)
