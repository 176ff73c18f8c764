"""Near-duplicate admission before answering: of passages that are nearly the same only so many stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from stressrag.aligned.pipelines.admission import Admission
from stressrag.aligned.pipelines.base import check_counts
from stressrag.aligned.pipelines.embedders import Embed, Embedder, Floats, cosines
from stressrag.aligned.pipelines.none import MAX_TOKENS
from stressrag.aligned.pipelines.own_prompt import OwnPrompt
from stressrag.defenses.base import Pool
from stressrag.defenses.near_duplicate import NearDuplicate
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.ranking import Ints, Ranking
from stressrag.text.tokens import unicode_tokens

THRESHOLD = 0.4
COPIES = 1


class NearDuplicateFilter(Admission):
    """Keeps at most ``copies`` passages of each cluster of near-identical ones, the best-ranked.

    The near-duplicate admission of :class:`stressrag.defenses.near_duplicate.NearDuplicate` on the
    passages of one context, in their order.

    Parameters
    ----------
    threshold : float
        From which cosine on two passages count as one; above 1 nothing is rejected.
    copies : int
        How many of a cluster stay.
    embed : str or callable, optional
        An embedding model, see :class:`~stressrag.aligned.pipelines.embedders.Embedder`. Without it
        cosines are of word counts, 1 + ln tf, without idf, for want of a corpus.
    max_tokens, own
        Of the answer, as for ``none``.

    Notes
    -----
    The default threshold is that of the defense in a retriever, whose vectors have idf; word counts
    alone, with stop words, put any two English texts closer together.
    """

    name = "near_duplicate"

    def __init__(
        self,
        threshold: float = THRESHOLD,
        copies: int = COPIES,
        embed: str | Embed | None = None,
        max_tokens: int = MAX_TOKENS,
        own: OwnPrompt | None = None,
    ):
        super().__init__(max_tokens, own)
        check_counts(self.name, copies=copies)
        if not threshold >= 0:
            raise StressragError(f"pipeline {self.name!r}: threshold={threshold} must be 0 or more")
        self.threshold, self.copies = threshold, copies
        self.embedder = None if embed is None else Embedder(embed)

    def settings(self) -> dict[str, Any]:
        vectors = self.embedder.settings() if self.embedder else {"vectors": "word counts, 1 + ln tf"}
        return {**super().settings(), "threshold": self.threshold, "copies": self.copies, **vectors}

    def rejected(self, question: str, texts: Sequence[str]) -> tuple[dict[int, str], dict[str, Any]]:
        alike = cosines(self.embedder(texts) if self.embedder else term_vectors(texts))
        np.fill_diagonal(alike, 0.0)
        docs: Ints = np.arange(len(texts), dtype=np.int64)[None]
        pool = Pool([question], Ranking(docs, np.zeros(docs.shape)), 0, PoisonTexts(texts))
        kept = NearDuplicate(_Given(alike), self.threshold, self.copies).apply(pool, len(texts)).docs[0]
        gone = sorted(set(range(len(texts))) - set(kept.tolist()))
        dropped = {i: f"nearly a better-ranked passage, cosine {alike[i, :i].max():.3f}" for i in gone}
        return dropped, {"greatest_cosine": float(alike.max())}


class _Given:
    """Similarities that are known already."""

    def __init__(self, alike: Floats):
        self.alike = alike

    def among(self, docs: Ints, pool: Pool) -> Floats:
        return self.alike[docs[:, :, None], docs[:, None, :]]


def term_vectors(texts: Sequence[str]) -> Floats:
    """Word counts of each text as 1 + ln tf."""
    counts = [Counter(unicode_tokens(text)) for text in texts]
    places = {word: i for i, word in enumerate(sorted(set().union(*counts)))}
    out = np.zeros((len(texts), len(places)))
    for row, count in zip(out, counts, strict=True):
        row[[places[word] for word in count]] = 1 + np.log(list(count.values()))
    return out
