"""What a defense does to answers of clean held-out queries (the aligned paper, appendices C and J)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from stressrag.aligned.cells import Cell, Labeler
from stressrag.stats.bootstrap import LEVEL, N_RESAMPLES, Floats
from stressrag.stats.intervals import Difference, estimates

_LEAD = re.compile(
    r"\W*(?:the )?(?:final |correct |best )?answer(?: to the question)?(?: is|:)\s*", re.IGNORECASE
)
_POLAR = {"yes", "no", "noanswer"}


def squad_tokens(text: str) -> list[str]:
    """The words that exact match and F1 compare (SQuAD): lower case, no ASCII punctuation, no articles."""
    bare = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(?:a|an|the)\b", " ", bare).split()


def exact_match(answer: str, references: Sequence[str]) -> float:
    """1 where the answer, less a leading "the answer is", is one of the references."""
    said = squad_tokens(_LEAD.sub("", answer, count=1) if _LEAD.match(answer) else answer)
    return float(any(said == squad_tokens(r) for r in references))


def f1(answer: str, references: Sequence[str]) -> float:
    """The best word F1 over the references; 0 where one side is yes or no and the other differs
    (HotpotQA).
    """
    said = squad_tokens(_LEAD.sub("", answer, count=1) if _LEAD.match(answer) else answer)
    best = 0.0
    for r in references:
        gold = squad_tokens(r)
        if not said or not gold:
            best = max(best, float(said == gold))
            continue
        if said != gold and {" ".join(said), " ".join(gold)} & _POLAR:
            continue
        common = sum((Counter(said) & Counter(gold)).values())
        best = max(best, 2 * common / (len(said) + len(gold)))
    return best


def utility_rows(
    cells: Sequence[Cell],
    labels: Sequence[Labeler],
    *,
    seed: int = 0,
    n_resamples: int = N_RESAMPLES,
    level: float = LEVEL,
) -> list[dict[str, Any]]:
    """One row per defense and label over clean held-out queries.

    Exact match and F1 before and after the defense; and of the queries whose correctness is known on both
    sides how many answers were retained, lost, gained and still wrong, and where an abstention was
    introduced.
    """
    out = []
    for c in cells:
        if c.method == "none" and any(o.setting == c.setting and o.method != "none" for o in cells):
            continue
        for lab in labels:
            columns = _columns(c, lab)
            bounds = {n: (-1.0, 1.0) if n.endswith("_change") else (0.0, 1.0) for n in columns}
            made = estimates(
                columns,
                c.queries,
                clusters=c.groups,
                bounds=bounds,
                seed=seed,
                n_resamples=n_resamples,
                level=level,
            )
            row: dict[str, Any] = {k: v for k, v in c.place.items() if k != "budget"}
            row |= {"label": lab.name, "n_queries": len(c.queries)}
            row |= {name: None if name not in made else made[name].value for name in columns}
            row["n"] = {name: e.n for name, e in made.items()}
            row["intervals"] = {name: [e.low, e.high] for name, e in made.items()}
            out.append(row)
    return out


def _columns(cell: Cell, labels: Labeler) -> dict[str, Floats | Difference]:
    out: dict[str, Floats | Difference] = {}
    sides = [("before", False)] + ([("after", True)] if cell.method != "none" else [])
    for side, defended in sides:
        rows = cell.answers.get(("clean", defended), {})
        answers = [rows.get(q) for q in cell.queries]
        for name, score in (("em", exact_match), ("f1", f1)):
            out[f"{name}_{side}"] = np.array(
                [score(a.answer, a.references) if a and a.references else np.nan for a in answers]
            )
        out[f"correct_{side}"] = cell.column(labels, "correct", "clean", defended)
        out[f"abstains_{side}"] = cell.column(labels, "abstains", "clean", defended)
    if cell.method == "none":
        return out
    before, after = (cell.column(labels, "correct", "clean", d) for d in (False, True))
    declined, declines = (cell.column(labels, "abstains", "clean", d) for d in (False, True))
    known = np.where(np.isnan(before + after), np.nan, 1.0)
    return {
        **out,
        "correct_change": Difference(after * known, before * known),
        "retained": known * before * after,
        "lost": known * before * (1 - after),
        "gained": known * (1 - before) * after,
        "still_wrong": known * (1 - before) * (1 - after),
        "abstention_introduced": (1 - declined) * declines,
    }
