"""Worst-case wording: how an attacker who knows some terms, the retriever and the defense writes documents.

For BM25 alone, or behind overlap admission, the best document is computed (``keywords``): exactly for lucene,
plus and l, for okapi under frozen statistics without a payload. For every other
system there is no closed form: drafts are written (``drafts``), each is searched for in the real system, and
the best is taken. What that finds is a lower bound of what an attacker can do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stressrag.attacks.aim import Draft, System, Target, cut, holders, planted
from stressrag.attacks.drafts import Drafts
from stressrag.attacks.keyword_writer import KeywordWriter, admitted
from stressrag.errors import StressragError
from stressrag.retrievers.bm25 import BM25


def worst_documents(system: System, targets: Sequence[Target], drafts: Drafts) -> list[list[str]]:
    """The poison documents of each target, as many as it has payloads.

    Raises
    ------
    StressragError
        When a payload leaves no room for a term.
    """
    for t in targets:
        longest = max(t.payloads, key=drafts.length)
        if drafts.length(longest) >= system.aim.max_tokens:
            raise StressragError(
                f"attack.max_tokens={system.aim.max_tokens}: no room for terms beside a payload of "
                f"{drafts.length(longest)} tokens; set more, or attack.body=none"
            )
    some = _exact(system, targets) if exact(system) else drafts.of(system, targets)
    for documents in (d for of_one in some for d in of_one):
        assert max(map(drafts.length, documents), default=0) <= system.aim.max_tokens
    if all(len(of_one) == 1 for of_one in some):
        return [list(of_one[0]) for of_one in some]
    return _searched(system, targets, some)


def exact(system: System) -> bool:
    """Whether the best document is computed rather than searched for."""
    known = all(d.name == "overlap" for d in system.defenses)
    return len(system.leaves) == 1 and isinstance(system.leaves[0], BM25) and known


def _exact(system: System, targets: Sequence[Target]) -> list[list[Draft]]:
    """Copies of the best document, as many as the aim has or one among decoys."""
    bm25 = system.leaves[0]
    assert isinstance(bm25, BM25)
    writers = {n: KeywordWriter(bm25, system.aim, n) for n in holders(system.aim)}
    out = []
    for target in targets:
        some: dict[Draft, None] = {}
        for n, writer in writers.items():
            words = {p: _best(writer, system, target, p) for p in dict.fromkeys(target.payloads)}
            n = n if system.aim.statistics == "live" else len(target.payloads)
            docs = [planted(target, words[p], n, writer.decoy)[at] for at, p in enumerate(target.payloads)]
            some[tuple(docs)] = None
        out.append(list(some))
    return out


def _best(writer: KeywordWriter, system: System, target: Target, payload: str) -> str:
    """The wording with the highest score among those that admission lets pass."""
    if not system.defenses:
        return writer.write(target.query, target.terms, payload)[0]
    terms, sets, limits = admitted(writer, system, target, payload)
    if not len(sets):  # nothing passes
        room = system.aim.max_tokens - len(writer.tokenizer(payload))
        return cut(" ".join(target.terms), room, writer.tokenizer)
    best, best_score = "", -np.inf
    for subset, limit in zip(sets, limits, strict=True):
        if limit <= best_score:  # no document of this subset, nor of those after it, scores more
            break
        text, score = writer.write(target.query, [terms[i] for i in subset], payload)
        if score > best_score:
            best, best_score = text, score
    return best


def _searched(
    system: System, targets: Sequence[Target], drafts: Sequence[Sequence[Draft]]
) -> list[list[str]]:
    """The best of each target's drafts, each tried in the system."""
    queries = [t.query for t, some in zip(targets, drafts, strict=True) for _ in some]
    flat: list[Draft] = [draft for some in drafts for draft in some]
    tried = system.outcome(queries, flat)
    out, start = [], 0
    for some in drafts:
        rows = range(start, start + len(some))
        best = max(rows, key=lambda r: (tried.shown[r] > 0, tried.shown[r], -tried.first[r], -r))
        out.append(list(flat[best]))
        start += len(some)
    return out
