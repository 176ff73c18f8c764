"""``export``: ir_measures on the TREC files gives the summary's means; tables; what is refused."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import ir_measures
import numpy as np
import pytest
import pytrec_eval
from conftest import DOCUMENTS, QRELS, QUERIES, write_collection
from hypothesis import given
from hypothesis import strategies as st

import stressrag
from stressrag.cli.main import dispatch
from stressrag.report.export import trec_id

FERRIES = ("dataset=ferries", "latency_sample=0", "resamples=200")


def agrees(run, folder: Path, grade: int = 1) -> None:
    """Hold every exported condition to the summary, by ir_measures and by pytrec_eval."""
    for c in run.summary["conditions"]:
        k = c["config"]["k"]
        qrels = list(ir_measures.read_trec_qrels(str(folder / f"{c['id']}.qrels")))
        ranked = list(ir_measures.read_trec_run(str(folder / f"{c['id']}.run")))
        ndcg, recall = ir_measures.nDCG @ k, ir_measures.R(rel=grade) @ k
        found = ir_measures.calc_aggregate([ndcg, recall], qrels, ranked)
        assert found[ndcg] == pytest.approx(c["metrics"][f"nDCG@{k}"], abs=1e-9)
        assert found[recall] == pytest.approx(c["metrics"][f"Recall@{k}"], abs=1e-9)
        assert len({q.query_id for q in qrels}) == c["n_queries"]
        if grade > 1:
            continue
        grades: dict = {}
        scores: dict = {}
        for q in qrels:
            grades.setdefault(q.query_id, {})[q.doc_id] = q.relevance
        for s in ranked:
            scores.setdefault(s.query_id, {})[s.doc_id] = s.score
        theirs = pytrec_eval.RelevanceEvaluator(grades, {f"ndcg_cut.{k}"}).evaluate(scores)
        mean = sum(row[f"ndcg_cut_{k}"] for row in theirs.values()) / c["n_queries"]  # trec_eval -c
        assert mean == pytest.approx(c["metrics"][f"nDCG@{k}"], abs=1e-9)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """With copies that tie, and a defense so strict that lists end early or are empty."""
    folder = tmp_path_factory.mktemp("runs")
    words = ("retriever=bm25,hybrid", "attack=query_only", "attack.budget=3", "latency_sample=0")
    return stressrag.sweep(*words, "defense=none,overlap", "defense.tau=0.2", f"output_dir={folder / 'r'}")


def test_trec_on_the_embedded_collection(run, tmp_path):
    folder = stressrag.export(run, "trec", tmp_path / "out")
    ids = [c["id"] for c in run.summary["conditions"]]
    expected = {f"{i}.{end}" for i in ids for end in ("run", "qrels")} | {"export.json"}
    assert {p.name for p in folder.iterdir()} == expected
    agrees(run, folder)
    ranked = run.rankings().to_pandas().groupby("condition", observed=True)["query_id"].nunique()
    assert ranked.min() < 222  # some list is empty: that query counts as 0


def test_trec_on_scifact(data_root, tmp_path):
    run = stressrag.sweep(
        "dataset=scifact", "retriever=bm25", "attack=payload", "latency_sample=0", "resamples=0", "k=20",
        f"output_dir={tmp_path / 'r'}",
    )  # fmt: skip
    assert dispatch(["export", str(run.folder), "--trec", "--out", str(tmp_path / "out")]) == 0
    agrees(run, tmp_path / "out")


def test_lines_by_hand(ferries):
    """Scores fall strictly in float32; the order is the run's; q9 has no relevant document."""
    run = stressrag.sweep(*FERRIES, "attack=query_only", "attack.budget=2", "k=4", "output_dir=r")
    folder = stressrag.export("r", "trec", where="budget=2")
    assert folder == Path("r-trec")
    (c,) = [c for c in run.summary["conditions"] if c["config"]["budget"]]
    lines = [line.split(" ") for line in (folder / f"{c['id']}.run").read_text().splitlines()]
    table = run.rankings().to_pandas()
    table = table[(table.condition == c["id"]) & (table.query_id != "q9")]
    assert [(q, d) for q, _, d, *_ in lines] == list(zip(table.query_id, table.doc_id, strict=True))
    for q in ("q1", "q5"):
        own = [line for line in lines if line[0] == q]
        assert [line[3:] for line in own][:2] == [["1", "4", "stressrag"], ["2", "3", "stressrag"]]
        scores = np.array([line[4] for line in own], np.float32)
        assert (np.diff(scores) < 0).all()
    qrels = (folder / f"{c['id']}.qrels").read_text().splitlines()
    assert set(qrels) == {f"{q} 0 {d} {g}" for q, docs in QRELS.items() if q != "q9" for d, g in docs.items()}


def test_grades_and_judged_documents_outside_the_corpus(ferries):
    judged = {**QRELS, "q3": {**QRELS["q3"], "gone": 3}}
    write_collection(ferries, DOCUMENTS, QUERIES, judged)
    run = stressrag.sweep(*FERRIES, "attack=query_only", "grade=2", "output_dir=r")
    folder = stressrag.export(run, "trec")
    agrees(run, folder, grade=2)
    assert run.summary["conditions"][0]["n_queries"] == 3
    assert all("gone" not in p.read_text() for p in folder.glob("*.qrels"))


def test_ids_with_blanks_are_encoded(ferries):
    documents = {f"d {i}%é": v for i, v in enumerate(DOCUMENTS.values())}
    names = dict(zip(DOCUMENTS, documents, strict=True))
    queries = {f"my {q}": text for q, text in QUERIES.items()}
    judged = {f"my {q}": {names[d]: g for d, g in docs.items()} for q, docs in QRELS.items()}
    write_collection(ferries, documents, queries, judged)
    run = stressrag.sweep(*FERRIES, "attack=query_only", "output_dir=r")
    folder = stressrag.export(run, "trec")
    agrees(run, folder)
    text = next(folder.glob("*.qrels")).read_text("utf-8")
    assert text.startswith("my%20q1 0 d%204%25é 2\n")


@given(st.lists(st.text(min_size=1), min_size=1, unique=True))
def test_encoded_ids_are_words_and_stay_apart(ids):
    ids = [i for i in ids if not any("\ud800" <= c <= "\udfff" for c in i)]
    words = [trec_id(i) for i in ids]
    assert len(set(words)) == len(ids)
    assert all(w.split() == [w] for w in words)


def test_a_collection_in_a_folder(ferries, tmp_path, monkeypatch, capsys):
    own = write_collection(tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    words = ("dataset=folder", "dataset.path=own", "latency_sample=0", "resamples=0", "output_dir=r")
    run = stressrag.sweep(*words, "attack=query_only")
    agrees(run, stressrag.export(run, "trec"))
    own.rename(tmp_path / "moved")
    err = refused(capsys, "export", "r", "--trec", "--out", "x")
    assert "qrels need the collection of the run" in err
    assert "--dataset FOLDER" in err
    agrees(run, stressrag.export(run, "trec", "x", dataset="moved"))


def refused(capsys, *argv: str) -> str:
    before = {p: p.read_bytes() if p.is_file() else None for p in Path().rglob("*")}
    assert dispatch(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert {p: p.read_bytes() if p.is_file() else None for p in Path().rglob("*")} == before
    return err


def test_refused(ferries, capsys):
    stressrag.sweep(*FERRIES, "attack=query_only", "output_dir=r")
    assert "export needs one of" in refused(capsys, "export", "r")
    assert "export needs one of" in refused(capsys, "export", "r", "--csv", "--trec")
    assert "export needs one run" in refused(capsys, "export", "--csv")
    assert "no run at s" in refused(capsys, "export", "s", "--csv")
    assert "did you mean '--csv'" in refused(capsys, "export", "r", "--cvs")
    assert "no condition has budget=3" in refused(capsys, "export", "r", "--csv", "--where", "budget=3")
    assert "did you mean 'budget'" in refused(capsys, "export", "r", "--csv", "--where", "budgett=3")
    with pytest.raises(stressrag.StressragError, match="no format 'tre'; did you mean 'trec'"):
        stressrag.export("r", "tre")
    Path("file").write_text("")
    assert "file exists" in refused(capsys, "export", "r", "--csv", "--out", "file")
    assert "more than an export" in refused(capsys, "export", "r", "--csv", "--out", "file", "--overwrite")
    assert "choose another --out" in refused(capsys, "export", "r", "--csv", "--out", "file/x")
    # neither a run nor a working directory is an export to replace
    assert "more than an export" in refused(capsys, "export", "r", "--csv", "--out", "r", "--overwrite")
    assert "more than an export" in refused(capsys, "export", "r", "--csv", "--out", ".", "--overwrite")
    write_collection(ferries, {**DOCUMENTS, "d13": ("", "more")})
    err = refused(capsys, "export", "r", "--trec")
    assert "ferries is not the collection of r any more" in err


def test_poison_called_like_a_document(ferries, capsys):
    write_collection(ferries, {**DOCUMENTS, "poison-q1-0": ("", "rope anchor chain")})
    stressrag.sweep(*FERRIES, "attack=query_only", "output_dir=r")
    assert "both called 'poison-q1-0'" in refused(capsys, "export", "r", "--trec")


def test_overwrite_replaces_an_export_only(ferries, capsys):
    stressrag.sweep(*FERRIES, "attack=query_only", "output_dir=r")
    assert dispatch(["export", "r", "--csv", "--out", "deep/out"]) == 0
    assert capsys.readouterr().out == "written: deep/out\n"
    assert "deep/out exists" in refused(capsys, "export", "r", "--latex", "--out", "deep/out")
    assert dispatch(["export", "r", "--latex", "--out", "deep/out", "--overwrite"]) == 0
    names = {"conditions.tex", "comparisons.tex", "four_conditions.tex", "export.json"}
    assert {p.name for p in Path("deep/out").iterdir()} == names
    assert [p.name for p in Path("deep").iterdir()] == ["out"]
    Path("deep/out/notes.txt").write_text("mine")
    capsys.readouterr()
    assert "more than an export" in refused(
        capsys, "export", "r", "--csv", "--out", "deep/out", "--overwrite"
    )


# ---- tables --------------------------------------------------------------------------------------


def test_csv(run, tmp_path):
    folder = stressrag.export(run, "csv", tmp_path / "out", where="retriever=bm25")
    read = {p.stem: list(csv.DictReader(io.StringIO(p.read_text("utf-8")))) for p in folder.glob("*.csv")}
    summary = run.summary
    conditions = [c for c in summary["conditions"] if c["config"]["retriever"] == "bm25"]
    assert [r["condition"] for r in read["conditions"]] == [c["id"] for c in conditions]
    for row, c in zip(read["conditions"], conditions, strict=True):
        assert float(row["nDCG@10"]) == c["metrics"]["nDCG@10"]
        assert float(row["Evid_low"]) == c["intervals"]["Evid"][0]
    ids = {c["id"] for c in conditions}
    pairs = [c for c in summary["comparisons"] if c["condition"] in ids]
    assert len(read["comparisons"]) == sum(len(c["metrics"]) for c in pairs) > 0
    by_key = {(r["condition"], r["against"], r["metric"]): r for r in read["comparisons"]}
    for c in pairs:
        row, m = by_key[c["condition"], c["against"], "SafeR"], c["metrics"]["SafeR"]
        assert [float(row[n]) for n in ("difference", "low", "high", "p", "p_holm")] == [
            m[n] for n in ("difference", "low", "high", "p", "p_holm")
        ]
        assert by_key[c["condition"], c["against"], "nDCG@10"]["p"] == ""
    four = [r for r in summary["four_conditions"] if r["condition"] in ids]
    assert [(r["condition"], r["event"]) for r in read["four_conditions"]] == [
        (r["condition"], r["event"]) for r in four
    ]
    for row, r in zip(read["four_conditions"], four, strict=True):
        assert float(row["Gamma"]) == r["Gamma"]
        assert float(row["Gamma_low"]) == r["intervals"]["Gamma"][0]


def test_latex(run, tmp_path):
    folder = stressrag.export(run, "latex", tmp_path / "out")
    for path in folder.glob("*.tex"):
        text = path.read_text("utf-8")
        for name in ("toprule", "midrule", "bottomrule"):
            assert text.count(f"\\{name}\n") == 1
        body = re.search(r"\\toprule\n(.*)\\bottomrule", text, re.S)
        assert body
        lines = [line for line in body[1].splitlines() if line != "\\midrule"]
        columns = re.search(r"\\begin\{tabular\}\{([lr]+)\}", text)
        assert columns
        assert {len(re.split(r"(?<!\\)&", line)) for line in lines} == {len(columns[1])}
        assert all(line.endswith(" \\\\") for line in lines)
        assert not re.search(r"(?<!\\)[_%#$](?! \\usepackage)|[<>|]", text.split("\n", 1)[1])
    text = (folder / "conditions.tex").read_text("utf-8")
    c = run.summary["conditions"][-1]
    low, high = c["intervals"]["nDCG@10"]
    assert f"{c['metrics']['nDCG@10']:.3f} [{low:.3f}, {high:.3f}]" in text
    assert "query\\_only" in text
    assert "\\textless{}.001" in (folder / "comparisons.tex").read_text("utf-8")


def test_the_manifest(run, tmp_path):
    folder = stressrag.export(run, "csv", tmp_path / "out")
    about = json.loads((folder / "export.json").read_text())
    assert about["plan"] == run.plan_hash
    assert set(about["files"]) | {"export.json"} == {p.name for p in folder.iterdir()}


def test_help(capsys):
    assert dispatch(["export", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: python -m stressrag export" in out
    assert "examples:" in out
