"""Overlap admission before answering: reject a passage that holds too much of the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stressrag.aligned.pipelines.admission import Admission
from stressrag.aligned.pipelines.none import MAX_TOKENS
from stressrag.aligned.pipelines.own_prompt import OwnPrompt
from stressrag.defenses.base import Pool
from stressrag.defenses.overlap import Overlap
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import Ranking
from stressrag.text.index import TermIndex
from stressrag.text.stopwords import ENGLISH
from stressrag.text.tokens import unicode_tokens

TAU = 0.55


class OverlapFilter(Admission):
    """Rejects passages whose coverage of the question's words is at or above a threshold.

    The overlap admission of the retrieval paper (:mod:`stressrag.defenses.overlap`) on the passages of
    one context: text written to be retrieved for a question repeats it.

    Parameters
    ----------
    tau : float
        The threshold; above 1 nothing is rejected.
    index : TermIndex, optional
        Of the clean corpus. Coverage is then that of :class:`stressrag.defenses.overlap.Overlap`, weighted by
        idf. Without it every word of the question that is no stop word weighs 1.
    max_tokens, own
        Of the answer, as for ``none``.

    Notes
    -----
    The default threshold is that of the weighted coverage; with equal weights it stands for another quantity.
    """

    name = "overlap"

    def __init__(
        self,
        tau: float = TAU,
        index: TermIndex | None = None,
        max_tokens: int = MAX_TOKENS,
        own: OwnPrompt | None = None,
    ):
        super().__init__(max_tokens, own)
        if not tau >= 0:
            raise StressragError(f"pipeline {self.name!r}: tau={tau} must be 0 or more")
        self.tau = tau
        self._index = index

    def settings(self) -> dict[str, Any]:
        weights: dict[str, Any] = {"weights": "equal, without stop words"}
        if self._index is not None:
            weights = {
                "weights": "Lucene's idf",
                "n_docs": int(self._index.n_docs),
                "n_terms": int(self._index.n_terms),
                "n_postings": len(self._index.docs),
            }
        return {**super().settings(), "tau": self.tau, **weights}

    def rejected(self, question: str, texts: Sequence[str]) -> tuple[dict[int, str], dict[str, Any]]:
        shares = self._weighted(question, texts) if self._index is not None else coverage(question, texts)
        dropped = {
            i: f"holds {share:.3f} of the question's words"
            for i, share in enumerate(shares)
            if share >= self.tau
        }
        return dropped, {"coverage": shares}

    def _weighted(self, question: str, texts: Sequence[str]) -> list[float]:
        """Coverage as the defense in a retriever computes it, to which all passages are new texts."""
        assert self._index is not None
        docs = self._index.n_docs + np.arange(len(texts), dtype=np.int64)[None]
        pool = Pool([question], Ranking(docs, np.zeros(docs.shape)), self._index.n_docs, PoisonTexts(texts))
        return [float(share) for share in Overlap(self._index, self.tau).coverage(pool)[0]]


def coverage(question: str, texts: Sequence[str]) -> list[float]:
    """The share of a question's distinct words, stop words aside, that each text holds; 0 without any."""
    wanted = set(unicode_tokens(question)) - ENGLISH
    held = [len(wanted & set(unicode_tokens(text))) for text in texts]
    return [n / len(wanted) if wanted else 0.0 for n in held]
