"""TREC judgments and topics, and files named one by one."""

from dataclasses import replace
from pathlib import Path

import pytest

from stressrag.collection import load_folder
from stressrag.collection.problems import ProblemLog
from stressrag.collection.trec import read_qrels, read_topics, read_tsv_queries
from stressrag.errors import StressragError

TOPICS = """<top>

<num> Number: 301
<title> International Organized Crime

<desc> Description:
Identify organizations that take part
in international criminal activity.

<narr> Narrative:
A relevant document names one.

</top>
<top>
<num>302</num><title>Poliomyelitis
and Post-Polio</title>
</top>
"""


def problems(log):
    return [str(replace(p, file=Path(p.file).name)) for p in log.problems()]


@pytest.fixture
def topics(tmp_path):
    path = tmp_path / "topics.txt"
    path.write_text(TOPICS)
    return path


def test_topics(topics):
    log = ProblemLog()
    records = read_topics(topics, log)
    assert problems(log) == []
    assert records.ids == ["301", "302"]
    assert records.texts == ["International Organized Crime", "Poliomyelitis and Post-Polio"]


def test_another_field(topics):
    log = ProblemLog()
    records = read_topics(topics, log, "desc")
    assert records.texts == ["Identify organizations that take part in international criminal activity."]
    assert problems(log) == ["topics.txt:14: error: topic '302' has no <desc>"]


def test_bad_topics(tmp_path):
    path = tmp_path / "t"
    path.write_text("stray\n<top>\n<title> x\n</top>\n<top>\n<num> 1 <title> a\n<top>\n<num> 1 <title> b\n")
    log = ProblemLog()
    assert read_topics(path, log).texts == ["a"]
    assert problems(log) == [
        "t:1: warning: text outside <top> … </top> is passed over: 'stray'",
        "t:2: error: the topic has no <num>",
        "t:7: error: query id '1' again; first on line 5",
    ]


def test_tsv_queries(tmp_path):
    path = tmp_path / "q.tsv"
    path.write_text("1\twhat is\tthis\n2 no tab\n\tno id\n1\tagain\n")
    log = ProblemLog()
    records = read_tsv_queries(path, log)
    assert (records.ids, records.texts) == (["1"], ["what is\tthis"])
    assert problems(log) == [
        "q.tsv:2: error: needs a query id, a tab and the query text; there is no tab",
        "q.tsv:3: error: the query id is empty",
        "q.tsv:4: error: query id '1' again; first on line 1",
    ]


def test_qrels(tmp_path):
    path = tmp_path / "qrels.txt"
    path.write_text("301 0 FBIS3-1 2\n301\t0\tFBIS3-2\t-2\r\n301 FBIS3-3 1\n")
    log = ProblemLog()
    assert read_qrels(path, log) == {"301": {"FBIS3-1": 2, "FBIS3-2": 0}}
    assert problems(log) == [
        "qrels.txt:2: warning: a negative grade counts as not relevant: -2",
        "qrels.txt:3: error: needs 4 columns (query id, 0, document id, grade), has 3",
    ]


def test_files_named_one_by_one(tmp_path, topics):
    (tmp_path / "docs.jsonl").write_text('{"_id": "a", "text": "x"}\n')
    (tmp_path / "qrels.txt").write_text("301 0 a 1\n")
    files = {"corpus": tmp_path / "docs.jsonl", "queries": topics, "qrels": tmp_path / "qrels.txt"}
    c = load_folder(tmp_path, **files)
    assert c.evaluated.texts == ["International Organized Crime"]
    assert c.qrels.grades == {"301": {"a": 1}}
    (tmp_path / "docs.jsonl").write_text("{\n")
    with pytest.raises(StressragError, match=r"data check \S+ --corpus \S+docs.jsonl --queries "):
        load_folder(tmp_path, **files)
