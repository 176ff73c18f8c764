"""The contexts of a run: what is retrieved, clean and poisoned, and what the controls leave of it.

Every query of an injection group competes with all poison of its group, 10 p passages for ten queries at
budget p (aligned RAG evaluation paper, appendix D). Removal keeps the order and refills nothing (2.2).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stressrag.aligned.records import Passage
from stressrag.aligned.run.cohort import Attacked
from stressrag.collection.model import Collection
from stressrag.errors import StressragError
from stressrag.retrievers.base import PoisonTexts, Retriever
from stressrag.retrievers.ranking import Ranking, Views


@dataclass(frozen=True)
class Context:
    """What a system sees for a query under a condition.

    Attributes
    ----------
    query_id, condition : str
        A query, and a condition or control of the long format.
    budget : int or None
        ``None``: clean.
    split : str
        ``attack``, ``utility`` or ``calibration``.
    passages : tuple of Passage
        In order.
    """

    query_id: str
    condition: str
    budget: int | None
    split: str
    passages: tuple[Passage, ...]

    @property
    def id(self) -> str:
        """A hash of the query and all that the passages are, under which a context is stored once."""
        shown = [self.query_id, [[p.id, p.text, p.score, p.role, p.owner] for p in self.passages]]
        return hashlib.sha256(
            json.dumps(shown, ensure_ascii=False).encode("utf-8", "surrogatepass")
        ).hexdigest()[:24]


def retrieve(
    retriever: Retriever,
    collection: Collection,
    attacked: Sequence[Attacked],
    budgets: Sequence[int],
    k: int,
    say: Callable[[str], None] = lambda _: None,
) -> list[Context]:
    """Clean and poisoned contexts of the attacked queries.

    Parameters
    ----------
    retriever : Retriever
        Fitted on the collection's corpus.
    collection : Collection
        Gives the documents' ids and texts.
    attacked : sequence of Attacked
        The queries.
    budgets : sequence of int
        Poison passages per query.
    k : int
        Passages of a context.
    say : callable
        Told what is being searched.

    Raises
    ------
    StressragError
        When a query has fewer passages to plant than a budget asks for.
    """
    short = [a for a in attacked if len(a.poison) < max(budgets, default=0)]
    if short:
        raise StressragError(
            f"budgets={max(budgets)}: query {short[0].query_id!r} has {len(short[0].poison)} passages to"
            f" plant ({len(short)} such queries)"
        )
    questions = [a.question for a in attacked]
    say("searching clean")
    out = _contexts(retriever.search(questions, k), collection, attacked, "clean", None, [])
    for budget in budgets:
        say(f"searching with {budget} poison passages per query")
        texts, owners, views = _planted(attacked, budget)
        found = retriever.search_contaminated(questions, PoisonTexts(texts), views, k)
        poison = [
            Passage(f"poison:{o}:{i % budget}", t, role="poison", owner=o)
            for i, (t, o) in enumerate(zip(texts, owners, strict=True))
        ]
        out += _contexts(found, collection, attacked, "poisoned", budget, poison)
    return out


def _planted(attacked: Sequence[Attacked], budget: int) -> tuple[list[str], list[str], Views]:
    """All poison of a budget, whose it is, and what each query sees of it: its group's."""
    texts = [t for a in attacked for t in a.poison[:budget]]
    owners = [a.query_id for a in attacked for _ in range(budget)]
    of_group: dict[str, list[int]] = {}
    for i, a in enumerate(attacked):
        of_group.setdefault(a.group, []).extend(range(i * budget, (i + 1) * budget))
    return texts, owners, Views.of([of_group[a.group] for a in attacked])


def _contexts(
    found: Ranking,
    collection: Collection,
    attacked: Sequence[Attacked],
    condition: str,
    budget: int | None,
    poison: Sequence[Passage],
) -> list[Context]:
    corpus = collection.corpus
    out = []
    for i, a in enumerate(attacked):
        passages = []
        for doc, score in zip(*found.row(i), strict=True):
            number, value = int(doc), float(score)
            if number >= len(corpus):
                p = poison[number - len(corpus)]
                passages.append(Passage(p.id, p.text, value, "poison", p.owner))
            else:
                name = corpus.ids[number]
                role = "support" if name in a.support else "other"
                passages.append(Passage(name, corpus.texts[number], value, role))
        out.append(Context(a.query_id, condition, budget, "attack", tuple(passages)))
    return out


def clean_contexts(
    retriever: Retriever, collection: Collection, queries: Sequence[tuple[str, str]], k: int, split: str
) -> list[Context]:
    """Clean contexts of further queries, pairs of id and text."""
    found = retriever.search([text for _, text in queries], k)
    corpus = collection.corpus
    return [
        Context(
            query_id, "clean", None, split,
            tuple(
                Passage(corpus.ids[int(d)], corpus.texts[int(d)], float(s))
                for d, s in zip(*found.row(i), strict=True)
            ),
        )
        for i, (query_id, _) in enumerate(queries)
    ]  # fmt: skip


def seen(c: Context) -> tuple[Passage, ...]:
    """The passages as a system sees them: nothing tells which are planted."""
    return tuple(Passage(str(i), p.text, p.score) for i, p in enumerate(c.passages))


def controls(c: Context, composition: bool = False) -> list[Context]:
    """The removal controls of a poisoned context.

    Parameters
    ----------
    c : Context
        A poisoned context.
    composition : bool
        Whether the compositions of split knowledge are wanted: A + H, B + H and H.

    Returns
    -------
    list of Context
        Nothing where no poison was retrieved, since then nothing can be removed.
    """
    poison = [i for i, p in enumerate(c.passages) if p.role == "poison"]
    if not poison:
        return []

    def kept(condition: str, keep: Callable[[int, Passage], bool]) -> Context:
        passages = tuple(p for i, p in enumerate(c.passages) if keep(i, p))
        return Context(c.query_id, condition, c.budget, c.split, passages)

    out = [kept("no_poison", lambda _, p: p.role != "poison")]
    if composition:
        out.append(kept("support_background", lambda _, p: p.role != "poison"))
        out.append(kept("poison_background", lambda _, p: p.role != "support"))
        out.append(kept("background_only", lambda _, p: p.role == "other"))
    else:
        owned = {c.passages[i].owner for i in poison}
        if owned != {c.query_id} and c.query_id in owned:
            own = {i for i in poison if c.passages[i].owner == c.query_id}
            out.append(kept("no_own_poison", lambda i, _: i not in own))
        elif c.query_id in owned:
            out.append(kept("no_own_poison", lambda _, p: p.role != "poison"))
        else:
            out.append(kept("no_own_poison", lambda *_: True))
        out.append(kept("poison_only", lambda _, p: p.role == "poison"))
    for n, at in enumerate(poison):
        out.append(kept(f"single_poison_{n}", lambda i, _, at=at: i == at))  # type: ignore[misc]
        if len(poison) > 1 and not composition:
            out.append(kept(f"leave_poison_{n}_out", lambda i, _, at=at: i != at))  # type: ignore[misc]
    return out
