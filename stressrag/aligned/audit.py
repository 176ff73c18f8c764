"""Blinded human audits: the two files that come of answers that were drawn.

The packet is one page that shows each item's question, target, references and answer under an opaque id, in a
drawn order, and nothing else: neither where an answer comes from nor why it was drawn. All that is in the key
file, which stays with whoever exported. How answers are drawn is said in
:mod:`stressrag.aligned.audit_sample`.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stressrag.aligned.audit_page import page
from stressrag.aligned.audit_sample import (
    FLIPS,
    REASONS,
    Automatic,
    Flip,
    draw,
    endorsements,
    find_flips,
    row_order,
    share_out,
    strata,
)
from stressrag.aligned.judgments import FIELDS, Labels
from stressrag.aligned.records import Answer
from stressrag.errors import StressragError
from stressrag.records.files import json_of, write_together
from stressrag.stats.bootstrap import entropy

PAGE, KEY = "packet.html", "key.json"
KEY_KIND = "stressrag audit key, not for annotators"
_SIGNS = "bcdfghjkmnpqrstvwxz23456789"  # no vowels, so no words; nothing that looks like another
_JOINERS = "\u200c\u200d"  # which scripts and emoji need


def audit_export(
    answers: Sequence[Answer],
    folder: str | Path,
    *,
    items: int = 100,
    random: int | None = None,
    seed: int = 0,
    automatic: Automatic | None = None,
    judge: Mapping[str, Labels] | None = None,
    by: str | None = None,
    flips: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Draw answers and write the page to label them on, and the key file.

    Parameters
    ----------
    answers : sequence of Answer
        The population.
    folder : path
        Takes ``packet.html``, which is all that annotators get, and ``key.json``, which says what is what.
    items : int
        Outputs to draw; in flips mode pairs, half of them of each kind as far as there are.
    random : int, optional
        How many of them purely at random; by default half. Not in flips mode.
    seed : int
        Same answers, labels and seed: same bytes.
    automatic, judge : mapping, optional
        Labels, rule to {key: whether the target is endorsed} and {key: Labels}.
    by : str, optional
        Whose labels say what flipped: ``judge`` or a rule; see :func:`endorsements`.
    flips : bool
        Whether to draw pairs.
    overwrite : bool
        Whether files that are there may be replaced.

    Returns
    -------
    dict
        ``packet`` (its id), ``items``, ``population``, ``drawn`` (by reason or kind), ``page``, ``key``.

    Raises
    ------
    StressragError
        When there is nothing to draw, numbers make no audit, or files are there already.
    """
    folder = Path(folder)
    there = [name for name in (PAGE, KEY) if (folder / name).exists()]
    if there and not overwrite:
        raise StressragError(
            f"{folder / there[0]} is there already; choose another folder or add --overwrite"
        )
    part = max(1, items // 2) if random is None else random
    if items < 1 or not 0 <= part <= items:
        raise StressragError(
            f"an audit of {items} items, {part} of them random, is none; give 0 ≤ random ≤ items"
        )
    if not answers:
        raise StressragError("there are no answers to audit")
    source, verdicts = endorsements(automatic, judge, by)
    outputs: dict[str, list[Answer]] = {}
    for a in sorted(answers, key=row_order):
        outputs.setdefault(a.key, []).append(a)
    population: int | dict[str, int] = len(outputs)
    if flips:
        chosen, population = _draw_flips(answers, source, verdicts, items, seed)
    else:
        chosen = _draw_answers(outputs, automatic, judge, items, part, seed)
    shown, key = _packet(chosen, outputs, automatic, judge, seed)
    key = {
        "kind": KEY_KIND,
        "packet": shown["packet"],
        "mode": "flips" if flips else "answers",
        "by": source,
        "seed": seed,
        "population": population,
        **({} if flips else {"random": part, "answers_in_population": len(answers)}),
        **key,
    }
    # The key first: a packet without its key would be worth nothing.
    write_together({folder / KEY: json_of(key), folder / PAGE: page(shown)}, "choose another --out")
    reasons = [item["stratum"].split(" / ")[0] for item in key["items"]]
    return {
        "packet": shown["packet"],
        "items": len(chosen),
        "population": population,
        "drawn": {r: reasons.count(r) for r in (*REASONS, *FLIPS) if r in reasons},
        "page": str(folder / PAGE),
        "key": str(folder / KEY),
    }


def _draw_answers(
    outputs: Mapping[str, Sequence[Answer]],
    automatic: Automatic | None,
    judge: Mapping[str, Labels] | None,
    items: int,
    random: int,
    seed: int,
) -> list[tuple[dict[str, Any], list[str]]]:
    """The items of an audit of answers: what the key file says of each, and its output."""
    found = strata(outputs, automatic, judge)
    drawn = draw({key: (reasons[0], cell) for key, (reasons, cell) in found.items()}, items, random, seed)
    out = []
    for key in sorted(drawn):
        reasons, cell = found[key]
        chance = drawn[key].probability
        about = {"stratum": f"{reasons[0]} / {cell}", "reasons": list(reasons), "step": drawn[key].step}
        out.append(({**about, "probability": chance, "weight": 1 / chance}, [key]))
    return out


def _draw_flips(
    answers: Sequence[Answer], source: str, verdicts: Mapping[str, bool | None], items: int, seed: int
) -> tuple[list[tuple[dict[str, Any], list[str]]], dict[str, int]]:
    """The pairs of an audit of flips, and how many distinct ones there are of each kind."""
    if not source:
        raise StressragError("flips are found by labels, and there are none; give --judge FILE")
    pairs: dict[str, dict[tuple[str, str], list[Flip]]] = {kind: {} for kind in FLIPS}
    for f in find_flips(answers, verdicts):
        pairs[f.kind].setdefault((f.undefended.key, f.defended.key), []).append(f)
    sizes = {kind: len(found) for kind, found in pairs.items()}
    if not any(sizes.values()):
        raise StressragError(
            f"no query flips between undefended and defended answers by the labels of {source}"
        )
    rng = np.random.default_rng(
        entropy(seed, "audit flips", [" ".join(k) for kind in FLIPS for k in sorted(pairs[kind])])
    )
    shares = share_out(sizes, items, rng)
    out = []
    for kind in FLIPS:
        keys = sorted(pairs[kind])
        for i in sorted(rng.permutation(len(keys))[: shares[kind]]):
            found = pairs[kind][keys[i]]
            chance = shares[kind] / sizes[kind]
            about = {"stratum": kind, "methods": sorted({f.defended.method for f in found})}
            out.append(({**about, "probability": chance, "weight": 1 / chance}, list(keys[i])))
    return out, sizes


def _packet(
    chosen: Sequence[tuple[dict[str, Any], list[str]]],
    outputs: Mapping[str, Sequence[Answer]],
    automatic: Automatic | None,
    judge: Mapping[str, Labels] | None,
    seed: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the page shows, and the items and answers of the key file."""
    drawn = [" ".join(keys) for _, keys in chosen]
    rng = np.random.default_rng(entropy(seed, "audit packet", drawn))
    taken: set[str] = set()
    packet = _code(rng, taken, 12)
    shown, items, told = [], [], {}
    for i in rng.permutation(len(chosen)):
        about, keys = chosen[i]
        ids = {key: _code(rng, taken, 5) for key in keys}
        sides = [keys[j] for j in rng.permutation(len(keys))]
        first = outputs[keys[0]][0]
        shown.append(
            {
                "question": plain(first.question),
                "target": None if first.target is None else plain(first.target),
                "references": [plain(r) for r in first.references],
                "answers": [{"id": ids[key], "text": plain(outputs[key][0].answer)} for key in sides],
            }
        )
        items.append({**about, "answers": [ids[key] for key in keys]})
        for key in keys:
            told[ids[key]] = _told(key, outputs[key], automatic, judge)
    return {"packet": packet, "items": shown}, {"items": items, "answers": told}


def _told(
    key: str, rows: Sequence[Answer], automatic: Automatic | None, judge: Mapping[str, Labels] | None
) -> dict[str, Any]:
    """What the key file says of an answer."""
    names = ("query_id", "condition", "method", "dataset", "retriever", "victim", "arm", "attack", "budget")
    labels = (judge or {}).get(key)
    return {
        "key": key,
        "has_target": rows[0].target is not None,
        "cluster": rows[0].group,
        "rows": [{n: getattr(a, n) for n in names if getattr(a, n) not in ("", None)} for a in rows],
        "automatic": {rule: found.get(key) for rule, found in (automatic or {}).items()},
        "judge": {f: getattr(labels, f) for f in FIELDS} if labels else None,
    }


def _code(rng: np.random.Generator, taken: set[str], length: int) -> str:
    """An opaque id that is not taken yet."""
    while True:
        code = "".join(_SIGNS[i] for i in rng.integers(0, len(_SIGNS), length))
        if code not in taken:
            taken.add(code)
            return code


def plain(text: str) -> str:
    """A text with its lines, in which what would not show, such as direction marks, stands as [U+202E]."""
    return "".join(
        f"[U+{ord(c):04X}]"
        if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp") and c not in "\n\t" + _JOINERS
        else c
        for c in text.replace("\r\n", "\n")
    )
