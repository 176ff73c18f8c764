"""Every kind of problem, by file and line; and that nothing of a good file is lost."""

import gzip
import json
from pathlib import Path

import pytest

from stressrag.collection import load_folder
from stressrag.collection.problems import ProblemLog
from stressrag.collection.scan import scan_folder
from stressrag.errors import StressragError

CORPUS = ['{"_id": "d1", "title": "T", "text": "one"}', '{"_id": "d2", "text": "two"}']
QUERIES = ['{"_id": "q1", "text": "first"}', '{"_id": "q2", "text": "second"}']
QRELS = ["query-id\tcorpus-id\tscore", "q1\td1\t2", "q2\td2\t1"]


def write(folder: Path, *, corpus=CORPUS, queries=QUERIES, qrels=QRELS) -> Path:
    """A folder in the BEIR layout; ``None`` leaves a file out, bytes are written as they are."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, content in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)):
        if content is not None:
            raw = content if isinstance(content, bytes) else ("\n".join(content) + "\n").encode()
            (folder / name).write_bytes(raw)
    return folder


def found(folder: Path, **options) -> list[str]:
    """The problems as printed, the folder cut off."""
    return [str(p).replace(f"{folder}/", "") for p in scan_folder(folder, **options).problems]


def test_a_good_folder_has_no_problems(tmp_path):
    c = load_folder(write(tmp_path / "mine"))
    assert found(tmp_path / "mine") == []
    assert (c.name, c.split, list(c.notes)) == ("mine", "test", [])
    assert (c.corpus.ids, c.corpus.texts) == (["d1", "d2"], ["T one", "two"])
    assert c.qrels.grades == {"q1": {"d1": 2}, "q2": {"d2": 1}}


CORPUS_LINES = [
    ("{", "error: broken JSON: Expecting property name enclosed in double quotes at column 2"),
    ('["a"]', "error: not a JSON object but a list"),
    ("null", "error: not a JSON object but null"),
    ('{"text": "x"}', "error: '_id' is missing"),
    ('{"_id": "", "text": "x"}', "error: '_id' is empty"),
    ('{"_id": null, "text": "x"}', "error: '_id' is not a string but null"),
    ('{"_id": true, "text": "x"}', "error: '_id' is not a string but true or false"),
    ('{"_id": "d3"}', "error: 'text' is missing"),
    ('{"_id": "d3", "text": null}', "error: 'text' is not a string but null"),
    ('{"_id": "d3", "text": "x", "title": 7}', "error: 'title' is not a string but a number"),
    ('{"_id": "d1", "text": "x"}', "error: document id 'd1' again; first on line 1"),
    (
        r'{"_id": "d3", "text": "\ud83d"}',
        r"error: an escape \ud800 to \udfff without its other half is not text",
    ),
    ('{"_id": 3, "text": "x"}', "warning: '_id' is a number, taken as a string: 3"),
    ('{"_id": "d3", "text": " "}', "warning: the document has no text: 'd3'"),
    ('{"_id": "d3", "text": "x", "metadata": 1}', "warning: 'metadata' is not an object and is left out"),
]


@pytest.mark.parametrize(("line", "message"), CORPUS_LINES)
def test_corpus_lines(tmp_path, line, message):
    write(tmp_path, corpus=[*CORPUS, "", line])
    assert found(tmp_path) == [f"corpus.jsonl:4: {message}"]


QRELS_LINES = [
    ("q1\td2\t1.5", "error: the grade '1.5' is not an integer"),
    ("q1\td2\thigh", "error: the grade 'high' is not an integer"),
    ("q1\td2\t1_0", "error: the grade '1_0' is not an integer"),
    ("q1 d2 1", "error: needs 3 columns between tabs (query-id, corpus-id, score), has 1"),
    ("q1\t0\td2\t1", "error: needs 3 columns between tabs (query-id, corpus-id, score), has 4"),
    ("q1\td1\t1", "error: query 'q1' and document 'd1' are judged 1 here and 2 above"),
    ("q1\t\t1", "error: the document id is empty"),
    ("q1\td1\t2", "warning: the same judgment again: query 'q1', document 'd1'"),
    ("q1\td2\t1.0", "warning: the grade is written as a decimal, taken as an integer: 1.0"),
    ("q1\td2\t-1", "warning: a negative grade counts as not relevant: -1"),
    ("q9\td2\t1", "warning: the judged query is unknown, its judgments are not used: 'q9'"),
    ("q1\td9\t1", "warning: the judged document is not in the corpus: 'd9'"),
]


@pytest.mark.parametrize(("line", "message"), QRELS_LINES)
def test_qrels_lines(tmp_path, line, message):
    write(tmp_path, qrels=[*QRELS, line])
    assert found(tmp_path) == [f"qrels/test.tsv:4: {message}"]


def test_negative_grades_become_zero(tmp_path):
    write(tmp_path, qrels=[*QRELS, "q1\td2\t-2"])
    assert load_folder(tmp_path).qrels["q1"] == {"d1": 2, "d2": 0}


def test_a_missing_header_does_not_cost_the_first_row(tmp_path):
    write(tmp_path, qrels=QRELS[1:])
    assert found(tmp_path) == [
        "qrels/test.tsv:1: warning: no header line; the first line is taken as a judgment"
    ]
    assert load_folder(tmp_path).qrels.grades == {"q1": {"d1": 2}, "q2": {"d2": 1}}


def test_a_query_without_relevant_documents(tmp_path):
    write(tmp_path, qrels=[*QRELS[:2], "q2\td2\t0"])
    kind = "the query has no relevant document in the corpus"
    assert found(tmp_path) == [f"qrels/test.tsv:3: warning: {kind}: 'q2'"]


def test_warnings_of_one_kind_are_counted(tmp_path):
    write(tmp_path, qrels=[*QRELS, *(f"q1\tx{i}\t1" for i in range(6))])
    (problem,) = scan_folder(tmp_path).problems
    assert problem.count == 6
    assert problem.message.endswith(": 'x0' (6 times; also lines 5, 6, 7, …)")


def test_everything_at_once_in_order(tmp_path):
    write(tmp_path, corpus=["{", *CORPUS, "[]"], queries=[*QUERIES, "7"], qrels=[*QRELS, "q1"])
    assert [line.split(": ")[0] for line in found(tmp_path)] == [
        "corpus.jsonl:1",
        "corpus.jsonl:4",
        "queries.jsonl:3",
        "qrels/test.tsv:4",
    ]
    with pytest.raises(
        StressragError, match=r"corpus\.jsonl:1: error: broken JSON.* \(and 3 more errors\); run: "
    ):
        load_folder(tmp_path)


def test_query_without_text_stops_only_if_judged(tmp_path):
    write(tmp_path, queries=['{"_id": "q1", "text": ""}', QUERIES[1], '{"_id": "q3", "text": "\\u00a0"}'])
    assert found(tmp_path) == [
        "queries.jsonl:1: error: query 'q1' has no text but is judged",
        "queries.jsonl:3: warning: the query has no text (and no judgments in this split): 'q3'",
    ]


def test_nothing_there(tmp_path):
    message = (
        "error: there is no such folder; a BEIR folder holds corpus.jsonl, queries.jsonl and qrels/test.tsv"
    )
    assert str(scan_folder(tmp_path / "no").problems[0]).startswith(f"{tmp_path / 'no'}: {message}")
    write(tmp_path, corpus=None, queries=[], qrels=QRELS[:1])
    (tmp_path / "qrels" / "dev.tsv").write_text("")
    assert found(tmp_path)[0].startswith("corpus.jsonl: error: the file is missing; a BEIR folder holds")
    assert found(tmp_path)[1:] == [
        "qrels/test.tsv: error: holds no judgments",
        "queries.jsonl: error: holds no queries",
    ]
    assert found(tmp_path, split="train")[1].endswith("; splits here: dev, test")


def test_no_judged_query(tmp_path):
    write(tmp_path, qrels=[QRELS[0], "q8\td1\t1"])
    assert "qrels/test.tsv: error: none of the queries is judged here" in found(tmp_path)


def test_encoding(tmp_path):
    good = ("\r\n".join(["\ufeff" + CORPUS[0], "  ", CORPUS[1]]) + "\r\n").encode()
    write(tmp_path, corpus=good, qrels=("\ufeff" + "\r\n".join(QRELS)).encode())
    assert found(tmp_path) == []
    write(tmp_path, corpus=good + b'{"_id": "d3", "text": "caf\xe9"}\n')
    assert found(tmp_path) == ["corpus.jsonl:4: error: not UTF-8: byte 0xe9 at byte 27 of the line"]


def test_unicode_survives_whole(tmp_path):
    text = "a\u2028b\u2029c\x85d \U0001f9ea שלום \u202eabc\u202c e\u0301 \x0b\x0c tab\\t"
    row = json.dumps({"_id": "д\u2028 1", "title": "\u200f", "text": text}, ensure_ascii=False)
    query = json.dumps({"_id": "д", "text": text})
    write(tmp_path, corpus=[row], queries=[query], qrels=[QRELS[0], "д\tд\u2028 1\t1"])
    c = load_folder(tmp_path)
    assert c.notes == ()
    assert (c.corpus.ids, c.corpus.titles, c.corpus.bodies) == (["д\u2028 1"], ["\u200f"], [text])
    assert c.queries.texts == [text]
    assert c.qrels.grades == {"д": {"д\u2028 1": 1}}


def test_gzip(tmp_path):
    plain = load_folder(write(tmp_path / "plain"))
    zipped = write(tmp_path / "zipped")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        raw = (zipped / name).read_bytes()
        (zipped / name).unlink()
        (zipped / f"{name}.gz").write_bytes(gzip.compress(raw))
    assert load_folder(zipped).hashes == plain.hashes
    whole = (zipped / "corpus.jsonl.gz").read_bytes()
    (zipped / "corpus.jsonl.gz").write_bytes(whole[:-9])
    assert found(zipped)[0].split(": ")[:3] == ["corpus.jsonl.gz:3", "error", "broken gzip file"]


def test_metadata_is_kept(tmp_path):
    write(tmp_path, corpus=['{"_id": "d1", "text": "x", "metadata": {"a": 1}, "url": "u"}', CORPUS[1]])
    assert load_folder(tmp_path).corpus.metadata == [{"a": 1, "url": "u"}, {}]


def test_notes_name_no_machine_paths(tmp_path):
    c = load_folder(write(tmp_path, qrels=[*QRELS, "q1\td9\t1"]))
    assert c.notes == ("qrels/test.tsv:4: the judged document is not in the corpus: 'd9'",)


def test_very_many_errors_are_counted():
    log = ProblemLog()
    for line in range(1, 2001):
        log.error("f", line, "bad")
    problems = log.problems()
    assert (len(problems), sum(p.count for p in problems)) == (1001, 2000)
