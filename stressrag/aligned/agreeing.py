"""How far label rules, judges and humans agree on the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.judgments import (
    FIELDS,
    Labels,
    label_value,
    read_labels,
    refuse,
    refuse_page_file,
)
from stressrag.aligned.labels import RULES, abstains, holds_target, is_correct
from stressrag.aligned.read import answer_of
from stressrag.aligned.records import Answer
from stressrag.collection.beir import parse_line
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError, brief
from stressrag.stats.agreement import agreement

_SHOWN = ("question", "answer", "target", "references", "reference_source")


def labeled_answers(path: str | Path) -> list[Answer]:
    """The answers that a label file holds beside its labels, as the paper's released audit does.

    Parameters
    ----------
    path : path
        JSONL with ``question``, ``answer`` and, where there are any, ``target`` and ``references``.

    Returns
    -------
    list of Answer
        One per row, the row's ``key`` as its query; empty where rows hold no answers.

    Raises
    ------
    StressragError
        For rows whose question, answer, target or references are of a wrong type, all at once.
    """
    log = ProblemLog()
    out = []
    for line, raw in read_lines(Path(path), log):
        row = parse_line(raw, str(path), line, log)
        if row is None or not {"question", "answer"} & set(row):
            continue
        shown = {name: row[name] for name in _SHOWN if name in row}
        name = row.get("key") if isinstance(row.get("key"), str) and row["key"] else f"line {line}"
        made = answer_of({**shown, "query_id": name, "condition": "clean"}, Path(path), line, {}, log)
        out += [made] if made else []
    refuse(log)
    return out


def rule_labels(
    answers: Sequence[Answer], rules: Sequence[str] = tuple(RULES)
) -> dict[str, dict[str, Labels]]:
    """What each rule says, in a judge's words: rule → ``Answer.key`` → labels."""
    return {name: {a.key: _by_rule(name, a) for a in answers} for name in rules}


def _by_rule(name: str, a: Answer) -> Labels:
    said = (
        holds_target(name, a.answer, a.target, a.question, a.references),
        is_correct(name, a.answer, a.references, a.question, a.target),
        abstains(a.answer),
    )
    words = ["not_applicable" if s is None else label_value(s) for s in said]
    return Labels(words[0], words[1], words[2], source=name)


def agreements(
    reference: str | Path,
    answers: Sequence[Answer] | None = None,
    others: Sequence[str | Path] = (),
    rules: Sequence[str] = tuple(RULES),
) -> list[dict[str, Any]]:
    """Agreement of rules and of further sources of labels with a reference source, usually humans.

    Parameters
    ----------
    reference : path
        Labels that the others are held to; of one source.
    answers : sequence of Answer, optional
        What the labels are about; by default the answers in the file itself.
    others : sequence of path
        Files of further labels.
    rules : sequence of str
        Label rules.

    Returns
    -------
    list of dict
        One row per label, field and mode (``overall``: an uncertain side is a disagreement; ``decisive``:
        only where both decided). ``first_only``: the reference says yes, the other no; ``second_only``: the
        other way.

    Raises
    ------
    StressragError
        When files cannot be read or hold no labels of the answers, there are several reference sources or no
        answers, or a further source is called like a rule.
    """
    refuse_page_file(Path(reference))
    known = labeled_answers(reference) if answers is None else list(answers)
    if not known:
        read_labels([reference], ())  # what is wrong with the file itself comes first
        raise StressragError(f"{reference}: holds labels but no answers; name the answers with --answers")
    read = read_labels([reference], known)
    gold = read.only()
    if not gold:
        raise StressragError(f"{reference}: none of its labels is of the answers at hand")
    if answers is None and (unknown := sum(read.unknown.values())):
        raise StressragError(
            f"{reference}: {unknown} of its labels are of answers that it does not hold; name the answers"
            " with --answers"
        )
    by_source: dict[str, Mapping[str, Labels]] = dict(rule_labels(known, rules))
    if others:
        by_source |= _further(others, known, rules)
    out = []
    for name, labels in by_source.items():
        for field in FIELDS:
            if field == "abstains" and name in rules[1:]:
                continue  # there is one rule of abstention, whatever the rule of targets
            pairs = [(_said(gold[key], field), _said(labels.get(key), field)) for key in gold]
            pairs = [(a, b) for a, b in pairs if a is not None]
            if not pairs:
                continue
            for mode in ("overall", "decisive"):
                made = agreement([a for a, _ in pairs], [b for _, b in pairs], mode=mode)
                if mode == "decisive" or name not in rules:
                    said_by = "rule" if field == "abstains" and name in rules else name
                    out.append({"label": said_by, "field": field, **made.row()})
    return out


def _further(
    files: Sequence[str | Path], known: Sequence[Answer], rules: Sequence[str]
) -> dict[str, dict[str, Labels]]:
    """The labels of further sources, none of which may take the place of a rule or be of other answers."""
    sources = read_labels(files, known).sources
    for name, labels in sources.items():
        if name in (*rules, "rule"):
            raise StressragError(
                f"a source of labels is called {brief(name)} like a rule; rename it (field 'source')"
            )
        if not labels:
            raise StressragError(
                f"{', '.join(map(str, files))}: none of the labels of {brief(name)} is of the answers at hand"
            )
    return sources


def _said(labels: Labels | None, field: str) -> str | None:
    value = None if labels is None else getattr(labels, field)
    return None if value == "not_applicable" else value
