"""Corpus, queries, judgments: what a test collection is once it is read.

Documents and queries are known by their integer position everywhere inside the program; string ids
live only at the edges. Files give the order, and order decides ties (see ``retrievers.ranking``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stressrag.collection.aligned import Target, Triple
from stressrag.errors import StressragError


def _unique(ids: Sequence[str], what: str) -> dict[str, int]:
    numbers = {name: number for number, name in enumerate(ids)}
    if len(numbers) != len(ids):
        seen: set[str] = set()
        twice = next(name for name in ids if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise StressragError(f"{what} id {twice!r} occurs twice; give each {what} an id of its own")
    return numbers


@dataclass(frozen=True, eq=False)
class Corpus:
    """The documents of a collection, in file order.

    Attributes
    ----------
    ids : sequence of str
        One unique id per document.
    bodies : sequence of str
        The text of each document, without its title.
    titles : sequence of str
        The title of each document, ``""`` where it has none.
    metadata : sequence of dict
        What else the file says of each document (``source``, …); empty where it says nothing.
    """

    ids: Sequence[str]
    bodies: Sequence[str]
    titles: Sequence[str] = ()
    metadata: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in ("bodies", "titles", "metadata"):
            values = getattr(self, name)
            if not values and name != "bodies":
                object.__setattr__(self, name, ("",) * n if name == "titles" else ({},) * n)
            elif len(values) != n:
                raise StressragError(f"a corpus needs as many {name} as ids: {len(values)} against {n}")

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> Corpus:
        """A corpus of bare texts, named ``"0"``, ``"1"``, … in order."""
        return cls(ids=[str(i) for i in range(len(texts))], bodies=list(texts))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The position of each document id."""
        return _unique(self.ids, "document")

    @cached_property
    def texts(self) -> list[str]:
        """What retrievers index: title, one space, body (the paper's and BEIR's rule)."""
        return [f"{t} {b}".strip() for t, b in zip(self.titles, self.bodies, strict=True)]

    def extended(
        self, texts: Sequence[str], ids: Sequence[str] | None = None, *, first: bool = False
    ) -> Corpus:
        """This corpus with further documents behind it (or before it, with ``first``).

        Parameters
        ----------
        texts : sequence of str
            The further documents; each becomes a body without title.
        ids : sequence of str, optional
            Their ids; by default ``poison-0``, ``poison-1``, … kept clear of the corpus's own.
        first : bool
            Put them before the documents of this corpus.
        """
        if ids is None:
            prefix = "poison"
            while any(f"{prefix}-{i}" in self.numbers for i in range(len(texts))):
                prefix = "_" + prefix
            ids = [f"{prefix}-{i}" for i in range(len(texts))]

        def join(own: Sequence[Any], more: Sequence[Any]) -> list[Any]:
            return [*more, *own] if first else [*own, *more]

        return Corpus(
            ids=join(self.ids, ids),
            bodies=join(self.bodies, texts),
            titles=join(self.titles, [""] * len(texts)),
            metadata=join(self.metadata, [{}] * len(texts)),
        )


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of a collection, in file order: ids, texts and what else the file says of each."""

    ids: Sequence[str]
    texts: Sequence[str]
    metadata: Sequence[Mapping[str, Any]] = ()

    def __post_init__(self) -> None:
        if not self.metadata:
            object.__setattr__(self, "metadata", ({},) * len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The position of each query id."""
        return _unique(self.ids, "query")

    def select(self, ids: Iterable[str]) -> Queries:
        """The named queries, in the order of the names."""
        rows = [self.numbers[i] for i in ids]
        return Queries(
            [self.ids[r] for r in rows], [self.texts[r] for r in rows], [self.metadata[r] for r in rows]
        )


@dataclass(frozen=True, eq=False)
class Qrels:
    """Graded relevance judgments: ``grades[query id][document id]``, queries and documents in file order."""

    grades: Mapping[str, Mapping[str, int]]

    def __len__(self) -> int:
        return len(self.grades)

    def __iter__(self) -> Iterator[str]:
        return iter(self.grades)

    def __getitem__(self, query_id: str) -> Mapping[str, int]:
        return self.grades.get(query_id, {})


def _digest(lines: Iterable[Sequence[str]]) -> str:
    h = hashlib.sha256()
    for fields in lines:
        h.update(json.dumps(fields, ensure_ascii=True, separators=(",", ":")).encode("ascii"))
        h.update(b"\n")
    return h.hexdigest()


def _meta(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, sort_keys=True, ensure_ascii=True, default=str) if metadata else ""


@dataclass(frozen=True, eq=False)
class Collection:
    """A corpus, its queries and one split of judgments, under a name.

    Attributes
    ----------
    name : str
        The name that was asked for (``pellmore``) or the folder's.
    split : str
        Which judgments these are (``test``).
    origin : str
        Where it was read from, for people; never part of a result.
    notes : sequence of str
        What was odd about the files but could be worked with.
    targets, triples : sequence of Target, of Triple
        For aligned RAG evaluation: gold answers and attackers' targets, split knowledge
        (see ``collection.aligned``); empty for collections without ``aligned.jsonl``.
    """

    name: str
    corpus: Corpus
    queries: Queries
    qrels: Qrels
    split: str = "test"
    origin: str = ""
    notes: Sequence[str] = field(default_factory=tuple)
    targets: Sequence[Target] = ()
    triples: Sequence[Triple] = ()

    @cached_property
    def evaluated(self) -> Queries:
        """The queries that the judgments name, in the order of the judgments."""
        return self.queries.select(q for q in self.qrels if q in self.queries.numbers)

    @cached_property
    def calibration(self) -> Queries:
        """The queries without judgments, in file order: clean traffic to calibrate detectors on."""
        return self.queries.select(q for q in self.queries.ids if q not in self.qrels.grades)

    @cached_property
    def hashes(self) -> dict[str, str]:
        """SHA-256 of the content as read: ``corpus``, ``queries``, ``qrels`` and all ``content`` together.

        Formatting of the files does not enter, the order of documents and judgments does, since it
        decides ties and the numbering of targets. ``queries`` covers the judged ones only.
        """
        c, q = self.corpus, self.evaluated
        parts = {
            "corpus": _digest(
                (i, t, b, _meta(m)) for i, t, b, m in zip(c.ids, c.titles, c.bodies, c.metadata, strict=True)
            ),
            "queries": _digest(zip(q.ids, q.texts, strict=True)),
            "qrels": _digest(
                (query, doc, str(grade))
                for query, docs in self.qrels.grades.items()
                for doc, grade in docs.items()
            ),
        }
        parts["content"] = _digest([(name, value) for name, value in sorted(parts.items())])
        return parts
