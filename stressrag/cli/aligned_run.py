"""``aligned run``: from a corpus to judged answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

_WHAT = """Retrieves clean and poisoned contexts, answers every query under the four conditions and the
removal controls, judges, scores and reports. Each distinct prompt is answered once and kept in a cache, so a
run that was stopped goes on where it was. pipeline= is a list; the undefended system is always part of it."""
_EXAMPLES = (
    "aligned run",
    "aligned run pipeline=caution,trustrag,detector queries=30",
    (
        "aligned run generator=openai generator.base_url=http://localhost:8000/v1 generator.model=my-model"
        " estimate=true"
    ),
    "aligned run generator=gguf generator.model=model.gguf attack=split_knowledge",
)


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    from stressrag.settings.places import ALIGNED

    if {"-h", "--help"} & set(argv):
        from stressrag.cli.help import settings_help

        print(settings_help("aligned run", _WHAT, _EXAMPLES, root=ALIGNED))
        return 0
    from stressrag.aligned.run.estimating import estimate
    from stressrag.aligned.run.execute import aligned_run
    from stressrag.aligned.run.plan import make_plan
    from stressrag.aligned.run.unused import unused
    from stressrag.cli.aligned_score import summary
    from stressrag.settings.aligned import aligned_settings

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    settings = aligned_settings(argv)
    for line in unused(argv, settings):
        say(line)
    if settings.estimate:
        print(_estimated(estimate(make_plan(settings, say)), settings.per_minute))
        return 0
    plan, evaluation = aligned_run(settings, say)
    print(summary(evaluation))
    print(f"\nwritten: {plan.folder}/report.html, aligned.json and more beside it")
    return 0


def _estimated(e: dict[str, Any], per_minute: float | None) -> str:
    """The estimate in words."""
    seconds, cost, judge = e["seconds"], e["cost"], e["judge"]
    took = "not known before the first answer" if seconds is None else f"about {seconds:.0f} s"
    price = "" if cost is None else f", cost about {cost:.2f}"
    lines = [
        f"first prompts: {e['distinct']} distinct, {e['cached']} answered before, {e['to_ask']} to ask (about"
        f" {e['prompt_tokens']} tokens in and {e['completion_tokens']} out)"
    ]
    if judge:
        known = "" if e["judge_seconds_known"] or per_minute else ", whose time is not known"
        lines.append(
            f"judge: at most {judge['prompts']}, one per answer (equal ones are judged once); about"
            f" {judge['prompt_tokens']} tokens in and {judge['completion_tokens']} out{known}"
        )
    paced = f" at {per_minute:g} prompts a minute" if per_minute else ""
    both = ", both at the same prices" if judge and cost is not None else ""
    lines.append(f"time {took}{paced}{price}{both}")
    more = ", and a judge a second time where a reply cannot be read" if judge else ""
    lines.append(f"Pipelines of several steps ask more once these are answered{more}.")
    if e["first"]:
        system, user = e["first"].system or "(none)", e["first"].user
        lines += ["", "the first prompt, system:", _shown(system), "user:", _shown(user)]
    return "\n".join(lines)


_MOST = 1500  # characters of a prompt


def _shown(text: str) -> str:
    """A text for the terminal: indented, shortened, nothing in it that a terminal obeys."""
    from stressrag.report.visible import visible

    cut = text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text) - _MOST} characters more)"
    return "\n".join(f"    {visible(line, _MOST)}" for line in cut.split("\n"))
