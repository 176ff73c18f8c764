"""Finished runs against each other, query by query."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from stressrag.errors import StressragError, nearest
from stressrag.metrics.registry import STANDARD
from stressrag.records.folder import Run, open_run
from stressrag.report.cells import SETTINGS, align, flat, p_text, setting
from stressrag.report.select import Where, as_where, check_keys, fits, words
from stressrag.report.summary import BOUNDED, OF_POISON, Rows, rates_of, split_rows
from stressrag.report.table import shown_metrics
from stressrag.report.worst_case import is_adaptive
from stressrag.stats.bootstrap import N_RESAMPLES, Floats
from stressrag.stats.four import paired_p
from stressrag.stats.intervals import Difference, Estimate, estimates
from stressrag.stats.proportions import holm

SCHEMA = 1
MATCHED = (
    "dataset", "split", "attack", "anchor", "terms", "strategy", "body", "budget", "scope", "targets",
    "group_size", "seed", "attack_settings", "k", "grade",
)  # fmt: skip
"""Settings that both sides of a pair share."""
COMPARED = (
    "retriever", "retriever_kind", "retriever_settings", "defense", "defense_settings", "statistics", "pool",
    "ties",
)  # fmt: skip
"""Settings in which they may differ."""
LESS_IS_BETTER = (
    "TargetExp", "AnyExp", "CrossExp", "PoisonCount", "PoisonFraction", "Shortage", "FirstEvidenceRank",
    "EvidPoison", "NoEvidClean", "NoEvidPoison",
)  # fmt: skip
FAMILY = "exact McNemar; Holm over all pairs of this comparison, one metric at a time"


class _Pair(NamedTuple):
    """A condition of the first run and one of another that share the matched settings."""

    baseline: Mapping[str, Any]
    run: int
    other: Mapping[str, Any]


def compare(
    run_a: Run | str | Path,
    run_b: Run | str | Path,
    *more: Run | str | Path,
    where: Where = None,
    metrics: Sequence[str] | None = None,
    queries: int = 10,
    allow_different_content: bool = False,
) -> dict[str, Any]:
    """Compare finished runs with the first one, on the same queries.

    Conditions of two runs are paired when they share data set, attack, budget, scope, targets, seed, k and
    grade (:data:`MATCHED`), whatever their retriever, defense and statistics (:data:`COMPARED`); where more
    than one would do, each is paired with those that it shares most of the latter with. Pairs that differ
    in nothing are left out as long as another pair differs in something.

    Parameters
    ----------
    run_a : Run or path
        The baseline.
    run_b, *more : Run or path
        What is held against it.
    where : str or mapping, optional
        Only pairs of which one side has these settings, such as ``"scope=isolated,budget=5"``.
    metrics : sequence of str, optional
        Which metrics; by default ranking quality, TargetExp, Evid, SafeR, PoisonCount and the user's own.
    queries : int
        How many of the queries that differ most to list for each pair and metric.
    allow_different_content : bool
        Compare the queries whose ids both runs have, though their collections differ.

    Returns
    -------
    dict
        ``runs``: labels A, B, … and where they lie; ``pairs``: for each ``baseline`` and ``other``
        condition, what ``differs`` and by metric ``n``, both means, ``difference`` (other less baseline),
        ``low``, ``high``, ``method``, ``wins``, ``losses`` and ``ties`` of the other, and for metrics that
        are 0 or 1 ``p``, ``p_mid``, ``p_holm`` and ``family`` (its size); ``queries`` by metric;
        ``unmatched``: the ids of conditions without counterpart; ``notes``.

    Raises
    ------
    StressragError
        When a run is not finished, the collections differ, or nothing matches.
    """
    runs = [r if isinstance(r, Run) else open_run(r) for r in (run_a, run_b, *more)]
    _check_runs(runs)
    if isinstance(metrics, str) or queries < 0:
        raise StressragError("compare: metrics is a list of names, queries a number from 0 on")
    chosen = as_where(where)
    conditions = [list(r.summary["conditions"]) for r in runs]
    check_keys([c for some in conditions for c in some], chosen)
    names = _chosen_metrics(conditions, metrics)
    notes = _content_notes(runs, allow_different_content)
    matched = _pairs(conditions)
    if not matched:
        raise StressragError(_nothing_matches(runs, conditions))
    different = [p for p in matched if _common(p.baseline, p.other) < len(COMPARED)]
    every = different if different and not notes else matched
    pairs = [p for p in every if fits(p.baseline, chosen) or fits(p.other, chosen)]
    if not pairs:
        raise StressragError(f"where: none of the {len(every)} matched pairs has {words(chosen)}")
    rows = [
        split_rows(r.records(), [c["id"] for c in some]) for r, some in zip(runs, conditions, strict=True)
    ]
    texts = [_query_texts(r) for r in runs]
    statistics = runs[0].summary["statistics"]
    draw = {
        "seed": statistics["seed"],
        "n_resamples": statistics["n_resamples"] or N_RESAMPLES,
        "level": statistics["level"],
    }
    rates = set.intersection(*(rates_of(some) for some in rows))
    out = [
        _compared(p, rows[0][p.baseline["id"]], rows[p.run][p.other["id"]], names, rates, draw, queries)
        for p in pairs
    ]
    for pair, value in zip(pairs, out, strict=True):
        _add_texts(value, texts[pair.run], texts[0])
    _correct(out)
    if not any(p["n_queries"] for p in out):
        raise StressragError("compare: the runs share no judged query; compare runs on the same queries")
    paired = [{p.baseline["id"] for p in matched}]
    paired += [{p.other["id"] for p in matched if p.run == i} for i in range(1, len(runs))]
    if changed := _changed_queries(texts, notes):
        notes.append(changed)
    return {
        "schema": SCHEMA,
        "runs": [
            {
                "label": _label(i),
                "folder": str(r.folder),
                "plan": r.plan_hash,
                "content_sha256": r.summary["content_sha256"],
            }
            for i, r in enumerate(runs)
        ],
        "where": chosen,
        "statistics": {**draw, "p_values": FAMILY},
        "pairs": out,
        "unmatched": {
            _label(i): [c["id"] for c in some if c["id"] not in paired[i]]
            for i, some in enumerate(conditions)
        },
        "notes": notes,
    }


def _label(i: int) -> str:
    return chr(ord("A") + i) if i < 26 else f"R{i + 1}"


def _check_runs(runs: Sequence[Run]) -> None:
    seen: set[Path] = set()
    for r in runs:
        if r.folder.resolve() in seen:
            raise StressragError(f"compare: {r.folder} is given twice; give another run")
        seen.add(r.folder.resolve())


def _content_notes(runs: Sequence[Run], allowed: bool) -> list[str]:
    """What is to be said of collections that are called the same and differ; refused unless allowed."""
    out = []
    first = runs[0].summary["content_sha256"]
    for r in runs[1:]:
        for name, found in r.summary["content_sha256"].items():
            if found == first.get(name, found):
                continue
            what = f"{name} of {runs[0].folder} ({first[name][:12]}) and of {r.folder} ({found[:12]})"
            if not allowed:
                raise StressragError(
                    f"{what} differ in content; run both on one copy, or --allow-different-content "
                    "to compare the queries whose ids both have"
                )
            out.append(
                f"{what} differ in content: only queries whose ids both have are compared, and a difference "
                "may come from the collection."
            )
    return out


def _changed_queries(texts: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str | None:
    """How many queries have one id and two texts."""
    first = texts[0]
    changed = {q for other in texts[1:] for q, t in other.items() if q in first and first[q] != t}
    return f"{len(changed)} queries have the same id but another text." if notes and changed else None


def _chosen_metrics(
    conditions: Sequence[Sequence[Mapping[str, Any]]], asked: Sequence[str] | None
) -> list[str]:
    """Metrics that the baseline and at least one other run have."""
    names = [list(dict.fromkeys(m for c in some for m in c["metrics"])) for some in conditions]
    both = [m for m in names[0] if any(m in other for other in names[1:])]
    if asked is None:
        hidden = {m.name for m in STANDARD} - {"TargetExp", "Evid", "SafeR", "PoisonCount"}
        shown = shown_metrics([c for some in conditions for c in some])
        return [m for m in dict.fromkeys([*shown, *both]) if m in both and m not in hidden]
    for name in asked:
        if name not in both:
            raise StressragError(f"metrics: the runs share no metric {name!r}; {nearest(name, both)}")
    if not asked:
        raise StressragError(f"metrics: none is named; {nearest('', both)}")
    return list(dict.fromkeys(asked))


# ---- pairs ---------------------------------------------------------------------------------------


def _key(config: Mapping[str, Any]) -> str:
    # An attacker who knows what he meets is the same one, whichever defense that is.
    attack = {k: v for k, v in config["attack_settings"].items() if k != "against"}
    known = is_adaptive(config) or config["attack_settings"].get("against")
    return json.dumps(
        [known, attack, *(config[name] for name in MATCHED if name != "attack_settings")], sort_keys=True
    )


def _common(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """How many of the compared settings are equal."""
    return sum(one["config"][name] == other["config"][name] for name in COMPARED)


def _pairs(conditions: Sequence[Sequence[Mapping[str, Any]]]) -> list[_Pair]:
    """Each condition with its nearest counterparts in the first run, and the other way round."""
    out = []
    for i, others in enumerate(conditions[1:], 1):
        for a in conditions[0]:
            same = [b for b in others if _key(a["config"]) == _key(b["config"])]
            for b in same:
                rivals = [x for x in conditions[0] if _key(x["config"]) == _key(b["config"])]
                common = _common(a, b)
                if common in (max(_common(a, x) for x in same), max(_common(x, b) for x in rivals)):
                    out.append(_Pair(a, i, b))
    return out


def _nothing_matches(runs: Sequence[Run], conditions: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """What each run has in the settings that keep them apart."""
    values = [
        {name: list(dict.fromkeys(_plain(c["config"][name]) for c in some)) for name in MATCHED}
        for some in conditions
    ]
    apart = [n for n in MATCHED if not set.intersection(*(set(v[n]) for v in values))]
    named = apart or [n for n in MATCHED if len({tuple(v[n]) for v in values}) > 1]
    has = [
        f"{r.folder} has " + ", ".join(f"{n} {'|'.join(v[n][:6])}" for n in named)
        for r, v in zip(runs, values, strict=True)
    ]
    return f"no condition of one run has its counterpart in another: {'; '.join(has)}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


# ---- one pair ------------------------------------------------------------------------------------


def _compared(
    pair: _Pair,
    first: Rows,
    other: Rows,
    names: Sequence[str],
    rates: set[str],
    draw: Mapping[str, Any],
    n_listed: int,
) -> dict[str, Any]:
    """All numbers of one pair, Holm's correction excepted."""
    ids, at_first, at_other = _shared_rows(first.judged_ids, other.judged_ids)
    clusters = _clusters(first, other, at_first, at_other)
    config = pair.baseline["config"]
    here = [m for m in names if m in first.values and m in other.values and not _settled(config, m)]
    columns = {m: Difference(other.column(m)[at_other], first.column(m)[at_first]) for m in here}
    own = set(here) & rates
    bounds = {m: (-1.0, 1.0) for m in here if m in own or m.startswith(BOUNDED)}
    made = estimates(columns, ids, clusters=clusters, bounds=bounds, rates=own, **draw) if ids else {}
    one, two = flat(config), flat(pair.other["config"])
    differs = {
        n: [config[n], pair.other["config"][n]]
        for n in COMPARED
        if not n.endswith("_settings") and config[n] != pair.other["config"][n]
    }
    differs |= {
        n: [one.get(n), two.get(n)]
        for n in dict.fromkeys([*one, *two])
        if one.get(n) != two.get(n) and n not in config
    }
    return {
        "baseline": {"run": "A", "condition": pair.baseline["id"], "config": config},
        "other": {
            "run": _label(pair.run),
            "condition": pair.other["id"],
            "config": pair.other["config"],
        },
        "differs": differs,
        "n_queries": len(ids),
        "metrics": {m: _metric(m, columns[m], e, m in own, clusters, draw["seed"]) for m, e in made.items()},
        "queries": {m: _listed(m, ids, columns[m], n_listed) for m in made},
    }


def _shared_rows(one: Sequence[str], other: Sequence[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Queries judged on both sides, and where they stand on each."""
    place = {q: i for i, q in enumerate(other)}
    ids = [q for q in one if q in place]
    at = [i for i, q in enumerate(one) if q in place]
    return ids, np.array(at, np.int64), np.array([place[q] for q in ids], np.int64)


def _clusters(first: Rows, other: Rows, at_first: np.ndarray, at_other: np.ndarray) -> list[str] | None:
    """The groups of the shared queries, of which one side may know none."""
    for rows, at in ((first, at_first), (other, at_other)):
        if rows.judged_groups is not None:
            groups = rows.judged_groups
            return [groups[i] for i in at]
    return None


def _settled(config: Mapping[str, Any], metric: str) -> bool:
    """Whether both sides have the same value by definition."""
    clean = config["budget"] == 0
    return (metric == "Coverage" and config["anchor"] != "terms") or (clean and metric in OF_POISON)


def _metric(
    name: str,
    column: Difference,
    e: Estimate,
    is_rate: bool,
    clusters: Sequence[str] | None,
    seed: int,
) -> dict[str, Any]:
    gain = _gain(name, column)
    known = ~np.isnan(gain)
    out: dict[str, Any] = {
        "n": e.n,
        "baseline": float(column.second[known].mean()),
        "other": float(column.first[known].mean()),
        "difference": e.value,
        "low": e.low,
        "high": e.high,
        "method": e.method,
        "wins": int((gain > 0).sum()),
        "losses": int((gain < 0).sum()),
        "ties": int((gain == 0).sum()),
    }
    if is_rate:
        out |= paired_p(column.second, column.first, clusters, seed)
    return out


def _gain(name: str, column: Difference) -> Floats:
    """By how much the other side is better, query by query."""
    difference = column.first - column.second
    return -difference if name in LESS_IS_BETTER else difference


def _listed(name: str, ids: Sequence[str], column: Difference, n: int) -> list[dict[str, Any]]:
    """The queries that differ most, the largest difference first, then by id."""
    gain = _gain(name, column)
    differ = [i for i in range(len(ids)) if gain[i] != 0 and not np.isnan(gain[i])]
    differ.sort(key=lambda i: (-abs(gain[i]), ids[i]))
    return [
        {
            "query_id": ids[i],
            "baseline": float(column.second[i]),
            "other": float(column.first[i]),
            "outcome": "win" if gain[i] > 0 else "loss",
        }
        for i in differ[:n]
    ]


def _correct(pairs: Sequence[dict[str, Any]]) -> None:
    """Holm's correction over all pairs, one metric at a time."""
    for name in dict.fromkeys(m for p in pairs for m in p["metrics"]):
        family = [p["metrics"][name] for p in pairs if "p" in p["metrics"].get(name, {})]
        for metric, p_holm in zip(family, holm([m["p"] for m in family]), strict=True):
            metric |= {"p_holm": p_holm, "family": len(family)}


def _query_texts(run: Run) -> dict[str, str]:
    """The texts of a run's queries, none where it kept no texts."""
    table = run.texts()
    if table is None:
        return {}
    columns = (table[name].to_pylist() for name in ("kind", "id", "text"))
    return {i: text for kind, i, text in zip(*columns, strict=True) if kind == "query"}


def _add_texts(pair: dict[str, Any], *sources: Mapping[str, str]) -> None:
    known = {q: text for texts in sources for q, text in texts.items()}
    for listed in pair["queries"].values():
        for row in listed:
            if row["query_id"] in known:
                row["text"] = known[row["query_id"]]


# ---- for reading ---------------------------------------------------------------------------------


def comparison_table(value: Mapping[str, Any], listed: int = 5) -> str:
    """A comparison as it is printed.

    Parameters
    ----------
    value : mapping
        What :func:`compare` returns.
    listed : int
        How many queries to list for each pair, by its first metric.
    """
    lines = [
        f"{r['label']}: {r['folder']}" + (" (baseline)" if r["label"] == "A" else "") for r in value["runs"]
    ]
    configs = [p["baseline"]["config"] for p in value["pairs"]]
    vary = [s for s in SETTINGS if s in MATCHED and len({str(c[s]) for c in configs}) > 1]
    names = _side_names(value["pairs"])
    head = [{"budget": "P"}.get(s, s) for s in vary]
    head += ["baseline", "other", "metric", "n", "baseline", "other", "difference", "95%", "wins", "losses"]
    level = f"{value['statistics']['level']:.0%}"
    head[head.index("95%")] = level
    rows = []
    for p, sides in zip(value["pairs"], names, strict=True):
        cells = [*(setting(s, p["baseline"]["config"]) for s in vary), *sides]
        for name, m in p["metrics"].items():
            numbers = [f"{m['baseline']:.3f}", f"{m['other']:.3f}", f"{m['difference']:+.3f}", _ends(m)]
            tests = [p_text(m["p"]), p_text(m["p_holm"])] if "p" in m else ["", ""]
            rows.append([*cells, name, str(m["n"]), *numbers, str(m["wins"]), str(m["losses"]), *tests])
            cells = [""] * len(cells)
    lines += ["", *align([*head, "p", "p (Holm)"], rows, len(vary) + 3)]
    lines += _lists(value, names, listed)
    lines += ["", f"p: {value['statistics']['p_values']}. Difference: other less baseline."]
    count = sum(map(len, value["unmatched"].values()))
    if count:
        lines.append(f"{count} conditions have no counterpart and are left out.")
    return "\n".join([*lines, *value["notes"]])


def _ends(m: Mapping[str, Any]) -> str:
    return "" if m["low"] is None else f"[{m['low']:+.3f} {m['high']:+.3f}]"


def _side_names(pairs: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What to call the two sides: the run, and the settings in which any pair differs."""
    differing = dict.fromkeys(name for p in pairs for name in p["differs"])
    hidden = {"retriever_kind", "pool"} if {"retriever", "defense"} & set(differing) else set()
    short = [n for n in ("retriever", "defense", "statistics") if _telling(pairs, n)]
    out = []
    for p in pairs:
        deep = [n for n in p["differs"] if n not in {*short, *hidden, "statistics"}]
        same_short = all(p["baseline"]["config"][n] == p["other"]["config"][n] for n in short)
        sides = []
        for at, side in enumerate((p["baseline"], p["other"])):
            cells = [str(side["config"][n]) for n in short]
            cells += [f"{n}={p['differs'][n][at]}" for n in deep if same_short]
            sides.append(" ".join([side["run"], *cells]))
        out.append((sides[0], sides[1]))
    return out


def _telling(pairs: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = {str(p[side]["config"][name]) for p in pairs for side in ("baseline", "other")}
    return len(values - {"None"}) > 1


def _lists(value: Mapping[str, Any], names: Sequence[tuple[str, str]], listed: int) -> list[str]:
    """The queries that differ most, by the first metric of each pair that differs anywhere."""
    out = []
    for p, sides in zip(value["pairs"], names, strict=True):
        metric = next((m for m, rows in p["queries"].items() if rows), None)
        if metric is None or not listed:
            continue
        some = p["queries"][metric][:listed]
        rows = [
            [r["query_id"], f"{r['baseline']:.3f}", f"{r['other']:.3f}", r["outcome"].rjust(4)] for r in some
        ]
        title = f"{metric} differs most ({p['other']['condition']} against {p['baseline']['condition']}):"
        table = align(["query", *sides, "    "], rows, 1)
        shown = [
            f"{line}  {_cut(r.get('text', ''))}".rstrip() for line, r in zip(table[2:], some, strict=True)
        ]
        out += ["", title, "", *table[:2], *shown]
    return out


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"
