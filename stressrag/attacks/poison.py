"""Attacks: anchor x body x budget, and the poison documents that they give."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from stressrag.attacks.aim import Aim, System
from stressrag.attacks.aim import Target as Victim
from stressrag.attacks.anchors import Terms, full_query, no_anchor
from stressrag.attacks.bodies import Body, CorpusNeutral, Payload, Target, neutral, no_body
from stressrag.attacks.drafts import Drafts
from stressrag.attacks.draw import draw
from stressrag.attacks.optimal import worst_documents
from stressrag.attacks.payloads import Payloads, load_payloads
from stressrag.collection.model import Corpus, Queries
from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, import_target
from stressrag.text.eligible import ascii_words, eligible_terms
from stressrag.text.index import TermIndex
from stressrag.text.tokens import get_tokenizer, unicode_tokens


@dataclass(frozen=True)
class Recipe:
    """What an attack's texts depend on: everything but budget, scope and targets.

    Attributes are those of the config node ``attack``, ``index``, the tokeniser of the term index that
    gives vocabulary and document frequencies, and ``aim``, what the wording is optimal against (``None``: the
    anchor is written once, whatever it meets).
    """

    name: str
    anchor: str
    body: str
    terms: int | None = None
    strategy: str | None = None
    payloads: str = "builtin"
    payload_order: str = "hashed"
    snippet_tokens: int | None = None
    tokenizer: str = "unicode"
    target: str | None = None
    seed: int = 0
    index: str = "unicode"
    aim: Aim | None = None

    @property
    def clean(self) -> bool:
        """Whether there is no poison at all."""
        return self.anchor == self.body == "none" and self.target is None


@dataclass(frozen=True, eq=False)
class Poison:
    """The poison documents of every target.

    Attributes
    ----------
    texts : list of list of str
        ``texts[i][j]`` is document ``j`` of query ``i``; the first P of a row are the budget P.
    coverage : float array (n_queries,)
        Share of the query's eligible terms that the anchor holds.
    notes : dict
        What did not go as asked, counted (``fewer_terms``, ``no_terms``, ``short_snippets``, …).
    known : list of list of str, optional
        The terms that a worst-case attacker knows of each query.
    """

    texts: list[list[str]]
    coverage: np.ndarray
    notes: Mapping[str, int]
    known: list[list[str]] | None = None


@dataclass(eq=False)
class AttackContext:
    """What attacks may know of the collection.

    Attributes
    ----------
    corpus : Corpus
        The clean corpus.
    queries : Queries
        All judged queries, in the order of the judgments.
    index : TermIndex
        The clean corpus under BM25's tokeniser.
    system : callable, optional
        The retriever and defenses that an ``Aim`` names, for worst-case attacks.
    """

    corpus: Corpus
    queries: Queries
    index: TermIndex
    system: Callable[[Aim], System] | None = None
    _payloads: dict[str, Payloads] = field(default_factory=dict)
    _eligible: dict[str, list[list[str]]] = field(default_factory=dict)

    def payloads(self, name: str) -> Payloads:
        """The payload set of that name, read once."""
        if name not in self._payloads:
            self._payloads[name] = load_payloads(name)
        return self._payloads[name]

    def eligible(self, tokenizer: str) -> list[list[str]]:
        """The eligible terms of every judged query."""
        if tokenizer not in self._eligible:
            cut = _WORDS.get(tokenizer) or get_tokenizer(tokenizer)
            self._eligible[tokenizer] = [eligible_terms(q, self.index, cut) for q in self.queries.texts]
        return self._eligible[tokenizer]

    @cached_property
    def texts(self) -> list[str]:
        """The clean documents' texts."""
        return self.corpus.texts


_WORDS: dict[str, Callable[[str], list[str]]] = {"unicode": unicode_tokens, "ascii": ascii_words}


def generate(
    recipe: Recipe, context: AttackContext, budget: int, targeted: np.ndarray | None = None
) -> Poison:
    """The poison documents of a recipe for every judged query, ``budget`` each.

    Parameters
    ----------
    recipe : Recipe
        The attack.
    context : AttackContext
        The collection.
    budget : int
        Documents per target; a smaller budget's documents are the first of a larger one's.
    targeted : bool array (n_queries,), optional
        Which queries are attacked at all. A worst-case attack, which may have to search, leaves the others'
        documents empty.
    """
    if recipe.aim is not None:
        every = np.ones(len(context.queries), bool)
        return _worst_case(recipe, context, budget, every if targeted is None else targeted)
    eligible = context.eligible(recipe.tokenizer)
    anchor, body = _anchor(recipe, context), _body(recipe, context)
    notes: Counter[str] = Counter()
    texts, coverage = [], []
    targets = zip(context.queries.ids, context.queries.texts, eligible, strict=True)
    for place, (query_id, query, terms) in enumerate(targets):
        opening = anchor(query, query_id, terms)
        row = []
        for number in range(budget):
            rest, as_asked = body(Target(query_id, query, place), number)
            row.append(f"{opening.text} {rest}".strip())
            notes["short_snippets"] += not as_asked and (targeted is None or bool(targeted[place]))
        if targeted is None or targeted[place]:
            if recipe.anchor == "terms":
                notes["fewer_terms"] += 0 < len(terms) < (recipe.terms or 1)
                notes["no_terms"] += not terms
            notes["empty_texts"] += row.count("")
        texts.append(row)
        coverage.append(opening.coverage)
    return Poison(texts, np.array(coverage), {k: v for k, v in sorted(notes.items()) if v})


def _worst_case(recipe: Recipe, context: AttackContext, budget: int, targeted: np.ndarray) -> Poison:
    """The documents that do best with the known terms, beside the body."""
    assert recipe.aim is not None
    if context.system is None:
        raise StressragError("an attack with optimal wording needs a retriever to be written against")
    body, tokens = _body(recipe, context), context.index.tokenizer
    terms = Terms(recipe.terms or 0, recipe.strategy or "random", context.index, recipe.seed)
    notes: Counter[str] = Counter()
    targets, coverage, all_known = [], [], []
    rows = zip(context.queries.ids, context.queries.texts, context.eligible(recipe.tokenizer), strict=True)
    for place, (query_id, query, eligible) in enumerate(rows):
        if recipe.anchor == "terms":
            known = terms.chosen(query_id, eligible)
            notes["fewer_terms"] += bool(targeted[place]) and 0 < len(eligible) < (recipe.terms or 1)
            notes["no_terms"] += bool(targeted[place]) and not eligible
        else:
            assert tokens is not None
            known = [t for t in dict.fromkeys(tokens(query)) if t in context.index]
        share = len(set(known) & set(eligible)) / len(eligible) if eligible else 0.0
        coverage.append(share if recipe.anchor == "terms" else 1.0)
        all_known.append(known)
        if not targeted[place]:
            continue
        found = [body(Target(query_id, query, place), number) for number in range(budget)]
        notes["short_snippets"] += sum(not as_asked for _, as_asked in found)
        targets.append(Victim(query, known, [text for text, _ in found]))
    drafts = Drafts(context.index, context.corpus)
    written = iter(worst_documents(context.system(recipe.aim), targets, drafts))
    texts = [next(written) if attacked else [""] * budget for attacked in targeted.tolist()]
    notes["empty_texts"] += sum(t == "" for row, on in zip(texts, targeted, strict=True) if on for t in row)
    counted = {k: v for k, v in sorted(notes.items()) if v}
    return Poison(texts, np.array(coverage), counted, all_known)


def _anchor(recipe: Recipe, context: AttackContext) -> Callable[[str, str, Sequence[str]], Any]:
    if recipe.anchor == "terms":
        if recipe.terms is None:
            raise StressragError("attack.anchor=terms needs the number of terms: set attack.terms")
        return Terms(recipe.terms, recipe.strategy or "random", context.index, recipe.seed)
    return full_query if recipe.anchor == "query" else no_anchor


def _body(recipe: Recipe, context: AttackContext) -> Body:
    if recipe.target is not None:
        return _Own(recipe.target, context)
    if recipe.body == "none":
        return no_body
    if recipe.body == "neutral":
        return neutral
    payload = Payload(context.payloads(recipe.payloads), recipe.payload_order, recipe.seed)
    if recipe.body == "payload":
        return payload
    return CorpusNeutral(
        context.texts.__getitem__, context.index, payload, recipe.seed, recipe.snippet_tokens
    )


class _Own:
    """The user's function(query, query_id, number, context) as a body."""

    def __init__(self, target: str, context: AttackContext):
        self.target, self.context = target, context
        self.function = import_target(target, "attack")

    def __call__(self, target: Target, number: int) -> tuple[str, bool]:
        what = f"attack target {self.target!r}"
        text = call_theirs(what, self.function, target.query, target.query_id, number, self.context)
        if not isinstance(text, str):
            raise StressragError(f"attack target {self.target!r} gave {type(text).__name__}, not a text")
        return text, True


def choose_targets(targets: Any, queries: Queries, seed: int) -> np.ndarray:
    """Which queries are attacked.

    Parameters
    ----------
    targets : "all", float or list of str
        All, a fraction of the queries (the first by a hash of seed and id, so that a larger fraction
        holds a smaller one), or query ids.
    queries : Queries
        All judged queries.
    seed : int
        The config's seed.

    Returns
    -------
    bool array (n_queries,)
    """
    chosen = np.zeros(len(queries), bool)
    if isinstance(targets, str) and targets == "all":
        return ~chosen
    if isinstance(targets, float):
        order = sorted(range(len(queries)), key=lambda i: draw(seed, "target", queries.ids[i]))
        chosen[order[: math.ceil(targets * len(queries) - 1e-9)]] = True
        return chosen
    for name in targets:
        if str(name) not in queries.numbers:
            near = nearest(str(name), queries.ids) if len(queries) <= 2000 else "give ids of judged queries"
            raise StressragError(f"attack.targets: no judged query {str(name)!r}; {near[:300]}")
        chosen[queries.numbers[str(name)]] = True
    return chosen


def groups(queries: Queries, size: int) -> np.ndarray:
    """The injection group of each query: its metadata's ``group``, else runs of ``size`` in file order."""
    named = group_names(queries)
    if named is not None:
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(g, len(numbers)) for g in named])
    return np.arange(len(queries)) // size


def group_names(queries: Queries) -> list[str] | None:
    """The ``group`` of each query's metadata; ``None`` unless all of them name one."""
    named = [m.get("group") for m in queries.metadata]
    return [str(g) for g in named] if named and all(g is not None for g in named) else None
