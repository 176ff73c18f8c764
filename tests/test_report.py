"""The report of finished runs: its numbers are the summary's, and poison stays text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
from conftest import DOCUMENTS, QRELS, QUERIES, write_collection

import stressrag
from stressrag.cli.main import dispatch
from stressrag.report.labels import Labels, with_interval
from stressrag.report.markdown import safe
from stressrag.report.tables import tables
from stressrag.report.visible import visible
from stressrag.report.words import plain_words

EVIL = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"' onload='x' "
    "[a](javascript:alert(3)) `|` \u202eevil\u2066\x00\x1b"
)
OURS = set(
    re.findall(
        r"\w+",
        """html head meta title style body header h1 h2 h3 nav ul li a main section div p b footer details
        summary small table caption thead tbody tr th td bdi br figure figcaption
        svg desc g path circle rect text defs pattern""",
    )
)


class Page(HTMLParser):
    """Every element and attribute of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def check_harmless(text: str) -> Page:
    page = Page(text)
    assert {tag for tag, _ in page.elements} <= OURS
    for tag, attributes in page.elements:
        assert not [a for a in attributes if a.startswith("on")]
        assert not {"src", "action", "formaction", "xlink:href", "srcset"} & set(attributes)
        if "href" in attributes:
            assert tag == "a"
            assert attributes["href"].startswith("#")
        if tag == "style":
            assert attributes == {}
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\x00-\x09\x0b-\x1f]", text)
    charts = re.findall("<svg.*?</svg>", text, re.DOTALL)
    assert charts
    for chart in charts:
        ET.fromstring(chart)
        if 'role="img"' in chart:
            assert "<title" in chart
            assert "<desc" in chart
    return page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    words = ("retriever=bm25", "attack=partial,payload", "attack.budget=1,3", "defense=none,overlap")
    folder = tmp_path_factory.mktemp("runs") / "out"
    return stressrag.sweep(*words, "defense.tau=[.6,.9]", "resamples=200", f"output_dir={folder}")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A run over documents, queries and ids that are markup, with a line of a million characters."""
    folder = tmp_path_factory.mktemp("hostile")
    return sweep_over(folder, EVIL)


def sweep_over(folder, evil, resamples=200):
    """A run on a collection that holds some text in every place where a text can stand."""
    name = evil.replace(" ", "_")
    documents = {f"{i}{name}": (evil, f"{evil} {text}") for i, (_, text) in DOCUMENTS.items()}
    documents["long"] = ("", "ferry pier rope " + "a" * 1_000_000)
    queries = {f"{i}{name}": f"{text} {evil}" for i, text in QUERIES.items()}
    qrels = {f"{q}{name}": {f"{d}{name}": g for d, g in judged.items()} for q, judged in QRELS.items()}
    write_collection(folder / "c", documents, queries, qrels)
    words = ("retriever=bm25", "attack=payload", "attack.budget=10", "attack.scope=isolated,multi")
    return stressrag.sweep(
        "dataset=folder",
        f"dataset.path={folder / 'c'}",
        *words,
        f"resamples={resamples}",
        f"output_dir={folder / 'out'}",
    )


def test_numbers_are_those_of_the_summary(run):
    folder = stressrag.write_report(run)
    assert folder == run.folder
    page = check_harmless((folder / "report.html").read_text("utf-8"))
    assert len((folder / "report.html").read_bytes()) < 2_000_000
    labels = Labels(run.summary)
    cells = set(page.words)
    for c in run.summary["conditions"]:
        assert labels.of(c["id"]) in cells
        for m in ("nDCG@10", "TargetExp", "Evid", "SafeR"):
            assert with_interval(m, c["metrics"][m], c["intervals"].get(m)) in cells
            assert f"{c['metrics'][m]:.3f}" in with_interval(m, c["metrics"][m], None)
    names = [t.title for t in tables(run.summary, labels)]
    assert names == [
        "Conditions",
        "Static and adaptive",
        "Attack cost",
        "Frontier of defenses",
        "Four conditions",
        "Comparisons",
    ]
    text = (folder / "report.md").read_text("utf-8")
    assert "AML.T0070" in text
    assert "LLM08:2025" in text
    bare = [
        c for c in run.summary["conditions"] if c["config"]["budget"] and c["config"]["defense"] == "none"
    ]
    worst = max(c["metrics"]["TargetExp"] for c in bare)
    said = dict(plain_words(run.summary, labels))["How exposed is it?"]
    assert f"{100 * worst:.1f}% of 222 queries" in said[0]


def test_poison_stays_text(hostile):
    folder = stressrag.write_report(hostile)
    text = (folder / "report.html").read_text("utf-8")
    page = check_harmless(text)
    said = " ".join(page.words)
    assert "<script>alert(1)</script>" in said  # as words
    assert "[U+202E]" in said
    assert "▲ POISON" in said
    assert "Pushed out" in said
    assert not {"script", "img", "iframe", "object"} & {t for t, _ in page.elements}
    assert len(text.encode()) < 2_000_000
    assert max(map(len, page.words)) < 10_000
    lines = (folder / "report.md").read_text("utf-8")
    assert "<" not in lines
    assert not re.search(r"(?<!\\)\]\(", lines)
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", lines)
    tables = [x.splitlines() for x in lines.split("\n\n") if x.startswith("| ")]
    for rows in tables:
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1


def test_the_policy(run):
    stressrag.write_report(run)
    page = Page((run.folder / "report.html").read_text("utf-8"))
    policies = [a["content"] for t, a in page.elements if t == "meta" and "http-equiv" in a]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]


def test_no_defense_is_said(tmp_path):
    run = stressrag.run("attack=clean", "resamples=0", f"output_dir={tmp_path / 'out'}")
    words = dict(plain_words(run.summary, Labels(run.summary)))
    assert "says nothing about exposure" in words["How exposed is it?"][0]
    assert "says nothing about defenses" in words["Which defense helps, and at what cost?"][0]
    check_harmless((stressrag.write_report(run) / "report.html").read_text("utf-8"))


def test_several_runs(run, tmp_path, capsys):
    assert dispatch(["report", str(run.folder), str(run.folder)]) == 2
    assert capsys.readouterr().err == "error: a report of several runs needs a folder; give --out FOLDER\n"
    assert dispatch(["report", str(run.folder), str(run.folder), "--out", str(tmp_path / "o")]) == 0
    page = check_harmless((tmp_path / "o" / "report.html").read_text("utf-8"))
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    assert [a["href"] for t, a in page.elements if t == "a"] == ["#run-1", "#run-2"]
    assert dispatch(["report", str(tmp_path / "nothing")]) == 2
    assert dispatch(["report"]) == 2


def test_visible():
    assert visible("a\u202eb\x00c\nd") == "a[U+202E]b[U+0000]c d"
    assert visible("a" * 1_000_000, 10) == "a" * 10 + "… (the first 10 of 1,000,000 characters)"
    assert len(visible("\U000e0001" * 500, 300)) < 700


def test_markdown_is_safe():
    assert safe("a|b\n<b>`x`[y](http://z) www.z.org") == (
        "a\\|b &lt;b&gt;\\`x\\`\\[y\\]\\(http&#58;//z\\) www&#46;z.org"
    )


def test_a_report_takes_paths_and_refuses_an_empty_folder(tmp_path):
    made = stressrag.run("attack=clean", "resamples=0", f"output_dir={tmp_path / 'a'}")
    assert stressrag.write_report(str(made.folder)) == made.folder
    with pytest.raises(stressrag.StressragError, match="out is empty"):
        stressrag.write_report(made, out="")


def test_seeds_have_figures_of_their_own(tmp_path):
    """Two conditions of one figure would stand over each other if their seeds went unsaid."""
    words = ("retriever=lsa", "attack=partial", "attack.terms=1,2", "attack.strategy=random", "resamples=0")
    made = stressrag.sweep(*words, "lsa.seed=0,1", f"output_dir={tmp_path / 'a'}")
    page = (stressrag.write_report(made) / "report.html").read_text("utf-8")
    for seed in (0, 1):
        assert f"Exposure against what the attacker knows of the query: pellmore, lsa, seed {seed}" in page
