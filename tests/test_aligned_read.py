"""Reading and validating saved answers: the formats, and everything that can be wrong with them."""

import hashlib
import json
import subprocess
import sys

import pytest

from stressrag.aligned.read import gather, problems_of, read_answers, source
from stressrag.aligned.records import Answer, output_key
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError

BASE = {
    "query_id": "q1",
    "question": "Which river?",
    "answer": "The Lind.",
    "target": "the Oster",
    "references": ["the Lind"],
}
FOUR = ("clean_undefended", "poisoned_undefended", "clean_defended", "poisoned_defended")


def write(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows), "utf-8")
    return path


def folder(tmp_path, **rows):
    for name in FOUR:
        write(tmp_path / f"{name}.jsonl", rows.get(name, [BASE]))
    return tmp_path


def messages(*paths):
    return [str(p) for p in problems_of(paths)[1]]


def test_the_harness_layout(tmp_path):
    answers = read_answers([folder(tmp_path / "mine")])
    assert {(a.condition, a.method) for a in answers} == {
        (c, m) for c in ("clean", "poisoned") for m in ("none", "mine")
    }


def test_settings_after_an_at_sign_hold_where_a_row_has_none(tmp_path):
    folder(tmp_path / "mine", clean_defended=[{**BASE, "dataset": "own"}])
    answers = gather([f"{tmp_path / 'mine'}@method=m,budget=5,dataset=d"], ProblemLog())
    assert {(a.dataset, a.budget) for a in answers} == {("d", 5), ("own", 5)}
    assert {a.method for a in answers} == {"m", "none"}


@pytest.mark.parametrize(
    ("words", "hint"),
    [("budgit=1", "did you mean 'budget'"), ("budget=x", "no whole number"), ("method", "no setting")],
)
def test_settings_that_do_not_fit(tmp_path, words, hint):
    with pytest.raises(StressragError, match=hint):
        source(f"{tmp_path}@{words}")


def test_parquet_holds_the_same_rows(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            **BASE,
            "condition": c,
            "method": m,
            "budget": 1,
            "context": [{"id": "d", "score": 0.5, "role": "other"}],
        }
        for c in ("clean", "poisoned")
        for m in ("none", "m")
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    write(tmp_path / "b" / "a.jsonl", rows)
    assert read_answers([tmp_path / "a.parquet"]) == read_answers([tmp_path / "b"])


def artifact(tmp_path, change=None):
    """As the paper's harness writes it, from the facts of its layout."""
    shown = {
        "question": "Which river?",
        "target": "the Oster",
        "references": ["the Lind"],
        "reference_source": "x",
    }
    outputs, conditions = {}, {}
    for name, answer in zip(FOUR, ("The Lind.", "The Oster.", "The Lind.", "I don't know."), strict=True):
        key = output_key(shown["question"], shown["target"], tuple(shown["references"]), "x", answer)
        outputs[key], conditions[name] = {**shown, "answer": answer}, key
    value = {
        "kind": "external_four_condition_records",
        "version": "aligned-rag-eval-jsonl-v1",
        "method": "m",
        "outputs": outputs,
        "records": [
            {"id": "q1", "query": "Which river?", "group_id": "g1", "method": "m", "conditions": conditions}
        ],
    }
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    value["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    if change:
        change(value)
    path = tmp_path / "records.json"
    path.write_text(json.dumps(value))
    return path


def test_the_harness_record_file_and_its_hash(tmp_path):
    answers = read_answers([artifact(tmp_path)])
    assert {(a.condition, a.method): a.answer for a in answers}[("poisoned", "m")] == "I don't know."
    assert all(a.group == "g1" for a in answers)
    changed = artifact(tmp_path, lambda v: v["records"][0].update(group_id="g2"))
    assert any("changed after it was written" in m for m in messages(changed))


def test_keys_are_the_harness_ones():
    text = '{"answer":"Ä","question":"q","reference_source":"","references":["r"],"target":null}'
    assert output_key("q", None, ("r",), "", "Ä") == hashlib.sha256(text.encode()).hexdigest()
    assert Answer("1", "q", "Ä", "clean", references=("r",)).key == hashlib.sha256(text.encode()).hexdigest()


def test_all_problems_at_once_with_file_and_line(tmp_path):
    path = write(
        tmp_path / "a.jsonl",
        [
            {**BASE, "condition": "clean", "answer": None},
            "{broken",
            {**BASE, "condition": "cleen"},
            {**BASE, "condition": "poisoned", "budget": "many"},
            {**BASE, "condition": "poisoned", "answr": "x"},
            {k: v for k, v in BASE.items() if k != "question"} | {"condition": "clean"},
            {**BASE, "condition": "clean", "context": [{"score": "high"}]},
            {**BASE, "condition": "clean", "references": [""]},
            {**BASE, "condition": "clean_defended"},
        ],
    )
    told = messages(path)
    for line, part in [
        (1, "answer is null"),
        (2, "broken JSON"),
        (3, "did you mean 'clean'"),
        (4, "no whole number"),
        (5, "did you mean 'answer'"),
        (6, "no field 'question'"),
        (7, "no finite number"),
        (8, "list of texts"),
        (9, "name of its method"),
    ]:
        assert any(m.startswith(f"{path}:{line}:") and part in m for m in told), (line, part, told)


def test_contradictions_and_gaps(tmp_path):
    other = {**BASE, "query_id": "q2"}
    place = folder(
        tmp_path / "m",
        clean_undefended=[BASE, other],
        poisoned_undefended=[{**BASE, "target": "the Varn"}, other],
        clean_defended=[BASE, other, BASE | {"answer": "x"}],
    )
    told = " ".join(messages(place))
    assert "target is 'the Varn', but 'the Oster'" in told
    assert "1 of 2 queries are missing that other conditions have: 'q2'" in told
    assert "stands here with another answer" in told
    with pytest.raises(StressragError, match="more, all shown by: aligned validate"):
        read_answers([place])


def test_missing_conditions(tmp_path):
    write(tmp_path / "m" / "clean_undefended.jsonl", [BASE])
    with pytest.raises(StressragError, match=r"no poisoned_undefended\.jsonl"):
        read_answers([tmp_path / "m"])
    path = write(
        tmp_path / "a.jsonl",
        [
            {**BASE, "condition": c, "method": m}
            for c, m in (("clean", "none"), ("poisoned", "none"), ("poisoned", "m"))
        ],
    )
    assert any("no clean answers, method m" in m for m in messages(path))


def test_files_that_look_swapped_or_copied(tmp_path):
    rows = [{**BASE, "query_id": f"q{i}"} for i in range(12)]
    hit = [{**r, "answer": "The Oster."} for r in rows]
    swapped = folder(
        tmp_path / "s",
        clean_undefended=hit,
        poisoned_undefended=rows,
        clean_defended=rows,
        poisoned_defended=rows,
    )
    told = " ".join(messages(swapped))
    assert "swapped?" in told
    assert "undefended ones to the letter" in told
    sound = folder(
        tmp_path / "t",
        clean_undefended=rows,
        poisoned_undefended=hit,
        clean_defended=rows,
        poisoned_defended=rows,
    )
    assert "swapped?" not in " ".join(messages(sound))
    poison = {**BASE, "condition": "clean", "context": [{"text": "x", "role": "poison"}]}
    path = write(tmp_path / "a.jsonl", [poison, {**BASE, "condition": "poisoned"}])
    assert any("holds a poison passage" in m for m in messages(path))


def test_degenerate_targets_are_warnings(tmp_path):
    place = folder(tmp_path / "m", **{n: [{**BASE, "target": "no"}] for n in FOUR})
    told = messages(place)
    assert told
    assert all(": warning: " in m for m in told)
    assert any("yes or no" in m for m in told)
    assert any("two characters" in m for m in told)
    assert len(read_answers([place])) == 4


def validate(*words):
    return subprocess.run(
        [sys.executable, "-m", "stressrag", "aligned", "validate", *words], capture_output=True, text=True
    )


def test_validate_says_with_its_exit_code_what_it_found(tmp_path):
    good = folder(tmp_path / "good")
    assert validate(str(good)).returncode == 0
    bad = folder(tmp_path / "bad", clean_defended=[{**BASE, "answer": None}])
    done = validate(str(bad))
    assert done.returncode == 1
    assert "clean_defended.jsonl:1: error: answer is null" in done.stdout
    assert done.stderr == ""
    warned = folder(tmp_path / "warned", **{n: [{**BASE, "target": "22"}] for n in FOUR})
    assert validate(str(warned)).returncode == 0
    assert validate(str(warned), "--strict").returncode == 1
    absent = validate(str(tmp_path / "nowhere"))
    assert absent.returncode == 2
    assert "Traceback" not in absent.stderr
    assert absent.stderr.count("\n") == 1


def test_long_files_may_be_called_after_a_condition(tmp_path):
    """Without one of the harness's names a folder holds long files, whatever they are called."""
    write(
        tmp_path / "clean.jsonl",
        [{**BASE, "condition": "clean"}, {**BASE, "condition": "clean", "method": "m"}],
    )
    write(tmp_path / "poisoned.jsonl", [{**BASE, "condition": "poisoned"}])
    write(tmp_path / "mine.jsonl", [{**BASE, "condition": "poisoned", "method": "m"}])
    assert {(a.condition, a.method) for a in read_answers([tmp_path])} == {
        (c, m) for c in ("clean", "poisoned") for m in ("none", "m")
    }


def test_a_control_file_beside_the_four_keeps_its_methods(tmp_path):
    place = folder(tmp_path / "mine")
    write(place / "no_poison.jsonl", [{**BASE, "method": "m"}])
    write(place / "other.jsonl", [{**BASE, "condition": "clean"}])
    answers, problems = problems_of([place])
    assert [a.method for a in answers if a.condition == "no_poison"] == ["m"]
    assert any("other.jsonl" in str(p) and "is not read" in str(p) for p in problems)


def test_a_folder_called_none_needs_a_method(tmp_path):
    assert any("name the method as" in m for m in messages(folder(tmp_path / "none")))


def test_budgets_are_checked_one_by_one(tmp_path):
    """A method's rows serve every budget; a query that is missing at the second is found."""
    rows = [{**BASE, "query_id": q, "condition": "clean", "method": m} for q in "ab" for m in ("none", "m")]
    rows += [{**BASE, "query_id": q, "condition": "poisoned", "method": "m"} for q in "ab"]
    rows += [
        {**BASE, "query_id": q, "condition": "poisoned", "budget": b}
        for q, b in (("a", 1), ("b", 1), ("a", 5))
    ]
    told = messages(write(tmp_path / "a.jsonl", rows))
    assert any("budget 5" in m and "'b'" in m for m in told), told


def test_only_clean_rows_of_the_utility_split_are_read(tmp_path):
    rows = [{**BASE, "condition": c, "split": "utility"} for c in ("clean", "poisoned")]
    assert any("is not read; only clean is" in m for m in messages(write(tmp_path / "a.jsonl", rows)))


def test_odd_values_are_told_and_never_a_traceback(tmp_path):
    rows = [{**BASE, "condition": []}, {**BASE, "condition": "clean", "context": [{"score": 10**400}]}]
    told = messages(write(tmp_path / "a.jsonl", rows))
    assert any("condition is no text" in m for m in told)
    assert any("no finite number" in m for m in told)
    assert all(len(m) < 300 for m in told)
