"""The retrieval paper's tables, figures and prose claims, run again and held against what was published.

The published values lie in ``retrieval_paper.json``, each with the place in the paper that states it. The
tolerances were fixed before looking: see :func:`tolerance`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from stressrag.records.folder import Run
from stressrag.report.summary import OF_POISON, RATES, Rows, split_rows
from stressrag.stats.bootstrap import Floats
from stressrag.stats.intervals import estimates

SEEDS = (0, 1, 2, 3, 4)
BGE = "BAAI/bge-small-en-v1.5"
WORDS = ("preset=paper", "grid=retrieval_paper")
DENSE_WORDS = ("preset=paper", "retriever=dense", "attack=query_only,payload", "attack.budget=5")
_EXACT, _WIDENED, _POISON, _DENSE = 0.005, 0.01, 0.1, 0.01
_ROUNDING = 0.0005


@dataclass(frozen=True)
class Row:
    """One value of the paper beside ours.

    Attributes
    ----------
    experiment, source : str
        What it belongs to and where the paper says it.
    dataset, cell, metric : str
        Which number.
    published : float or None
        ``None`` where the paper states none (a figure, or another dataset).
    ours : float or None
        The mean over seeds (of the SVD, and of the terms' draw where terms are drawn); ``None`` where it
        was not run.
    interval : list or None
        95% interval over queries of the mean over seeds.
    seed_band : list or None
        Least and greatest value over seeds, where there are several.
    tolerance : float or None
        What a published value may lie outside the seed band (or off our value).
    inside : bool or None
        The verdict; ``None`` where there is nothing to compare.
    counted : bool
        Whether it is a finding: not 0, not 1, not plain arithmetic on the data set.
    remark : str
        What explains or limits the row.
    published_interval : list or None
        The paper's own interval.
    """

    experiment: str
    source: str
    dataset: str
    cell: str
    metric: str
    published: float | None
    ours: float | None
    interval: list[float] | None = None
    seed_band: list[float] | None = None
    tolerance: float | None = None
    inside: bool | None = None
    counted: bool = False
    remark: str = ""
    published_interval: list[float] | None = None

    @property
    def difference(self) -> float | None:
        """Ours less the published value."""
        return None if self.ours is None or self.published is None else self.ours - self.published

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.ours is None:
            return "not run"
        if self.published is None:
            return "no published value"
        return "inside" if self.inside else "OUTSIDE"

    def plain(self) -> dict[str, Any]:
        """As in ``reproduction.json``."""
        return {**asdict(self), "difference": self.difference, "verdict": self.verdict}


@dataclass(frozen=True, eq=False)
class Cells:
    """The records of a reproduction run, found by what a condition is.

    Parameters
    ----------
    run : Run
        A finished run of the grid ``retrieval_paper``.
    """

    run: Run
    rows: dict[str, Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ids = [c["id"] for c in self.run.summary["conditions"]]
        self.rows.update(split_rows(self.run.records(), ids))

    def find(self, wanted: Mapping[str, Any]) -> list[str]:
        """Ids of the conditions of a cell, one per SVD seed in the order of seeds.

        Choices that the paper leaves open are those of the preset unless ``wanted`` names others.
        """
        out: dict[Any, str] = {}
        for c in self.run.summary["conditions"]:
            facts = _facts(c["config"])
            expected = {**_DEFAULTS, **wanted}
            if facts["attack"] == "clean":
                expected = {k: v for k, v in expected.items() if k not in _ATTACK_ONLY}
            if all(facts.get(k) == v for k, v in expected.items()):
                out.setdefault(facts["svd_seed"], c["id"])
        return [out[s] for s in sorted(out, key=lambda s: (s is not None, s))]

    def split(self, name: str, split: str) -> np.ndarray:
        """Which judged queries of a condition belong to a split."""
        rows = self.rows[name]
        long = rows.flags["long_query"][rows.judged]
        return long if split == "long" else np.ones(len(long), bool)


_SNIPPET = 7  # as in the preset
_DEFAULTS: Mapping[str, Any] = {
    "defense": "none",
    "seed": 0,
    "ties": "clean_first",
    "payload_order": "cycle",
    "query_terms": "unique",
    "statistics": "paper",
    "snippet_tokens": _SNIPPET,
}
_ATTACK_ONLY = ("seed", "payload_order", "statistics", "scope", "ties", "snippet_tokens")


def _facts(config: Mapping[str, Any]) -> dict[str, Any]:
    """What cells are told apart by."""
    retriever = config["retriever_settings"]
    lsa, bm25 = retriever.get("lsa", retriever), retriever.get("bm25", retriever)
    usual = {"isolated": "frozen", "multi": "live"}.get(config["scope"])
    payload_order = config["attack_settings"].get("payload_order")
    return {
        **config,
        "svd_seed": lsa.get("seed"),
        "snippet_tokens": config["attack_settings"].get("snippet_tokens", _SNIPPET),
        "query_terms": bm25.get("query_terms", "unique"),
        "tau": config["defense_settings"].get("overlap", {}).get("tau"),
        "statistics": "paper" if config["statistics"] == usual else config["statistics"],
        # The order is moot where no payload is used, and is then written as the default.
        "payload_order": payload_order if config["attack"] in ("payload", "corpus_neutral") else "cycle",
    }


@lru_cache(maxsize=1)
def published() -> dict[str, Any]:
    """The published values, as in ``retrieval_paper.json``."""
    value: dict[str, Any] = json.loads(Path(__file__).with_name("retrieval_paper.json").read_text("utf-8"))
    return value


def tolerance(retriever: str, metric: str) -> float:
    """How far a published value may lie from our value or seed band.

    BM25 has no random part: .005. Everything on the LSA (hybrid, MMR, the frontier): .01 beyond the band over
    the SVD seeds 0 to 4. Poison counts: .1. A dense model, of which tokens and hardware move the last
    digits: .01. Numbers of queries: none.
    """
    if metric == "queries":
        return 0.0
    if metric == "PoisonCount":
        return _POISON
    return {"bm25": _EXACT, "dense": _DENSE}.get(retriever, _WIDENED)


def rows_of(
    cells: Cells, dataset: str, dense: Cells | None, model: str | None, latency: Mapping[str, Any]
) -> list[Row]:
    """All rows of one dataset.

    Parameters
    ----------
    cells : Cells
        The run of the grid.
    dataset : str
        As the catalogue calls it; only the paper's own names are compared.
    dense : Cells or None
        A run with a dense model.
    model : str or None
        Which model that was.
    latency : mapping
        ``latency_ms`` of the run's ``timings.json``.
    """
    drafts = list(_drafts(cells, dataset, dense, model))
    columns = {i: d.column for i, d in enumerate(drafts) if d.column is not None and not d.by_definition}
    intervals: dict[int, list[float]] = {}
    by_ids: dict[tuple[str, ...], dict[int, Floats]] = {}
    for i, column in columns.items():
        by_ids.setdefault(tuple(drafts[i].ids), {})[i] = column
    for ids, some in by_ids.items():
        rates = {i for i in some if drafts[i].metric in RATES}
        for i, e in estimates(some, ids, rates=rates).items():
            if e.low is not None and e.high is not None:
                intervals[i] = [e.low, e.high]
    rows = [d.row(intervals.get(i)) for i, d in enumerate(drafts)]
    return rows + list(_latency(dataset, latency))


@dataclass
class _Draft:
    """A row before its interval."""

    table: Mapping[str, Any]
    spec: Mapping[str, Any]
    dataset: str
    metric: str
    per_seed: list[float]
    column: Floats | None = None
    ids: Sequence[str] = ()
    retriever: str = ""
    model: str | None = None

    @property
    def by_definition(self) -> bool:
        """Whether the value is what it is by definition, so that an interval would say nothing."""
        return self.metric == "PoisonFraction" or (
            self.spec["cell"]["attack"] == "clean" and self.metric in OF_POISON
        )

    def row(self, interval: list[float] | None) -> Row:
        values = (self.spec["values"].get(self.dataset) or {}) if self.spec["values"] else {}
        stated = values.get(self.metric)
        remark = self.spec.get("remark", "")
        if self.table.get("dense") and self.model and BGE not in self.model:
            stated, remark = None, f"another model: {_short_name(self.model)}; not comparable"
        elif self.table.get("dense") and not self.per_seed:
            remark = f"add dense.model={BGE} (or a local folder of it); needs the dense extra and its weights"
        elif stated is None and self.table.get("figure"):
            remark = "only a figure in the paper"
        ours = float(np.mean(self.per_seed)) if self.per_seed else None
        band = [min(self.per_seed), max(self.per_seed)] if len(self.per_seed) > 1 else None
        slack = tolerance(self.retriever, self.metric)
        inside = None
        if stated is not None and self.per_seed:
            low, high = min(self.per_seed) - slack, max(self.per_seed) + slack
            inside = bool(low - _ROUNDING <= stated <= high + _ROUNDING)
        arithmetic = self.spec.get("arithmetic", False) or self.metric in ("PoisonFraction", "queries")
        return Row(
            experiment=self.table["experiment"],
            source=self.table["source"],
            dataset=self.dataset,
            cell=_cell(self.spec, self.model),
            metric=self.metric,
            published=stated,
            ours=ours,
            interval=interval,
            seed_band=band,
            tolerance=slack if stated is not None else None,
            inside=inside,
            counted=stated not in (None, 0, 1) and not arithmetic and ours is not None,
            remark=remark if inside is not True or stated is None else "",
            published_interval=(self.spec.get("intervals") or {}).get(self.dataset),
        )


def _drafts(cells: Cells, dataset: str, dense: Cells | None, model: str | None) -> Iterator[_Draft]:
    for table in published()["tables"]:
        source = dense if table.get("dense") else cells
        for spec in table["rows"]:
            values = spec["values"].get(dataset) or {}
            metrics = list(dict.fromkeys([*spec.get("metrics", []), *_metrics(spec, values)]))
            for metric in metrics:
                retriever = "dense" if table.get("dense") else spec["cell"]["retriever"]
                draft = _Draft(table, spec, dataset, metric, [], retriever=retriever, model=model)
                if source is not None:
                    _fill(draft, source)
                yield draft


def _metrics(spec: Mapping[str, Any], values: Mapping[str, Any]) -> list[str]:
    """The metrics of a row: those stated for this dataset, else those stated for any."""
    if values:
        return list(values)
    return list(dict.fromkeys(m for v in spec["values"].values() if v for m in v))


def _fill(draft: _Draft, cells: Cells) -> None:
    """Our values, one per seed, and the column over queries that their mean has."""
    spec, metric = draft.spec, draft.metric
    names = cells.find(spec["cell"])
    if spec["cell"].get("strategy") == "random" and names:
        # Two draws: the SVD's at the first draw of terms, and the terms' at the first SVD.
        for seed in SEEDS[1:]:
            names += cells.find({**spec["cell"], "seed": seed})
    if not names:
        return
    split = spec.get("split") or spec.get("count") or "all"
    rows = cells.split(names[0], split)
    if "count" in spec:
        draft.per_seed = [float(rows.sum())]
        return
    columns = [cells.rows[n].column(metric)[rows] for n in names]
    if "minus" in spec:
        others = cells.find({**spec["cell"], **spec["minus"]})
        columns = [c - cells.rows[o].column(metric)[rows] for c, o in zip(columns, others, strict=True)]
    if "drop_from" in spec:
        kept = {k: v for k, v in spec["cell"].items() if k == "retriever"}
        clean = cells.find({**kept, **spec["drop_from"]})
        pairs = zip(columns, clean, strict=True)
        draft.per_seed = [1 - float(c.mean() / cells.rows[o].column(metric)[rows].mean()) for c, o in pairs]
        return
    draft.per_seed = [float(np.nanmean(c)) for c in columns]
    draft.column = np.mean(columns, axis=0)
    draft.ids = [q for q, there in zip(cells.rows[names[0]].judged_ids, rows, strict=True) if there]


def _cell(spec: Mapping[str, Any], model: str | None) -> str:
    """A cell in words."""
    c = spec["cell"]
    words = [c["retriever"]] if "retriever" in c else [_short_name(model) if model else BGE]
    words.append(c["attack"])
    if "terms" in c:
        words.append(f"{c['terms']} {c['strategy']} term{'s' if c['terms'] > 1 else ''}")
    if "budget" in c:
        words.append(f"P={c['budget']}")
    words += [c["scope"]] if "scope" in c else []
    if "defense" in c:
        words.append(f"{c['defense']} tau={c['tau']}" if "tau" in c else c["defense"])
    if spec.get("split") == "long" or spec.get("count") == "long":
        words.append("long queries")
    if "minus" in spec:
        words.append(f"less {spec['minus']['attack']}")
    if "drop_from" in spec:
        words.append("relative to clean")
    return " ".join(words)


def _short_name(model: str) -> str:
    """A model's hub name, or the last two parts of its folder."""
    return "/".join(Path(model).parts[-2:])


def _latency(dataset: str, latency: Mapping[str, Any]) -> Iterator[Row]:
    for name, stages in latency.items():
        total = sum(times["median"] for times in stages.values())
        yield Row(
            experiment="latency",
            source="Methodology",
            dataset=dataset,
            cell=f"{name}, one warm clean query on this machine",
            metric="median ms",
            published=None,
            ours=total,
            remark="the paper's values are not in the text this is held against",
        )


@dataclass(frozen=True)
class Choice:
    """A setting that the paper leaves open, and what the other choice would give."""

    name: str
    cell: Mapping[str, Any]
    other: Mapping[str, Any]
    metrics: tuple[str, ...]
    split: str = "all"


_BM25 = {"retriever": "bm25", "attack": "payload", "budget": 5}
_TERMS = {"retriever": "hybrid", "attack": "partial", "strategy": "random", "budget": 5}
CHOICES = (
    Choice(
        "corpus statistics of an isolated attack: frozen at the clean corpus, or live",
        {**_BM25, "scope": "isolated"},
        {"statistics": "live"},
        ("nDCG@10", "Evid"),
    ),
    Choice(
        "corpus statistics under multi-target poison: live, or frozen",
        {**_BM25, "scope": "multi"},
        {"statistics": "frozen"},
        ("nDCG@10", "Evid", "PoisonCount"),
    ),
    Choice(
        "order of payloads: entry (5 i + j) mod 75, or drawn by hashing",
        {**_BM25, "scope": "multi"},
        {"payload_order": "hashed"},
        ("nDCG@10", "Evid", "PoisonCount"),
    ),
    Choice(
        "a tie between clean and poison: clean first, or poison first",
        {**_BM25, "scope": "isolated"},
        {"ties": "poison_first"},
        ("nDCG@10", "Evid"),
    ),
    Choice(
        "a word that stands twice in a query: counts once, or twice",
        {**_BM25, "scope": "isolated"},
        {"query_terms": "all"},
        ("nDCG@10", "Evid"),
    ),
    *(
        Choice(
            f"length of a corpus-neutral snippet: {_SNIPPET} tokens (fits the published values), or 10",
            {"retriever": retriever, "attack": "corpus_neutral", "budget": 5},
            {"snippet_tokens": 10},
            ("nDCG@10",),
        )
        for retriever in ("lsa", "hybrid")
    ),
    *(
        Choice(
            f"which {n} terms are drawn: seed 0, or seed {seed}",
            {**_TERMS, "terms": n},
            {"seed": seed},
            ("TargetExp",),
            "long",
        )
        for n in (2, 4)
        for seed in (1, 2, 3, 4)
    ),
)


def choices(cells: Cells, dataset: str) -> list[dict[str, Any]]:
    """What each open choice and its alternative give."""
    out = []
    for choice in CHOICES:
        here, there = cells.find(choice.cell), cells.find({**choice.cell, **choice.other})
        if not here or not there:
            continue
        for metric in choice.metrics:
            one, two = (
                float(np.nanmean(cells.rows[n[0]].column(metric)[cells.split(n[0], choice.split)]))
                for n in (here, there)
            )
            cell = _cell({"cell": choice.cell, "split": choice.split}, None)
            out.append(
                {
                    "dataset": dataset,
                    "choice": choice.name,
                    "cell": cell,
                    "metric": metric,
                    "chosen": one,
                    "other": two,
                }
            )
    return out
