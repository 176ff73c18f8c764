"""Worst cases on SciFact: what the optimal documents and the certificates cost, and how far they are apart.

300 queries, BM25, frozen and live statistics, one document, top 10, n = 1 to 8 known terms (the rarest): the
best document of each query and n is written and searched for, and each is certified for those terms and for
any n terms. The yardstick beside it, in the same run: the same search of the static attack's documents.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from data import K, scifact

from stressrag.attacks.aim import Aim
from stressrag.attacks.anchors import Terms
from stressrag.attacks.keyword_writer import KeywordWriter
from stressrag.certificates.certify import Certifier
from stressrag.experiment.system import RetrievalSystem
from stressrag.retrievers.bm25 import BM25
from stressrag.text.eligible import eligible_terms
from stressrag.text.index import TermIndex
from stressrag.text.tokens import ascii_tokens

MOST, TOKENS = 8, 100
T = TypeVar("T")


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """Wall seconds, and what came out."""
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    data = scifact()
    bm25 = BM25(tokenizer="ascii", query_terms="unique").fit(
        data.corpus, TermIndex(data.tokens, ascii_tokens)
    )
    queries = data.queries
    bm25.search(queries[:1], K)  # weights of all postings are made once
    ids = [str(i) for i in range(len(queries))]
    eligible = [eligible_terms(q, bm25.index_, ascii_tokens) for q in queries]
    known = [
        [Terms(n, "idf", bm25.index_, 0).chosen(i, e) for i, e in zip(ids, eligible, strict=True)]
        for n in range(1, MOST + 1)
    ]
    out = {}
    for statistics in ("frozen", "live"):
        aim = Aim(None, TOKENS, statistics, 1, (), K)
        system = RetrievalSystem(aim, [bm25], {}, [], len(data.corpus))
        writer = KeywordWriter(bm25, aim)
        certifier = Certifier([bm25], {}, [], statistics=statistics, copies=1, k=K, pool=K, max_tokens=TOKENS)
        static, once = timed(
            lambda: [system.outcome(queries, [[" ".join(t)] for t in some]) for some in known]  # noqa: B023
        )
        write, written = timed(
            lambda: [
                [[writer.write(q, t)[0]] for q, t in zip(queries, some, strict=True)]  # noqa: B023
                for some in known
            ]
        )
        search, tried = timed(lambda: [system.outcome(queries, docs) for docs in written])  # noqa: B023
        certify, safe = timed(
            lambda: certifier.certified(  # noqa: B023
                queries, [[known[n][q] for n in range(MOST)] for q in range(len(queries))]
            )
        )
        fewest, least = timed(lambda: certifier.fewest(queries, MOST))  # noqa: B023
        proven = np.array(safe)
        out[statistics] = {
            "seconds": {
                "search static": static,
                "write optimal": write,
                "search optimal": search,
                "certify": certify,
                "fewest terms": fewest,
                "optimal and certificates": write + search + certify + fewest,
            },
            "static": [round(float((o.shown > 0).mean()), 3) for o in once],
            "optimal": [round(float((o.shown > 0).mean()), 3) for o in tried],
            "certified for these terms": [round(float(proven[:, n].mean()), 3) for n in range(MOST)],
            "undecided": [
                round(float((~proven[:, n] & (tried[n].shown == 0)).mean()), 3) for n in range(MOST)
            ],
            "broken": int(sum((proven[:, n] & (tried[n].shown > 0)).sum() for n in range(MOST))),
            "certified for any n terms": [round(float((least > n).mean()), 3) for n in range(1, MOST + 1)],
        }
    if args.json:
        print(json.dumps(out, indent=1))
        return
    for statistics, found in out.items():
        print(f"{statistics} statistics, n = 1 to {MOST}:")
        for name, value in found.items():
            told = {k: f"{v:.2f} s" for k, v in value.items()} if isinstance(value, dict) else value
            print(f"  {name}: {told}")


if __name__ == "__main__":
    main()
