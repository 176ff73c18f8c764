"""``aligned run``: from a corpus to judged answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence

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
    from stressrag.aligned.run.execute import aligned_run, estimate
    from stressrag.aligned.run.plan import make_plan
    from stressrag.cli.aligned_score import summary
    from stressrag.settings.aligned import aligned_settings

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    settings = aligned_settings(argv)
    if settings.estimate:
        print(_estimated(estimate(make_plan(settings, say))))
        return 0
    plan, evaluation = aligned_run(settings, say)
    print(summary(evaluation))
    print(f"\nwritten: {plan.folder}/report.html, aligned.json and more beside it")
    return 0


def _estimated(e: dict[str, object]) -> str:
    """The estimate in words."""
    seconds, cost = e["seconds"], e["cost"]
    took = "not known before the first answer" if seconds is None else f"about {float(str(seconds)):.0f} s"
    price = "" if cost is None else f", cost about {float(str(cost)):.2f}"
    return (
        f"first prompts: {e['distinct']} distinct, {e['cached']} answered before, {e['to_ask']} to ask (about"
        f" {float(str(e['prompt_tokens'])):.0f} tokens in and {float(str(e['completion_tokens'])):.0f} out);"
        f" time {took}{price}.\nPipelines of several steps, and a judge, ask more once these are answered."
    )
