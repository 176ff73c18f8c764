"""Saved answers in the long format: one row per query, method, condition and setting.

The fields of a row are those of :class:`Answer`, which also says what is left out when; the JSON Schema of a
row is :data:`SCHEMA`. Rows of different values of :data:`AXES`, budgets or methods are never pooled.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

AXES = ("dataset", "retriever", "victim", "arm", "attack")
NO_DEFENSE = "none"
CONDITIONS = ("clean", "poisoned")
REMOVALS = ("no_poison", "no_own_poison", "poison_only")
COMPOSITIONS = ("support_background", "poison_background", "background_only")
SPLITS = ("attack", "utility", "calibration")
ROLES = ("poison", "support", "other")
# One poison passage alone, or all but one; passages are numbered in the order of the context.
SINGLE = re.compile(r"single_poison_(\d+)\Z")
LEFT_OUT = re.compile(r"leave_poison_(\d+)_out\Z")
# The names of the paper's harness, each with its condition and whether the defense is on.
HARNESS = {
    "clean_undefended": ("clean", False),
    "poisoned_undefended": ("poisoned", False),
    "clean_defended": ("clean", True),
    "poisoned_defended": ("poisoned", True),
}


def is_condition(name: str) -> bool:
    """Whether a name is one of the conditions or controls of the long format."""
    fixed = (*CONDITIONS, *REMOVALS, *COMPOSITIONS)
    return name in fixed or bool(SINGLE.match(name) or LEFT_OUT.match(name))


@dataclass(frozen=True)
class Passage:
    """One retrieved passage of a context.

    Attributes
    ----------
    id, text : str
        Either may be ``""``.
    score : float or None
        The retrieval score.
    role : {"poison", "support", "other"}
        Injected, legitimate support for the gold answer (or, in split knowledge, passage A), or neither.
    owner : str
        For a poison passage the query that it was written for; ``""``: not known.
    """

    id: str = ""
    text: str = ""
    score: float | None = None
    role: str = "other"
    owner: str = ""


@dataclass(frozen=True)
class Answer:
    """One saved answer.

    Attributes
    ----------
    query_id, question, answer : str
        The answer as the system gave it, whole.
    condition : str
        ``clean`` or ``poisoned`` retrieval, or a control: ``no_poison`` (all poison removed, nothing
        refilled), ``no_own_poison``, ``poison_only``, ``single_poison_I``, ``leave_poison_I_out``; for split
        knowledge ``support_background`` (A + H), ``poison_background`` (B + H), ``background_only`` (H), the
        poisoned context being A + B + H.
    method : str
        The defense; ``none`` for undefended answers, which all methods of a setting share.
    dataset, retriever, victim, arm, attack : str
        The setting; ``""`` where it is not said.
    budget : int or None
        Poison passages per query. Rows without one, such as clean answers, serve every budget.
    split : {"attack", "utility", "calibration"}
        What the query is for: attacked, held out for clean utility, or to calibrate detectors.
    group_id : str
        The injection group, queries that share poison; by default the query itself.
    target : str or None
        The attacker's answer; ``None``: not applicable.
    references : tuple of str
        Gold answers, any of which is right.
    reference_source : str
        Where the references come from.
    context : tuple of Passage or None
        The passages that the system saw, in order; ``None``: not saved.
    context_id : str
        Instead of the passages: their id in ``contexts.jsonl`` beside the file (or beside its folder).
    file, line : str, int
        Where the row was read.
    """

    query_id: str
    question: str
    answer: str
    condition: str
    method: str = NO_DEFENSE
    dataset: str = ""
    retriever: str = ""
    victim: str = ""
    arm: str = ""
    attack: str = ""
    budget: int | None = None
    split: str = "attack"
    group_id: str = ""
    target: str | None = None
    references: tuple[str, ...] = ()
    reference_source: str = ""
    context: tuple[Passage, ...] | None = None
    context_id: str = ""
    file: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)

    @property
    def group(self) -> str:
        """The injection group."""
        return self.group_id or self.query_id

    @property
    def setting(self) -> tuple[str, ...]:
        """The values of :data:`AXES`."""
        return (self.dataset, self.retriever, self.victim, self.arm, self.attack)

    @cached_property
    def key(self) -> str:
        """The hash under which labels of this answer are kept; see :func:`output_key`."""
        return output_key(self.question, self.target, self.references, self.reference_source, self.answer)

    def row(self) -> dict[str, Any]:
        """The row as in a file, defaults left out."""
        out: dict[str, Any] = {}
        for name in FIELDS:
            value = getattr(self, name)
            if name == "context":
                if value is not None:
                    out[name] = [_passage_row(p) for p in value]
            elif name == "references":
                if value:
                    out[name] = list(value)
            elif value not in ("", None) or name in ("query_id", "question", "answer"):
                out[name] = value
        return out


FIELDS = tuple(name for name in Answer.__dataclass_fields__ if name not in ("file", "line"))


def _passage_row(p: Passage) -> dict[str, Any]:
    return {
        name: value
        for name in Passage.__dataclass_fields__
        if (value := getattr(p, name)) not in ("", None) and (name, value) != ("role", "other")
    }


def output_key(
    question: str,
    target: str | None,
    references: tuple[str, ...],
    reference_source: str,
    answer: str,
    spaced: bool = False,
) -> str:
    """SHA-256 of what a judge sees of an answer, so that equal answers are labelled once.

    The hash of canonical JSON (sorted keys, UTF-8) as the paper's harness makes it; ``spaced`` is the form of
    the paper's other files, which has a space after each comma and colon.
    """
    shown = {
        "question": question,
        "target": target,
        "references": list(references),
        "reference_source": reference_source,
        "answer": answer,
    }
    separators = (", ", ": ") if spaced else (",", ":")
    text = json.dumps(shown, sort_keys=True, ensure_ascii=False, separators=separators)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_TEXT: Mapping[str, Any] = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "stressrag aligned answers, long format, one object per line",
    "type": "object",
    "required": ["query_id", "question", "answer", "condition"],
    "additionalProperties": False,
    "properties": {
        "query_id": {"type": "string", "minLength": 1},
        "question": _TEXT,
        "answer": {"type": "string", "description": "the whole answer; an empty one counts as an answer"},
        "condition": {
            "type": "string",
            "pattern": f"^({'|'.join((*CONDITIONS, *REMOVALS, *COMPOSITIONS))}|single_poison_\\d+|"
            "leave_poison_\\d+_out)$",
        },
        "method": {**_TEXT, "default": NO_DEFENSE, "description": "the defense; none: undefended"},
        **{name: {**_TEXT, "default": ""} for name in AXES},
        "budget": {"type": ["integer", "null"], "minimum": 0, "description": "null: serves every budget"},
        "split": {"enum": list(SPLITS), "default": "attack"},
        "group_id": {**_TEXT, "description": "injection group; by default the query"},
        "target": {"type": ["string", "null"], "description": "the attacker's answer; null: not applicable"},
        "references": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "reference_source": _TEXT,
        "context": {
            "type": ["array", "null"],
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "id": _TEXT,
                    "text": _TEXT,
                    "score": {"type": ["number", "null"]},
                    "role": {"enum": list(ROLES), "default": "other"},
                    "owner": {**_TEXT, "description": "the query that a poison passage was written for"},
                },
            },
        },
        "context_id": {**_TEXT, "description": "of a row of contexts.jsonl beside the file or its folder"},
        "metadata": {"type": "object", "description": "yours; not read"},
    },
}
