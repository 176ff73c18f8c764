"""Ranking quality through ir-measures, with an order that is ours.

trec_eval and its relatives break ties by document name and compare scores as float32. So each list is
handed over with the scores k, k - 1, …, 1 and with documents named by number: nothing is left to break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.metrics.base import Floats, Ints, TopK


class RankingQuality:
    """nDCG@k (linear gain) and Recall@k of queries with relevant documents.

    Parameters
    ----------
    judgments : sequence of dict
        For each judged query its grades by document number.
    k : int
        The cut-off.
    min_grade : int
        Lowest grade that counts for Recall; nDCG uses all grades.
    """

    def __init__(self, judgments: Sequence[Mapping[int, int]], k: int, min_grade: int):
        import ir_measures

        measures = [ir_measures.nDCG @ k, ir_measures.R(rel=min_grade) @ k]
        self.names = {str(measures[0]): f"nDCG@{k}", str(measures[1]): f"Recall@{k}"}
        qrels = {
            str(q): {str(doc): max(0, grade) for doc, grade in grades.items()}
            for q, grades in enumerate(judgments)
            if max(grades.values(), default=0) >= min_grade
        }
        self._judged = frozenset(qrels)
        self._evaluator: Any = ir_measures.evaluator(measures, qrels) if qrels else None
        self.k = k

    def __call__(self, top: TopK) -> dict[str, Floats]:
        """Each metric by name, one number per row; NaN for queries without relevant documents."""
        out = {name: np.full(len(top.docs), np.nan) for name in self.names.values()}
        rows = {str(q): i for i, q in enumerate(top.query) if str(q) in self._judged}
        if self._evaluator is None:
            return out
        run = {q: _run(top.docs[i], self.k) for q, i in rows.items()}
        for value in self._evaluator.iter_calc(run):
            if value.query_id in rows:
                out[self.names[str(value.measure)]][rows[value.query_id]] = value.value
        return out


def _run(docs: Ints, k: int) -> dict[str, float]:
    return {str(d): float(k - rank) for rank, d in enumerate(docs.tolist()) if d >= 0}
