"""The shape of saved records.

``VERSION`` goes up when a column changes its meaning, ``SUMMARY_VERSION`` when a part of ``summary.json``
does or is new.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from stressrag.errors import StressragError

VERSION = 2
SUMMARY_VERSION = 3
_KEY = b"stressrag_schema"

_WORD = pa.dictionary(pa.int32(), pa.string())

FIXED: tuple[tuple[str, pa.DataType, str], ...] = (
    ("condition", _WORD, "id of the condition, as in summary.json"),
    ("dataset", _WORD, "name of the collection"),
    ("retriever", _WORD, "label of the retriever"),
    ("attack", _WORD, "name of the attack"),
    ("anchor", _WORD, "what of the query the poison repeats"),
    ("terms", pa.int32(), "number of known terms, null unless anchor is terms"),
    ("strategy", _WORD, "how they were chosen, null unless anchor is terms"),
    ("body", _WORD, "what else the poison says"),
    ("budget", pa.int32(), "poison documents per target, 0 for clean"),
    ("scope", _WORD, "whose poison a query sees, null for clean"),
    ("defense", _WORD, "names joined by +, or none"),
    ("statistics", _WORD, "live or frozen corpus statistics, null for clean"),
    ("k", pa.int32(), "length of the judged ranking"),
    ("seed", pa.int64(), "seed of the random draws, null for clean"),
    ("query_id", pa.string(), "id of the query"),
    ("group", pa.string(), "its injection group, null where there are none; intervals draw groups whole"),
    ("evaluated", pa.bool_(), "whether it has relevant documents and enters the means"),
    ("targeted", pa.bool_(), "whether the attack targets it"),
    ("eligible_terms", pa.int32(), "its eligible terms"),
    ("long_query", pa.bool_(), "whether these are 8 or more"),
    ("relevant_documents", pa.int32(), "documents judged at or above the grade"),
    ("returned", pa.int32(), "documents in the final list"),
    ("rejected", pa.int32(), "candidates that the defenses rejected"),
    ("state", _WORD, "EvidClean, EvidPoison, NoEvidClean or NoEvidPoison"),
)


def records_schema(metrics: Sequence[str]) -> pa.Schema:
    """Columns of ``records.parquet``; metrics are float64, null where undefined."""
    fields = [pa.field(name, kind) for name, kind, _ in FIXED]
    return pa.schema(fields + [pa.field(m, pa.float64()) for m in metrics], {_KEY: str(VERSION).encode()})


def rankings_schema() -> pa.Schema:
    """Columns of ``rankings.parquet``: a row per condition, query and rank."""
    return pa.schema(
        [
            pa.field("condition", _WORD),
            pa.field("query_id", pa.string()),
            pa.field("rank", pa.int32()),
            pa.field("doc_id", pa.string()),
            pa.field("score", pa.float64()),
            pa.field("grade", pa.int32()),
            pa.field("poison", pa.bool_()),
            pa.field("owner", pa.string()),
        ],
        {_KEY: str(VERSION).encode()},
    )


def texts_schema() -> pa.Schema:
    """Columns of ``texts.parquet``: each query, and each document that stands in a saved ranking, once.

    ``kind`` is query, document or poison; ``attack`` tells the poison of one attack from another's of the
    same id (the ``poison`` of a condition in ``summary.json``), and is null elsewhere.
    """
    return pa.schema(
        [
            pa.field("kind", _WORD),
            pa.field("attack", _WORD),
            pa.field("id", pa.string()),
            pa.field("title", pa.string()),
            pa.field("text", pa.string()),
        ],
        {_KEY: str(VERSION).encode()},
    )


def check_schema(schema: pa.Schema, where: str) -> None:
    """Refuse records of another version or without the columns that make them records."""
    version = (schema.metadata or {}).get(_KEY)
    if version is None:
        raise StressragError(f"{where}: not written by stressrag")
    if int(version) != VERSION:
        raise StressragError(f"{where}: schema {int(version)}, this stressrag reads {VERSION}; run it again")
