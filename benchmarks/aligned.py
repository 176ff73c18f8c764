"""Seconds of an aligned evaluation with all intervals: 100 queries, 10 methods, 5 budgets, three labels.

Beside it, in the same process, the rules alone over the same answers, so that the share of labels and of
statistics can be told apart.
"""

from __future__ import annotations

import argparse
import json
import random

from data import seconds

from stressrag.aligned.labels import DEFAULT_RULES, abstains, holds_target, is_correct
from stressrag.aligned.records import Answer
from stressrag.aligned.score import score_answers

QUERIES, METHODS, BUDGETS = 100, 10, 5


def answers() -> list[Answer]:
    """Made-up answers, some a sentence and some two paragraphs long."""
    rng = random.Random(7)

    def text(q: int, share: float) -> str:
        if rng.random() < share:
            return f"I looked at the passages.\n\nTherefore, my answer is:\n\nIt is the Oster {q}, they say."
        return f"One passage claims the Oster {q}, but it is the Lind {q} ({rng.random():.3f})."

    out = []
    for q in range(QUERIES):
        shown = {"query_id": f"q{q}", "question": f"Which river runs through town {q}?"}
        shown |= {"target": f"the Oster {q}", "references": (f"the Lind {q}",), "group_id": f"g{q // 10}"}
        out.append(Answer(answer=text(q, 0.1), condition="clean", **shown))
        for b in range(1, BUDGETS + 1):
            out.append(Answer(answer=text(q, 0.6), condition="poisoned", budget=b, **shown))
            for m in range(METHODS):
                for condition, share in (("clean", 0.1), ("poisoned", 0.4)):
                    row = Answer(
                        answer=text(q, share), condition=condition, method=f"m{m}", budget=b, **shown
                    )
                    out.append(row)
    return out


def label(some: list[Answer]) -> None:
    """All labels of all answers by the default rules."""
    for a in some:
        for name in DEFAULT_RULES:
            holds_target(name, a.answer, a.target, a.question, a.references)
            is_correct(name, a.answer, a.references, a.question, a.target)
        abstains(a.answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    some = answers()
    whole = seconds(lambda: score_answers(some))
    alone = seconds(lambda: label(some))
    result = {"answers": len(some), "evaluation": whole, "labels_alone": alone, "ratio": whole / alone}
    print(json.dumps(result) if args.json else "\n".join(f"{k:14} {v:.2f}" for k, v in result.items()))


if __name__ == "__main__":
    main()
