"""Reader of the BEIR layout: ``corpus.jsonl``, ``queries.jsonl``, ``qrels/SPLIT.tsv``.

The layout is the one of Thakur et al. (2021), "BEIR: A Heterogeneous Benchmark for Zero-shot
Evaluation of Information Retrieval Models". Each reader goes through its file once, reports what is
wrong to a :class:`ProblemLog` and returns what could be read.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stressrag.collection.json_text import NotJson, parse
from stressrag.collection.judgments import Judgments, looks_like_grade
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import ProblemLog

_OWN_KEYS = {"_id", "title", "text", "metadata"}
_KINDS = {
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


@dataclass
class Records:
    """Documents or queries as read, in file order.

    Attributes
    ----------
    file : str
        Where they come from.
    ids, texts, titles, metadata : list
        One entry per record.
    lines : dict
        The line of each id.
    blank : dict
        The line of each id whose record has no text at all.
    """

    file: str
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)
    metadata: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    blank: dict[str, int] = field(default_factory=dict)

    def add(
        self, line: int, name: str, text: str, title: str = "", metadata: dict[str, Any] | None = None
    ) -> None:
        """Append one record."""
        self.ids.append(name)
        self.texts.append(text)
        self.titles.append(title)
        self.metadata.append(metadata or {})
        self.lines[name] = line
        if not text.strip() and not title.strip():
            self.blank[name] = line


def read_jsonl(path: Path, log: ProblemLog, what: str) -> Records:
    """Documents or queries, one JSON object a line.

    Parameters
    ----------
    path : Path
        ``corpus.jsonl`` or ``queries.jsonl``, plain or gzipped.
    log : ProblemLog
        Takes what is wrong.
    what : {'document', 'query'}
        What a record is called in messages.

    Returns
    -------
    Records
        The well-formed records. What an object says beyond ``_id``, ``title`` and ``text`` becomes its
        metadata, the entries of ``metadata`` itself first.
    """
    records = Records(str(path))
    for line, raw in read_lines(path, log):
        row = parse_line(raw, records.file, line, log)
        if row is None:
            continue
        name = _identifier(row, records.file, line, log)
        text = _text(row, "text", records.file, line, log)
        title = _text(row, "title", records.file, line, log)
        if name is None or text is None or title is None:
            continue
        if name in records.lines:
            log.error(records.file, line, f"{what} id {name!r} again; first on line {records.lines[name]}")
            continue
        records.add(line, name, text, title, _metadata(row, records.file, line, log))
    return records


def read_qrels(
    path: Path,
    log: ProblemLog,
    queries: Container[str] | None = None,
    documents: Container[str] | None = None,
) -> dict[str, dict[str, int]]:
    """Judgments from a BEIR file: a header line, then query id, document id and grade between tabs.

    Parameters
    ----------
    path : Path
        ``qrels/SPLIT.tsv``.
    log : ProblemLog
        Takes what is wrong.
    queries, documents : container of str, optional
        The known ids; without them unknown ids cannot be told.

    Returns
    -------
    dict
        ``grades[query id][document id]``, both in file order.
    """
    judgments = Judgments(str(path), log, queries, documents)
    for row, (line, raw) in enumerate(read_lines(path, log)):
        cells = raw.split("\t")
        if len(cells) != 3:
            log.error(
                str(path),
                line,
                f"needs 3 columns between tabs (query-id, corpus-id, score), has {len(cells)}",
            )
            continue
        if row == 0:
            if not looks_like_grade(cells[2]):
                continue
            log.warn(str(path), line, "no header line; the first line is taken as a judgment")
        judgments.add(line, *cells)
    return judgments.finish()


def parse_line(raw: str, file: str, line: int, log: ProblemLog) -> dict[str, Any] | None:
    """The JSON object on one line; ``None``, and an error in the log, where there is none."""
    try:
        row = parse(raw)
    except NotJson as e:
        log.error(file, line, str(e))
        return None
    if not isinstance(row, dict):
        log.error(file, line, f"not a JSON object but {_KINDS.get(type(row), 'null')}")
        return None
    return row


def _identifier(row: dict[str, Any], file: str, line: int, log: ProblemLog) -> str | None:
    if "_id" not in row:
        log.error(file, line, "'_id' is missing")
        return None
    name = row["_id"]
    if isinstance(name, (int, float)) and not isinstance(name, bool):
        log.warn(file, line, "'_id' is a number, taken as a string", str(name))
        return str(name)
    if not isinstance(name, str):
        log.error(file, line, f"'_id' is not a string but {_KINDS.get(type(name), 'null')}")
        return None
    if not name.strip():
        log.error(file, line, "'_id' is empty")
        return None
    return name


def _text(row: dict[str, Any], key: str, file: str, line: int, log: ProblemLog) -> str | None:
    """The text under a key; only the title may be missing or null."""
    if row.get(key) is None and key == "title":
        return ""
    if key not in row:
        log.error(file, line, f"{key!r} is missing")
        return None
    if not isinstance(row[key], str):
        log.error(file, line, f"{key!r} is not a string but {_KINDS.get(type(row[key]), 'null')}")
        return None
    return row[key]


def _metadata(row: dict[str, Any], file: str, line: int, log: ProblemLog) -> dict[str, Any]:
    metadata = row.get("metadata") or {}
    if not isinstance(metadata, dict):
        log.warn(file, line, "'metadata' is not an object and is left out")
        metadata = {}
    return {**metadata, **{k: v for k, v in row.items() if k not in _OWN_KEYS and k not in metadata}}
