"""Reader of the TREC formats: judgments, topics in angle brackets, topics between tabs."""

from __future__ import annotations

import re
from collections.abc import Container
from pathlib import Path

from stressrag.collection.beir import Records
from stressrag.collection.judgments import Judgments
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import ProblemLog

_TAG = re.compile(r"<(/?)(top|num|title|desc|narr)>", re.IGNORECASE)
# TREC wrote these words behind the tags, not always all of them.
_LABEL = {"num": "Number", "title": "Topic", "desc": "Description", "narr": "Narrative"}
TOPIC_FIELDS = ("title", "desc", "narr")


def read_qrels(
    path: Path,
    log: ProblemLog,
    queries: Container[str] | None = None,
    documents: Container[str] | None = None,
) -> dict[str, dict[str, int]]:
    """Judgments from a TREC file: query id, iteration (not used), document id, grade between blanks.

    Parameters and result are those of :func:`stressrag.collection.beir.read_qrels`; there is no header.
    """
    judgments = Judgments(str(path), log, queries, documents)
    for line, raw in read_lines(path, log):
        cells = re.split(r"[ \t]+", raw.strip(" \t"))
        if len(cells) != 4:
            log.error(str(path), line, f"needs 4 columns (query id, 0, document id, grade), has {len(cells)}")
            continue
        judgments.add(line, cells[0], cells[2], cells[3])
    return judgments.finish()


def read_tsv_queries(path: Path, log: ProblemLog) -> Records:
    """Queries from a file with an id, a tab and the text on each line."""
    records = Records(str(path))
    for line, raw in read_lines(path, log):
        name, tab, text = raw.partition("\t")
        if not tab:
            log.error(str(path), line, "needs a query id, a tab and the query text; there is no tab")
        else:
            _add(records, log, line, name.strip(), text.strip())
    return records


def read_topics(path: Path, log: ProblemLog, field: str = "title") -> Records:
    """Queries from a TREC topic file (``<top> <num> Number: 301 <title> … <desc> … </top>``).

    Parameters
    ----------
    path : Path
        The topic file. It is no XML: tags need not be closed and text may go on over lines.
    log : ProblemLog
        Takes what is wrong.
    field : {'title', 'desc', 'narr'}
        Which part of a topic is the query.
    """
    records = Records(str(path))
    parts: dict[str, list[str]] = {}
    start, current = 0, ""
    for line, raw in read_lines(path, log):
        at = 0
        for tag in _TAG.finditer(raw):
            parts.setdefault(current, []).append(raw[at : tag.start()])
            at = tag.end()
            closing, name = bool(tag[1]), tag[2].lower()
            if name != "top":
                current = "" if closing else name
                continue
            if start:
                _finish_topic(records, log, start, parts, field)
            parts, current, start = {}, "", 0 if closing else line
        parts.setdefault(current, []).append(raw[at:])
        if not start and raw[at:].strip():
            log.warn(
                str(path), line, "text outside <top> … </top> is passed over", repr(raw[at:].strip()[:40])
            )
    if start:
        _finish_topic(records, log, start, parts, field)
    return records


def _finish_topic(
    records: Records, log: ProblemLog, line: int, parts: dict[str, list[str]], field: str
) -> None:
    def content(name: str) -> str:
        text = " ".join(" ".join(parts.get(name, ())).split())
        return re.sub(rf"^{_LABEL[name]}:\s*", "", text, flags=re.IGNORECASE)

    if "num" not in parts or not content("num"):
        log.error(records.file, line, "the topic has no <num>")
    elif field not in parts:
        log.error(records.file, line, f"topic {content('num')!r} has no <{field}>")
    else:
        _add(records, log, line, content("num"), content(field))


def _add(records: Records, log: ProblemLog, line: int, name: str, text: str) -> None:
    if not name:
        log.error(records.file, line, "the query id is empty")
    elif name in records.lines:
        log.error(records.file, line, f"query id {name!r} again; first on line {records.lines[name]}")
    else:
        records.add(line, name, text)
