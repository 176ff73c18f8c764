"""The worst targets of a run: queries where poison came in and real evidence went out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stressrag.records.folder import Run
from stressrag.report.labels import same_but
from stressrag.report.visible import LONG, visible

MOST = 25
_ATTACK = (
    "attack",
    "anchor",
    "terms",
    "strategy",
    "body",
    "budget",
    "scope",
    "statistics",
    "targets",
    "ties",
)
_DRAWN = ("seed", "group_size", "attack_settings")


@dataclass(frozen=True)
class Document:
    """A ranked document, its texts already cut and safe to look at."""

    rank: int
    name: str
    text: str
    grade: int
    relevant: bool
    poison: bool
    owner: str | None


@dataclass(frozen=True)
class Worst:
    """One query under the condition that harmed it most."""

    condition: str
    clean: str
    query_id: str
    query: str
    evidence_left: bool
    top: list[Document]
    pushed_out: list[Document]


@dataclass(frozen=True)
class Losses:
    """The worst targets, and of how many they are the worst."""

    worst: list[Worst]
    queries: int
    pairs: int
    note: str


def losses(run: Run, most: int = MOST) -> Losses:
    """Where relevant documents of the clean top k are missing while poison is in it.

    Of each query the worst condition is kept: all evidence lost, then most documents pushed out, then the
    lowest nDCG.

    Parameters
    ----------
    run : Run
        A finished run.
    most : int
        Worst targets kept.
    """
    summary = run.summary
    partners = clean_partners(summary)
    rankings = run.rankings()
    relevant = _relevant(rankings, {c["id"]: c["config"]["grade"] for c in summary["conditions"]})
    pairs, best = 0, dict[str, tuple[tuple[bool, int, float], str, list[str]]]()
    for condition, query, left, quality in _exposed(run.records(), set(partners)):
        still = set(relevant.get((condition, query), ()))
        gone = [d for d in relevant.get((partners[condition], query), ()) if d not in still]
        if not gone:
            continue
        pairs += 1
        harm = (not left, len(gone), -quality)
        if query not in best or harm > best[query][0]:
            best[query] = (harm, condition, gone)
    order = sorted(best, key=lambda q: (*(-x for x in best[q][0]), q))[:most]
    several = len({c["config"]["dataset"] for c in summary["conditions"]}) > 1
    texts = None if several else run.texts()
    chosen = {(best[q][1], q): partners[best[q][1]] for q in order}
    rows = _rows(rankings, chosen)
    reader = _Texts(texts, rows, order)
    poison = {c["id"]: c["poison"] for c in summary["conditions"]}
    grades = {c["id"]: c["config"]["grade"] for c in summary["conditions"]}
    worst = []
    for q in order:
        harm, condition, gone = best[q]
        clean, grade, attack = partners[condition], grades[condition], poison[condition]
        worst.append(
            Worst(
                condition,
                clean,
                visible(q),
                reader.query(q),
                not harm[0],
                [reader.document(r, grade, attack) for r in rows[condition, q]],
                [reader.document(r, grade, None) for r in rows[clean, q] if r["doc_id"] in gone],
            )
        )
    note = ""
    if several:
        note = "The run has several collections, whose saved texts are not told apart; texts are left out."
    elif texts is None:
        note = "The run was made with texts=false; ids stand alone."
    return Losses(worst, len(best), pairs, note)


def clean_partners(summary: Mapping[str, Any]) -> dict[str, str]:
    """By attacked condition the clean one with the same retriever and defense."""
    conditions = summary["conditions"]
    clean = {
        same_but(c["config"], *_ATTACK, *_DRAWN): c["id"] for c in conditions if not c["config"]["budget"]
    }
    out = {}
    for c in conditions:
        partner = clean.get(same_but(c["config"], *_ATTACK, *_DRAWN))
        if c["config"]["budget"] and partner:
            out[c["id"]] = partner
    told = {c["condition"]: c["baseline"] for c in summary["comparisons"] if c["against"] == "clean"}
    return {**out, **told}


def _exposed(records: pa.Table, conditions: set[str]) -> list[tuple[str, str, bool, float]]:
    """Judged queries with poison in the top k: condition, query, whether evidence is left, nDCG."""
    ndcg = next(n for n in records.schema.names if n.startswith("nDCG@"))
    at = np.flatnonzero(records["evaluated"].to_numpy() & (records["AnyExp"].to_numpy() == 1))
    some = records.select(["condition", "query_id", "Evid", ndcg]).take(pa.array(at))
    columns = (some[n].to_pylist() for n in some.schema.names)
    return [(c, q, e == 1, float(n)) for c, q, e, n in zip(*columns, strict=True) if c in conditions]


def _relevant(rankings: pa.Table, grades: Mapping[str, int]) -> dict[tuple[str, str], list[str]]:
    """By condition and query the relevant clean documents of the top k."""
    least = min(grades.values())
    some = rankings.filter(pc.and_(pc.greater_equal(rankings["grade"], least), pc.invert(rankings["poison"])))
    out: dict[tuple[str, str], list[str]] = {}
    columns = (some[n].to_pylist() for n in ("condition", "query_id", "doc_id", "grade"))
    for condition, query, document, grade in zip(*columns, strict=True):
        if grade >= grades[condition]:
            out.setdefault((condition, query), []).append(document)
    return out


def _rows(
    rankings: pa.Table, chosen: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rankings of some conditions and queries, and of their clean partners."""
    wanted = {*chosen, *((clean, query) for (_, query), clean in chosen.items())}
    queries = pa.array(sorted({q for _, q in wanted}), pa.string())
    out: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in wanted}
    for row in rankings.filter(pc.is_in(rankings["query_id"], value_set=queries)).to_pylist():
        key = (row["condition"], row["query_id"])
        if key in out:
            out[key].append(row)
    return out


class _Texts:
    """The texts of some rows, looked up once."""

    def __init__(self, table: pa.Table | None, rows: Mapping[Any, list[dict[str, Any]]], queries: list[str]):
        self.there: dict[tuple[str, str | None, str], str] = {}
        if table is None:
            return
        wanted = pa.array(
            sorted({r["doc_id"] for some in rows.values() for r in some} | {*queries}), pa.string()
        )
        for row in table.filter(pc.is_in(table["id"], value_set=wanted)).to_pylist():
            text = f"{row['title']} — {row['text']}" if row["title"] else row["text"]
            self.there[row["kind"], row["attack"], row["id"]] = visible(text, LONG)

    def query(self, name: str) -> str:
        return self.there.get(("query", None, name), "")

    def document(self, row: Mapping[str, Any], grade: int, attack: str | None) -> Document:
        key = ("poison", attack) if row["poison"] else ("document", None)
        return Document(
            rank=row["rank"],
            name=visible(row["doc_id"]),
            text=self.there.get((*key, row["doc_id"]), ""),
            grade=row["grade"],
            relevant=not row["poison"] and row["grade"] >= grade,
            poison=row["poison"],
            owner=None if row["owner"] is None else visible(row["owner"]),
        )
