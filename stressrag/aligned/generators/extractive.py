"""A reader without a model: it copies its answer from the passages in the prompt.

It takes the place of a language model where there is none, for tests and for a first look, and says so
(``stand_in``). Of a question it reads what kind of answer is asked for; the sentences that share most with
the question give the candidates, and passages that give the same candidate support each other. Numbers, dates
and names are answered by the candidate alone, all else by two sentences, yes or no before them. Where too
little of the question occurs in any passage, it does not know. It is as gullible as any reader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stressrag.aligned.generators.base import Completion, Generator, Prompt
from stressrag.aligned.generators.prompts import read_passages_prompt
from stressrag.aligned.generators.question import NUMERIC, Question, read_question, stem
from stressrag.aligned.generators.spans import Span, sentences, spans
from stressrag.aligned.generators.thesaurus import relatives
from stressrag.aligned.phrases import phrase, prepare, tokens
from stressrag.text.stopwords import ENGLISH

VERSION = 1  # to be raised whenever any answer changes: cached answers are kept under it
UNKNOWN = "I don't know."
_ENOUGH = 0.39  # the part of a question's weight that must occur in a passage
_RELATED = 0.6  # what a word of about the same meaning counts
_SHORT = NUMERIC | {"person", "name", "date"}  # kinds that are answered by the candidate alone
_ASKED = re.compile(r"^[ \t]*(?:Question|Query):[ \t]*(\S.*)$", re.MULTILINE)
_ASKED_INSIDE = re.compile(r"\b(?:Question|Query):[ \t]*(\S.*)$", re.MULTILINE)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|cannot|nobody|nothing|neither|forbidden|prohibited|refused|without)\b|n['’]t\b",
    re.I,
)
_CAUSE = re.compile(
    r"\b(?:because|since|due|owing|caused?|cause|reason|led|from|after|struck|found|fault|fell|broke|by)\b",
    re.I,
)
_PAST = re.compile(r"\b(?:used to|until|instead of|formerly|previously|no longer|was once)\b", re.I)
_ALSO = {"length": ("duration",), "quantity": ("ratio",), "date": ("time",)}


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
        ends = [at for stop in prompt.stop if stop and (at := text.find(stop)) >= 0]
        words = (text[: min(ends)] if ends else text).split(" ")
        kept = words[: prompt.max_tokens]
        return Completion(" ".join(kept), "stop" if len(kept) == len(words) else "length")

    def answer(self, question: str, passages: Sequence[str]) -> str:
        """The answer to a question from passages, or :data:`UNKNOWN`."""
        asked = read_question(question)
        candidates = [c for c in _candidates(asked, passages) if round(c.confidence, 9) >= self.threshold]
        if not asked.terms or not candidates:
            return UNKNOWN
        support: dict[tuple[str, ...], dict[int, float]] = {}
        for c in candidates:
            scores = support.setdefault(c.form, {})
            scores[c.passage] = max(scores.get(c.passage, 0.0), c.score)
        # Of equals the first counts. Python versions add up floats differently, so the last bits are dropped.
        return max(
            candidates, key=lambda c: (round(sum(support[c.form].values()), 9), round(c.score, 9))
        ).text


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
    at_start = list(_ASKED.finditer(prompt.user))
    m = at_start[-1] if at_start else _ASKED_INSIDE.search(prompt.user)
    if not m:
        return "", ()
    rest = prompt.user[: m.start()] + "\n" + prompt.user[m.end() :]
    return m[1].strip(), tuple(part.strip() for part in re.split(r"\n\s*\n", rest) if part.strip())


def _candidates(asked: Question, passages: Sequence[str]) -> Iterator[_Candidate]:
    stems = [[_stems(s) for s in sentences(p)] for p in passages]
    weights = _weights(asked, stems)
    # A long question of which half is found says more than a short one of which half is found.
    scale = (len(asked.terms) / 10) ** 0.25
    for number, (passage, there) in enumerate(zip(passages, stems, strict=True)):
        around = _shared(weights, frozenset().union(*there))
        whole = sentences(passage)
        for i, sentence in enumerate(whole):
            own = _shared(weights, there[i])
            near = _shared(weights, frozenset().union(*there[max(i - 1, 0) : i + 2]))
            score = 0.4 * own + 0.3 * near + 0.3 * around
            for span, fit in _spans(asked, sentence, there[i]):
                sure = scale * (0.7 * around + 0.3 * near)
                text = span.text if asked.kind in _SHORT else _quoted(whole, i)
                if asked.kind == "yes-no":
                    text = f"{'No' if _NEGATION.search(sentence) else 'Yes'}. {text}"
                yield _Candidate(text, phrase(span.text), number, score + 0.3 * fit, sure)


def _quoted(whole: Sequence[str], i: int) -> str:
    """A sentence with the next one, since the first often but names what the second then says."""
    return " ".join(s for s in whole[i : i + 2] if not s.endswith("?"))


def _spans(asked: Question, sentence: str, there: frozenset[str]) -> Iterator[tuple[Span, float]]:
    """The candidates of a sentence, each with how well it stands there, about 0 to 1."""
    # A passage may repeat the question: that is no answer to it.
    if sentence.endswith("?") or there <= set(asked.terms):
        return
    head = bool(asked.head) and _share(asked.head, there) > 0
    if asked.kind in ("phrase", "cause", "yes-no"):
        fit = 0.5 * head + (0.5 if asked.kind == "cause" and _CAUSE.search(sentence) else 0.0)
        yield Span(sentence, 0, len(sentence)), fit
        return
    words = [(stem(t.text), t.start) for t in tokens(prepare(sentence))]
    marks = [start for word, start in words if _share(word, asked.terms.keys())]
    for kind in (asked.kind, *_ALSO.get(asked.kind, ())):
        for span in spans(sentence, kind):
            form = phrase(span.text)
            fresh = sum(word not in asked.words and word not in ENGLISH for word in form)
            if not fresh:
                continue
            near = sum(1 / (1 + min(abs(span.start - m), abs(span.end - m)) / 20) for m in marks)
            fit = near / (len(marks) or 1)
            if kind in NUMERIC:
                fit += 0.5 * (bool(asked.head) and _share(asked.head, set(map(stem, form))) > 0)
                fit -= 0.3 * bool(_PAST.search(sentence, max(span.start - 30, 0), span.end + 25))
            elif kind in ("person", "name"):
                # A first word has its capital anyway; full names are likelier meant than parts.
                fit += 0.3 * (fresh > 1) - 0.4 * (span.start == 0) - 0.4 * (fresh < len(form))
            yield span, fit


def _stems(sentence: str) -> frozenset[str]:
    return frozenset(stem(t.text) for t in tokens(prepare(sentence)))


def _share(term: str, there: Collection[str]) -> float:
    """How well a term is found among stems: itself, a word of about the same meaning, or not."""
    return 1.0 if term in there else _RELATED if any(r in there for r in relatives(term)) else 0.0


def _shared(weights: dict[str, float], there: frozenset[str]) -> float:
    return sum(w * _share(t, there) for t, w in weights.items())


def _weights(asked: Question, stems: Sequence[Sequence[frozenset[str]]]) -> dict[str, float]:
    """The weights of the question's terms, lower where many passages hold the term; they sum to 1."""
    n = len(stems) or 1
    whole = [frozenset().union(*there) for there in stems]
    held = {t: sum(_share(t, there) > 0 for there in whole) for t in asked.terms}
    raw = {t: w * math.log(1 + n / max(held[t], 1)) for t, w in asked.terms.items()}
    total = sum(raw.values()) or 1.0
    return {t: w / total for t, w in raw.items()}
