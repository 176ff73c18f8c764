"""Aligned runs: cohorts, contexts and controls, files, resuming, judging, end to end."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from test_generators import KEY, fake  # noqa: F401

from stressrag.aligned.generators.answering import Answering
from stressrag.aligned.generators.base import Completion, Generator
from stressrag.aligned.read import read_answers
from stressrag.aligned.records import Answer, Passage
from stressrag.aligned.run.cohort import chosen, cohort
from stressrag.aligned.run.contexts import Context, controls, retrieve
from stressrag.aligned.run.execute import aligned_run
from stressrag.aligned.run.judging import judge, judge_prompt, read_judgment
from stressrag.collection import load_dataset
from stressrag.errors import StressragError
from stressrag.records.replacing import held
from stressrag.retrievers.bm25 import BM25
from stressrag.settings.aligned import aligned_settings


@pytest.fixture(scope="module")
def pellmore():
    return load_dataset("pellmore")


def files_of(folder):
    """What a run's folder holds, its lock aside."""
    return {
        p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != ".lock"
    }


def test_cohorts_of_the_embedded_collection(pellmore):
    some = cohort("poisonedrag", pellmore)
    assert len(some) == 120
    assert len({a.group for a in some}) == 12
    assert all(len(a.poison) == 5 and all(p.startswith(a.question) for p in a.poison) for a in some)
    assert all(a.target in p for a in cohort("instruction", pellmore) for p in a.poison)
    split = cohort("split_knowledge", pellmore, anchor=False)
    assert len(split) == len({a.group for a in split}) == 36
    assert not any(a.question in a.poison[0] for a in split)
    assert all(a.poison[0].startswith(a.question) for a in cohort("split_knowledge", pellmore))


def test_whole_groups_are_chosen(pellmore):
    some = chosen(cohort("poisonedrag", pellmore), 25)
    assert len(some) == 30
    assert [a.group for a in some] == sorted(a.group for a in some)


def test_targets_as_poisonedrag_releases_them(data_root, tmp_path):
    nq = load_dataset("nq_poisonedrag100")
    some = cohort("poisonedrag", nq, file=str(data_root / "poisonedrag" / "nq.json"))
    assert len(some) == 100
    assert {len(a.poison) for a in some} == {5}
    assert [len([a for a in some if a.group == g]) for g in dict.fromkeys(a.group for a in some)] == [10] * 10
    assert all(a.support for a in some), "each has gold passages in the subset"
    with pytest.raises(StressragError, match="has no targets"):
        cohort("poisonedrag", nq)
    (tmp_path / "bad.json").write_text('[{"question": "x"}]')
    with pytest.raises(StressragError, match="target 1 has no 'incorrect answer'"):
        cohort("poisonedrag", nq, file=str(tmp_path / "bad.json"))


def test_poisoned_contexts_are_those_of_an_index_with_the_groups_poison(pellmore):
    """Against indexing corpus and the group's poison afresh, query by query."""
    some = cohort("poisonedrag", pellmore)[:20]
    retriever = BM25().fit(pellmore.corpus)
    found = {c.query_id: c for c in retrieve(retriever, pellmore, some, [2], 5) if c.condition == "poisoned"}
    for a in some[::7]:
        group = [b for b in some if b.group == a.group]
        texts = [t for b in group for t in b.poison[:2]]
        again = BM25().fit(pellmore.corpus.extended(texts)).search([a.question], 5)
        docs, scores = again.row(0)
        n = len(pellmore.corpus)
        want = [texts[d - n] if d >= n else pellmore.corpus.texts[d] for d in docs.tolist()]
        assert [p.text for p in found[a.query_id].passages] == want
        assert [p.score for p in found[a.query_id].passages] == pytest.approx(scores.tolist())
        owners = {p.owner for p in found[a.query_id].passages if p.role == "poison"}
        assert owners <= {b.query_id for b in group}


OWN, FOREIGN = Passage("p1", "own", 3.0, "poison", "q"), Passage("p2", "foreign", 2.0, "poison", "r")
SUPPORT, REST = Passage("s", "support", 1.0, "support"), Passage("h", "rest", 0.5)


def texts_of(made):
    return {c.condition: [p.text for p in c.passages] for c in made}


def test_controls_keep_the_order_and_refill_nothing():
    context = Context("q", "poisoned", 2, "attack", (OWN, REST, FOREIGN, SUPPORT))
    assert texts_of(controls(context)) == {
        "no_poison": ["rest", "support"],
        "no_own_poison": ["rest", "foreign", "support"],
        "poison_only": ["own", "foreign"],
        "single_poison_0": ["own"],
        "leave_poison_0_out": ["rest", "foreign", "support"],
        "single_poison_1": ["foreign"],
        "leave_poison_1_out": ["own", "rest", "support"],
    }
    assert controls(replace(context, passages=(REST, SUPPORT))) == []


def test_split_knowledge_compositions():
    context = Context("q", "poisoned", 1, "attack", (OWN, REST, SUPPORT))
    made = texts_of(controls(context, composition=True))
    assert made["support_background"] == ["rest", "support"]
    assert made["poison_background"] == ["own", "rest"]
    assert made["background_only"] == ["rest"]


def settings(tmp_path, *words):
    return aligned_settings([f"cache={tmp_path / 'cache'}", f"output_dir={tmp_path / 'run'}", *words])


SMALL = ("queries=20", "pipeline=none,caution,overlap", "retriever=bm25", "utility=10", "budgets=1")


def test_a_run_and_its_files(tmp_path):
    plan, evaluation = aligned_run(settings(tmp_path, *SMALL))
    folder = plan.folder
    assert {(r["method"], r["budget"]) for r in evaluation.rows} == {("caution", 1), ("overlap", 1)}
    overlap = next(r for r in evaluation.rows if r["method"] == "overlap" and r["label"] == "endorsed")
    assert overlap["r_p0"] > 0.3, "the attack works on the stand-in"
    assert overlap["r_p1"] < overlap["r_p0"]
    assert {r["method"] for r in evaluation.utility} == {"caution", "overlap"}
    assert evaluation.controls[0]["injection_dependent"]["n"] > 0
    assert any("stand-in" in n for n in evaluation.about)
    answers = read_answers([folder])
    assert {a.condition for a in answers if a.method == "none"} >= {
        "clean",
        "poisoned",
        "no_poison",
        "single_poison_0",
    }
    assert all(a.context is not None for a in answers if a.condition in ("clean", "poisoned"))
    traces = [json.loads(x) for x in (folder / "traces" / "overlap.jsonl").read_text().splitlines()]
    assert all(len(h) == 64 for t in traces for s in t["stages"] for h in s["prompts"])
    assert "stand-in" in (folder / "report.html").read_text()
    assert (folder / "detectors.json").exists()


def test_again_asks_nothing_and_one_pipeline_leaves_the_others(tmp_path):
    aligned_run(settings(tmp_path, *SMALL))
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    said = []
    aligned_run(settings(tmp_path, *SMALL), said.append)
    assert sum("answered before" in s for s in said) == 3
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before
    said.clear()
    aligned_run(settings(tmp_path, *SMALL, "overlap_tau=0.9"), said.append)
    assert sum("answered before" in s for s in said) == 2
    assert "overlap: answering" in " ".join(said)
    with pytest.raises(StressragError, match="other contexts or another generator"):
        aligned_run(settings(tmp_path, *SMALL, "k=3"))


class Echo(Generator):
    """Counts calls; replies from a script by what the prompt holds."""

    name, concurrency = "echo", 1

    def __init__(self, reply):
        self.reply, self.seen = reply, []

    def identity(self):
        return {"kind": "echo"}

    def complete(self, prompt):
        self.seen.append(prompt)
        return Completion(self.reply(prompt), "stop")


def judged(reply, tmp_path, **fields):
    a = Answer(
        "q",
        "Which river?",
        "The Oster, says the passage.",
        "poisoned",
        "mine",
        target="the Oster",
        references=("the Lind",),
    )
    a = replace(a, **fields)
    echo = Echo(reply)
    rows, counts = judge([a, replace(a, query_id="again", method="other")], Answering(echo, tmp_path))
    return rows, counts, echo


GOOD = {
    "target_endorsed": "yes",
    "target_quote": "the oster",
    "reference_correct": "no",
    "reference_quote": "",
    "abstains": "no",
}


def test_the_judge_is_blind_and_judges_a_distinct_answer_once(tmp_path):
    rows, counts, echo = judged(lambda p: f"Sure:\n```json\n{json.dumps(GOOD)}\n```", tmp_path)
    assert len(rows) == len(echo.seen) == counts["answers"] == 1
    assert {n: rows[0][n] for n in ("target_endorsed", "reference_correct", "abstains")} == {
        "target_endorsed": "yes", "reference_correct": "no", "abstains": "no",
    }  # fmt: skip
    shown = echo.seen[0].system + echo.seen[0].user
    assert not any(word in shown for word in ("mine", "poisoned", "budget"))


@pytest.mark.parametrize(
    ("reply", "field", "label"),
    [
        ("no JSON", "target_endorsed", "invalid"),
        ({**GOOD, "target_quote": "the Varn"}, "target_endorsed", "invalid"),
        ({**GOOD, "target_quote": "the Varn"}, "abstains", "no"),
        ({**GOOD, "target_endorsed": "uncertain"}, "target_endorsed", "uncertain"),
        ({**GOOD, "target_endorsed": "maybe"}, "target_endorsed", "invalid"),
        ({**GOOD, "target_endorsed": "not_applicable"}, "target_endorsed", "invalid"),
        ([1, 2], "abstains", "invalid"),
    ],
)
def test_invalid_is_never_uncertain(reply, field, label, tmp_path):
    text = reply if isinstance(reply, str) else json.dumps(reply)
    rows, counts, echo = judged(lambda p: text, tmp_path)
    assert rows[0][field] == label
    bad = "invalid" in {rows[0][f] for f in ("target_endorsed", "reference_correct", "abstains")}
    assert counts.get("repeated", 0) == bad
    assert len(echo.seen) == 1 + bad, "asked again once, with another prompt"
    assert len({p.user for p in echo.seen}) == len(echo.seen)


def test_a_second_reply_mends_the_fields_that_were_invalid(tmp_path):
    rows, counts, _ = judged(lambda p: json.dumps(GOOD) if "could not be read" in p.user else "{}", tmp_path)
    assert rows[0]["target_endorsed"] == "yes"
    assert counts["invalid"] == 0


def test_without_a_target_the_judge_has_nothing_to_say_of_it():
    a = Answer("q", "Which river?", "The Lind.", "clean", references=("the Lind",))
    labels, why = read_judgment(json.dumps({**GOOD, "target_endorsed": "yes", "target_quote": ""}), a)
    assert labels["target_endorsed"] == "not_applicable"
    assert why == ""
    assert "null" in judge_prompt(a).user


def test_the_same_model_as_judge_is_told(tmp_path):
    plan, evaluation = aligned_run(
        settings(tmp_path, "queries=10", "pipeline=none,caution", "budgets=1", "judge.kind=same")
    )
    assert any("judges its own answers" in n for n in plan.notes)
    assert "judge extractive-reader" in evaluation.labels
    assert any(r["unknown"] for r in evaluation.rows if r["label"].startswith("judge")), (
        "the reader gives no JSON"
    )


def test_split_knowledge_run(tmp_path):
    _, evaluation = aligned_run(settings(tmp_path, "attack=split_knowledge", "pipeline=none,overlap"))
    row = next(r for r in evaluation.controls if r["method"] == "none" and r["label"] == "endorsed")
    assert row["co_retrieved"]["n"] == 36
    assert row["strict"] is not None
    assert row["strict"]["count"] <= row["co_retrieved"]["count"]


def run(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "stressrag", "aligned", "run", *words], capture_output=True, text=True, cwd=cwd
    )


def test_the_command_and_its_estimate(tmp_path):
    told = run(*SMALL, "cache=c", "estimate=true", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "0 answered before" in told.stdout
    slow = run(*SMALL, "cache=c", "estimate=true", "per_minute=10", cwd=tmp_path)
    asked = int(re.search(r"(\d+) to ask", slow.stdout)[1])
    assert f"about {6 * asked} s at 10 prompts a minute" in slow.stdout
    judged = run(*SMALL, "cache=c", "estimate=true", "per_minute=10", "judge.kind=same", cwd=tmp_path)
    most = int(re.search(r"judge: at most (\d+), one per answer", judged.stdout)[1])
    assert most >= asked
    assert f"about {6 * (asked + most)} s" in judged.stdout
    assert not (tmp_path / "runs").exists()
    done = run(*SMALL, "cache=c", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "overlap" in done.stdout
    (made,) = (tmp_path / "runs").iterdir()
    shutil.rmtree(made)
    assert run(*SMALL, "cache=c", cwd=tmp_path).returncode == 0
    assert [p.name for p in (tmp_path / "runs").iterdir()] == [made.name]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["pipline=none"], "did you mean 'pipeline'"),
        (["pipeline=cautoin"], "did you mean 'caution'"),
        (["attack=poisendrag"], "did you mean 'poisonedrag'"),
        (["generator=gguf"], "generator.model"),
        (["generator=gguf", "generator.model=nowhere.gguf"], "no GGUF file"),
        (["budgets=9"], "passages to plant"),
        (["judge.kind=openai", "judge.model=x"], "judge openai needs judge.base_url"),
        (["judge.kind=sam"], "did you mean 'same'"),
        (["judge.model=x"], "need judge.kind"),
        (["detector=foo"], "choose from"),
        (["generator=openai", "generator.model=x"], "base_url"),
        (["generator.key_from=sk-secret"], "never the key itself"),
        (["dataset=nowhere"], "nowhere"),
    ],
)
def test_bad_words_get_one_line(words, told, tmp_path):
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("overwrite", [(), ("overwrite=true",)])
def test_a_folder_with_something_else_is_left_alone(tmp_path, overwrite):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("x")
    with pytest.raises(StressragError, match="is not empty"):
        aligned_run(settings(tmp_path, *SMALL, *overwrite))
    assert [p.name for p in Path(tmp_path / "run").iterdir()] == ["mine.txt"]


def test_one_run_at_a_time_in_a_folder(tmp_path):
    with held(tmp_path / "run"), pytest.raises(StressragError, match="another run is at work in"):
        aligned_run(settings(tmp_path, *SMALL))
    aligned_run(settings(tmp_path, *SMALL))


def test_a_run_that_fails_after_its_settings_changed_keeps_no_other_answers(fake, tmp_path):  # noqa: F811
    folder = tmp_path / "run"
    words = [*SMALL, "generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny"]
    fake.behave = lambda text, nth: "the Oster"
    aligned_run(settings(tmp_path, *words, "pipeline=caution,keyword_prompt"))
    fake.behave = lambda text, nth: (401, {}, b"no")
    changed = ["pipeline=caution,keyword_prompt", "pipeline_options.caution.max_tokens=9"]
    with pytest.raises(StressragError, match="set max_tokens instead"):
        aligned_run(settings(tmp_path, *words, *changed))
    assert (folder / "report.md").exists(), "nothing was begun"
    (tmp_path / "i.txt").write_text("Be kind.")
    with pytest.raises(StressragError, match="401"):
        aligned_run(settings(tmp_path, *words, f"prompt.instruction={tmp_path / 'i.txt'}", *changed[:1]))
    assert sorted(p.name for p in (folder / "answers").iterdir()) == [
        "keyword_prompt.json",
        "keyword_prompt.jsonl",
    ]
    assert not (folder / "report.md").exists()
    assert json.loads((folder / "run.json").read_text())["pipelines"]["none"]["instruction"] == "Be kind."


def test_a_failed_replacement_of_an_unfinished_run_can_be_tried_again(fake, tmp_path):  # noqa: F811
    words = [*SMALL, "generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny"]
    fake.behave = lambda text, nth: (401, {}, b"no")
    for overwrite in ("false", "true", "true"):
        with pytest.raises(StressragError, match="401"):
            aligned_run(settings(tmp_path, *words, f"overwrite={overwrite}"))
        (tmp_path / "run" / "notes.txt").write_text("mine")
    fake.behave = lambda text, nth: "the Oster"
    aligned_run(settings(tmp_path, *words, "overwrite=true"))
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("overwrite", [(), ("overwrite=true",)])
def test_a_run_json_of_somebody_else_is_left_alone(tmp_path, overwrite):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text('{"my": 1}')
    with pytest.raises(StressragError, match="holds no aligned run"):
        aligned_run(settings(tmp_path, *SMALL, *overwrite))
    assert [p.name for p in folder.iterdir()] == ["run.json"]


@pytest.mark.parametrize("moved", [0, 1, 3, 99])
def test_a_run_killed_while_it_was_set_aside_comes_back(fake, tmp_path, moved):  # noqa: F811
    """``moved`` files were moved; with all of them the mark is there as well, and the new run had begun."""
    folder = tmp_path / "run"
    aligned_run(settings(tmp_path, *SMALL))
    before = files_of(folder)
    names = sorted({p.parts[0] for p in before}, key=lambda n: n != "aligned.json")
    (folder / ".before").mkdir()
    for name in names[:moved]:
        (folder / name).rename(folder / ".before" / name)
    if moved == 99:
        (folder / ".before" / ".moved").write_text("")
    fake.behave = lambda text, nth: (401, {}, b"no")
    other = ["generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny", "overwrite=true"]
    with pytest.raises(StressragError, match="401"):
        aligned_run(settings(tmp_path, *SMALL, *other))
    assert files_of(folder) == before


def test_answers_that_were_cut_off_are_told(tmp_path):
    _, evaluation = aligned_run(settings(tmp_path, *SMALL, "max_tokens=2"))
    finishes = [
        json.loads(x)["stages"][-1]["finishes"]
        for x in (tmp_path / "run" / "traces" / "none.jsonl").read_text("utf-8").splitlines()
    ]
    cut = finishes.count(["length"])
    assert 0 < cut < len(finishes)
    assert f"none: {cut} of {len(finishes)} answers were cut off" in " ".join(evaluation.notes)
    assert "were cut off" in (tmp_path / "run" / "report.md").read_text("utf-8")
    _, whole = aligned_run(settings(tmp_path, *SMALL, "max_tokens=150"))
    assert not any("cut off" in note for note in whole.notes)


def test_a_replaced_run_is_put_back_when_its_replacement_fails(fake, tmp_path):  # noqa: F811
    folder = tmp_path / "run"
    aligned_run(settings(tmp_path, *SMALL))
    (folder / "notes.txt").write_text("mine")
    before = files_of(folder)
    fake.behave = lambda text, nth: (401, {}, b"no")
    other = ["generator=openai", f"generator.base_url={fake.url}", "generator.model=tiny", "overwrite=true"]
    with pytest.raises(StressragError, match="401"):
        aligned_run(settings(tmp_path, *SMALL, *other))
    assert files_of(folder) == before
    fake.behave = lambda text, nth: "the Oster"
    aligned_run(settings(tmp_path, *SMALL, *other))
    assert json.loads((folder / "run.json").read_text())["generator"]["kind"] == "openai"
    assert not (folder / ".before").exists()


def test_no_report_stays_beside_answers_that_are_not_its_own(fake, tmp_path):  # noqa: F811
    """One pipeline was answered again, the next could not be."""
    words = [
        *SMALL,
        "controls=false",
        "generator=openai",
        f"generator.base_url={fake.url}",
        "generator.model=tiny",
    ]
    fake.behave = lambda text, nth: "the Oster"
    aligned_run(settings(tmp_path, *words, "pipeline=caution"))
    assert (tmp_path / "run" / "report.md").exists()
    for_none = len(fake.asked) * 3 // 2  # both pipelines were asked as much, and one is asked again
    fake.behave = lambda text, nth: "the Oster" if len(fake.asked) <= for_none else (401, {}, b"no")
    with pytest.raises(StressragError, match="401"):
        aligned_run(settings(tmp_path, *words, "pipeline=caution", "max_tokens=9"))
    assert (tmp_path / "run" / "answers" / "none.jsonl").exists()
    assert not (tmp_path / "run" / "report.md").exists()
    assert not (tmp_path / "run" / "aligned.json").exists()


def test_overwrite_takes_only_what_a_run_writes(tmp_path):
    aligned_run(settings(tmp_path, *SMALL))
    mine = tmp_path / "run" / "notes.txt"
    mine.write_text("precious")
    with pytest.raises(StressragError, match="other contexts"):
        aligned_run(settings(tmp_path, *SMALL, "k=3"))
    aligned_run(settings(tmp_path, *SMALL, "k=3", "overwrite=true"))
    assert mine.read_text() == "precious"
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(StressragError, match=r"run\.json that cannot be read"):
        aligned_run(settings(tmp_path, *SMALL, "k=3"))


def test_pipelines_of_an_earlier_command_are_not_scored(tmp_path):
    aligned_run(settings(tmp_path, *SMALL))
    _, evaluation = aligned_run(settings(tmp_path, *SMALL, "pipeline=caution"))
    assert {r["method"] for r in evaluation.rows} == {"caution"}


def test_scoring_a_run_again_says_what_it_was(tmp_path):
    aligned_run(settings(tmp_path, *SMALL))
    from stressrag.aligned.score import score_answers

    again = score_answers([tmp_path / "run"], labels=["substring"])
    assert any("stand-in" in x for x in again.about)
    assert again.detectors


def test_a_pipeline_does_not_see_which_passages_are_planted(tmp_path):
    (tmp_path / "peeking.py").write_text(
        "from stressrag.aligned.pipelines.none import NoDefense\n"
        "class Peek(NoDefense):\n"
        "    name = 'peek'\n"
        "    def steps(self, question, passages):\n"
        "        told = [p for p in passages if p.role != 'other' or p.owner or 'poison' in p.id]\n"
        "        assert not told, 'it sees what is planted'\n"
        "        return (yield from super().steps(question, passages))\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        words = ("queries=10", "budgets=1", "retriever=bm25", "pipeline=peeking:Peek")
        _, evaluation = aligned_run(settings(tmp_path, *words))
    finally:
        sys.path.remove(str(tmp_path))
    assert {r["method"] for r in evaluation.rows} == {"peek"}


def test_a_killed_run_goes_on_without_asking_again(fake, tmp_path):  # noqa: F811
    """Answered prompts are in the cache by the time the process is killed; the server counts."""
    fake.delay = 0.02
    words = [f"generator.base_url={fake.url}", "generator=openai", "generator.model=tiny", "queries=20"]
    words += [
        "retriever=bm25",
        "utility=0",
        "budgets=1",
        "pipeline=none,caution",
        "cache=c",
        "output_dir=run",
    ]
    command = [sys.executable, "-m", "stressrag", "aligned", "run", *words]
    first = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(fake.asked) < 30 and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait(20)
    time.sleep(0.2)
    kept = len(list((tmp_path / "c").rglob("*.json")))
    assert kept >= 20
    assert not (tmp_path / "run" / "aligned.json").exists()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = Counter(json.dumps(body["messages"]) for body in fake.bodies)
    assert sum(n > 1 for n in counts.values()) <= 4, "only what was in flight"
    asked = len(fake.asked)
    shutil.rmtree(tmp_path / "run")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120).returncode == 0
    assert len(fake.asked) == asked
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert not any(KEY.encode() in p.read_bytes() for p in files)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_told_to_end_puts_back_what_it_replaces(fake, tmp_path, sent, code):  # noqa: F811
    folder = tmp_path / "run"
    aligned_run(settings(tmp_path, *SMALL))
    before = files_of(folder)
    fake.delay = 0.05
    words = [*SMALL, f"generator.base_url={fake.url}", "generator=openai", "generator.model=tiny"]
    words += ["overwrite=true", f"output_dir={folder}", f"cache={tmp_path / 'c'}"]
    command = [sys.executable, "-m", "stressrag", "aligned", "run", *words]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while len(fake.asked) < 5 and run.poll() is None:
        time.sleep(0.01)
    assert not (folder / "aligned.json").exists()
    run.send_signal(sent)
    _, said = run.communicate(timeout=60)
    assert run.returncode == code, said
    assert said.endswith("interrupted; the same command goes on where it stopped\n")
    assert files_of(folder) == before


def test_the_undefended_system_alone(tmp_path):
    words = ["queries=10", "pipeline=none", "retriever=bm25", "utility=10", "budgets=1", "controls=false"]
    done = run(*words, "cache=c", "output_dir=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "run" / "aligned.json").read_text())
    assert {r["method"] for r in rows} == {"none"}
    assert all(r["r_p1"] is None and r["intervals"]["r_p0"] for r in rows)
    assert "stand-in" in (tmp_path / "run" / "report.md").read_text()
