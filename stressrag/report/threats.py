"""The threat model of each attack in a run: what its attacker knows, plants and cannot touch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stressrag.report.tables import Table
from stressrag.report.visible import visible

FRAMEWORKS = (
    "MITRE ATLAS AML.T0070, RAG Poisoning",
    "OWASP LLM08:2025, Vector and Embedding Weaknesses",
    "OWASP LLM09:2026, risk 3 (label)",
)
"""What every attack here is an instance of."""
_BODIES = {
    "none": "no further text",
    "payload": "an injected instruction",
    "neutral": "one fixed harmless sentence",
    "corpus_neutral": "a snippet of the corpus that shares no term with the query",
}
_SCOPES = {
    "isolated": "each query sees its own poison only",
    "group": "each query sees its group's poison",
    "multi": "each query sees the poison of all targets",
}
_UNTOUCHED = (
    "The attacker can add documents. The clean documents, the retriever and its settings, the query as it is "
    "asked, the judgments and the defense are out of reach. "
)
_FIXED = "The texts are fixed beforehand: no answer of the system is used to better them."
_SEARCHED = (
    "Texts are fixed beforehand, but for attacks that know the retriever: these are written with a copy of "
    "the system at hand."
)


def threats(summary: Mapping[str, Any]) -> Table:
    """One row per attack, its budgets, scopes and targets together."""
    attacks: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for c in summary["conditions"]:
        config = c["config"]
        if config["budget"]:
            attacks.setdefault((visible(config["attack"]), _knows(config), _body(config)), []).append(config)
    rows = [
        [
            name,
            knows,
            f"P = {_list(c['budget'] for c in some)} documents per target: {body}",
            _list(_scope(c) for c in some),
            _list(_statistics(c) for c in some),
        ]
        for (name, knows, body), some in attacks.items()
    ]
    head = ["attack", "knows of the query", "plants", "scope and targets", "corpus statistics"]
    optimal = any(c["config"]["attack_settings"].get("wording") for c in summary["conditions"])
    texts = _SEARCHED if optimal else _FIXED
    note = f"{_UNTOUCHED}{texts} Every attack is an instance of {'; '.join(FRAMEWORKS)}."
    return Table("Threat model", note, head, rows, words=len(head), open=True)


def _knows(config: Mapping[str, Any]) -> str:
    """What of the query, and for worst-case attacks what of the system."""
    against = config["attack_settings"].get("against")
    if against is None:
        return _of_query(config)
    return f"{_of_query(config)}; the retriever" + ("" if against == "none" else f" and {visible(against)}")


def _of_query(config: Mapping[str, Any]) -> str:
    if config["attack_settings"].get("target"):
        return "whatever the user's own function makes use of"
    if config["anchor"] == "query":
        return "its full text"
    if config["anchor"] == "none":
        return "nothing"
    drawn = {"random": "drawn at random", "idf": "the rarest"}.get(config["strategy"], config["strategy"])
    return f"{config['terms']} of its content words, {drawn}"


def _body(config: Mapping[str, Any]) -> str:
    own = config["attack_settings"].get("target")
    if own:
        return f"texts of {visible(own)}"
    if tokens := config["attack_settings"].get("max_tokens"):
        rest = (
            f" beside {_BODIES.get(config['body'], visible(config['body']))}"
            if config["body"] != "none"
            else ""
        )
        return f"the known words as often as does best, at most {tokens} tokens{rest}"
    anchor = {"query": "the query and ", "terms": "the known words and "}.get(config["anchor"], "")
    return anchor + _BODIES.get(config["body"], visible(config["body"]))


def _scope(config: Mapping[str, Any]) -> str:
    targets = config["targets"]
    which = "all queries" if targets == "all" else "a part of the queries"
    if isinstance(targets, float):
        which = f"{targets:.1%} of the queries"
    elif isinstance(targets, list):
        which = f"{len(targets)} chosen queries"
    return f"{config['scope']} ({_SCOPES.get(config['scope'], '')}), targets: {which}"


def _statistics(config: Mapping[str, Any]) -> str:
    frozen = config["statistics"] == "frozen"
    return "frozen: poison does not move them" if frozen else "live: poison moves them"


def _list(values: Any) -> str:
    return "; ".join(dict.fromkeys(str(v) for v in values)) or "–"
