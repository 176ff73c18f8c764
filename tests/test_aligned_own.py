"""Pipelines and generators of the user's own: options, contracts; prompts from a checkout; idle settings."""

import hashlib
import json

import pytest
from test_aligned_run import SMALL, run, settings
from test_pipelines import checkout

from stressrag.aligned.generators import Completion, Prompt, make_generator
from stressrag.aligned.generators.answering import Answering
from stressrag.aligned.generators.base import Generator
from stressrag.aligned.pipelines.base import Pipeline, run_pipelines
from stressrag.aligned.run.execute import aligned_run
from stressrag.aligned.run.unused import unused
from stressrag.errors import StressragError
from stressrag.settings.aligned import aligned_settings

MINE = """
import numpy as np
from stressrag.aligned.generators.base import Completion, Generator
from stressrag.aligned.generators.prompts import passages_prompt
from stressrag.aligned.pipelines.base import Outcome, Pipeline, asked, outcome


class First(Pipeline):
    name = "first"

    def __init__(self, top=1, max_tokens=7):
        self.top, self.max_tokens = top, max_tokens

    def settings(self):
        return {"top": self.top, "max_tokens": self.max_tokens}

    def steps(self, question, passages):
        prompt = passages_prompt(question, [p.text for p in passages[: self.top]], max_tokens=self.max_tokens)
        replies = yield [prompt]
        return outcome(replies[0].text, [asked("answer", [prompt], replies)])


class Sets(First):
    def settings(self):
        return {"name": "x", "words": {"a", "b"}}


class Arrays(First):
    def settings(self):
        return {"limit": np.float32(0.5)}


class Plain(First):
    def steps(self, question, passages):
        return []


class Texts(First):
    def steps(self, question, passages):
        yield ["a prompt"]


class Number(First):
    def steps(self, question, passages):
        yield [passages_prompt(question, [])]
        return Outcome(5, ())


class Words(First):
    def steps(self, question, passages):
        yield [passages_prompt(question, [])]
        return Outcome("x", ("answer",))


class Model(Generator):
    name = "mine"

    def __init__(self, identity, reply="x"):
        self.said, self.reply = identity, reply

    def identity(self):
        return self.said

    def complete(self, prompt):
        return Completion(self.reply, "stop")


def sets():
    return Model({"kind": "mine", "stops": {1}})


def half():
    return Model({"kind": "half"}, "the \\ud83d Oster")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "own_things.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    import sys

    sys.modules.pop("own_things", None)


def rows(path):
    return [json.loads(x) for x in path.read_text("utf-8").split("\n") if x]


@pytest.mark.parametrize("name", ["first", "First", "own_things", "own_things:First"])
def test_options_of_an_own_pipeline(mine, name):
    words = ("queries=10", "budgets=1", "retriever=bm25", "pipeline=own_things:First", "max_tokens=9")
    plan, _ = aligned_run(settings(mine, *words, f"pipeline_options.{name}.top=2"))
    assert plan.pipelines[1].settings() == {"top": 2, "max_tokens": 9}
    assert json.loads((mine / "run" / "run.json").read_text())["pipelines"]["first"]["top"] == 2


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("pipeline_options.frist.top=1", "no such pipeline in pipeline=none,own_things:First; did you mean"),
        ("pipeline_options.first.tpo=1", r"pipeline_options\.first: no option 'tpo'; did you mean 'top'"),
        (
            "pipeline_options.first.top=many",
            r"pipeline_options\.first\.top=many: must be a number, such as 1",
        ),
        ("pipeline_options.first=1", "write pipeline_options.NAME.OPTION=VALUE"),
        ("pipeline_options.none.max_tokens=1", "pipeline_options.none.max_tokens: set max_tokens instead"),
        ("pipeline_options={first:3}", "options have names"),
    ],
)
def test_wrong_options_are_one_line(mine, word, told):
    words = ("queries=10", "budgets=1", "retriever=bm25", "pipeline=own_things:First", word)
    with pytest.raises(StressragError, match=told):
        aligned_run(settings(mine, *words))
    assert not (mine / "run").exists()


def test_options_of_a_built_in_pipeline(tmp_path):
    words = (*SMALL, "pipeline=near_duplicate", "pipeline_options.near_duplicate.copies=2")
    plan, _ = aligned_run(settings(tmp_path, *words))
    assert plan.pipelines[1].settings()["copies"] == 2


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Sets", r"Sets\.settings\(\): 'words' is .* \(set\), no JSON value"),
        ("Arrays", r"Arrays\.settings\(\): 'limit' is .* \(float32\), no JSON value"),
        ("Plain", r"Plain\.steps is no generator function, it returned list"),
        ("Texts", r"Texts\.steps yielded \['a prompt'\], not a list of Prompt"),
        ("Number", r"Number\.steps returned an Outcome whose answer is int, not str"),
        ("Words", r"Words\.steps returned an Outcome whose stages hold str, not Stage"),
    ],
)
def test_a_pipeline_that_breaks_the_contract_costs_nothing(mine, name, told):
    words = ("queries=10", "budgets=1", "retriever=bm25", f"pipeline=own_things:{name}")
    with pytest.raises(StressragError, match=told):
        aligned_run(settings(mine, *words))
    assert not (mine / "run").exists()
    assert not (mine / "cache").exists()


def test_a_generator_that_breaks_the_contract(mine, tmp_path):
    with pytest.raises(StressragError, match=r"Model\.identity\(\): 'stops' is \{1\} \(set\), no JSON value"):
        make_generator({"kind": "own_things:sets"})

    class Odd(Generator):
        name = "odd"

        def identity(self):
            return {"kind": "odd"}

        def complete(self, prompt):
            return Completion("x", prompt.user)

    class Counts(Odd):
        def complete(self, prompt):
            return Completion("x", "stop", 1.5)

    assert Answering(Odd(), tmp_path).complete([Prompt("stop")])[0].finish == "stop"
    with pytest.raises(StressragError, match="odd returned a Completion whose prompt_tokens is float"):
        Answering(Counts(), tmp_path / "c").complete([Prompt("stop")])
    with pytest.raises(StressragError, match=r"generator\.target=mygen: write package\.module:factory"):
        aligned_settings(["generator=python", "generator.target=mygen"])


def test_lone_surrogates_do_not_break_writing(mine):
    words = ("queries=10", "budgets=1", "retriever=bm25", "pipeline=caution", "judge.kind=same")
    words += ("generator=python", "generator.target=own_things:half")
    aligned_run(settings(mine, *words))
    assert rows(mine / "run" / "answers" / "none.jsonl")[0]["answer"] == "the \ufffd Oster"
    trace = rows(mine / "run" / "traces" / "none.jsonl")[0]
    assert trace["stages"][-1]["texts"] == ["the \ufffd Oster"]
    assert any("1 replies held lone surrogates" in n for n in trace["notes"])
    assert rows(mine / "run" / "judgments.jsonl")[0]["replies"] == ["the \ufffd Oster"] * 2


def test_an_outcome_of_a_wrong_type_is_refused():
    class Wrong(Pipeline):
        name = "wrong"

        def settings(self):
            return {}

        def steps(self, question, passages):
            yield [Prompt("x")]
            return "text"

    with pytest.raises(StressragError, match="it returned str, not an Outcome"):
        run_pipelines([(Wrong(), "q", [])], lambda prompts: [Completion("x", "stop") for _ in prompts])


def test_prompts_from_a_checkout_in_a_run(tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir()
    checkout(folder)
    words = (*SMALL, "pipeline=keyword_prompt,trustrag", "embedder=terms")
    theirs = (f"prompts_from.robustrag={folder}", f"prompts_from.trustrag={folder}")
    plan, evaluation = aligned_run(settings(tmp_path, *words, *theirs))
    said = json.loads((tmp_path / "run" / "run.json").read_text())["pipelines"]
    digest = hashlib.sha256((folder / "src" / "prompt_template.py").read_bytes()).hexdigest()
    assert said["keyword_prompt"]["prompts"] == "RobustRAG"
    assert said["keyword_prompt"]["prompts_file"] == "src/prompt_template.py"
    assert said["keyword_prompt"]["prompts_file_sha256"] == digest
    assert said["trustrag"]["prompts_file"] == "defend_module.py"
    assert "keyword_prompt: prompts of RobustRAG, src/prompt_template.py" in " ".join(evaluation.about)
    assert str(folder) not in (tmp_path / "run" / "run.json").read_text()
    (tmp_path / "run" / "answers" / "none.jsonl").unlink()
    with pytest.raises(StressragError, match="no folder; give a checkout of RobustRAG"):
        aligned_run(settings(tmp_path, *words, f"prompts_from.robustrag={tmp_path / 'no'}"))
    assert plan.pipelines[2].name == "trustrag"


def test_the_command_says_wrong_options_in_one_line(tmp_path):
    done = run("pipeline_options.cautoin.max=1", *SMALL, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "did you mean 'caution'" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("generator.model=x",), ["generator=openai or gguf or transformers"]),
        (("generator=gguf", "generator.model=x", "generator.revision=y"), ["generator=transformers"]),
        (("overlap_tau=0.5", "pipeline=caution"), ["pipeline=overlap"]),
        (("detector_rate=10",), ["pipeline=detector"]),
        (("detector_rate=10", "pipeline=detector"), []),
        (("judge.timeout=3",), ["judge.kind"]),
        (("judge.kind=same", "judge.timeout=3", "judge.max_tokens=9"), ["judge.kind=openai"]),
        (("anchor=false",), ["attack=split_knowledge"]),
        (("anchor=false", "attack=split_knowledge", "budgets=2"), ["other attacks than split_knowledge"]),
        (("group_size=5",), ["targets=FILE"]),
        (("prompts_from.trustrag=x", "pipeline=keyword_agg"), ["pipeline=trustrag"]),
        (("lsa.dimensions=9", "retriever=bm25"), ["retriever=lsa"]),
        (("bm25.k1=1", "retriever=lsa"), ["retriever=bm25"]),
        (("bm25.k1=1", "lsa.seed=1", "rrf.depth=9"), []),
        (("price_in=1",), ["estimate=true"]),
    ],
)
def test_settings_that_play_no_part_are_told(words, told):
    lines = unused(words, aligned_settings(words))
    assert [line.partition("; it goes with ")[2].partition(",")[0] for line in lines] == told


def test_a_share_above_one_is_told():
    words = ["overlap_tau=1.5", "pipeline=overlap"]
    lines = unused(words, aligned_settings(words))
    assert lines == ["note: overlap_tau=1.5 rejects nothing; it is a share, from 0 to 1"]
    with pytest.raises(StressragError, match=r"overlap_tau=-0\.1: must be at least 0"):
        aligned_settings(["overlap_tau=-0.1"])
