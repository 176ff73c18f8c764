"""How far label rules, judges and humans agree on the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stressrag.aligned.judgments import FIELDS, Labels, label_value, read_labels, refuse
from stressrag.aligned.labels import RULES, abstains, holds_target, is_correct
from stressrag.aligned.records import Answer
from stressrag.collection.beir import parse_line
from stressrag.collection.lines import read_lines
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError
from stressrag.stats.agreement import agreement


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
    """
    log = ProblemLog()
    out = []
    for line, raw in read_lines(Path(path), log):
        row = parse_line(raw, str(path), line, log)
        if row is None or not all(isinstance(row.get(n), str) for n in ("question", "answer")):
            continue
        references = row.get("references")
        references = [references] if isinstance(references, str) else references or []
        target = row.get("target")
        out.append(
            Answer(
                str(row.get("key") or f"{path}:{line}"),
                row["question"],
                row["answer"],
                "clean",
                target=target if isinstance(target, str) else None,
                references=tuple(r for r in references if isinstance(r, str)),
                reference_source=str(row.get("reference_source") or ""),
                file=str(path),
                line=line,
            )
        )
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
        When files cannot be read, hold several reference sources, or there are no answers.
    """
    known = labeled_answers(reference) if answers is None else list(answers)
    if not known:
        raise StressragError(f"{reference}: holds labels but no answers; name the answers with --answers")
    gold = read_labels([reference], known).only()
    if not gold:
        raise StressragError(f"{reference}: none of its labels is of the answers at hand")
    by_source: dict[str, Mapping[str, Labels]] = dict(rule_labels(known, rules))
    if others:
        by_source |= read_labels(others, known).sources
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


def _said(labels: Labels | None, field: str) -> str | None:
    value = None if labels is None else getattr(labels, field)
    return None if value == "not_applicable" else value
