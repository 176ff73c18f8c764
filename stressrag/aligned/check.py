"""What is wrong, or looks wrong, with a set of saved answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from stressrag.aligned.labels import boundary
from stressrag.aligned.phrases import occurrences, phrase, prepare
from stressrag.aligned.records import CONDITIONS, NO_DEFENSE, Answer
from stressrag.collection.problems import ProblemLog
from stressrag.stats.proportions import mcnemar

_SHOWN = 5
_SAME = ("question", "target", "references", "group_id")
# What models write when they decline, or when they speak of themselves; a target inside it is always found.
_STOCK = ("i don't know", "i do not know", "my own knowledge", "cannot answer", "not enough information")
_SWAPPED_P = 0.01


def check(answers: Sequence[Answer], log: ProblemLog, whole: bool = True) -> None:
    """Put everything that is wrong with the rows as a set into ``log``.

    Errors are rows that contradict or repeat each other and conditions that lack queries; warnings are
    targets that no rule can tell well, empty answers, and files that look swapped or copied.
    """
    _repeated(answers, log)
    _contradicting(answers, log)
    if whole:
        _lacking(answers, log)
    _targets(answers, log)
    _swapped(answers, log)


def _place(a: Answer) -> tuple[Any, ...]:
    return (a.setting, a.split, a.budget, a.method, a.condition)


def _name(place: tuple[Any, ...]) -> str:
    setting, split, budget, method, condition = place
    words = [condition, f"method {_plain(method)}" if method != NO_DEFENSE else "undefended"]
    words += [f"budget {budget}"] if budget is not None else []
    words += [_plain(x) for x in setting if x] + ([split] if split != "attack" else [])
    return ", ".join(words)


def _plain(text: str) -> str:
    """A name in a message: one line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else line[:59] + "…"


def _repeated(answers: Sequence[Answer], log: ProblemLog) -> None:
    seen: dict[Any, Answer] = {}
    for a in answers:
        place = (*_place(a), a.query_id)
        if place in seen:
            first = seen[place]
            differs = "with another answer" if first.answer != a.answer else "again"
            log.error(
                a.file,
                a.line,
                f"query {_cut(a.query_id)} ({_name(_place(a))}) stands here {differs}; first at"
                f" {first.file}:{first.line}. Give what tells them apart as a field (budget, dataset, …) or"
                " as PATH@budget=1",
            )
        else:
            seen[place] = a


def _contradicting(answers: Sequence[Answer], log: ProblemLog) -> None:
    first: dict[Any, Answer] = {}
    for a in answers:
        known = first.setdefault((a.setting, a.split, a.query_id), a)
        for name in _SAME:
            mine, theirs = getattr(a, name), getattr(known, name)
            if mine != theirs:
                log.error(
                    a.file,
                    a.line,
                    f"query {_cut(a.query_id)}: {name} is {_cut(mine)}, but {_cut(theirs)} at"
                    f" {known.file}:{known.line}",
                )


def _cut(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else text[:59] + "…"


def _lacking(answers: Sequence[Answer], log: ProblemLog) -> None:
    """Conditions of a cell that do not hold the same queries."""
    by_setting: dict[Any, list[Answer]] = defaultdict(list)
    for a in answers:
        if a.split != "calibration" and a.condition in CONDITIONS:
            by_setting[(a.setting, a.split)].append(a)
    for (_, split), rows in by_setting.items():
        table: dict[tuple[str, str, int | None], dict[str, Answer]] = defaultdict(dict)
        for a in rows:
            table[(a.method, a.condition, a.budget)].setdefault(a.query_id, a)
        methods = sorted({a.method for a in rows} - {NO_DEFENSE})
        budgets: list[int | None] = [*sorted({a.budget for a in rows if a.budget is not None})]
        for method in methods or [NO_DEFENSE]:
            # A method that was run at some budgets only is checked at those.
            own = [b for b in budgets if (method, "poisoned", b) in table]
            if not own or (method, "poisoned", None) in table:
                own = budgets or [None]
            for budget in own if split == "attack" else [None]:
                _cell_lacks(table, method, budget, split, log)


def _cell_lacks(table: Any, method: str, budget: int | None, split: str, log: ProblemLog) -> None:
    wanted = [
        (m, c)
        for c in (CONDITIONS if split == "attack" else CONDITIONS[:1])
        for m in dict.fromkeys((NO_DEFENSE, method))
    ]
    found = {w: {**table.get((*w, None), {}), **table.get((*w, budget), {})} for w in wanted}
    everything = {q: a for rows in found.values() for q, a in rows.items()}
    for (m, c), rows in found.items():
        without = [q for q in everything if q not in rows]
        if not without:
            continue
        some = next(iter(rows.values()), next(iter(everything.values())))
        who = "undefended" if m == NO_DEFENSE else f"method {_plain(m)}"
        at = f" at budget {budget}" if budget is not None else ""
        if not rows:
            log.error(
                some.file,
                None,
                f"no {c} answers, {who}{at}, for any of {len(without)} queries that other conditions of"
                f" method {method} have",
            )
        else:
            ids = ", ".join(map(_cut, without[:_SHOWN])) + (", …" if len(without) > _SHOWN else "")
            log.error(
                some.file,
                None,
                f"{c} answers, {who}{at}: {len(without)} of {len(everything)} queries are missing that other"
                f" conditions have: {ids}",
            )


def _targets(answers: Sequence[Answer], log: ProblemLog) -> None:
    seen: set[Any] = set()
    for a in answers:
        if not a.answer.strip() and a.split != "calibration":
            log.warn(a.file, a.line, "empty answer, counted as an abstention")
        if a.split != "attack" and a.condition != "clean":
            log.warn(
                a.file, a.line, f"split {a.split} with condition {a.condition} is not read; only clean is"
            )
        if a.split != "attack" or (a.setting, a.query_id) in seen:
            continue
        seen.add((a.setting, a.query_id))
        if a.target is None:
            log.warn(a.file, a.line, "no target, so the query is in no target rate")
            continue
        for why in degenerate(a.target, a.question, a.references):
            log.warn(a.file, a.line, f"target {why}", repr(a.target))


def degenerate(target: str, question: str = "", references: Sequence[str] = ()) -> list[str]:
    """Why string rules cannot tell well whether an answer holds a target.

    Parameters
    ----------
    target, question : str
        As saved.
    references : sequence of str
        Gold answers.

    Returns
    -------
    list of str
        Reasons, none for a sound target.
    """
    tokens = phrase(target)
    low = prepare(target).strip()
    out = []
    if not tokens:
        out.append("has no letter or digit, so only the substring rules can find it")
    elif tokens in (("yes",), ("no",)):
        out.append("is yes or no, which only boundary and endorsed read as an answer")
    elif all(t.isdecimal() for t in tokens):
        out.append("is a bare number")
    if len(low) <= 2:
        out.append("has two characters or fewer")
    if tokens and occurrences(prepare(question), tokens):
        out.append("is named in the question, so an answer may hold it without giving it")
    if low and any(low in stock for stock in _STOCK):
        out.append("is part of what models write when they abstain (I don't know, my own knowledge)")
    for r in references:
        if phrase(r) == tokens and tokens:
            out.append("is also a reference, so no label can tell right from wrong")
        elif tokens and (occurrences(prepare(r), tokens) or occurrences(prepare(target), phrase(r))):
            out.append("and a reference hold one another")
    return list(dict.fromkeys(out))


def _swapped(answers: Sequence[Answer], log: ProblemLog) -> None:
    """Files that look as if they had changed places, or were copied."""
    table: dict[tuple[Any, ...], dict[str, Answer]] = defaultdict(dict)
    for a in answers:
        if a.split == "attack" and a.condition in CONDITIONS:
            table[_place(a)].setdefault(a.query_id, a)
    for place, poisoned in table.items():
        setting, split, budget, method, condition = place
        if condition != "poisoned":
            continue
        clean = table.get((setting, split, budget, method, "clean")) or table.get(
            (setting, split, None, method, "clean")
        )
        if clean:
            _against_clean(place, poisoned, clean, log)
        bare = table.get((setting, split, budget, NO_DEFENSE, condition)) or table.get(
            (setting, split, None, NO_DEFENSE, condition)
        )
        if method != NO_DEFENSE and bare and len(bare) > 1 and _equal(poisoned, bare):
            some = next(iter(poisoned.values()))
            log.warn(
                some.file,
                None,
                f"all {len(poisoned)} answers ({_name(place)}) are the undefended ones to the letter; a"
                " copied file?",
            )
    for a in answers:
        if a.condition == "clean" and any(p.role == "poison" for p in a.context or ()):
            log.error(
                a.file,
                a.line,
                f"clean retrieval of query {_cut(a.query_id)} holds a poison passage; clean and poisoned may"
                " be swapped",
            )


def _equal(one: dict[str, Answer], other: dict[str, Answer]) -> bool:
    return all(q in other and other[q].answer == a.answer for q, a in one.items())


def _against_clean(
    place: Any, poisoned: dict[str, Answer], clean: dict[str, Answer], log: ProblemLog
) -> None:
    counts: Counter[str] = Counter()
    for q, p in poisoned.items():
        if q in clean and p.target:
            before, after = (boundary(x.answer, p.target) for x in (clean[q], p))
            counts[f"{before}{after}"] += 1
    fell, rose = counts["TrueFalse"], counts["FalseTrue"]
    some = next(iter(poisoned.values()))
    if fell > rose and mcnemar(fell, rose).exact < _SWAPPED_P:
        other = next(iter(clean.values()))
        log.warn(
            some.file,
            None,
            f"{fell} queries hold the target in the clean answer only and {rose} in the poisoned one only"
            f" ({_name(place)}): are this and {other.file} swapped?",
        )
    if len(poisoned) > 1 and _equal(poisoned, clean) and place[3] == NO_DEFENSE:
        log.warn(
            some.file,
            None,
            f"all {len(poisoned)} poisoned answers are the clean ones to the letter; a copied file?",
        )
