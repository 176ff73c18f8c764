"""Prompts that an endpoint refuses for good, waits that are told, and keys that are not there."""

import json
from collections import Counter

import pytest
from test_generators import KEY, ask, fake, reply  # noqa: F401

from stressrag.aligned.generators import Answering, Completion, Failed, Prompt, Refused
from stressrag.aligned.pipelines.base import run_pipelines
from stressrag.aligned.pipelines.registry import get_pipeline
from stressrag.aligned.records import Passage
from stressrag.aligned.run.execute import aligned_run
from stressrag.errors import StressragError
from stressrag.settings.aligned import aligned_settings

POLICY = b'{"error": {"code": "content_policy_violation", "message": "not this text"}}'


def refusing(status=400, body=POLICY, words=("bad",)):
    return lambda text, nth: (status, {}, body) if any(w in text for w in words) else "well"


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_prompt_that_is_refused(fake, status, tmp_path):  # noqa: F811
    fake.behave = refusing(status)
    with pytest.raises(Refused, match=rf"{status}: content_policy_violation not this text"):
        ask(fake.generator(), "bad")
    with pytest.raises(StressragError, match=r"1 of 2 prompts.*1 was refused for good: on_refusal=record"):
        Answering(fake.generator(), tmp_path).complete([Prompt("bad"), Prompt("good")])
    record = Answering(fake.generator(), tmp_path, on_refusal="record")
    assert [c.finish for c in record.complete([Prompt("bad"), Prompt("good")])] == ["refused", "stop"]
    asked = len(fake.asked)
    again = Answering(fake.generator(), tmp_path, on_refusal="record")
    assert again.complete([Prompt("bad")]) == [Completion("", "refused")]
    assert (len(fake.asked), again.hits, again.calls) == (asked, 1, 0)
    fake.behave = lambda text, nth: "now it answers"
    assert Answering(fake.generator(), tmp_path).complete([Prompt("bad")])[0].text == "now it answers"
    assert again.complete([Prompt("bad")])[0].text == "now it answers"


def test_a_forbidden_prompt_after_an_answer_is_its_own_problem(fake):  # noqa: F811
    fake.behave = refusing(403, b"<html>blocked</html>")
    generator = fake.generator()
    with pytest.raises(StressragError, match="access is denied"):
        ask(generator, "bad")
    assert ask(generator, "good").text == "well"
    with pytest.raises(Refused, match="403"):
        ask(generator, "bad")


def test_a_resumed_run_knows_that_the_key_is_good_but_not_for_ever(fake, tmp_path):  # noqa: F811
    """A bare 403 is about the prompt where answers are cached; ten in a row are about the key."""
    fake.behave = refusing(403, b"<html>blocked</html>")
    Answering(fake.generator(), tmp_path).complete([Prompt("good")])
    again = Answering(fake.generator(), tmp_path, on_refusal="record")
    assert [c.finish for c in again.complete([Prompt("good"), Prompt("bad")])] == ["stop", "refused"]
    many = [Prompt("good"), *(Prompt(f"bad {i}") for i in range(40))]
    with pytest.raises(StressragError, match="10 times in a row"):
        Answering(fake.generator(), tmp_path, on_refusal="record", concurrency=1).complete(many)
    fake.behave = refusing(403)
    record = Answering(fake.generator(), tmp_path, on_refusal="record")
    assert Counter(c.finish for c in record.complete(many)) == {"stop": 1, "refused": 40}


@pytest.mark.parametrize("on_refusal", ["stop", "record"])
def test_many_refusals_leave_no_other_prompt_unasked(fake, on_refusal, tmp_path):  # noqa: F811
    fake.behave = refusing()
    many = [Prompt("good"), *(Prompt(f"bad {i}") for i in range(30)), Prompt("good too")]
    answering = Answering(fake.generator(), tmp_path, on_refusal=on_refusal, concurrency=1)
    if on_refusal == "record":
        assert [c.finish for c in answering.complete(many)] == ["stop", *["refused"] * 30, "stop"]
    else:
        with pytest.raises(StressragError, match=r"30 of 32 prompts.*on_refusal=record"):
            answering.complete(many)
    assert len(fake.asked) == 32
    fake.behave = refusing(words=("bad", "good"))
    with pytest.raises(
        StressragError, match=r"10 times in a row.*nothing was answered yet: see whether the end"
    ):
        Answering(fake.generator(), tmp_path / "new", on_refusal=on_refusal, concurrency=1).complete(many)


@pytest.mark.parametrize(
    "said", ["API key not valid", "Invalid model name passed", "The model `x` does not exist"]
)
def test_a_refusal_of_everything_is_the_runs_problem(fake, said, tmp_path):  # noqa: F811
    fake.behave = refusing(400, json.dumps({"error": {"message": said}}).encode())
    with pytest.raises(StressragError, match=said[:9]):
        ask(fake.generator(), "bad")
    fake.behave = refusing(400, b'{"error": "max_tokens is not known"}')
    with pytest.raises(StressragError, match=r"failed 10 times in a row.*max_tokens"):
        Answering(fake.generator(), tmp_path, on_refusal="record", concurrency=1).complete(
            [Prompt(f"bad {i}") for i in range(40)]
        )


def test_a_withheld_reply_is_refused(fake):  # noqa: F811
    fake.behave = lambda text, nth: (200, {}, reply(None, "content_filter"))
    with pytest.raises(Refused, match="content_filter"):
        ask(fake.generator())
    assert len(fake.asked) == 1


def test_long_waits_are_told(fake):  # noqa: F811
    told = []
    fake.behave = lambda text, nth: (429, {"Retry-After": "17"}, b"slow down") if nth < 2 else "well"
    generator = fake.generator()
    generator.say = told.append
    ask(generator)
    assert len(told) == 1
    assert told[0].endswith("the server answers 429: slow down; waiting 17 s before try 2 of 6")
    told.clear()
    fake.behave = lambda text, nth: (500, {}, b"down") if nth < 4 else "well"
    generator = fake.generator()
    generator.say = told.append
    ask(generator, "other")
    assert fake.waits == [1.0, 2.0, 4.0]
    assert len(told) == 1
    assert told[0].endswith("waiting 4 s before try 4 of 6")


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_set_is_named(fake, status, monkeypatch):  # noqa: F811
    monkeypatch.delenv("OPENAI_API_KEY")
    fake.behave = lambda text, nth: (status, {}, b"who are you")
    with pytest.raises(StressragError, match=r"\$OPENAI_API_KEY is not set \(set it, or name.*key_from\)"):
        ask(fake.generator())
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(StressragError, match=r"is read from \$OPENAI_API_KEY") as e:
        ask(fake.generator())
    assert KEY not in str(e.value)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("none", {}),
        ("keyword_agg", {"phrase_model": "stopword_phrases"}),
        ("trustrag", {"embed": "terms"}),
        ("overlap", {}),
    ],
)
@pytest.mark.parametrize("refused", [(0,), (1,), (0, 1, 2), range(99)])
def test_pipelines_survive_refused_steps(name, options, refused):
    asked = []

    def complete(prompts):
        asked.extend(prompts)
        first = len(asked) - len(prompts)
        return [
            Completion("", "refused") if first + i in refused else Completion("the Oster", "stop")
            for i in range(len(prompts))
        ]

    passages = [Passage(str(i), f"The river {i} is the Oster.", 1.0) for i in range(3)]
    (done,) = run_pipelines([(get_pipeline(name, **options), "Which river?", passages)], complete)
    n = len([i for i in refused if i < len(asked)])
    assert sum(s.finishes.count("refused") for s in done.stages) == n
    assert any("were refused" in note for note in done.notes) == (n > 0)


def test_a_run_records_refusals_and_asks_them_no_more(fake, tmp_path):  # noqa: F811
    words = ["generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny", "queries=10"]
    words += ["retriever=bm25", "utility=0", "budgets=1", "controls=false", "pipeline=none,caution"]
    words += [f"cache={tmp_path / 'c'}", f"output_dir={tmp_path / 'run'}"]
    plan_words = aligned_settings(words)
    fake.behave = lambda text, nth: "the Oster"
    plan, _ = aligned_run(plan_words)
    victim = plan.attacked[0].question
    for p in (tmp_path / "run" / "answers").iterdir():
        p.unlink()
    for p in (tmp_path / "c").rglob("*.json"):
        p.unlink()
    fake.behave = lambda text, nth: (422, {}, POLICY) if f"Question: {victim}" in text else "the Oster"
    with pytest.raises(StressragError, match="on_refusal=record"):
        aligned_run(plan_words)
    record = aligned_settings([*words, "on_refusal=record"])
    _, evaluation = aligned_run(record)
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["refused"] == 4, "clean and poisoned, two pipelines"
    assert any(n.startswith("4 prompts were refused by tiny") for n in evaluation.notes)
    assert "4 prompts were refused by tiny" in (tmp_path / "run" / "report.md").read_text()
    rows = [json.loads(x) for x in (tmp_path / "run" / "answers" / "none.jsonl").read_text().splitlines()]
    assert [r["answer"] for r in rows if r["question"] == victim] == ["", ""]
    row = next(r for r in evaluation.rows if r["method"] == "caution" and r["label"] == "boundary")
    assert row["abstains_p0"] == pytest.approx(1 / 10)
    asked = len(fake.asked)
    aligned_run(record)
    assert len(fake.asked) == asked
    fake.behave = lambda text, nth: "the Oster"
    aligned_run(plan_words)
    assert len(fake.asked) == asked + 4, "on_refusal=stop asks them once more"
    assert json.loads((tmp_path / "run" / "run.json").read_text())["refused"] == 0


def test_other_failures_are_no_refusals(fake, tmp_path):  # noqa: F811
    fake.behave = refusing(500, b"down")
    with pytest.raises(Failed) as e:
        ask(fake.generator(attempts=1), "bad")
    assert not isinstance(e.value, Refused)
    with pytest.raises(StressragError, match="1 of 1"):
        Answering(fake.generator(attempts=1), tmp_path, on_refusal="record").complete([Prompt("bad")])
