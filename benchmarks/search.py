"""Clean top-10 search on SciFact: queries per second against bm25s (numpy backend, one thread) and rank-bm25.

Indexes are built beforehand; each side starts from query texts and cuts them with the same tokeniser. All 300
queries go in one call, to rank-bm25 a sample one by one.
"""

from __future__ import annotations

import argparse
import json

from data import K, SciFact, scifact, seconds

from stressrag.retrievers.bm25 import BM25
from stressrag.text.index import TermIndex
from stressrag.text.tokens import ascii_tokens

_SAMPLE = 20
_TIMES = 15


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    data = scifact()
    rates = measure(data)
    result = {
        **{f"queries_per_second_{name}": rate for name, rate in rates.items()},
        "speed_ratio_bm25s": rates["stressrag"] / rates["bm25s_numpy"],
        "speed_ratio_rank_bm25": rates["stressrag"] / rates["rank_bm25"],
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"SciFact, clean top {K}, queries per second")
    for name, rate in rates.items():
        print(f"  {name:12} {rate:10.0f}   ours is {rates['stressrag'] / rate:8.2f} times as fast")


def measure(data: SciFact) -> dict[str, float]:
    """Queries per second of each side, ours and bm25s in turn."""
    import bm25s
    from rank_bm25 import BM25Okapi

    mine = BM25(tokenizer="ascii").fit(data.corpus, TermIndex(data.tokens, ascii_tokens))
    theirs = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64", backend="numpy")
    theirs.index(data.tokens, show_progress=False)
    okapi = BM25Okapi(data.tokens)

    def run_bm25s() -> None:
        tokens = [ascii_tokens(q) for q in data.queries]
        theirs.retrieve(tokens, k=K, show_progress=False, n_threads=0)

    def run_okapi() -> None:
        for q in data.queries[:_SAMPLE]:
            (-okapi.get_scores(ascii_tokens(q))).argsort()[:K]

    def run_ours() -> None:
        mine.search(data.queries, K)

    run_ours(), run_bm25s()  # warm
    pairs = [(seconds(run_ours), seconds(run_bm25s)) for _ in range(_TIMES)]
    own = sorted(a for a, _ in pairs)[_TIMES // 2]
    other = sorted(b for _, b in pairs)[_TIMES // 2]
    n = len(data.queries)
    return {"stressrag": n / own, "bm25s_numpy": n / other, "rank_bm25": _SAMPLE / seconds(run_okapi, 3)}


if __name__ == "__main__":
    main()
