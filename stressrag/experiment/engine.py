"""Searches, defends and judges one block of queries under all conditions of a family."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from stressrag.attacks.aim import Aim
from stressrag.attacks.poison import AttackContext, group_names
from stressrag.collection.model import Collection
from stressrag.defenses.base import Defense, Pool
from stressrag.defenses.chain import defended
from stressrag.experiment.certificates import Certificates
from stressrag.experiment.conditions import Condition, DefenseSpec, RetrieverSpec
from stressrag.experiment.make_defense import make_defense
from stressrag.experiment.scenario import PoisonTable, Scenario, key
from stressrag.experiment.system import RetrievalSystem
from stressrag.metrics.base import TopK
from stressrag.metrics.evidence import STATES
from stressrag.metrics.ranking import RankingQuality
from stressrag.metrics.registry import get_metrics
from stressrag.records.schema import rankings_schema, records_schema
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.hybrid import fuse
from stressrag.retrievers.ranking import Ranking
from stressrag.text.eligible import LONG_QUERY
from stressrag.text.index import TermIndex
from stressrag.text.tokens import get_tokenizer


class Engine:
    """A family of conditions over one collection, ready to run block by block.

    Parameters
    ----------
    collection : Collection
        The clean collection.
    family : sequence of Condition
        Conditions that share retrievers.
    extra : sequence of str
        Further metrics by name.
    say : callable
        Told what is being prepared.
    """

    def __init__(
        self,
        collection: Collection,
        family: Sequence[Condition],
        extra: Sequence[str],
        say: Callable[[str], None] = lambda _: None,
    ):
        self.family, self.extra = tuple(family), tuple(extra)
        self.timings: dict[str, float] = defaultdict(float)
        self.queries = collection.evaluated
        self.group_names = group_names(self.queries)
        self.doc_ids = list(collection.corpus.ids)
        self.n_docs = len(collection.corpus)
        numbers = collection.corpus.numbers
        self.judgments = [
            {numbers[d]: g for d, g in collection.qrels[q].items() if d in numbers} for q in self.queries.ids
        ]
        leaves = dict.fromkeys(leaf for c in family for leaf in c.retriever.leaves)
        leaves |= dict.fromkeys(d.similarity for c in family for d in c.defense if d.similarity)
        self._indices: dict[str, TermIndex] = {}
        self._collection = collection
        self.retrievers: dict[RetrieverSpec, Retriever] = {}
        for spec in leaves:
            say(f"fitting {spec.label}")
            with self._clock(f"fit {spec.label}"):
                self.retrievers[spec] = self._fit(spec)
        self._made: dict[DefenseSpec, Defense] = {}
        self.defenses = {c.defense: self._chain(c.defense) for c in family}
        contexts = {
            name: AttackContext(
                collection.corpus, self.queries, self._index(name), lambda aim: self._system(aim, say)
            )
            for name in dict.fromkeys(c.recipe.index for c in family)
        }
        say("writing poison")
        with self._clock("generate poison"):
            self.table = PoisonTable(family, contexts)
        self.eligible = {
            (r.index, r.tokenizer): np.array([len(t) for t in contexts[r.index].eligible(r.tokenizer)])
            for r in dict.fromkeys(c.recipe for c in family)
        }
        self.payload_hash = {
            c.recipe.payloads: contexts[c.recipe.index].payloads(c.recipe.payloads).sha256
            for c in family
            if c.recipe.body in ("payload", "corpus_neutral") and not c.recipe.target
        }
        self.certificates = Certificates(self.retrievers, self.defenses, self.queries, self.table)
        del self._collection  # workers need neither the texts nor the files

    def _index(self, tokenizer: str) -> TermIndex:
        """The term index of the corpus under a tokeniser, shared by all that need it."""
        if tokenizer not in self._indices:
            texts = self._collection.corpus.texts
            self._indices[tokenizer] = TermIndex.from_texts(texts, get_tokenizer(tokenizer))
        return self._indices[tokenizer]

    def _fit(self, spec: RetrieverSpec) -> Retriever:
        retriever = spec.build()
        if isinstance(retriever, BM25):
            return retriever.fit(self._collection.corpus, self._index(retriever.tokenizer))
        return retriever.fit(self._collection.corpus)

    def _chain(self, specs: tuple[DefenseSpec, ...]) -> list[Defense]:
        """Some defenses in order, each made once."""
        for spec in specs:
            if spec not in self._made:
                self._made[spec] = make_defense(spec, self._index, self._collection, self.retrievers)
        return [self._made[spec] for spec in specs]

    def _system(self, aim: Aim, say: Callable[[str], None]) -> RetrievalSystem:
        """What a worst-case attack is written against."""
        spec: RetrieverSpec = aim.retriever
        leaves = [self.retrievers[leaf] for leaf in spec.leaves]
        fusion = dict(spec.parameters) if spec.components else {}
        return RetrievalSystem(aim, leaves, fusion, self._chain(aim.defense), self.n_docs, say)

    @contextmanager
    def _clock(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[stage] += time.perf_counter() - start

    # ---- one block ---------------------------------------------------------------------------

    def run_block(self, start: int, stop: int) -> tuple[pa.Table, pa.Table, dict[str, float]]:
        """Records, rankings and stage seconds of the queries ``start`` to ``stop``."""
        self.timings = defaultdict(float)
        metrics = {k: get_metrics(self.extra, k) for k in {c.k for c in self.family}}
        quality = {
            (c.k, c.grade): RankingQuality(self._block_judgments(start, stop), c.k, c.grade)
            for c in self.family
        }
        found = self._search(start, stop)
        fused: dict[Any, Ranking] = {}
        records, rankings = [], []
        for c in self.family:
            scenario = self.table.scenarios[key(c)]
            candidates = self._candidates(c, found, fused)
            final, rejected = self._defend(c, candidates, start, stop)
            with self._clock("measure"):
                top = self._top(c, scenario, final, start, stop)
                columns = quality[c.k, c.grade](top) | {m.name: m(top) for m in metrics[c.k]}
            if c.recipe.aim is not None:
                with self._clock("certify"):
                    columns |= self.certificates.columns(c, start, stop)
            records.append(self._records(c, top, columns, rejected))
            rankings.append(self._rankings(c, top, final))
        # A column that one k has and another lacks is null there.
        return (
            pa.concat_tables(records, promote_options="default"),
            pa.concat_tables(rankings),
            dict(self.timings),
        )

    def _block_judgments(self, start: int, stop: int) -> list[dict[int, int]]:
        return [g if start <= q < stop else {} for q, g in enumerate(self.judgments)]

    def _request(self, leaf: RetrieverSpec, c: Condition) -> tuple[Any, ...]:
        """What a leaf's ranking for a condition depends on, besides the block."""
        if c.clean:
            return (leaf, None, None, None)
        statistics: Any = c.statistics
        return (leaf, key(c), self.retrievers[leaf].resolve(statistics), c.ties)

    def _search(self, start: int, stop: int) -> dict[tuple[Any, ...], Ranking]:
        """The contaminated rankings that the conditions need, each once, at the greatest depth asked for."""
        depth: dict[tuple[Any, ...], int] = {}
        for c in self.family:
            for leaf in c.retriever.leaves:
                n = dict(c.retriever.parameters)["depth"] if c.retriever.components else c.depth
                request = self._request(leaf, c)
                depth[request] = max(depth.get(request, 0), n)
        queries = list(self.queries.texts[start:stop])
        out: dict[tuple[Any, ...], Ranking] = {}
        calls: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for request in depth:
            leaf, _, statistics, ties = request
            calls[leaf, statistics, ties].append(request)
        for (leaf, statistics, ties), requests in calls.items():
            retriever, n = self.retrievers[leaf], max(depth[r] for r in requests)
            with self._clock(f"search {leaf.label}"):
                if statistics is None:
                    found = retriever.search(queries, n)
                else:
                    scenarios = [self.table.scenarios[r[1]] for r in requests]
                    views = self.table.views(scenarios, start, stop)
                    found = retriever.search_contaminated(
                        queries * len(requests),
                        self.table.documents,
                        views,
                        n,
                        statistics=statistics,
                        ties=ties,
                    )
            for i, request in enumerate(requests):
                rows = slice(i * len(queries), (i + 1) * len(queries))
                out[request] = Ranking(found.docs[rows], found.scores[rows])
        return out

    def _candidates(
        self, c: Condition, found: dict[tuple[Any, ...], Ranking], fused: dict[Any, Ranking]
    ) -> Ranking:
        requests = tuple(self._request(leaf, c) for leaf in c.retriever.leaves)
        if not c.retriever.components:
            return found[requests[0]].top(c.depth)
        parameters = dict(c.retriever.parameters)
        name = (requests, c.retriever.parameters, c.depth)
        if name not in fused:
            with self._clock("fuse"):
                lists = [found[r].top(parameters["depth"]) for r in requests]
                fused[name] = fuse(lists, c.depth, parameters["constant"], self.n_docs, c.ties)  # type: ignore[arg-type]
        return fused[name]

    def _defend(self, c: Condition, candidates: Ranking, start: int, stop: int) -> tuple[Ranking, np.ndarray]:
        """The final top k and how many candidates each query lost."""
        if not c.defense:
            return candidates.top(c.k), np.zeros(len(candidates), np.int64)
        pool = Pool(
            list(self.queries.texts[start:stop]),
            candidates.top(c.pool or c.k),
            self.n_docs,
            self.table.documents,
        )
        chain = self.defenses[c.defense]
        return defended(chain, pool, c.k, c.pool or c.k, lambda name: self._clock(f"defend {name}"))

    # ---- rows --------------------------------------------------------------------------------

    def _top(self, c: Condition, scenario: Scenario, final: Ranking, start: int, stop: int) -> TopK:
        docs = final.docs
        query = np.arange(start, stop)
        owner = np.where(docs >= self.n_docs, self.table.owner(scenario, docs - self.n_docs), -1)
        grade = np.zeros(docs.shape, np.int64)
        for row, q in enumerate(query):
            judged = self.judgments[q]
            grade[row] = [judged.get(d, 0) for d in docs[row].tolist()]
        sizes = np.bincount(scenario.groups, weights=scenario.targeted * scenario.budget)
        return TopK(
            docs=docs,
            owner=owner,
            grade=grade,
            query=query,
            targeted=scenario.targeted[start:stop],
            n_poison=sizes[scenario.groups[start:stop]].astype(np.int64),
            n_docs=self.n_docs,
            min_grade=c.grade,
            coverage=scenario.coverage[start:stop],
            clean=c.clean,
        )

    def _records(
        self, c: Condition, top: TopK, columns: dict[str, np.ndarray], rejected: np.ndarray
    ) -> pa.Table:
        n = len(top.docs)
        config = c.config()
        eligible = self.eligible[c.recipe.index, c.recipe.tokenizer][top.query]
        relevant = [sum(g >= c.grade for g in self.judgments[q].values()) for q in top.query]
        state = np.full(n, "", object)
        for s in STATES:
            state[columns[s.name] == 1] = s.name
        values: dict[str, Any] = {
            "condition": [c.id] * n,
            **{name: [config[name]] * n for name in _LABELS},
            "query_id": [self.queries.ids[q] for q in top.query],
            "group": self._group(c, top.query),
            "evaluated": [r > 0 for r in relevant],
            "targeted": top.targeted,
            "eligible_terms": eligible,
            "long_query": eligible >= LONG_QUERY,
            "relevant_documents": relevant,
            "returned": (top.docs >= 0).sum(1),
            "rejected": rejected,
            "state": state,
            **columns,
        }
        schema = records_schema(list(columns))
        arrays = [pa.array(_nullable(values[f.name]), f.type, from_pandas=True) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)

    def _group(self, c: Condition, query: np.ndarray) -> list[str | None]:
        """The group of each query: the collection's own, else that of the attack's scope."""
        if self.group_names is not None:
            return [self.group_names[q] for q in query]
        if c.scope == "group":
            return [str(self.table.scenarios[key(c)].groups[q]) for q in query]
        return [None] * len(query)

    def _rankings(self, c: Condition, top: TopK, final: Ranking) -> pa.Table:
        row, place = np.nonzero(top.docs >= 0)
        docs, owner = top.docs[row, place], top.owner[row, place]
        schema = rankings_schema()
        scenario = self.table.scenarios[key(c)]
        ids = self.queries.ids
        number = (docs - self.n_docs - scenario.first) % max(1, scenario.stride)
        names = [
            poison_id(ids[o], n) if o >= 0 else self.doc_ids[d]
            for d, o, n in zip(docs.tolist(), owner.tolist(), number.tolist(), strict=True)
        ]
        values: dict[str, Any] = {
            "condition": [c.id] * len(row),
            "query_id": [ids[q] for q in top.query[row].tolist()],
            "rank": place + 1,
            "doc_id": names,
            "score": final.scores[row, place],
            "grade": top.grade[row, place],
            "poison": owner >= 0,
            "owner": [ids[o] if o >= 0 else None for o in owner.tolist()],
        }
        arrays = [pa.array(values[f.name], f.type) for f in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


_LABELS = (
    "dataset", "retriever", "attack", "anchor", "terms", "strategy", "body", "budget", "scope", "defense",
    "statistics", "k", "seed",
)  # fmt: skip


def poison_id(query_id: str, number: int) -> str:
    """The name of a poison document in files; inside the program it is known by number."""
    return f"poison-{query_id}-{number}"


def _nullable(values: Any) -> Any:
    return values if not isinstance(values, np.ndarray) or values.dtype != object else list(values)
