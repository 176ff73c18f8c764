"""The summary of a run: means per condition, from the records alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from stressrag import __version__
from stressrag.records.schema import FIXED

SCHEMA = 1


def summarize(
    plan: Any,
    records: pa.Table,
    content: Mapping[str, str],
    payloads: Mapping[str, str],
    notes: Mapping[str, Mapping[str, int]],
    warnings: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The contents of ``summary.json``.

    Parameters
    ----------
    plan : Plan
        What was run.
    records : pyarrow.Table
        All records.
    content : mapping
        Content hash by collection name.
    payloads : mapping
        Hash of the payload texts by ``attack.payloads``.
    notes : mapping
        By condition id, what of its attack did not go as asked, counted.
    warnings : mapping
        By collection name, what its reader warned of.
    """
    fixed = {name for name, _, _ in FIXED}
    metrics = [name for name in records.schema.names if name not in fixed]
    columns = {name: records[name].to_numpy() for name in metrics}
    flags = {name: records[name].to_numpy() for name in ("evaluated", "targeted", "long_query")}
    condition = records["condition"].combine_chunks()
    numbers = {name: i for i, name in enumerate(condition.dictionary.to_pylist())}
    codes = condition.indices.to_numpy()
    out = []
    for c in plan.conditions:
        rows = codes == numbers[c.id]
        here = {name: values[rows] for name, values in flags.items()}
        judged = here["evaluated"]
        values = {name: column[rows] for name, column in columns.items()}
        splits = {
            "targeted": judged & here["targeted"],
            "bystander": judged & ~here["targeted"],
            "long": judged & here["long_query"],
            "short": judged & ~here["long_query"],
        }
        if c.clean:
            splits = {k: v for k, v in splits.items() if k in ("long", "short")}
        out.append(
            {
                "id": c.id,
                "config": c.config(),
                "partner": c.partner,
                "n_queries": int(judged.sum()),
                "n_left_out": int((~judged).sum()),
                "n_targets": int(here["targeted"].sum()),
                "metrics": _means(values, judged),
                "splits": {
                    k: {"n_queries": int(v.sum()), "metrics": _means(values, v)}
                    for k, v in splits.items()
                    if v.any()
                },
                "notes": dict(notes.get(c.id, {})),
            }
        )
    return {
        "schema": SCHEMA,
        "stressrag": __version__,
        "verb": plan.verb,
        "plan": plan.hash,
        "content_sha256": dict(content),
        "payloads_sha256": dict(sorted(payloads.items())),
        "warnings": dict(warnings),
        "conditions": out,
    }


def _means(values: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, float | None]:
    """Means over the rows where a metric is defined; ``None`` where it is nowhere defined."""
    out: dict[str, float | None] = {}
    for name, column in values.items():
        there = column[rows]
        there = there[~np.isnan(there)]
        if len(there):
            out[name] = float(there.mean())
        elif not np.isnan(column).all() or name.startswith("First"):
            out[name] = None
    return out


def summary_csv(summary: Mapping[str, Any]) -> str:
    """One line per condition: its id, its short settings, n, and the metrics."""
    names = list(dict.fromkeys(m for c in summary["conditions"] for m in c["metrics"]))
    short = [
        "dataset",
        "retriever",
        "attack",
        "anchor",
        "terms",
        "strategy",
        "body",
        "budget",
        "scope",
        "defense",
    ]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["condition", *short, "n_queries", *names])
    for c in summary["conditions"]:
        settings = [_cell(c["config"][s]) for s in short]
        writer.writerow([c["id"], *settings, c["n_queries"], *(_cell(c["metrics"].get(m)) for m in names)])
    return stream.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
