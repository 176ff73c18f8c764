"""``aligned.jsonl``: what is read of it and what is refused."""

import json

import pytest
from conftest import write_collection

from stressrag.collection import load_folder
from stressrag.collection.scan import scan_folder
from stressrag.errors import StressragError

TARGET = {
    "type": "target",
    "query_id": "q3",
    "answer": "nine",
    "aliases": ["9 pm"],
    "answer_type": "time",
    "target": "eleven",
    "passages": ["the night ferry leaves at eleven", "eleven it is"],
    "group": "g1",
    "answer_documents": ["d1"],
}
TRIPLE = {
    "type": "triple",
    "_id": "t1",
    "query_id": None,
    "query": "what colour is the buoy",
    "support_document": "d4",
    "support": "the harbour pilot steers by the red buoy",
    "injected": "what pilots call red is green on land",
    "target": "green",
    "answer": "red",
}


@pytest.fixture
def folder(tmp_path):
    return write_collection(tmp_path / "mine")


def write(folder, *rows):
    (folder / "aligned.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_read(folder):
    write(folder, TARGET, TRIPLE)
    c = load_folder(folder)
    (target,), (triple,) = c.targets, c.triples
    assert (target.query_id, target.query) == ("q3", "when does the night ferry leave the pier")
    assert target.answers == ("nine", "9 pm")
    assert (target.target, target.passages, target.group) == ("eleven", tuple(TARGET["passages"]), "g1")
    assert (target.answer_type, target.answer_documents) == ("time", ("d1",))
    assert (triple.id, triple.query_id, triple.answer) == ("t1", None, "red")
    assert (triple.support_document, triple.target) == ("d4", "green")


def test_what_may_be_left_out(folder):
    write(folder, {k: TARGET[k] for k in ("type", "query_id", "answer", "target", "passages", "group")})
    (target,) = load_folder(folder).targets
    assert (target.aliases, target.answer_type, target.answer_documents) == ((), "", ())


def test_collections_without_it(folder):
    c = load_folder(folder)
    assert (c.targets, c.triples) == ((), ())


def test_it_is_not_read_for_another_corpus(folder, tmp_path):
    write(folder, {**TARGET, "query_id": "gone"})
    other = write_collection(tmp_path / "other")
    assert load_folder(folder, corpus=other / "corpus.jsonl").targets == ()


def test_it_does_not_change_what_retrieval_results_rest_on(folder):
    before = load_folder(folder).hashes
    write(folder, TARGET)
    assert load_folder(folder).hashes == before


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({**TARGET, "type": "goal"}, "the type 'goal' is neither 'target' nor 'triple'"),
        ({**TARGET, "type": ["target"]}, r"the type \['target'\] is neither"),
        ({**TARGET, "answer": ""}, "a target needs 'answer', a filled string"),
        ({**TARGET, "target": None}, "a target needs 'target', a filled string"),
        ({**TARGET, "passages": "one"}, "a target needs 'passages', a filled list"),
        ({**TARGET, "passages": ["one", " "]}, "'passages' holds something that is no filled string"),
        ({**TARGET, "aliases": "9 pm"}, "'aliases' is no list"),
        ({**TARGET, "aliases": [9]}, "'aliases' holds something that is no filled string"),
        ({**TARGET, "query_id": "q33"}, "there is no query 'q33'; did you mean 'q3'"),
        ({**TARGET, "answer_documents": ["d99"]}, "there is no document 'd99' in the corpus"),
        ({**TRIPLE, "support": ""}, "a triple needs 'support', a filled string"),
        ({**TRIPLE, "support_document": "x"}, "there is no document 'x' in the corpus"),
        ({**TRIPLE, "query_id": 3}, "'query_id' is no string"),
        ({**TRIPLE, "query_id": "zzz"}, "there is no query 'zzz'"),
    ],
)
def test_refused(folder, row, message):
    write(folder, row)
    with pytest.raises(StressragError, match=rf"aligned.jsonl:1: error: {message}"):
        load_folder(folder)


def test_twice(folder):
    write(folder, TARGET, TRIPLE, TARGET, TRIPLE)
    messages = [str(p) for p in scan_folder(folder).errors]
    assert [m.split("aligned.jsonl")[1] for m in messages] == [
        ":3: error: a second target for query 'q3'",
        ":4: error: a second triple 't1'",
    ]


def test_calibration_queries_are_those_without_judgments(folder):
    with (folder / "queries.jsonl").open("a") as f:
        f.write('{"_id": "c1", "text": "clean one"}\n{"_id": "c2", "text": "clean two"}\n')
    assert load_folder(folder).calibration.ids == ["c1", "c2"]
