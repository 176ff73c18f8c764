"""What the benchmarks share: SciFact as token lists, and poison as the paper makes it."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from stressrag.attacks.payloads import load_payloads
from stressrag.collection import Corpus, load_dataset
from stressrag.errors import StressragError
from stressrag.text.tokens import ascii_tokens

P, K = 5, 10


class SciFact(NamedTuple):
    """The collection, its documents and queries as tokens, and P poison texts per query."""

    corpus: Corpus
    tokens: list[list[str]]
    queries: list[str]
    query_tokens: list[list[str]]
    poison: list[str]


def scifact() -> SciFact:
    """SciFact, read and tokenised outside the clock; leaves with 2 where it is not on the machine."""
    try:
        collection = load_dataset("scifact")
        payloads = load_payloads("bipia").texts
    except StressragError as e:
        print(f"error: {e}", file=sys.stderr)
        raise SystemExit(2) from e
    queries = list(collection.evaluated.texts)
    poison = [f"{q} {payloads[(P * i + j) % len(payloads)]}" for i, q in enumerate(queries) for j in range(P)]
    tokens = [ascii_tokens(t) for t in collection.corpus.texts]
    return SciFact(collection.corpus, tokens, queries, [ascii_tokens(q) for q in queries], poison)


def seconds(run: Callable[[], object], times: int = 1) -> float:
    """Median wall seconds of some runs."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)
