"""What an aligned run would ask and take, from its plan and the cache; nothing is asked."""

from __future__ import annotations

from typing import Any

from stressrag.aligned.generators.base import Prompt
from stressrag.aligned.run.asking import answering_of, quiet
from stressrag.aligned.run.contexts import seen
from stressrag.aligned.run.execute import jobs_of, question_of
from stressrag.aligned.run.judging import judge_prompt
from stressrag.aligned.run.plan import Plan, skeleton

_CHARACTERS = 4  # of a token, about


def estimate(plan: Plan) -> dict[str, Any]:
    """How many prompts the first round of each pipeline and the judge ask, and what that takes.

    Parameters
    ----------
    plan : Plan
        What would be run.

    Returns
    -------
    dict
        As :meth:`~stressrag.aligned.generators.answering.Answering.estimate` for the first prompts, and
        ``judge``: for a judge the most first prompts (one per answer; equal answers are judged once),
        their ``prompt_tokens`` and ``completion_tokens``, else ``None``. ``seconds`` and ``cost`` are of
        both, at the same prices; ``seconds`` heeds ``per_minute`` and is ``None`` where the time of a prompt
        is not known. ``judge_seconds_known`` says whether that of the judge is. ``first`` is the first
        prompt of all.
    """
    answering = answering_of(plan.settings, plan.generator, quiet)
    s = plan.settings
    prompts = []
    for pipeline in plan.pipelines:
        for c in jobs_of(plan, pipeline):
            steps = pipeline.steps(question_of(plan, c), seen(c))
            try:
                prompts += next(steps)
            except StopIteration:
                continue
            finally:
                steps.close()
    out = answering.estimate(prompts, input_price=s.price_in, output_price=s.price_out)
    out["first"] = prompts[0] if prompts else None
    out["judge"] = judged = _judging(plan, out)
    out["judge_seconds_known"] = False
    to_ask = out["to_ask"]
    if judged is not None:
        to_ask += judged["prompts"]
        # The time of a prompt is known of the answering model alone.
        each = out["seconds"] / out["to_ask"] if out["seconds"] and judged["same"] else None
        if each is not None:
            out["seconds"] += each * judged["prompts"]
            out["judge_seconds_known"] = True
        if out["cost"] is not None:
            price_in, price_out = s.price_in or 0, s.price_out or 0
            more = judged["prompt_tokens"] * price_in + judged["completion_tokens"] * price_out
            out["cost"] += more / 1e6
    if s.per_minute:  # prompts are not begun faster than that
        out["seconds"] = max(out["seconds"] or 0.0, 60 * to_ask / s.per_minute)
    return out


def _judging(plan: Plan, first: dict[str, Any]) -> dict[str, Any] | None:
    """The most that a judge is asked: each answer once."""
    if plan.judge is None:
        return None
    asked: list[Prompt] = [
        judge_prompt(skeleton(plan, c, pipeline.name), plan.settings.judge.max_tokens)
        for pipeline in plan.pipelines
        for c in jobs_of(plan, pipeline)
    ]
    answer = first["completion_tokens"] / first["to_ask"] if first["to_ask"] else 0
    shown = sum(len(p.system) + len(p.user) for p in asked) / _CHARACTERS + answer * len(asked)
    return {
        "prompts": len(asked),
        "prompt_tokens": round(shown),
        "completion_tokens": sum(p.max_tokens for p in asked),
        "same": plan.judge.identity() == plan.generator.identity(),
    }
