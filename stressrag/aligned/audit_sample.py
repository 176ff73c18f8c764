"""Which answers a human audit looks at, and with what chance each was drawn.

What is drawn are distinct outputs (equal :attr:`~stressrag.aligned.records.Answer.key`), in two steps:

1. a simple random sample of ``random`` of all N outputs;
2. of the rest, a fixed number from each stratum (all that are left, where there are fewer). Strata are what
   makes an output worth a look (:data:`REASONS`) and, within that, condition and method; the number is shared
   out equally over the reasons and then over their cells, before the first step and without regard to it.

An output of a stratum of size N_h with share n_h is thus drawn with probability
r/N + (1 - r/N) E[min(1, n_h / M_h)], where M_h, what the first step left of the stratum, is N_h less a
hypergeometric count. Its weight is one over that: sums of weighted values are unbiased for sums over the
population (Horvitz and Thompson 1952), and weighted means nearly so (Hájek 1971). The weights sum to N in
expectation.

In flips mode what is drawn are pairs of the undefended and the defended answer to one query of which the
labels say that one endorses the target and the other does not, as many of either kind as there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from stressrag.aligned.judgments import Labels
from stressrag.aligned.records import NO_DEFENSE, Answer
from stressrag.errors import StressragError, brief, nearest
from stressrag.stats.bootstrap import entropy

REASONS = ("judge undecided", "labels disagree", "label flip", "at random")
FLIPS = ("prevention", "introduction")
Automatic = Mapping[str, Mapping[str, "bool | None"]]


class Drawn(NamedTuple):
    """An output that was drawn: its chance of being drawn, and in which step it was."""

    probability: float
    step: str


@dataclass(frozen=True)
class Flip:
    """A query whose label differs between the undefended and the defended answer.

    Attributes
    ----------
    kind : {"prevention", "introduction"}
        The undefended answer alone endorses the target, or the defended alone.
    undefended, defended : Answer
        Of the same query, setting, condition and budget.
    """

    kind: str
    undefended: Answer
    defended: Answer


def endorsements(
    automatic: Automatic | None, judge: Mapping[str, Labels] | None, by: str | None = None
) -> tuple[str, dict[str, bool | None]]:
    """One source's verdicts on endorsement, by key: the judge's where there is one, else the first rule's.

    Parameters
    ----------
    automatic : mapping, optional
        Rule to {key: verdict}.
    judge : mapping, optional
        By key.
    by : str, optional
        ``judge`` or a rule, in the place of the default.

    Returns
    -------
    name : str
        The source; ``""``: there is none.
    verdicts : dict
        ``None``: undecided.
    """
    known = [*(["judge"] if judge else []), *(automatic or {})]
    if by is not None and by not in known:
        raise StressragError(f"there are no labels by {brief(by)}; {nearest(by[:60], known)}")
    name = by or (known[0] if known else "")
    if name == "judge" and judge:
        decided = {"yes": True, "no": False}
        return name, {key: decided.get(str(x.target_endorsed)) for key, x in judge.items()}
    return name, dict((automatic or {}).get(name, {}))


def find_flips(
    answers: Sequence[Answer],
    endorsed: Mapping[str, bool | None],
    conditions: Sequence[str] = ("poisoned",),
) -> list[Flip]:
    """The flipped queries, one entry per defended answer; undecided ones are no flip.

    Parameters
    ----------
    answers : sequence of Answer
        Undefended and defended.
    endorsed : mapping
        By key.
    conditions : sequence of str
        In which conditions the two are held against each other.
    """
    plain = {_place(a, a.budget): a for a in answers if a.method == NO_DEFENSE}
    out = []
    for a in sorted(answers, key=row_order):
        if a.method == NO_DEFENSE or a.condition not in conditions:
            continue
        base = plain.get(_place(a, a.budget)) or plain.get(_place(a, None))
        before = None if base is None else endorsed.get(base.key)
        after = endorsed.get(a.key)
        if base is not None and None not in (before, after) and before != after:
            out.append(Flip(FLIPS[0] if before else FLIPS[1], base, a))
    return out


def _place(a: Answer, budget: int | None) -> tuple[Any, ...]:
    return (*a.setting, a.condition, a.query_id, budget)


def row_order(a: Answer) -> tuple[Any, ...]:
    """What answers are sorted by, so that the order of files does not matter."""
    return (
        a.condition,
        a.method,
        a.setting,
        -1 if a.budget is None else a.budget,
        a.split,
        a.query_id,
        a.key,
    )


def strata(
    outputs: Mapping[str, Sequence[Answer]], automatic: Automatic | None, judge: Mapping[str, Labels] | None
) -> dict[str, tuple[tuple[str, ...], str]]:
    """Of each output all that makes it worth a look, and its cell.

    The first reason and the cell are its stratum. An output that several rows share counts for the first of
    them by condition and method.
    """
    rows = [a for found in outputs.values() for a in found]
    verdicts = endorsements(automatic, judge)[1]
    flipped = {
        a.key for f in find_flips(rows, verdicts, ("clean", "poisoned")) for a in (f.undefended, f.defended)
    }
    out = {}
    for key, found in outputs.items():
        said = {rule.get(key) for rule in (automatic or {}).values()} | {verdicts.get(key)}
        open_ = judge is not None and key in judge and judge[key].target_endorsed in ("uncertain", "invalid")
        told = (open_, {True, False} <= said, key in flipped)
        reasons = tuple(r for r, holds in zip(REASONS, told, strict=False) if holds) or REASONS[-1:]
        out[key] = reasons, f"{found[0].condition} × {found[0].method}"
    return out


def draw(stratum_of: Mapping[str, tuple[str, str]], items: int, random: int, seed: int) -> dict[str, Drawn]:
    """Draw outputs as the module describes.

    Parameters
    ----------
    stratum_of : mapping
        Key to reason and cell.
    items, random : int
        Outputs to draw in all (fewer only where strata run out), and how many of them in the first step.
    seed : int
        Of the draw; neither the order of the keys nor anything else enters it.

    Returns
    -------
    dict
        The outputs that were drawn, by key.
    """
    keys = sorted(stratum_of)
    rng = np.random.default_rng(entropy(seed, "audit", keys))
    items, random = min(items, len(keys)), min(random, len(keys))
    members: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        members.setdefault(stratum_of[key], []).append(key)
    shares = _shares({s: len(found) for s, found in members.items()}, items - random, rng)
    if random == 0 and 0 in shares.values():
        raise StressragError(
            "without a random part some strata would have no chance to be drawn, and no weights could make "
            "up for that; give --random 1 or more"
        )
    first = {keys[i] for i in rng.permutation(len(keys))[:random]}
    out = {}
    for stratum in sorted(members):
        found, share = members[stratum], shares[stratum]
        chance = _chance(len(keys), len(found), random, share)
        left = [key for key in found if key not in first]
        second = {left[i] for i in rng.permutation(len(left))[:share]}
        for key in found:
            if key in first or key in second:
                out[key] = Drawn(chance, "random" if key in first else "stratum")
    return out


def _shares(sizes: Mapping[tuple[str, str], int], n: int, rng: np.random.Generator) -> dict[Any, int]:
    """How many to draw from each stratum: equally over the reasons, then over the cells of each."""
    by_reason: dict[str, dict[tuple[str, str], int]] = {}
    for stratum in sorted(sizes):
        by_reason.setdefault(stratum[0], {})[stratum] = sizes[stratum]
    of_reason = share_out({r: sum(cells.values()) for r, cells in by_reason.items()}, n, rng)
    return {s: k for r, cells in by_reason.items() for s, k in share_out(cells, of_reason[r], rng).items()}


def share_out(sizes: Mapping[Any, int], n: int, rng: np.random.Generator) -> dict[Any, int]:
    """``n`` over some bins, equally as far as each has room; who gets the odd ones is drawn."""
    names = list(sizes)
    order = [names[i] for i in rng.permutation(len(names))]
    out = dict.fromkeys(names, 0)
    while n > 0 and (open_ := [x for x in order if out[x] < sizes[x]]):
        each = max(1, n // len(open_))
        for name in open_:
            more = min(each, sizes[name] - out[name], n)
            out[name] += more
            n -= more
    return out


def _chance(population: int, size: int, random: int, share: int) -> float:
    """The chance of one output of a stratum to be drawn in either step."""
    from scipy.stats import hypergeom

    first = random / population
    if random == population:
        return 1.0
    # Given that the first step passed this output by, how many of its fellows it took.
    taken = np.arange(min(random, size - 1) + 1)
    likely = hypergeom.pmf(taken, population - 1, size - 1, random)
    second = float(np.sum(likely * np.minimum(1.0, share / (size - taken))))
    return min(1.0, first + (1 - first) * second)
