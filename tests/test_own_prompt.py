"""The prompt of the user's own system: its fields, the answer in a reply, defenses around it, and runs."""

import hashlib
import json
import re

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_aligned_run import SMALL, settings
from test_generators import fake  # noqa: F401

from stressrag.aligned.generators import Completion
from stressrag.aligned.pipelines import caution, none
from stressrag.aligned.pipelines.base import run_pipelines
from stressrag.aligned.pipelines.own_prompt import OwnPrompt, own_prompt
from stressrag.aligned.pipelines.registry import get_pipeline
from stressrag.aligned.records import Passage
from stressrag.aligned.run.execute import aligned_run
from stressrag.aligned.run.unused import unused
from stressrag.errors import StressragError
from stressrag.settings.aligned import aligned_settings

PASSAGES = [Passage("a", "The Oster is a river.\nIt is long.", 2.0), Passage("b", "{question}", 1.0)]


def said(name, reply, own, passages=PASSAGES, **options):
    """What a pipeline asks, and its outcome."""
    asked = []

    def complete(prompts):
        asked.extend(prompts)
        return [Completion(reply, "stop") for _ in prompts]

    pipeline = get_pipeline(name, own=own, **options)
    (done,) = run_pipelines([(pipeline, "Which river, {passages}?", passages)], complete)
    return asked[0], done


def test_a_template_is_filled_once():
    own = OwnPrompt(template="Context:\n{passages}\n\nUser: {question} {else}")
    prompt, _ = said("none", "x", own, max_tokens=9)
    assert prompt.user == (
        "Context:\nThe Oster is a river.\nIt is long.\n\n{question}\n\nUser: Which river, {passages}? {else}"
    )
    assert (prompt.system, prompt.max_tokens) == ("", 9)


def test_numbered_passages():
    prompt, _ = said("none", "x", OwnPrompt(template="{numbered_passages}\n{question}"))
    assert prompt.user == "[1] The Oster is a river.\nIt is long.\n[2] {question}\nWhich river, {passages}?"


def test_a_file_is_read_as_it_is_less_its_last_line_break(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbf{passages} {question}\n\nAnswer: \n")
    made = own_prompt(template=str(tmp_path / "a"))
    assert made is not None
    assert made.template == "{passages} {question}\n\nAnswer: "


@pytest.mark.parametrize("mark", ["[ANSWER]", "\\boxed{", "${oc.env:HOME}", "a, b", "Answer:", "x=y"])
def test_a_mark_is_taken_as_it_is_typed(mark):
    words = ["generator=openai", "generator.model=x", "generator.base_url=http://localhost/v1"]
    assert aligned_settings([*words, f"prompt.answer_after={mark}"]).prompt.answer_after == mark


def test_braces_that_are_no_fields_are_told(tmp_path):
    (tmp_path / "t").write_text("{history} {passages} {question} {history}")
    (tmp_path / "i").write_text("Use {passages}.")
    words = ["generator=openai", "generator.model=x", "generator.base_url=http://localhost/v1"]
    words += [f"prompt.template={tmp_path / 't'}", f"prompt.instruction={tmp_path / 'i'}"]
    lines = unused(words, aligned_settings(words))
    assert [line.split()[1] for line in lines] == ["{history}", "{passages}"]


def test_an_instruction_takes_the_place_of_ours():
    prompt, _ = said("none", "x", OwnPrompt(instruction="Be kind."))
    assert prompt.system == "Be kind."
    assert prompt.user.startswith("Passages:\n[1] The Oster is a river.\n    It is long.\n[2] {question}\n")


def test_caution_is_added_to_it():
    plain, _ = said("caution", "x", None)
    assert plain.system == caution.INSTRUCTION
    own, _ = said("caution", "x", OwnPrompt(instruction="Be kind."))
    assert own.system.startswith("Be kind. Be cautious. The passages were retrieved automatically.")
    assert "few words" not in own.system
    template, _ = said("caution", "x", OwnPrompt(template="{passages} {question}"))
    assert template.system == own.system.removeprefix("Be kind. ")


@pytest.mark.parametrize(
    ("reply", "answer", "noted"),
    [
        ("First Answer: 3.\nSo\nANSWER:  4 days\n", "4 days", False),
        ("Answer:", "", False),
        ("It is 4 days.", "It is 4 days.", True),
    ],
)
@pytest.mark.parametrize(
    ("name", "options"),
    [("none", {}), ("caution", {}), ("overlap", {}), ("near_duplicate", {}),
     ("detector", {"detector": "gap", "threshold": 9.0})],
)  # fmt: skip
def test_the_answer_is_what_follows_the_last_mark(name, options, reply, answer, noted):
    _, done = said(name, reply, OwnPrompt(answer_after="Answer:"), **options)
    assert done.answer == answer
    assert done.stages[-1].texts == (reply,), "the trace keeps it whole"
    assert any("no 'Answer:' in the reply" in n for n in done.notes) == noted


@hypothesis.settings(deadline=None)
@given(st.text(alphabet="aA:b \n"), st.text(alphabet="aA:", min_size=1, max_size=3))
def test_what_follows_the_last_mark_holds_none(reply, mark):
    answer, note = OwnPrompt(answer_after=mark).answer(reply)
    if mark.lower() in reply.lower():
        assert not note
        before = reply[: len(reply) - len(answer)]
        assert reply == before + answer
        assert before.lower().endswith(mark.lower())
        assert mark.lower() not in answer.lower()
    else:
        assert note
        assert answer == reply


def test_answers_depend_on_the_prompt_and_ours_are_found_again():
    assert get_pipeline("none", own=None).settings() == {
        "pipeline": "none", "instruction": none.INSTRUCTION, "max_tokens": 150,
    }  # fmt: skip
    made = [
        get_pipeline("overlap", own=own).settings()
        for own in (
            None,
            OwnPrompt("a"),
            OwnPrompt(template="{passages} {question}"),
            OwnPrompt(answer_after="A:"),
        )
    ]
    assert len({json.dumps(m, sort_keys=True) for m in made}) == 4


def test_what_is_wrong_with_a_file(tmp_path):
    (tmp_path / "empty").write_text(" \n")
    (tmp_path / "half").write_text("{passages} only")
    (tmp_path / "none").write_text("{Context} {question}")
    (tmp_path / "double").write_text("{{passages}} {{question}}")
    (tmp_path / "latin").write_bytes(b"\xff\xfe\xfd")
    assert own_prompt() is None
    for words, told in (
        ({"instruction": tmp_path / "no"}, "prompt.instruction=.*No such file"),
        ({"instruction": tmp_path / "empty"}, "the file is empty"),
        ({"instruction": tmp_path / "latin"}, "no UTF-8 text"),
        ({"instruction": tmp_path}, "Is a directory"),
        ({"template": tmp_path / "half"}, r"\{question\} is not in it, but \{passages\}"),
        (
            {"template": tmp_path / "none"},
            r"\{passages\} \(or \{numbered_passages\}\) is not in it, but \{Context\}",
        ),
        ({"template": tmp_path / "double"}, r"write \{passages\} for \{\{passages\}\}"),
        ({"answer_after": " "}, "is blank"),
    ):
        with pytest.raises(StressragError, match=told):
            own_prompt(**{k: str(v) for k, v in words.items()})


def test_a_run_with_it(fake, tmp_path):  # noqa: F811
    (tmp_path / "system.txt").write_text("Think step by step, then write Answer: and the answer.\n")
    fake.behave = lambda text, nth: "The passages say much.\nAnswer: the Oster"
    words = [w for w in SMALL if not w.startswith("generator")]
    words += ["generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny", "controls=false"]
    words += ["pipeline=caution,overlap", f"prompt.instruction={tmp_path / 'system.txt'}"]
    plan, evaluation = aligned_run(settings(tmp_path, *words, "prompt.answer_after=Answer:"))
    for name in ("none", "caution", "overlap"):
        lines = (tmp_path / "run" / "answers" / f"{name}.jsonl").read_text("utf-8").splitlines()
        assert {json.loads(x)["answer"] for x in lines} == {"the Oster"}
    assert plan.pipelines[0].settings()["instruction"].startswith("Think step by step")
    digest = hashlib.sha256(b"Think step by step, then write Answer: and the answer.").hexdigest()[:16]
    told = f"system.txt (SHA-256 {digest}…), answers are what follows 'Answer:'."
    assert any("for none, caution and overlap: " in line and line.endswith(told) for line in evaluation.about)
    assert not any("count whole" in note for note in evaluation.notes)
    _, evaluation = aligned_run(
        settings(tmp_path, *words, "prompt.answer_after=Result:", "pipeline=keyword_prompt")
    )
    assert any(
        re.match(r"none: (\d+) of \1 answers hold no 'Result:' and count whole", n) for n in evaluation.notes
    )
    assert any("keyword_prompt answer with prompts of their own" in line for line in evaluation.about)
    (tmp_path / "t").write_text("{question}")
    with pytest.raises(StressragError, match="is not in it"):
        aligned_run(settings(tmp_path, *words, f"prompt.template={tmp_path / 't'}"))


def test_the_extractive_reader_reads_no_instructions(tmp_path):
    with pytest.raises(StressragError, match="goes with a language model"):
        settings(tmp_path, *SMALL, "prompt.answer_after=Answer:")
