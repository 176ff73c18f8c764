"""The summary of a run: means, intervals and comparisons, from the records alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from stressrag import __version__
from stressrag.metrics.evidence import STATES
from stressrag.metrics.registry import STANDARD
from stressrag.records.schema import FIXED, SUMMARY_VERSION
from stressrag.report.attack_cost import attack_costs
from stressrag.report.frontier import frontier
from stressrag.report.worst_case import worst_cases
from stressrag.stats.bootstrap import LEVEL, Floats
from stressrag.stats.four import MEASURES, four_estimates, paired_p
from stressrag.stats.intervals import Difference, Estimate, estimates
from stressrag.stats.proportions import holm

EVENTS = ("TargetExp", "AnyExp", "NoEvid", "Unsafe")
"""What the four conditions are told for: poison for this query in the top k, any poison, no evidence, and
either of the last two (the complements of Evid and SafeR)."""
BOUNDED = ("Recall@", "nDCG@")
"""How metrics that lie between 0 and 1 begin, besides the rates."""
_EXPOSURE = ("TargetExp", "AnyExp", "CrossExp")
RATES = (*_EXPOSURE, "CertSafe", "Evid", "SafeR", "Shortage", *(s.name for s in STATES))


@dataclass(frozen=True, eq=False)
class Rows:
    """The records of one condition."""

    ids: list[str]
    groups: list[str] | None
    judged: np.ndarray
    flags: dict[str, np.ndarray]
    values: dict[str, np.ndarray] = field(default_factory=dict)

    def column(self, name: str) -> Floats:
        """A metric over the judged queries; NoEvid and Unsafe are complements."""
        opposite = {"NoEvid": "Evid", "Unsafe": "SafeR"}.get(name)
        values = 1 - self.values[opposite] if opposite else self.values[name]
        out: Floats = values[self.judged].astype(np.float64)
        return out

    @property
    def judged_ids(self) -> list[str]:
        return [q for q, j in zip(self.ids, self.judged, strict=True) if j]

    @property
    def judged_groups(self) -> list[str] | None:
        if self.groups is None:
            return None
        return [g for g, j in zip(self.groups, self.judged, strict=True) if j]


def summarize(
    plan: Any,
    records: pa.Table,
    content: Mapping[str, str],
    payloads: Mapping[str, str],
    notes: Mapping[str, Mapping[str, int]],
    warnings: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """The contents of ``summary.json``.

    Parameters
    ----------
    plan : Plan
        What was run.
    records : pyarrow.Table
        All records.
    content : mapping
        Content hash by collection name.
    payloads : mapping
        Hash of the payload texts by ``attack.payloads``.
    notes : mapping
        By condition id, what of its attack did not go as asked, counted.
    warnings : mapping
        By collection name, what its reader warned of.
    """
    rows = split_rows(records, [c.id for c in plan.conditions])
    seed, n_resamples = plan.settings.seed, plan.settings.resamples
    draw = {"seed": seed, "n_resamples": n_resamples, "level": LEVEL}
    rates = rates_of(rows)
    intervals = _intervals(rows, rates, draw) if n_resamples else {}
    out = []
    for c in plan.conditions:
        here = rows[c.id]
        judged = here.judged
        splits = {
            "targeted": judged & here.flags["targeted"],
            "bystander": judged & ~here.flags["targeted"],
            "long": judged & here.flags["long_query"],
            "short": judged & ~here.flags["long_query"],
        }
        if c.clean:
            splits = {k: v for k, v in splits.items() if k in ("long", "short")}
        made = {m: e for m, e in intervals.get(c.id, {}).items() if not _by_construction(c, m)}
        out.append(
            {
                "id": c.id,
                "config": c.config(),
                "partner": c.partner,
                "poison": plan.poison_key(c),
                "n_queries": int(judged.sum()),
                "n_left_out": int((~judged).sum()),
                "n_targets": int(here.flags["targeted"].sum()),
                "metrics": _means(here.values, judged),
                "intervals": {m: [e.low, e.high] for m, e in made.items() if e.low is not None},
                "interval_methods": {m: e.method for m, e in made.items() if e.low is not None},
                "splits": {
                    k: {"n_queries": int(v.sum()), "metrics": _means(here.values, v)}
                    for k, v in splits.items()
                    if v.any()
                },
                "notes": dict(notes.get(c.id, {})),
            }
        )
    baselines = {c.id: plan.baselines(c) for c in plan.conditions}
    return {
        "schema": SUMMARY_VERSION,
        "stressrag": __version__,
        "verb": plan.verb,
        "plan": plan.hash,
        "content_sha256": dict(content),
        "payloads_sha256": dict(sorted(payloads.items())),
        "warnings": dict(warnings),
        "statistics": {
            **draw,
            "unit": {c.id: _unit(rows[c.id]) for c in plan.conditions},
            "p_values": "two-sided, exact; Holm over comparisons of one metric with one kind of baseline",
        },
        "conditions": out,
        "comparisons": _comparisons(rows, baselines, rates, draw) if n_resamples else [],
        "seed_bands": _bands(out),
        "frontier": frontier(out, baselines),
        "attack_costs": attack_costs(out),
        "worst_cases": worst_cases(out, baselines),
        "four_conditions": _four(rows, baselines, draw) if n_resamples else [],
    }


def _unit(rows: Rows) -> str:
    """What the intervals draw."""
    return "query" if rows.groups is None else f"group of queries ({len(set(rows.groups))})"


def split_rows(records: pa.Table, ids: Sequence[str]) -> dict[str, Rows]:
    """The records of each condition."""
    fixed = {name for name, _, _ in FIXED}
    metrics = [name for name in records.schema.names if name not in fixed]
    columns = {name: records[name].to_numpy() for name in metrics}
    flags = {name: records[name].to_numpy() for name in ("evaluated", "targeted", "long_query")}
    queries, groups = records["query_id"].to_pylist(), records["group"].to_pylist()
    condition = records["condition"].combine_chunks()
    numbers = {name: i for i, name in enumerate(condition.dictionary.to_pylist())}
    codes = condition.indices.to_numpy()
    out = {}
    for name in ids:
        at = np.flatnonzero(codes == numbers[name])
        here = [groups[i] for i in at]
        out[name] = Rows(
            ids=[queries[i] for i in at],
            groups=None if None in here else here,
            judged=flags["evaluated"][at],
            flags={k: v[at] for k, v in flags.items()},
            values={k: v[at] for k, v in columns.items()},
        )
    return out


def _bounds(metric: str) -> tuple[float, float]:
    if metric in ("PoisonCount", "CertTerms", "FirstPoisonRank", "FirstEvidenceRank"):
        return (0.0, np.inf)
    return (0.0, 1.0) if metric in RATES or metric.startswith(BOUNDED) else (-np.inf, np.inf)


OF_POISON = (*_EXPOSURE, "PoisonCount", "PoisonFraction", "EvidPoison", "NoEvidPoison")


def _by_construction(c: Any, metric: str) -> bool:
    """Whether a condition's mean is what it is by definition, so that an interval would say nothing."""
    return (metric == "Coverage" and c.recipe.anchor != "terms") or (c.clean and metric in OF_POISON)


def _together(rows: Mapping[str, Rows]) -> list[list[str]]:
    """Conditions over the same queries in the same groups, which can share one draw."""
    sets: dict[Any, list[str]] = {}
    for name, here in rows.items():
        sets.setdefault((tuple(here.judged_ids), tuple(here.judged_groups or ())), []).append(name)
    return list(sets.values())


def rates_of(rows: Mapping[str, Rows]) -> set[str]:
    """Metrics that are 0 or 1 by definition; of the user's own those that are nothing else in the whole run.

    A rank or a recall that happens to be 0 or 1 everywhere is no rate.
    """
    ours = {m.name for m in STANDARD}
    names = dict.fromkeys(m for here in rows.values() for m in here.values)
    own = [m for m in names if m not in ours and "@" not in m]
    binary = {m for m in own if all(_is_rate(h.values[m][h.judged]) for h in rows.values() if m in h.values)}
    return binary | set(RATES)


def _intervals(
    rows: Mapping[str, Rows], rates: set[str], draw: Mapping[str, Any]
) -> dict[str, dict[str, Estimate]]:
    """Of each condition and metric the mean with its interval."""
    out: dict[str, dict[str, Estimate]] = {name: {} for name in rows}
    for names in _together(rows):
        columns = {(name, m): rows[name].column(m) for name in names for m in rows[name].values}
        bounds = {key: _bounds(key[1]) for key in columns}
        first = rows[names[0]]
        made = estimates(
            columns,
            first.judged_ids,
            clusters=first.judged_groups,
            bounds=bounds,
            rates={key for key in columns if key[1] in rates},
            **draw,
        )
        for (name, metric), estimate in made.items():
            out[name][metric] = estimate
    return out


def _pair(rows: Mapping[str, Rows], one: str, other: str) -> list[str] | None:
    """The clusters of a comparison, of which one side may know none (a clean condition)."""
    return rows[one].judged_groups or rows[other].judged_groups


def _comparisons(
    rows: Mapping[str, Rows],
    baselines: Mapping[str, Mapping[str, str]],
    rates: set[str],
    draw: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Each condition against its baselines on the same queries."""
    pairs = [(name, base, kind) for name, kinds in baselines.items() for kind, base in kinds.items()]
    pairs = [p for p in pairs if p[1] in rows and rows[p[0]].judged_ids == rows[p[1]].judged_ids]
    made: dict[tuple[str, str, str], dict[str, Estimate]] = {p: {} for p in pairs}
    by_units: dict[Any, list[tuple[str, str, str]]] = {}
    for pair in pairs:
        clusters = _pair(rows, pair[0], pair[1])
        by_units.setdefault((tuple(rows[pair[0]].judged_ids), tuple(clusters or ())), []).append(pair)
    for (ids, clusters), some in by_units.items():
        columns = {
            (pair, m): Difference(rows[pair[0]].column(m), rows[pair[1]].column(m))
            for pair in some
            for m in rows[pair[0]].values
            if m in rows[pair[1]].values
        }
        own = {key for key in columns if key[1] in rates}
        bounds = {key: (-1.0, 1.0) for key in columns if key in own or key[1].startswith(BOUNDED)}
        estimated = estimates(columns, ids, clusters=clusters or None, bounds=bounds, rates=own, **draw)
        for (pair, metric), e in estimated.items():
            made[pair][metric] = e
    p_values = {
        (pair, m): paired_p(
            rows[pair[0]].column(m), rows[pair[1]].column(m), _pair(rows, pair[0], pair[1]), draw["seed"]
        )
        for pair in pairs
        for m, e in made[pair].items()
        if m in rates
    }
    corrected: dict[Any, tuple[float, int]] = {}
    for family in dict.fromkeys((pair[2], m) for pair, m in p_values):
        members = [key for key in p_values if (key[0][2], key[1]) == family]
        for key, p in zip(members, holm([p_values[key]["p"] for key in members]), strict=True):
            corrected[key] = (p, len(members))
    return [
        {
            "condition": pair[0],
            "baseline": pair[1],
            "against": pair[2],
            "metrics": {
                m: {
                    "n": e.n,
                    "difference": e.value,
                    "low": e.low,
                    "high": e.high,
                    "method": e.method,
                    **_p_of(p_values.get((pair, m)), corrected.get((pair, m))),
                }
                for m, e in made[pair].items()
            },
        }
        for pair in pairs
    ]


def _p_of(p: dict[str, Any] | None, corrected: tuple[float, int] | None) -> dict[str, Any]:
    if p is None or corrected is None:
        return {}
    return {**p, "p_holm": corrected[0], "family": corrected[1]}


def _is_rate(column: Floats) -> bool:
    return bool(((column == 0) | (column == 1)).all())


def _four(
    rows: Mapping[str, Rows], baselines: Mapping[str, Mapping[str, str]], draw: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """For each defended attack what the defense prevented and introduced, event by event."""
    out = []
    for name, kinds in baselines.items():
        if "clean" not in kinds or "undefended" not in kinds:
            continue
        undefended, clean_defended = kinds["undefended"], kinds["clean"]
        clean = baselines.get(undefended, {}).get("clean", "")
        four = (clean, undefended, clean_defended, name)
        there = [rows[c] for c in four if c in rows]
        if len(there) < 4 or any(r.judged_ids != rows[name].judged_ids for r in there):
            continue
        events = {e: tuple(r.column(e) for r in there) for e in EVENTS}
        clusters = _pair(rows, name, undefended)
        made = four_estimates(events, rows[name].judged_ids, clusters=clusters, **draw)  # type: ignore[arg-type]
        for event, measures in made.items():
            one, other = rows[undefended].column(event), rows[name].column(event)
            p = paired_p(one, other, clusters, draw["seed"])
            out.append(
                {
                    "condition": name,
                    "undefended": undefended,
                    "clean": clean,
                    "clean_defended": clean_defended,
                    "event": event,
                    "n": measures["P"].n,
                    **{m: measures[m].value for m in MEASURES},
                    "intervals": {
                        m: [measures[m].low, measures[m].high]
                        for m in MEASURES
                        if not (event in _EXPOSURE and m in ("r_c0", "r_c1", "H"))  # 0 by definition
                    },
                    **p,
                }
            )
    return out


def _bands(conditions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of conditions that differ in seeds alone, the mean, least and greatest value of each metric."""
    families: dict[str, list[Mapping[str, Any]]] = {}
    for c in conditions:
        families.setdefault(json.dumps(_without_seeds(c["config"]), sort_keys=True), []).append(c)
    out = []
    for members in families.values():
        if len(members) < 2:
            continue
        metrics = {}
        for m in members[0]["metrics"]:
            values = [c["metrics"].get(m) for c in members]
            known = [v for v in values if v is not None]
            if len(known) == len(values):
                mean = float(np.mean(known))
                metrics[m] = {"mean": mean, "least": min(known), "greatest": max(known)}
        out.append({"conditions": [c["id"] for c in members], "metrics": metrics})
    return out


def _without_seeds(value: Any) -> Any:
    """A config without its seeds, at any depth."""
    if isinstance(value, Mapping):
        return {k: _without_seeds(v) for k, v in value.items() if k != "seed"}
    return value


def _means(values: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, float | None]:
    """Means over the rows where a metric is defined; ``None`` where it is nowhere defined."""
    out: dict[str, float | None] = {}
    for name, column in values.items():
        there = column[rows]
        there = there[~np.isnan(there)]
        if len(there):
            out[name] = float(there.mean())
        elif not np.isnan(column).all() or name.startswith("First"):
            out[name] = None
    return out


def summary_csv(summary: Mapping[str, Any]) -> str:
    """One line per condition: its id, its short settings, n, and the metrics with their intervals."""
    names = list(dict.fromkeys(m for c in summary["conditions"] for m in c["metrics"]))
    short = [
        "dataset",
        "retriever",
        "attack",
        "anchor",
        "terms",
        "strategy",
        "body",
        "budget",
        "scope",
        "defense",
    ]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    ends = [f"{m}_{end}" for m in names for end in ("low", "high")]
    writer.writerow(["condition", *short, "n_queries", *names, *ends])
    for c in summary["conditions"]:
        settings = [_cell(c["config"][s]) for s in short]
        intervals = [_cell(x) for m in names for x in c["intervals"].get(m, (None, None))]
        means = [_cell(c["metrics"].get(m)) for m in names]
        writer.writerow([c["id"], *settings, c["n_queries"], *means, *intervals])
    return stream.getvalue()


def _cell(value: Any) -> str:
    return "" if value is None else repr(value) if isinstance(value, float) else str(value)
