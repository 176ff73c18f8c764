"""What the verbs on labels, audits and detectors make of files that are wrong: one line, nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stressrag.aligned.audit import audit_export
from stressrag.aligned.audit_import import audit_import
from stressrag.aligned.contexts import read_contexts
from stressrag.aligned.detect import evaluate
from stressrag.aligned.detector_output import read_detection, table_rows, write_detection
from stressrag.aligned.judgments import FIELDS, read_labels
from stressrag.aligned.read import problems_of
from stressrag.aligned.records import Answer
from stressrag.cli.main import dispatch
from stressrag.collection.beir import parse_line
from stressrag.collection.json_text import DEEPEST, NotJson, parse
from stressrag.collection.problems import ProblemLog
from stressrag.errors import StressragError, brief, line_of
from stressrag.records.files import write_json, write_text, write_together

DEEP = "[" * 100_000


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, rows):
    lines = [r if isinstance(r, str) else json.dumps(r) for r in rows]
    Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


def refused(capsys, *argv):
    """The line that a command is refused with."""
    assert dispatch(["aligned", *map(str, argv)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    assert told.startswith("error: ")
    assert len(told) < 400
    return told


def label(i=1, **more):
    row = {
        "question": "Which river?",
        "answer": f"The Oster, {i}.",
        "target": "the Oster",
        "references": ["the Lind"],
    }
    return {**row, "target_endorsed": "yes", "reference_correct": "no", "abstains": "no", **more}


# ---- JSON --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "b": 2, "a": 1}', "the key 'a' stands twice"),
        ('{"x": {"a\\n": 1, "a\\n": 2}}', r"the key 'a\n' stands twice"),
        ('{"a": "\\ud800"}', "without its other half"),
        (DEEP, "nested too deeply"),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), "nested too deeply"),
        ('{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), "nested too deeply"),
        ("1" * 5000, "too many digits"),
        ("{", "at column 2"),
        ("{\n", "at line 2, column 1"),
    ],
)
def test_json_that_is_refused(text, message):
    with pytest.raises(NotJson) as e:
        parse(text)
    assert message in str(e.value)
    log = ProblemLog()
    assert parse_line(text, "f", 3, log) is None
    assert str(log.problems()[0]).startswith("f:3: error: ")


def test_json_that_is_read():
    levels = "[" * DEEPEST + "]" * DEEPEST
    assert json.dumps(parse(levels)) == levels
    many = [[i] for i in range(1000)]
    assert parse(json.dumps({"a": many, "b": "[" * 500})) == {"a": many, "b": "[" * 500}
    assert parse('"\\ud83d\\ude00"') == "😀"


def test_brief_is_one_line_and_short():
    assert brief("a\nb") == r"'a\nb'"
    for value in ("x" * 10**6, ["y" * 100], 10**5000, {"a": "\n" * 99}):
        assert len(brief(value)) <= 60
        assert "\n" not in brief(value)
    assert line_of("plain name") == "plain name"


# ---- files -------------------------------------------------------------------------------------------


def test_text_that_is_no_unicode_is_refused_whole(tmp_path):
    for put in (write_text, write_json):
        with pytest.raises(StressragError, match=r"cannot write .*out.*no Unicode") as e:
            put(tmp_path / "out", "an id \ud800")
        assert "\n" not in str(e.value)
    assert not list(tmp_path.iterdir())


def test_several_files_or_none(tmp_path):
    (tmp_path / "folder").mkdir()
    for wrong, text in (("b", "\udcff"), ("folder", "b"), ("a/under", "b")):
        (tmp_path / "a").write_text("old")
        with pytest.raises(StressragError, match="cannot write"):
            write_together({tmp_path / "a": "new", tmp_path / wrong: text})
        assert (tmp_path / "a").read_text() == "old"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "folder"]


# ---- agreement ---------------------------------------------------------------------------------------


def test_a_source_called_like_a_rule_is_refused(capsys):
    write("g.jsonl", [label(i) for i in range(4)])
    write("judge.jsonl", [label(i, target_endorsed="no", source="endorsed") for i in range(4)])
    assert "'endorsed' like a rule" in refused(capsys, "agreement", "g.jsonl", "--judge", "judge.jsonl")
    write("judge.jsonl", [label(i, source="gpt") for i in range(4)])
    assert dispatch(["aligned", "agreement", "g.jsonl", "--judge", "judge.jsonl"]) == 0


@pytest.mark.parametrize("target", ["g.jsonl", "judge.jsonl", "./g.jsonl", "link", "answers/a.jsonl"])
def test_agreement_never_writes_over_what_it_reads(capsys, target):
    for name in ("g.jsonl", "judge.jsonl"):
        write(name, [label()])
    Path("answers").mkdir()
    write("answers/a.jsonl", [{"query_id": "q", "condition": "clean", "question": "?", "answer": "."}])
    Path("link").symlink_to("g.jsonl")
    argv = ["g.jsonl", "--judge", "judge.jsonl", "--answers", "answers@budget=1", "--json", target]
    before = Path(target).read_bytes()
    assert "one of the files that are read" in refused(capsys, "agreement", *argv)
    assert Path(target).read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": ["a"]}, "g.jsonl:2: target is no text"),
        ({"references": {"a": 1}}, "g.jsonl:2: references is no list of texts"),
        ({"references": 5}, "g.jsonl:2: references is no list of texts"),
        ({"references": [["a"]]}, "g.jsonl:2: references is no list of texts"),
        ({"question": None}, "g.jsonl:2: question is null"),
        ({"answer": 7}, "g.jsonl:2: answer is no text"),
    ],
)
def test_label_rows_of_wrong_types(capsys, changes, message):
    write("g.jsonl", [label(0), label(**changes)])
    assert message in refused(capsys, "agreement", "g.jsonl")


def test_labels_without_keys_are_of_the_answers_beside_them(capsys):
    rows = [label(i) for i in range(3)]
    del rows[0]["references"], rows[1]["target"], rows[1]["target_endorsed"]
    rows[2]["references"] = "the Lind"
    write("g.jsonl", rows)
    assert dispatch(["aligned", "agreement", "g.jsonl", "--json", "out.json"]) == 0
    found = {(r["label"], r["field"]): r["n"] for r in json.loads(Path("out.json").read_text())}
    assert found["endorsed", "target_endorsed"] == 2
    assert found["rule", "abstains"] == 3
    # The same shown twice from two sources of references: the row says which.
    twice = [label(reference_source=s) for s in ("x", "y")]
    answers = [
        Answer(s, r["question"], r["answer"], "clean", target=r["target"], references=("the Lind",))
        for s, r in zip("xy", twice, strict=True)
    ]
    answers = [Answer(**{**vars(a), "reference_source": a.query_id}) for a in answers]
    assert read_labels([write("t.jsonl", twice)], answers).missing == {"t": 0}


def test_labels_of_other_answers(capsys):
    row = {"query_id": 3, "question": "?", "answer": "No.", "target": "the Oster"}
    write("a.jsonl", [{**row, "condition": c} for c in ("clean", "poisoned")])
    write("g.jsonl", [label()])
    argv = ["agreement", "g.jsonl", "--answers", "a.jsonl"]
    assert "none of its labels is of the answers at hand" in refused(capsys, *argv)
    write("g.jsonl", [{"query_id": 3, "abstains": "no"}])
    assert dispatch(["aligned", *argv]) == 0
    capsys.readouterr()
    told = refused(capsys, *argv, "--judge", write("j.jsonl", [label()]))
    assert "none of the labels of 'j' is of the answers at hand" in told
    write("mixed.jsonl", [label(), {"key": "0" * 64, "abstains": "no"}])
    assert "1 of its labels are of answers that it does not hold" in refused(
        capsys, "agreement", "mixed.jsonl"
    )


@pytest.mark.parametrize("indent", [None, 1])
def test_what_the_page_saved_is_for_audit_import(capsys, indent):
    Path("labels.json").write_text(json.dumps({"packet": "x", "annotator": "a", "labels": {}}, indent=indent))
    assert "aligned audit-import" in refused(capsys, "agreement", "labels.json")
    write("g.jsonl", [label()])
    assert "aligned audit-import" in refused(capsys, "agreement", "g.jsonl", "--judge", "labels.json")


def test_empty_labels(capsys):
    write("g.jsonl", [label()])
    for name, rows in (("e.jsonl", []), ("b.jsonl", ["", " "])):
        write(name, rows)
        assert f"{name}: holds no label" in refused(capsys, "agreement", "g.jsonl", "--judge", name)
        assert f"{name}: holds no label" in refused(capsys, "agreement", name)
    assert "none of target_endorsed" in refused(capsys, "agreement", write("n.jsonl", [{"key": "x"}]))


# ---- record files ------------------------------------------------------------------------------------


def artifact(**changes):
    record = {"id": "q", "cell": "p5_k10", "method": "m", "conditions": {"clean_undefended": "o"}}
    value = {
        "kind": "factorial_records",
        "axes": {"dataset": "d"},
        "outputs": {"o": {"question": "?", "answer": "."}},
        "records": [{**record, **changes.pop("record", {})}],
        "utility": [{"id": "u", "method": "m", "before": "o", "after": "o"}],
    }
    return {**value, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": [None]}, "record 1: is no object: None"),
        ({"records": ["x"]}, "record 1: is no object: 'x'"),
        ({"record": {"conditions": ["clean"]}}, "record 1: conditions is no object"),
        ({"record": {"conditions": "clean"}}, "record 1: conditions is no object"),
        ({"record": {"conditions": {"clean": ["o"]}}}, "conditions: 'clean' names no output: ['o']"),
        ({"record": {"conditions": {"clean": "gone"}}}, "an output that is not there: 'gone'"),
        ({"record": {"controls": ["o"]}}, "record 1: controls is no object"),
        ({"record": {"cell": "p" + "1" * 5000}}, "a budget of more than 9 digits"),
        ({"record": {"id": None}}, "record 1: has no id"),
        ({"record": {"id": ["q"]}}, "record 1: id is no text"),
        ({"record": {"method": {}}}, "record 1: method is no text"),
        ({"utility": [1]}, "utility 1: is no object: 1"),
        ({"utility": 5}, "utility is no list: 5"),
        ({"utility": [{"id": "u", "before": ["o"]}]}, "'before' names no output"),
        ({"axes": ["d"]}, "axes is no object"),
        ({"outputs": {"o": None}}, "an output that is no object: 'o'"),
        ({"sha256": "0"}, "its sha256 does not fit"),
        ({"kind": ["x"]}, "no record file"),
    ],
)
def test_record_files_with_surprises(changes, message):
    Path("r.json").write_text(json.dumps(artifact(**changes)))
    told = [str(p) for p in problems_of("r.json")[1] if p.severity == "error"]
    assert message in told[0]
    assert all("\n" not in t and len(t) < 300 for t in told)


def test_record_files_that_cannot_be_read():
    assert len([a for a in problems_of_text(json.dumps(artifact()))[0] if a.split == "utility"]) == 2
    for text, message in (
        (DEEP, "nested too deeply"),
        (json.dumps(artifact(sha256="0", axes={"dataset": "\ud800"})), "without its other half"),
        ('{"kind": 1, "kind": 2}', "the key 'kind' stands twice"),
        ("{", "broken JSON"),
    ):
        assert message in str(problems_of_text(text)[1][0])


def problems_of_text(text):
    Path("r.json").write_text(text)
    return problems_of("r.json")


# ---- audits ------------------------------------------------------------------------------------------


def exported(flips=False):
    answers, rule = [], {}
    for i in range(8):
        for method in ("none", "m"):
            a = Answer(f"q{i}", f"{i}?", f"{method} {i}", "poisoned", method, target="t")
            answers.append(a)
            rule[a.key] = (method == "none") == (i % 2 == 0)
    audit_export(answers, "audit", items=4, automatic={"rule": rule}, flips=flips)
    key = json.loads(Path("audit/key.json").read_text())
    verdict = dict.fromkeys(FIELDS, "no")
    saved = {"packet": key["packet"], "annotator": "ann", "labels": dict.fromkeys(key["answers"], verdict)}
    Path("ann.json").write_text(json.dumps(saved))
    return key, saved


def first(key):
    return next(iter(key["answers"].values()))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda k: k.pop("packet"), "'packet' is missing"),
        (lambda k: k.pop("answers"), "'answers' is missing"),
        (lambda k: k.pop("mode"), "'mode' is missing"),
        (lambda k: k.update(mode=["x"]), "mode is ['x']"),
        (lambda k: k.update(answers=[]), "answers is no object"),
        (lambda k: k.update(items=None), "items is no list"),
        (lambda k: k.update(items=[]), "items show 0 answers"),
        (lambda k: k["items"].append(k["items"][0]), "items show 4 answers"),
        (lambda k: k["items"][0].pop("weight"), "item 1: 'weight' is missing"),
        (lambda k: k["items"][0].update(weight="x"), "item 1: weight is 'x'"),
        (lambda k: k["items"][0].update(weight=float("nan")), "item 1: weight is nan"),
        (lambda k: k["items"][0].update(weight=-1), "item 1: weight is -1"),
        (lambda k: k["items"][0].update(weight=10**400), "item 1: weight is 1000"),
        (lambda k: k["items"][0].update(answers=[["x"]]), "item 1: there is no answer ['x']"),
        (lambda k: first(k).update(automatic=None), "automatic is no object"),
        (lambda k: first(k).update(automatic={}), "the same rules"),
        (lambda k: first(k).update(automatic={"rule": "yes"}), "automatic 'rule' is neither true"),
        (lambda k: first(k).update(judge={"abstains": ["x"]}), "abstains of the judge is ['x']"),
        (lambda k: first(k).update(rows=[{}]), "'condition' is missing"),
        (lambda k: k.update(population="x"), "population is 'x'"),
        (lambda k: k.update(mode="flips"), "no object in an audit of flips"),
        (
            lambda k: k.update(mode="flips", population={"prevention": 1, "introduction": 1}),
            "item 1 has 1 answers, which does not fit the mode 'flips'",
        ),
    ],
)
def test_key_files_edited_by_hand(capsys, edit, message):
    key, _ = exported()
    edit(key)
    Path("audit/key.json").write_text(json.dumps(key))
    told = refused(capsys, "audit-import", "audit", "ann.json")
    assert message in told
    assert "key.json" in told
    assert sorted(p.name for p in Path("audit").iterdir()) == ["key.json", "packet.html"]


def test_key_files_as_written_are_read():
    for flips in (False, True):
        exported(flips)
        assert audit_import("audit", ["ann.json"])["items"] == 4
        for path in Path("audit").iterdir():
            path.unlink()


@pytest.mark.parametrize("text", [DEEP, "{", '{"kind": 1, "kind": 1}', "\udcff"])
def test_key_files_that_are_no_json(capsys, text):
    exported()
    Path("audit/key.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "audit/key.json: " in refused(capsys, "audit-import", "audit", "ann.json")


def test_labels_that_cannot_be_written_leave_nothing(capsys):
    _, saved = exported()
    some = next(iter(saved["labels"]))
    for more in ({"annotator": "\ud800"}, {"notes": {some: "\ud800"}}):
        Path("ann.json").write_text(json.dumps({**saved, **more}))
        assert "ann.json: an escape" in refused(capsys, "audit-import", "audit", "ann.json")
    Path("ann.json").write_text(json.dumps({**saved, "annotator": "a\nb" + "c" * 99}), "utf-8-sig")
    Path("taken/agreement.json").mkdir(parents=True)
    argv = ["audit-import", "audit", "ann.json", "--overwrite", "--out", "taken/labels.jsonl"]
    assert "cannot write taken/agreement.json" in refused(capsys, *argv)
    assert not Path("taken/labels.jsonl").exists()
    assert dispatch(["aligned", "audit-import", "audit", "ann.json"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) < 160


def test_numbers_and_homes_in_options(capsys):
    write("a.jsonl", [{"query_id": "q", "condition": "clean", "question": "?", "answer": "."}])
    for option in ("--items", "--random", "--seed"):
        told = refused(capsys, "audit-export", "a.jsonl", "--out", "o", option, "1" * 5000)
        assert f"{option} 111" in told
        assert "at most 9 digits" in told
    home = "~nosuchuser/x"
    for argv in (
        ["audit-export", "a.jsonl", "--out", home],
        ["audit-export", home, "--out", "o"],
        ["audit-export", "a.jsonl", "--out", "o", "--judge", home],
        ["audit-import", home, "a.jsonl"],
        ["audit-import", "o", "a.jsonl", "--out", home],
        ["audit-import", "o", "a.jsonl", "--adjudication", home],
        ["agreement", home],
        ["agreement", "a.jsonl", "--answers", home],
        ["agreement", "a.jsonl", "--judge", home],
        ["agreement", "a.jsonl", "--json", home],
        ["detect", home],
        ["detect", "a.jsonl", "--out", home],
        ["detect", "a.jsonl", "--calibration", home],
        ["detect", "a.jsonl", "--check", home],
    ):
        assert "no home folder ~nosuchuser" in refused(capsys, *argv), argv
    assert "is no path" in refused(capsys, "audit-import", "o\0", "a.jsonl")
    assert [p.name for p in Path().iterdir()] == ["a.jsonl"]


# ---- detectors ---------------------------------------------------------------------------------------


def rows(calibrate=20, attacked=4, **more):
    """Answers with contexts; calibration and check queries, and attacked ones."""

    def one(name, condition, split, high, poison=False):
        roles = ["poison" if poison else "other", "other"]
        context = [{"id": "p", "score": s, "role": r} for s, r in zip((high, 0.0), roles, strict=True)]
        row = {"query_id": name, "question": "?", "answer": "The Lind.", "condition": condition}
        return {**row, "split": split, "references": ["the Lind"], "context": context, **more}

    out = [one(f"c{i}", "clean", "calibration", 1.0 + i) for i in range(calibrate)]
    out += [one(f"u{i}", "clean", "utility", 1.0 + i) for i in range(calibrate)]
    for i in range(attacked):
        out.append(one(f"q{i}", "clean", "attack", 2.0))
        out.append({**one(f"q{i}", "poisoned", "attack", 99.0, True), "budget": 1, "target": "the Oster"})
    return out


def detect(*argv):
    return dispatch(["aligned", "detect", *argv])


def test_rows_that_every_verb_reads(capsys):
    assert detect(write("a.jsonl", rows()), "--rates", "5") == 0
    expected = capsys.readouterr().out

    def changed(**more):
        return lambda r: {**r, **more}

    edits = [
        changed(references="the Lind"),
        changed(dataset=None),
        changed(unknown=1),
        lambda r: {**r, "query_id": 1000 * "cuq".index(r["query_id"][0]) + int(r["query_id"][1:])},
        lambda r: {**r, "budget": 1.0} if "budget" in r else r,
        lambda r: {**r, "context": [{**p, "title": "T"} for p in r["context"]]},
        lambda r: {
            **r,
            "context": [{**p, "role": None if p["role"] == "other" else "poison"} for p in r["context"]],
        },
        lambda r: {**r, "condition": r["condition"] + "_undefended"},
    ]
    for edit in edits:
        assert detect(write("b.jsonl", [edit(r) for r in rows()]), "--rates", "5") == 0
        shown = capsys.readouterr()
        assert shown.out == expected
        assert ("unknown field" in shown.err) == ("unknown" in edit(rows()[0]))


def test_folders_and_parquet(capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert detect(write("a.jsonl", rows()), "--rates", "5") == 0
    expected = capsys.readouterr().out
    Path("run/answers").mkdir(parents=True)
    table = {json.dumps(r["context"]): f"c{i}" for i, r in enumerate(rows())}
    by_id = [{**r, "context_id": table[json.dumps(r["context"])]} for r in rows()]
    write("run/answers/all.jsonl", [{k: v for k, v in r.items() if k != "context"} for r in by_id])
    write("run/contexts.jsonl", [{"context_id": n, "passages": json.loads(c)} for c, n in table.items()])
    pq.write_table(pa.Table.from_pylist([{"budget": None, "target": None, **r} for r in rows()]), "a.parquet")
    Path("folder").mkdir()
    write("folder/a.jsonl", rows())
    for path in ("run", "run/answers", "run/answers/all.jsonl", "a.parquet", "folder"):
        assert detect(path, "--rates", "5") == 0
        assert capsys.readouterr().out == expected
    assert detect("folder", "a.parquet", "--rates", "5") == 0  # the same rows again are the same rows
    assert capsys.readouterr().out == expected
    parts = {s: [r for r in rows() if r["split"] == s] for s in ("calibration", "utility", "attack")}
    write("q.jsonl", parts["attack"])
    for name in ("calibration", "utility"):
        Path(name).mkdir()
        write(f"{name}/a.jsonl", [{k: v for k, v in r.items() if k != "split"} for r in parts[name]])
    assert detect("q.jsonl", "--calibration", "calibration", "--check", "utility", "--rates", "5") == 0
    assert capsys.readouterr().out == expected


def test_embeddings_of_two_models(capsys):
    plain = [
        {
            "query_id": f"c{i}",
            "condition": "clean",
            "split": "calibration",
            "embeddings": [[1.0] * (3 + (i == 9))],
        }
        for i in range(20)
    ]
    assert "d.jsonl:10: embeddings of 4 numbers, and of 3 at d.jsonl:" in refused(
        capsys, "detect", write("d.jsonl", plain)
    )
    apart = [{**r, "retriever": str(len(r["embeddings"][0]))} for r in plain]
    told = refused(capsys, "detect", write("d.jsonl", apart))  # of two retrievals: another complaint
    assert "embeddings of" not in told


def test_problems_of_a_kind_are_told_once(capsys):
    bad = {"query_id": "c", "condition": "clean", "split": "calibration"}
    told = refused(capsys, "detect", write("d.jsonl", [bad] * 90))
    assert "d.jsonl:1: scores and embeddings are both missing" in told
    assert "(90 times; also lines 2, 3, 4, …)" in told
    twice = '{"query_id": "a", "query_id": "b", "condition": "clean", "scores": [1]}'
    assert "d.jsonl:1: the key 'query_id'" in refused(capsys, "detect", write("d.jsonl", [twice]))
    surrogate = {"query_id": "\ud800", "condition": "clean", "scores": [1]}
    assert "d.jsonl:1: an escape" in refused(capsys, "detect", write("d.jsonl", [surrogate]))


def test_rates_that_the_contexts_are_too_few_for(capsys):
    few = [r for r in rows(50) if r["split"] != "utility"]
    assert detect(write("a.jsonl", few), "--out", "o") == 0
    note = "too few clean calibration contexts for 1% (100 needed): there are 35 (50 were given, of which 15"
    assert note in capsys.readouterr().out
    results = json.loads(Path("o/detectors.json").read_text())
    assert results["rates"] == [5, 10, 20]
    told = refused(capsys, "detect", "a.jsonl", "--rates", "1,5")
    assert (
        "1% needs 100 clean calibration contexts or more, and there are 35 (50 were given, of which 15"
        in told
    )
    write("a.jsonl", [r for r in rows(5) if r["split"] != "utility"])
    assert "20% needs 5 clean calibration contexts or more, and there are 4 (5 were given" in refused(
        capsys, "detect", "a.jsonl"
    )


def test_rates_of_the_defended_answers(capsys):
    write("a.jsonl", rows(20))

    def methods(*argv):
        assert detect("a.jsonl", "--out", "o", "--detectors", "gap", *argv) == 0
        lines = Path("o/defended.jsonl").read_text().splitlines()
        return {json.loads(line)["method"] for line in lines}

    assert methods() == {"detector:gap@5%"}
    assert methods("--defend-rates", "10,20") == {"detector:gap@10%", "detector:gap@20%"}
    told = refused(capsys, "detect", "a.jsonl", "--out", "p", "--defend-rates", "1")
    assert "which was not evaluated; choose from 5, 10, 20" in told
    assert "--out FOLDER" in refused(capsys, "detect", "a.jsonl", "--defend-rates", "5")
    assert not Path("p").exists()
    before = Path("o/defended.jsonl").read_bytes()
    told = refused(capsys, "detect", "a.jsonl", "o/defended.jsonl", "--out", "o")
    assert "one of the files that are read" in told
    assert Path("o/defended.jsonl").read_bytes() == before


def detection():
    contexts, answers, problems = read_contexts([write("a.jsonl", rows())])
    assert not problems
    write_detection(evaluate(contexts, ["gap"], [5, 20]), "o", answers)
    return json.loads(Path("o/detectors.json").read_text())


def test_detections_as_written_are_read():
    results = detection()
    assert read_detection("o/detectors.json") == [r for r in table_rows(results) if r["occupancy"] is None]
    assert len(read_detection(Path("o/detectors.json"))) == 2


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda r: r.pop("cells"), "cells is missing"),
        (lambda r: r.update(cells={}), "cells: {} is no array"),
        (lambda r: r.update(calibrations=[None]), "calibrations[0]: null is no object"),
        (
            lambda r: r["cells"][0]["auroc"].update(value="x"),
            'cells[0].auroc.value: "x" is no number or null',
        ),
        (lambda r: r["cells"][0]["auroc"].update(value=7), "auroc, value: 7 is no share"),
        (lambda r: r["cells"][0].update(auroc=[1]), "cells[0].auroc: [1] is no object"),
        (lambda r: r["cells"][0].update(budget="1"), "budget"),
        (lambda r: r["cells"][0].update(budget=10**400), "above"),
        (lambda r: r["cells"][0].update(dataset=None), "cells[0].dataset: null is no string"),
        (lambda r: r["cells"][0].update(detector="other"), "no threshold of 'other' at 5%"),
        (lambda r: r["cells"][0].update(denominator=["x"]), "denominator"),
        (lambda r: r["cells"][0]["rates"][0]["intercepted"].update(rate="x"), "intercepted.rate"),
        (lambda r: r["cells"][0]["rates"][0]["intercepted"].update(low=None), "some are null"),
        (
            lambda r: r["cells"][0]["rates"][0]["intercepted"].update(high=float("nan")),
            "intercepted.high: NaN",
        ),
        (lambda r: r["cells"][0]["rates"][0].update(rate=[5]), "rates[0].rate"),
        (lambda r: r["calibrations"][0]["thresholds"][0].update(threshold=None), "threshold"),
    ],
)
def test_detections_edited_by_hand(edit, message):
    results = detection()
    edit(results)
    Path("o/detectors.json").write_text(json.dumps(results))
    with pytest.raises(StressragError, match=r"detectors\.json") as e:
        read_detection("o/detectors.json")
    assert message in str(e.value)
    assert "\n" not in str(e.value)
    assert len(str(e.value)) < 300


@pytest.mark.parametrize("text", [DEEP, "[]", "null", "{", '{"cells": [], "cells": []}', "\x00"])
def test_detections_that_are_none(text):
    Path("d.json").write_text(text)
    with pytest.raises(StressragError, match=r"d\.json"):
        read_detection("d.json")
    with pytest.raises(StressragError, match="cannot be read"):
        read_detection("gone.json")
