"""RobustRAG's keyword aggregation: passages answer alone, and what several of them say is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import punctuation
from typing import Any

from stressrag.aligned.generators.base import Completion, Prompt
from stressrag.aligned.generators.prompts import passages_prompt
from stressrag.aligned.labels import abstains
from stressrag.aligned.pipelines.base import (
    ABSTENTION,
    Pipeline,
    Stage,
    Steps,
    asked,
    check_counts,
    inset,
    outcome,
)
from stressrag.aligned.pipelines.keyword_prompt import INSTRUCTION
from stressrag.aligned.pipelines.none import MAX_TOKENS
from stressrag.aligned.pipelines.phrase_models import (
    SPACY,
    SPACY_MODEL,
    PhraseModel,
    get_phrase_model,
)
from stressrag.aligned.pipelines.upstream import RobustPrompts, prompt_source
from stressrag.aligned.records import Passage
from stressrag.errors import StressragError
from stressrag.text.stopwords import ENGLISH

HINTS = (
    "Experts have suggested words for the answer to a question. Answer the question concisely with "
    "their help."
)


class KeywordAgg(Pipeline):
    """Isolate, then aggregate keywords.

    *Certifiably Robust RAG against Retrieval Corruption* (Xiang et al., arXiv 2405.15556), secure keyword
    aggregation, as the KeywordAgg of *Prevented is Not Protected* (Appendix D). Each passage alone is asked
    for keywords. Replies that abstain are dropped; of the others, keywords that enough replies hold become
    suggestions for the final answer, which sees no passage.

    Parameters
    ----------
    alpha, beta : float
        A keyword stays that at least ``min(beta, alpha * retained)`` replies hold.
    least : int
        With fewer retained replies the pipeline abstains.
    phrase_model : str or callable
        See :func:`~stressrag.aligned.pipelines.phrase_models.get_phrase_model`.
    max_tokens, isolated_tokens : int
        The length limits of the final answer and of the isolated ones.
    prompts_from : str or Path, optional
        A checkout of RobustRAG, for its templates.

    Notes
    -----
    * Degenerate below four: with alpha = .3, up to three retained replies give a threshold of at most .9, so
      every keyword of any one reply passes, an attacker's too. Five retained replies need two that agree.
    * RobustRAG's code sets ``least`` to 1 whatever its constructor is given; here it is a parameter.
    * Its code drops replies that hold *I don't*. Here also those that abstain in other words
      (:func:`stressrag.aligned.labels.abstains`), and empty ones, which it keeps.
    * Of isolated replies the first line is kept, as in the paper's code; of the final answer every line. The
      paper's code once kept one line of that too, which moved its counts by 37 and 65 of 100.
    * Keywords are case-sensitive, and each reply as a whole is one, as in the released code. So is the order:
      longest first, then by text, descending. Where none is left, the final prompt suggests none.
    * Stop words are the classic English list, in lower case, as there. Nothing is certified.
    * Ours: instructions without solved examples.
    """

    name = "keyword_agg"

    def __init__(
        self,
        alpha: float = 0.3,
        beta: float = 3,
        least: int = 1,
        phrase_model: str | PhraseModel = "auto",
        max_tokens: int = MAX_TOKENS,
        isolated_tokens: int = MAX_TOKENS,
        prompts_from: str | Path | None = None,
    ):
        check_counts(self.name, least=least, max_tokens=max_tokens, isolated_tokens=isolated_tokens)
        if not (0 <= alpha < float("inf") and 0 <= beta < float("inf")):
            raise StressragError(f"pipeline {self.name!r}: alpha={alpha} and beta={beta} must be 0 or more")
        self.alpha, self.beta, self.least = alpha, beta, least
        self.max_tokens, self.isolated_tokens = max_tokens, isolated_tokens
        self.phrase_model, self._phrases = get_phrase_model(phrase_model)
        self._substitute = not self.phrase_model.startswith(SPACY)
        self._theirs = None if prompts_from is None else RobustPrompts(prompts_from)

    def settings(self) -> dict[str, Any]:
        own = {"instruction": INSTRUCTION, "hint_instruction": HINTS} if self._theirs is None else {}
        return {
            "pipeline": self.name,
            "alpha": self.alpha,
            "beta": self.beta,
            "least": self.least,
            "phrase_model": self.phrase_model,
            "phrase_model_is_substitute": self._substitute,
            "max_tokens": self.max_tokens,
            "isolated_tokens": self.isolated_tokens,
            **own,
            **prompt_source(self._theirs),
        }

    def steps(self, question: str, passages: Sequence[Passage]) -> Steps:
        notes = []
        if self._substitute:
            notes.append(f"phrase model {self.phrase_model}, a substitute for spaCy's {SPACY_MODEL}")
        alone = [self._isolated(question, p.text) for p in passages]
        replies: list[Completion] = yield alone
        lines = [_first_line(r.text) for r in replies]
        dropped = {i: why for i, line in enumerate(lines) if (why := _useless(line))}
        kept = [i for i in range(len(lines)) if i not in dropped]
        first = asked("isolated", alone, replies, kept, dropped)
        if len(kept) < self.least:
            notes.append(f"abstained: {len(kept)} replies retained, {self.least} needed")
            return outcome(ABSTENTION, [first], notes)
        counts = count_keywords([lines[i] for i in kept], self._phrases)
        threshold = min(self.beta, self.alpha * len(kept))
        chosen = choose_keywords(counts, threshold)
        facts = {
            "retained": len(kept),
            "threshold": threshold,
            "counts": {k: counts[k] for k in sorted(counts)},
            "keywords": chosen,
        }
        second = Stage("keywords", kept=tuple(kept), facts=facts)
        final = [self._final(question, ", ".join(chosen))]
        replies = yield final
        return outcome(replies[0].text, [first, second, asked("answer", final, replies)], notes)

    def _isolated(self, question: str, text: str) -> Prompt:
        if self._theirs is None:
            return passages_prompt(question, [text], INSTRUCTION, self.isolated_tokens)
        return Prompt(self._theirs.passages(question, [text]), max_tokens=self.isolated_tokens)

    def _final(self, question: str, hints: str) -> Prompt:
        if self._theirs is not None:
            return Prompt(self._theirs.hints(question, hints), max_tokens=self.max_tokens)
        user = f"Suggested words: {inset(hints) or '(none)'}\n\nQuestion: {inset(question)}\n\nAnswer:"
        return Prompt(user, HINTS, self.max_tokens)


def count_keywords(replies: Iterable[str], phrases: PhraseModel) -> Counter[str]:
    """In how many replies each keyword is: the phrases of a reply, and the reply itself."""
    counts: Counter[str] = Counter()
    for reply in replies:
        counts.update({reply.strip(), *(phrase.strip() for phrase in phrases(reply))})
    return counts


def choose_keywords(counts: Counter[str], threshold: float) -> list[str]:
    """Keywords with enough replies that are no stop word and not only punctuation, longest first."""
    return sorted(
        # Less a rounding error of alpha times the replies, which must not cost a keyword.
        (k for k, n in counts.items() if n >= threshold - 1e-9 and k.strip(punctuation) and k not in ENGLISH),
        key=lambda k: (len(k), k),
        reverse=True,
    )


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _useless(line: str) -> str:
    """Why a reply is not retained; ``""`` where it is."""
    if not line:
        return "empty reply"
    return "abstained" if "I don't" in line.replace("’", "'") or abstains(line) else ""
