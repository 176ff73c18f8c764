"""A reader without a model: it copies its answer from the passages in the prompt.

It takes the place of a language model where there is none, for tests and for a first look, and says so
(``stand_in``). Of a question it reads what kind of answer is asked for; the sentences that share most with the
question give the candidates, and passages that give the same candidate support each other. Where too little of
the question occurs in any passage it does not know. It is gullible like any reader that trusts its passages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stressrag.aligned.generators.base import Completion, Generator, Prompt
from stressrag.aligned.generators.prompts import read_passages_prompt
from stressrag.aligned.generators.question import NUMERIC, Question, read_question, stem
from stressrag.aligned.generators.spans import Span, sentences, spans
from stressrag.aligned.phrases import phrase, prepare, tokens

VERSION = 1  # to be raised whenever any answer changes: cached answers are kept under it
UNKNOWN = "I don't know."
_ENOUGH = 0.45  # the part of a question's weight that must occur in a passage
_NEIGHBOR = 0.5  # what a term in the sentence before or after counts
_ALSO = {"length": ("duration",), "place": (), "quantity": ("ratio",), "date": ("time",)}


class ExtractiveReader(Generator):
    """Answers questions by copying from the passages in the prompt.

    Parameters
    ----------
    name : str
        For records and reports.
    threshold : float
        The part of a question, by weight, that a passage must share for an answer; 0 to 1.
    """

    stand_in = True

    def __init__(self, name: str = "extractive-reader", threshold: float = _ENOUGH) -> None:
        self.name = name
        self.threshold = float(threshold)

    def identity(self) -> dict[str, Any]:
        return {"kind": "extractive", "version": VERSION, "threshold": self.threshold}

    def complete(self, prompt: Prompt) -> Completion:
        text = self.answer(*_read(prompt))
        words = text.split(" ")
        cut = len(words) > prompt.max_tokens
        return Completion(" ".join(words[: prompt.max_tokens]), "length" if cut else "stop")

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """The answer to a question from passages, or :data:`UNKNOWN`."""
        asked = read_question(question)
        candidates = list(_candidates(asked, passages))
        if not candidates or max(c.confidence for c in candidates) < self.threshold:
            return UNKNOWN
        candidates = [c for c in candidates if c.confidence >= self.threshold]
        support: dict[tuple[str, ...], dict[int, float]] = {}
        for c in candidates:
            scores = support.setdefault(c.form, {})
            scores[c.passage] = max(scores.get(c.passage, 0.0), c.score)
        best = max(candidates, key=lambda c: (sum(support[c.form].values()), c.score))
        return best.text


@dataclass(frozen=True)
class _Candidate:
    text: str
    form: tuple[str, ...]  # as compared with others
    passage: int
    score: float
    confidence: float


def _read(prompt: Prompt) -> tuple[str, tuple[str, ...]]:
    """Question and passages of any prompt; without a question both are empty."""
    if found := read_passages_prompt(prompt):
        return found
    m = re.search(r"^.*?\b(?:Question|Query):[ \t]*(.+)$", prompt.user, re.MULTILINE)
    if not m:
        return "", ()
    rest = prompt.user[: m.start()] + "\n" + prompt.user[m.end() :]
    return m[1].strip(), tuple(part.strip() for part in re.split(r"\n\s*\n", rest) if part.strip())


def _candidates(asked: Question, passages: Sequence[str]) -> Iterator[_Candidate]:
    stems = [[_stems(s) for s in sentences(p)] for p in passages]
    weights = _idf(asked, stems)
    total = sum(asked.terms.values()) or 1.0
    for number, (passage, there) in enumerate(zip(passages, stems, strict=True)):
        everywhere = set().union(*there) if there else set()
        confidence = sum(w for t, w in asked.terms.items() if t in everywhere) / total
        around = sum(w for t, w in weights.items() if t in everywhere)
        for i, sentence in enumerate(sentences(passage)):
            near = set().union(*there[max(i - 1, 0) : i + 2])
            hit = sum(w * (1 if t in there[i] else _NEIGHBOR if t in near else 0) for t, w in weights.items())
            score = 0.6 * hit + 0.4 * around
            for span, fit in _spans(asked, sentence):
                yield _Candidate(span.text, phrase(span.text), number, score + 0.3 * fit, confidence)


def _spans(asked: Question, sentence: str) -> Iterator[tuple[Span, float]]:
    """The candidates of a sentence, each with how well it stands there, 0 to 1."""
    if asked.kind in ("phrase", "yes-no"):
        yield Span(sentence, 0, len(sentence)), 0.0
        return
    words = [(stem(t.text), t.start) for t in tokens(prepare(sentence))]
    marks = [start for word, start in words if word in asked.terms]
    for i, kind in enumerate((asked.kind, *_ALSO.get(asked.kind, ()))):
        for span in spans(sentence, kind):
            form = phrase(span.text)
            if not form or set(form) <= asked.words:
                continue
            near = sum(1 / (1 + min(abs(span.start - m), abs(span.end - m)) / 20) for m in marks)
            head = 0.5 if asked.kind in NUMERIC and asked.head in map(stem, form) else 0.0
            yield span, (near / (len(marks) or 1) + head) / (i + 1)


def _stems(sentence: str) -> frozenset[str]:
    return frozenset(stem(t.text) for t in tokens(prepare(sentence)))


def _idf(asked: Question, stems: Sequence[Sequence[frozenset[str]]]) -> dict[str, float]:
    """The weights of the question's terms, higher where few passages hold the term; they sum to 1."""
    n = len(stems)
    held = {t: sum(any(t in s for s in there) for there in stems) for t in asked.terms}
    raw = {t: w * math.log(1 + (n + 1) / (held[t] + 0.5)) for t, w in asked.terms.items()}
    total = sum(raw.values()) or 1.0
    return {t: w / total for t, w in raw.items()}
