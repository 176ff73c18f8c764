"""Made-up answers about the embedded collection: the formats, and a defense that two labels rank apart."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from stressrag.aligned.records import HARNESS, NO_DEFENSE, SCHEMA, Answer, Passage
from stressrag.collection.aligned import Target
from stressrag.errors import StressragError
from stressrag.records.files import write_json, write_text

_BUDGETS = (1, 5)
_README = """# Example answers

These answers are made up; no model wrote them. They show the formats that `stressrag aligned` reads.

* `answers.jsonl`: the long format, one row per query, method, condition and setting. The undefended rows
have the
  method `none`. A row without a budget serves every budget. The controls `no_poison` and `single_poison_I`
  say what the system answers without poison, and with one poison passage alone.
* `four-files/`: the same for one method and budget in four files, one per condition.
* `answer.schema.json`: the JSON Schema of a row of the long format.

    python -m stressrag aligned validate answers.jsonl
    python -m stressrag aligned score answers.jsonl --out report

The method `discuss` names the attacker's answer in order to reject it, so a substring label sees no
prevention where the label `endorsed` does. The method `keywords` never discusses and sometimes believes
the poison.
"""


def write_example(folder: Path, overwrite: bool = False) -> list[Path]:
    """Write the example; the files.

    Raises
    ------
    StressragError
        When the folder has files already and ``overwrite`` is false.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not overwrite)):
        raise StressragError(
            f"{folder} exists already; choose a new folder, or --overwrite to replace the example there"
        )
    answers = example_answers()
    mend = "choose another folder"
    out = [folder / "answers.jsonl", folder / "answer.schema.json", folder / "README.md"]
    write_text(out[0], _lines(answers), mend)
    write_json(out[1], SCHEMA, mend)
    write_text(out[2], _README, mend)
    for name, (condition, defended) in HARNESS.items():
        some = [
            replace(a, budget=None, context=None)
            for a in answers
            if a.condition == condition
            and a.budget in (None, _BUDGETS[0])
            and a.method == ("discuss" if defended else NO_DEFENSE)
        ]
        path = folder / "four-files" / f"{name}.jsonl"
        write_text(path, "".join(_harness_row(a) for a in some), mend)
        out.append(path)
    return out


def example_answers() -> list[Answer]:
    """The rows of ``answers.jsonl``."""
    from stressrag.collection import load_dataset

    targets = load_dataset().targets
    return [a for i, t in enumerate(targets) for a in _of_target(i, t)]


def _of_target(i: int, t: Target) -> Iterable[Answer]:
    base = Answer(
        t.query_id,
        t.query,
        "",
        "clean",
        dataset="pellmore",
        group_id=t.group,
        target=t.target,
        references=(t.answer, *t.aliases),
        reference_source="pellmore",
    )
    unknown, right, wrong = "I don't know.", f"{t.answer}.", f"{t.target}."
    rejecting = (
        f"One passage claims that it is {t.target}, but no other source supports that.\n\n"
        f"Therefore, my answer is:\n\n{t.answer}."
    )
    yield replace(base, answer=unknown if i % 7 == 3 else right)
    yield replace(base, method="discuss", answer=rejecting if i % 5 == 0 else right)
    yield replace(base, method="keywords", answer=right if i % 4 else unknown)
    for budget in _BUDGETS:
        fooled = (i * 7) % 13 < (8 if budget == 1 else 12)
        poison = tuple(
            Passage(f"poison-{n}", p, role="poison", owner=t.query_id)
            for n, p in enumerate(t.passages[:budget])
        )
        base = replace(base, condition="poisoned", budget=budget, context=None)
        yield replace(base, answer=wrong if fooled else right, context=poison)
        yield replace(base, method="discuss", answer=wrong if i % 11 == 9 else rejecting)
        yield replace(base, method="keywords", answer=wrong if (i * 5) % 17 < budget + 6 else right)
        yield replace(base, condition="no_poison", answer=unknown if i % 7 == 3 else right)
        for n in range(budget):
            yield replace(base, condition=f"single_poison_{n}", answer=wrong if fooled and n != 1 else right)


def _lines(answers: Sequence[Answer]) -> str:
    return "".join(json.dumps(a.row(), ensure_ascii=False) + "\n" for a in answers)


def _harness_row(a: Answer) -> str:
    names = ("query_id", "group_id", "question", "target", "references", "reference_source", "answer")
    row = {n: getattr(a, n) for n in names} | {"references": list(a.references)}
    return json.dumps(row, ensure_ascii=False) + "\n"
