"""What filters share that look at the retrieved passages and then answer without further defense."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from stressrag.aligned.pipelines.base import Pipeline, Stage, Steps
from stressrag.aligned.pipelines.none import MAX_TOKENS, NoDefense, answer_from
from stressrag.aligned.pipelines.own_prompt import OwnPrompt
from stressrag.aligned.records import Passage


class Admission(Pipeline):
    """Drops some passages of a context and answers from the others with the prompt of ``none``.

    The context was saved after retrieval, so nothing moves up from below in place of what is dropped: a
    defense in a retriever would refill the context, see :mod:`stressrag.defenses`.

    Parameters
    ----------
    max_tokens, own
        Of the answer, as for ``none``.
    """

    def __init__(self, max_tokens: int = MAX_TOKENS, own: OwnPrompt | None = None):
        self.answering = NoDefense(max_tokens, own)

    def settings(self) -> dict[str, Any]:
        return {**self.answering.settings(), "pipeline": self.name, "refill": False}

    @abc.abstractmethod
    def rejected(self, question: str, texts: Sequence[str]) -> tuple[dict[int, str], dict[str, Any]]:
        """Passages that are dropped, each with the reason, and facts for the stage."""

    def steps(self, question: str, passages: Sequence[Passage]) -> Steps:
        dropped, facts = self.rejected(question, [p.text for p in passages]) if passages else ({}, {})
        kept = tuple(i for i in range(len(passages)) if i not in dropped)
        first = Stage("filter", kept=kept, dropped=dropped, facts=facts)
        return (yield from answer_from(self.answering, question, passages, kept, [first]))
