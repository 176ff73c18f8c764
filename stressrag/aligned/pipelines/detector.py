"""A detector as a defense: no answer from contexts that it flags."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stressrag.aligned.detectors import Detector, check_rates, get_detectors
from stressrag.aligned.graph_scores import NEIGHBORS
from stressrag.aligned.pipelines.base import ABSTENTION, Pipeline, Stage, Steps, outcome
from stressrag.aligned.pipelines.embedders import Embed, Embedder
from stressrag.aligned.pipelines.none import MAX_TOKENS, NoDefense, answer_from
from stressrag.aligned.pipelines.own_prompt import OwnPrompt
from stressrag.aligned.records import Passage
from stressrag.errors import StressragError


class DetectorAbstention(Pipeline):
    """Hard abstention on flagged contexts; the others are answered as by ``none``.

    *Prevented is Not Protected* (sections 3 and 4.3, Appendix H): a context is flagged whose score is
    strictly above a threshold. Nothing is asked of the generator then.

    Parameters
    ----------
    detector : str or Detector
        A name of :mod:`stressrag.aligned.detectors`, an import path, or a detector.
    threshold : float
        From a calibration on clean contexts, see :func:`stressrag.aligned.detectors.calibrate`.
    neighbors : int
        K of the graph scores.
    embed : str or callable
        The embedding model of detectors that need one, by default the paper's.
    max_tokens, own
        Of the answer, as for ``none``.
    rate : int, optional
        The nominal false-positive rate in percent that the threshold stands for; it is only named.
    """

    name = "detector"

    def __init__(
        self,
        detector: str | Detector,
        threshold: float,
        neighbors: int = NEIGHBORS,
        embed: str | Embed = "mpnet",
        max_tokens: int = MAX_TOKENS,
        rate: int | None = None,
        own: OwnPrompt | None = None,
    ):
        self.detector = get_detectors([detector], neighbors=neighbors)[0]
        if isinstance(threshold, bool) or not isinstance(threshold, (int, float)) or math.isnan(threshold):
            raise StressragError(f"pipeline {self.name!r}: threshold={threshold!r} is no number")
        self.threshold, self.neighbors = float(threshold), neighbors
        self.embedder = Embedder(embed) if self.detector.needs == "embeddings" else None
        self.answering = NoDefense(max_tokens, own)
        if rate is not None:
            check_rates([rate])
        self.rate = rate
        self.name = f"detector:{self.detector.name}" + ("" if rate is None else f"@{rate}%")

    def settings(self) -> dict[str, Any]:
        graph = {"neighbors": self.neighbors, **self.embedder.settings()} if self.embedder else {}
        # JSON has no infinity, and a threshold of infinity (nothing is flagged) is a fair control.
        threshold = self.threshold if math.isfinite(self.threshold) else str(self.threshold)
        return {
            **self.answering.settings(),
            "pipeline": "detector",
            "detector": self.detector.name,
            "threshold": threshold,
            "rate": self.rate,
            **graph,
        }

    def steps(self, question: str, passages: Sequence[Passage]) -> Steps:
        value = self.score(passages)
        flagged = value > self.threshold
        everyone = range(len(passages))
        why = f"{self.detector.name} {value:.6g} is above {self.threshold:.6g}"
        first = Stage(
            "detector",
            kept=() if flagged else tuple(everyone),
            dropped=dict.fromkeys(everyone, why) if flagged else {},
            facts={"score": value, "flagged": flagged},
        )
        if flagged:
            return outcome(ABSTENTION, [first], [f"abstained: {why}"])
        return (yield from answer_from(self.answering, question, passages, everyone, [first]))

    def score(self, passages: Sequence[Passage]) -> float:
        """The detector's score of a context."""
        if self.embedder is not None:
            return self.detector(self.embedder([p.text for p in passages]))
        missing = [i for i, p in enumerate(passages) if p.score is None]
        if missing:
            raise StressragError(f"passage {missing[0] + 1} of the context has no retrieval score")
        return self.detector([p.score for p in passages])
