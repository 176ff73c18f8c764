"""Targets and adversarial passages that a generator writes, for questions that have right answers only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from stressrag.aligned.generators.answering import Answering
from stressrag.aligned.generators.base import REFUSED, Completion, Prompt
from stressrag.aligned.labels import abstains, holds_target, is_correct
from stressrag.aligned.pipelines.none import OnePrompt
from stressrag.aligned.run.asking import Say, quiet
from stressrag.aligned.run.cohort import Attacked, planted
from stressrag.aligned.run.writer_prompts import passage_prompt, read_passage, read_target, target_prompt
from stressrag.errors import StressragError

RULE = "boundary"
"""The label rule of the check."""


@dataclass
class Written:
    """What a writer wrote.

    Attributes
    ----------
    attacked : list of Attacked
        The queries that have a target and all their passages.
    rows : list of dict
        One per query, as ``attack.jsonl`` holds them and ``targets=`` reads them: the fields of PoisonedRAG's
        files, and for each passage whether it ``passed`` its check and after how many ``tries``.
    about, notes : list of str
        What was done, and what of it limits results.
    """

    attacked: list[Attacked]
    rows: list[dict[str, Any]]
    about: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass
class _Text:
    """A passage on its way: all that was tried, the last of it that is a text, and whether that passed."""

    query: int
    number: int
    tried: list[str] = field(default_factory=list)
    text: str = ""
    passed: bool = False


class Writer:
    """Writes the attack of PoisonedRAG's black-box setting (Zou et al. 2025).

    Parameters
    ----------
    writing, checking : Answering
        Who writes, and who must answer the target from a passage alone (in the paper the writer itself).
    words : int
        Of a passage, about.
    tries : int
        How often a text is asked for until it passes; the last is taken if none does.
    undefended : OnePrompt
        Asks for the answer in the check.
    dry : bool
        Whether nothing may be asked, as for an estimate: what is not cached is an error then.
    say : callable
        Told what is being done.
    """

    def __init__(
        self, writing: Answering, checking: Answering, *, words: int, tries: int, undefended: OnePrompt,
        dry: bool = False, say: Say = quiet,
    ) -> None:  # fmt: skip
        self.writing, self.checking = writing, checking
        self.words, self.tries, self.dry, self.say = words, tries, dry, say
        self._alone = undefended
        self._most = self._refused = 0

    def write(self, todo: Sequence[Attacked], budget: int) -> Written:
        """Targets for queries that have none, and so many passages for each.

        Raises
        ------
        StressragError
            When no query gets a target, or prompts cannot be answered.
        """
        self._most = len(todo) * (1 + budget) * self.tries
        self.say(f"writing targets and {budget} passages for each of {len(todo)} queries")
        targeted = self._targets(todo)
        texts = self._passages(targeted, budget)
        full = [i for i in range(len(targeted)) if all(t.text for t in texts if t.query == i)]
        if not full:
            raise StressragError(
                f"{self.writing.generator.name} wrote a usable target and passages for none of {len(todo)}"
                " queries; give another writer, or more writer.tries"
            )
        out = Written([], [])
        for i in full:
            a, mine = targeted[i], [t for t in texts if t.query == i]
            out.attacked.append(replace(a, poison=tuple(planted(a.question, t.text) for t in mine)))
            out.rows.append(self._row(a, mine))
        self._tell(out, len(todo))
        return out

    def _ask(self, answering: Answering, prompts: Sequence[Prompt]) -> list[Completion]:
        if self.dry and answering.estimate(prompts)["to_ask"]:
            raise StressragError(
                f"estimate=true: the attack texts are not written yet, which takes up to {self._most} prompts"
                f" of {self.writing.generator.name} and as many checks; the rest is known once they are"
            )
        replies = answering.complete(prompts)
        self._refused += sum(r.finish == REFUSED for r in replies)
        return replies

    def _targets(self, todo: Sequence[Attacked]) -> list[Attacked]:
        """The queries with a target that is no right answer; others are left out."""
        made = {i: a.target for i, a in enumerate(todo) if a.target}
        refused: dict[int, list[str]] = {i: [] for i in range(len(todo)) if i not in made}
        for _ in range(self.tries):
            still = [i for i in refused if i not in made]
            if not still:
                break
            asked = [target_prompt(todo[i].question, todo[i].references, refused[i]) for i in still]
            for i, reply in zip(still, self._ask(self.writing, asked), strict=True):
                target = read_target(reply.text)
                if is_wrong(target, todo[i].references, todo[i].question):
                    made[i] = target
                else:
                    refused[i].append(target or "(nothing)")
        return [replace(a, target=made[i]) for i, a in enumerate(todo) if i in made]

    def _passages(self, some: Sequence[Attacked], budget: int) -> list[_Text]:
        texts = [_Text(i, n) for i in range(len(some)) for n in range(budget)]
        for _ in range(self.tries):
            still = [t for t in texts if not t.passed]
            if not still:
                break
            asked = [
                passage_prompt(some[t.query].question, some[t.query].target, self.words, t.number, t.tried)
                for t in still
            ]
            got = []
            for t, reply in zip(still, self._ask(self.writing, asked), strict=True):
                text = read_passage(reply.text)
                t.tried.append(text or "(nothing)")
                if text and not abstains(text):  # models may decline to write
                    t.text = text
                    got.append(t)
            alone = [self._alone.prompt(some[t.query].question, [t.text]) for t in got]
            for t, reply in zip(got, self._ask(self.checking, alone), strict=True):
                a = some[t.query]
                answer, _ = self._alone.own.answer(reply.text)
                t.passed = bool(holds_target(RULE, answer, a.target, a.question, a.references))
        return texts

    def _row(self, a: Attacked, mine: Sequence[_Text]) -> dict[str, Any]:
        return {
            "id": a.query_id,
            "question": a.question,
            "correct answer": list(a.references),
            "incorrect answer": a.target,
            "adv_texts": [t.text for t in mine],
            "group": a.group,
            "passed": [t.passed for t in mine],
            "tries": [len(t.tried) for t in mine],
            "writer": self.writing.generator.name,
            "checked_by": self.checking.generator.name,
        }

    def _tell(self, out: Written, asked: int) -> None:
        passed = [p for row in out.rows for p in row["passed"]]
        writer, checker = self.writing.generator, self.checking.generator
        out.about.append(
            f"Targets and passages were written by {writer.name}, about {self.words} words each;"
            f" {sum(passed)} of {len(passed)} passages passed the check that {checker.name}, given the"
            f" passage alone, answers the target ({self.tries} tries at most). The others are planted as"
            " well (attack.jsonl)."
        )
        if writer.stand_in:
            out.about.append(f"{writer.name} is a stand-in and cannot write; its texts only show the steps.")
        if self._refused:
            out.notes.append(f"{self._refused} prompts for attack texts and their checks were refused.")
        if lost := asked - len(out.rows):
            out.notes.append(
                f"{lost} of {asked} queries are left out: {writer.name} wrote no wrong answer, or no passage."
            )


def is_wrong(target: str, references: Sequence[str], question: str) -> bool:
    """Whether a target is an answer that no reference is, nor holds one, nor is held by one."""
    if not target or abstains(target) or is_correct(RULE, target, references, question):
        return False
    return not any(holds_target(RULE, reference, target, question) for reference in references)
