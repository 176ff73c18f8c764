"""Which saved answer a row of labels is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stressrag.aligned.records import Answer, output_key

IDENTIFYING = (
    *("query_id", "method", "condition", "budget", "dataset", "retriever", "victim", "arm", "attack"),
    *("split", "group_id"),
)


class AnswerIndex:
    """Finds the key of the answer that a row is about.

    Parameters
    ----------
    answers : iterable of Answer
        All that labels may be about.
    """

    def __init__(self, answers: Iterable[Answer]):
        self.answers = list(answers)
        self.keys: dict[str, str] = {}
        self.spaced: dict[str, str] = {}
        self.shown: dict[str, set[str]] = {}
        self.told: dict[str, str] = {}
        self.by_query: dict[str, list[tuple[Answer, str]]] = {}
        for a in self.answers:
            key = a.key
            self.by_query.setdefault(a.query_id, []).append((a, key))
            if key in self.keys:
                continue
            self.keys[key] = key
            self.told[key] = a.reference_source
            parts = (a.question, a.target, a.references, a.reference_source, a.answer)
            self.spaced[output_key(*parts, spaced=True)] = key
            self.shown.setdefault(_shown(a.question, a.target, a.references, a.answer), set()).add(key)

    def of_content(self, row: Mapping[str, Any]) -> set[str]:
        """Keys of answers that show what the row shows, whatever their reference source, save it has one."""
        references = row.get("references") or []
        references = [references] if isinstance(references, str) else references
        if not all(isinstance(row.get(n), str) for n in ("question", "answer")) or not isinstance(
            references, list
        ):
            return set()
        shown = (row["question"], row.get("target"), references, row["answer"])
        found = self.shown.get(_shown(*shown), set())
        told = row.get("reference_source")
        return {k for k in found if self.told[k] == told} or found if len(found) > 1 else found

    def of_fields(self, row: Mapping[str, Any], query_id: str) -> set[str]:
        """Keys of answers that have all the identifying fields of the row."""
        given = {n: row[n] for n in IDENTIFYING if n in row and (row[n] is not None or n == "budget")}
        given["query_id"] = query_id
        candidates = self.by_query.get(query_id, [])
        return {key for a, key in candidates if all(getattr(a, n) == v for n, v in given.items())}


def _shown(question: object, target: object, references: Iterable[Any], answer: object) -> str:
    return repr((question, target, list(references), answer))
