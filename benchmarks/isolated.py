"""Isolated contaminated search on SciFact: our exact increment against re-indexing per target.

All start from token lists of the corpus, P = 5 poison documents a target, ``live`` statistics, top 10. Ours
runs all 300 targets, its index and the poison's tokenising included; bm25s and rank-bm25 index corpus and
poison anew for each of a sample of targets.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from data import K, P, SciFact, scifact, seconds

from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.ranking import Ranking, Views
from stressrag.text.index import TermIndex
from stressrag.text.tokens import ascii_tokens

K1, B = 1.5, 0.75


def ours(data: SciFact) -> Ranking:
    """All targets, from token lists."""
    index = TermIndex(data.tokens, ascii_tokens)
    bm25 = BM25(tokenizer="ascii", k1=K1, b=B).fit(data.corpus, index)
    n = len(data.queries)
    views = Views.isolated([i // P for i in range(n * P)], n)
    return bm25.search_contaminated(data.queries, data.poison, views, K, statistics="live")


def with_bm25s(data: SciFact, target: int) -> tuple[np.ndarray, np.ndarray]:
    """One target: bm25s, numpy backend, float64."""
    import bm25s

    engine = bm25s.BM25(method="lucene", k1=K1, b=B, dtype="float64", backend="numpy")
    engine.index([*data.tokens, *poison_tokens(data, target)], show_progress=False)
    found, scores = engine.retrieve([data.query_tokens[target]], k=K, show_progress=False, n_threads=0)
    return found[0], scores[0] * (K1 + 1)


def with_rank_bm25(data: SciFact, target: int) -> np.ndarray:
    """One target: rank-bm25's BM25Okapi."""
    from rank_bm25 import BM25Okapi

    engine = BM25Okapi([*data.tokens, *poison_tokens(data, target)], k1=K1, b=B)
    scores = engine.get_scores(data.query_tokens[target])
    return np.argsort(-scores, kind="stable")[:K]


def poison_tokens(data: SciFact, target: int) -> list[list[str]]:
    """The tokens of one target's poison."""
    return [ascii_tokens(t) for t in data.poison[P * target : P * (target + 1)]]


def disagreements(data: SciFact, found: Ranking, sample: list[int]) -> int:
    """Places of the sampled top 10 that differ from bm25s where neighbouring scores are over 1e-9 apart."""
    wrong = 0
    n = len(data.corpus)
    for target in sample:
        docs, scores = with_bm25s(data, target)
        mine, own = found.row(target)
        numbers = np.where(docs < n, docs, n + P * target + docs - n)
        gaps = np.abs(np.diff(own, append=-np.inf)) > 1e-9
        clear = gaps & np.concatenate(([True], gaps[:-1]))
        clear[-1] = False  # the next score is not known
        wrong += int((mine[clear] != numbers[clear]).sum()) + int((np.abs(own - scores) > 1e-9).sum())
    return wrong


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--targets-sampled", type=int, default=10, help="targets re-indexed (10)")
    arguments = parser.parse_args()
    data = scifact()
    n = len(data.queries)
    sample = np.unique(np.linspace(0, n - 1, arguments.targets_sampled).astype(int)).tolist()
    found = ours(data)  # warm
    # Ours before and after the others, so that a change of the machine's speed shows in the median.
    mine = [seconds(lambda: ours(data), 3)]
    other = {
        "bm25s": seconds(lambda: [with_bm25s(data, t) for t in sample]) / len(sample),
        "rank_bm25": seconds(lambda: [with_rank_bm25(data, t) for t in sample]) / len(sample),
    }
    mine.append(seconds(lambda: ours(data), 3))
    own = float(np.mean(mine)) / n
    result = {
        "targets": n,
        "targets_sampled": len(sample),
        "seconds_per_target": own,
        **{f"seconds_per_target_{name}": s for name, s in other.items()},
        **{f"cost_ratio_{name}": s / own for name, s in other.items()},
        "disagreements_bm25s": disagreements(data, found, sample),
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"SciFact, isolated, P = {P}, live statistics, top {K}; cost per target in milliseconds")
    print(f"  ours ({n} targets, index included)   {1000 * own:9.3f}")
    for name, s in other.items():
        label = f"{name} re-indexed ({len(sample)} targets)"
        print(f"  {label:36} {1000 * s:9.1f}   {s / own:7.0f} times ours")
    print(f"  places that differ from bm25s: {result['disagreements_bm25s']}")


if __name__ == "__main__":
    main()
