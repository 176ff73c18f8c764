"""Split knowledge in counts, by hand."""

import json

from test_aligned_run import settings

from stressrag.aligned.cells import Labeler, cells
from stressrag.aligned.records import Answer, Passage
from stressrag.aligned.run.execute import aligned_run
from stressrag.aligned.score import score_answers
from stressrag.aligned.split_counts import split_counts

A, B, H = Passage("a", "a", role="support"), Passage("b", "b", role="poison"), Passage("h", "h")
# Per query: the poisoned context, and whether the answer is positive clean, poisoned, with A + H, B + H and H
# (None: not answered), and poisoned with the defense.
CASES = {
    "strict, suppressed": ((A, B, H), 0, 1, 0, 0, 0, 0),
    "strict, not new, stays": ((A, B, H), 1, 1, 0, 0, 0, 1),
    "B alone gives it, stays": ((A, B, H), 0, 1, 0, 1, 0, 1),
    "A not retrieved, introduced": ((B, H), 0, 0, 0, 0, 0, 1),
    "neither retrieved": ((H,), 0, 0, None, None, None, 0),
}


def answers():
    out = []
    for query, (context, *positive) in CASES.items():
        conditions = ("clean", "poisoned", "support_background", "poison_background", "background_only")
        rows = [(c, "none", p) for c, p in zip(conditions, positive[:5], strict=True)]
        for condition, method, p in [*rows, ("poisoned", "mine", positive[5]), ("clean", "mine", 0)]:
            if p is not None:
                text = "the Oster" if p else "the Lind"
                out.append(
                    Answer(query, "Which river?", text, condition, method, target="the Oster", budget=1,
                           context=context if condition == "poisoned" else None)
                )  # fmt: skip
    return out


WANTED = {
    "candidates": 5, "co_retrieved": 3, "positives": 3, "strict": 2, "strict_newly_induced": 1,
    "strict_suppressed": 1, "introduced": 1, "final_positives": 3,
}  # fmt: skip


def test_counts_by_hand():
    none, mine = cells(answers())
    assert split_counts(mine, Labeler("boundary")) == WANTED
    assert split_counts(none, Labeler("boundary")) == {
        **WANTED, "strict_suppressed": None, "introduced": None, "final_positives": None,
    }  # fmt: skip
    few = [a for a in answers() if a.condition != "background_only"]
    assert split_counts(cells(few)[1], Labeler("boundary")) is None


def test_they_are_in_the_rows_and_the_report(tmp_path):
    evaluation = score_answers(answers(), labels=["boundary"])
    evaluation.write(tmp_path)
    (row,) = json.loads((tmp_path / "aligned.json").read_text())
    assert row["split_knowledge"] == WANTED
    report = (tmp_path / "report.md").read_text()
    assert "| mine | boundary | 5 | 3 | 3 | 2 | 1 | 1 | 1 | 3 |" in report
    assert "Split knowledge" in (tmp_path / "report.html").read_text()


def test_a_run_counts_the_funnel(tmp_path):
    _, evaluation = aligned_run(settings(tmp_path, "attack=split_knowledge", "pipeline=caution,overlap"))
    rows = [r for r in evaluation.rows if r["label"] == "endorsed"]
    assert [r["method"] for r in rows] == ["caution", "overlap"]
    for r in rows:
        n = r["split_knowledge"]
        assert n["candidates"] == 36
        assert n["strict_newly_induced"] <= n["strict"] <= min(n["positives"], n["co_retrieved"])
        assert n["final_positives"] == r["counts"]["r_p1"]
        assert n["introduced"] == r["counts"]["J"]
    plain = [r for r in json.loads((tmp_path / "run" / "aligned.json").read_text()) if r["split_knowledge"]]
    assert len(plain) == len(evaluation.rows)
