"""Reader of ``aligned.jsonl``: what an attacker of a RAG system wants it to answer, and with which passages.

The file lies beside ``corpus.jsonl``, one JSON object a line, of two types:

``{"type": "target", "query_id", "answer", "aliases", "answer_type", "target", "passages", "group",
"answer_documents"}``
    A question, its gold answer, and an attacker's wrong answer with adversarial passages that argue for it
    (aligned RAG evaluation paper, Attacks; after PoisonedRAG). Targets of one ``group`` share their poison.
``{"type": "triple", "_id", "query_id", "query", "support_document", "support", "injected", "target",
"answer"}``
    Split knowledge (the same paper): the target follows from the legitimate passage and the injected one
    together, and from neither alone.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stressrag.collection.beir import parse_line
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import ProblemLog
from stressrag.errors import nearest


@dataclass(frozen=True)
class Target:
    """A question with its gold answer and what an attacker would have answered instead.

    Attributes
    ----------
    query_id, query : str
        One of the collection's queries.
    answer : str
        The gold answer.
    aliases : tuple of str
        Other forms of it.
    target : str
        The attacker's answer.
    passages : tuple of str
        Adversarial passages, each arguing for the target by itself.
    group : str
        The injection group: in aligned evaluation targets of one group are poisoned together.
    answer_type : str
        What kind of thing the answer is (price, place, …); ``""`` where the file does not say.
    answer_documents : tuple of str
        Ids of documents that hold the answer.
    """

    query_id: str
    query: str
    answer: str
    aliases: tuple[str, ...]
    target: str
    passages: tuple[str, ...]
    group: str
    answer_type: str = ""
    answer_documents: tuple[str, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answer and its aliases."""
        return (self.answer, *self.aliases)


@dataclass(frozen=True)
class Triple:
    """Split knowledge: a legitimate passage and an injected one that imply the target only together.

    Attributes
    ----------
    id : str
        Unique among the triples.
    query_id : str or None
        One of the collection's queries, where the question is one of them.
    query : str
        The question.
    support_document, support : str
        The legitimate document (A), and what it says that matters, word for word.
    injected : str
        The injected passage (B).
    target : str
        What follows from A and B.
    answer : str or None
        The true answer, where the corpus holds one.
    """

    id: str
    query_id: str | None
    query: str
    support_document: str
    support: str
    injected: str
    target: str
    answer: str | None = None


_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "target": {"query_id": str, "answer": str, "target": str, "passages": list, "group": str},
    "triple": {"_id": str, "query": str, "support_document": str, "support": str}
    | {"injected": str, "target": str},
}
_OPTIONAL: Mapping[str, Mapping[str, type]] = {
    "target": {"aliases": list, "answer_type": str, "answer_documents": list},
    "triple": {"query_id": str, "answer": str},
}


def read_aligned(
    path: Path, log: ProblemLog, queries: Mapping[str, str], documents: Container[str]
) -> tuple[tuple[Target, ...], tuple[Triple, ...]]:
    """Targets and triples, each in file order.

    Parameters
    ----------
    path : Path
        ``aligned.jsonl``, plain or gzipped.
    log : ProblemLog
        Takes what is wrong: broken lines, missing fields, ids that the collection does not have.
    queries : mapping
        Query id to text.
    documents : container of str
        The ids of the corpus.
    """
    file = str(path)
    targets: dict[str, Target] = {}
    triples: dict[str, Triple] = {}
    for line, raw in read_lines(path, log):
        row = parse_line(raw, file, line, log)
        if row is None:
            continue
        if problem := _problem(row, queries, documents):
            log.error(file, line, problem)
        elif row["type"] == "target":
            if row["query_id"] in targets:
                log.error(file, line, f"a second target for query {row['query_id']!r}")
            targets[row["query_id"]] = _target(row, queries)
        else:
            if row["_id"] in triples:
                log.error(file, line, f"a second triple {row['_id']!r}")
            triples[row["_id"]] = _triple(row)
    if not targets and not triples:
        log.warn(file, None, "holds neither targets nor triples")
    return tuple(targets.values()), tuple(triples.values())


def _problem(row: dict[str, Any], queries: Mapping[str, str], documents: Container[str]) -> str | None:
    """What is wrong with a row, in a few words."""
    kind = row.get("type")
    if not isinstance(kind, str) or kind not in _FIELDS:
        return f"the type {kind!r} is neither 'target' nor 'triple'"
    for name, wanted in _FIELDS[kind].items():
        if not isinstance(row.get(name), wanted) or not row[name]:
            return f"a {kind} needs {name!r}, a filled {'list' if wanted is list else 'string'}"
    for name, wanted in _OPTIONAL[kind].items():
        if row.get(name) is not None and not isinstance(row[name], wanted):
            return f"{name!r} is no {'list' if wanted is list else 'string'}"
    for name in ("passages", "aliases", "answer_documents"):
        if not all(isinstance(text, str) and text.strip() for text in row.get(name) or ()):
            return f"{name!r} holds something that is no filled string"
    if row.get("query_id") is not None and row["query_id"] not in queries:
        return f"there is no query {row['query_id']!r}; {nearest(row['query_id'], queries)}"
    ids = [row["support_document"]] if kind == "triple" else row.get("answer_documents") or ()
    for name in ids:
        if name not in documents:
            return f"there is no document {name!r} in the corpus"
    return None


def _target(row: dict[str, Any], queries: Mapping[str, str]) -> Target:
    return Target(
        query_id=row["query_id"],
        query=queries[row["query_id"]],
        answer=row["answer"],
        aliases=tuple(row.get("aliases") or ()),
        target=row["target"],
        passages=tuple(row["passages"]),
        group=row["group"],
        answer_type=row.get("answer_type") or "",
        answer_documents=tuple(row.get("answer_documents") or ()),
    )


def _triple(row: dict[str, Any]) -> Triple:
    return Triple(
        id=row["_id"],
        query_id=row.get("query_id"),
        query=row["query"],
        support_document=row["support_document"],
        support=row["support"],
        injected=row["injected"],
        target=row["target"],
        answer=row.get("answer"),
    )
