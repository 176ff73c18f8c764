"""The command line: exit codes, one-line errors, Hydra's own ways, the attack's file, start-up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stressrag.cli.main import VERBS, dispatch
from stressrag.collection import load_folder
from stressrag.records.folder import open_run

BASE = ["dataset=ferries", "latency_sample=0"]


def refused(capsys, *argv: str) -> str:
    """The one line of an error."""
    assert dispatch(argv) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_help(capsys):
    assert dispatch(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {verb} " in out for verb in VERBS)
    assert dispatch([]) == 2
    assert capsys.readouterr().out == out
    assert dispatch(["--version"]) == 0
    assert capsys.readouterr().out.startswith("stressrag ")


def test_errors_are_one_line(ferries, capsys):
    assert "no verb 'swep'; did you mean 'sweep'" in refused(capsys, "swep")
    assert "no verb 'frobnicate'; choose from" in refused(capsys, "frobnicate")
    assert "did you mean 'ferries'" in refused(capsys, "run", "dataset=feries")
    assert "did you mean 'attack.budget'" in refused(capsys, "sweep", "attack.budgt=2")
    (ferries / "corpus.jsonl").write_text('{"_id": "a", "text": "x"}\n{"_id": \n')
    assert "corpus.jsonl:2" in refused(capsys, "run", *BASE)
    assert not list(Path(".").rglob("DONE"))


def test_a_run_and_a_sweep(ferries, capsys):
    assert dispatch(["run", *BASE, "retriever=lsa", "attack=query_only"]) == 0
    out = capsys.readouterr().out.splitlines()
    folder = Path(out[-1].removeprefix("written: "))
    assert len(open_run(folder).summary["conditions"]) == 1
    assert dispatch(["sweep", *BASE, "retriever=bm25,lsa", "attack.budget=1,2"]) == 0
    out = capsys.readouterr().out
    folder = Path(out.splitlines()[-1].removeprefix("written: "))
    summary = open_run(folder).summary
    assert folder.parent == Path("runs")
    assert len(summary["conditions"]) == 6
    assert out.startswith("6 conditions: ")
    table = [line.split() for line in out.splitlines()[2:16]]
    assert table[0][:4] == ["retriever", "attack", "P", "scope"]
    for line, c in zip(table[2::2], summary["conditions"], strict=True):
        assert line[0] == c["config"]["retriever"]
        assert line[table[0].index("nDCG@10")] == f"{c['metrics']['nDCG@10']:.3f}"
        assert line[table[0].index("Evid")] == f"{c['metrics']['Evid']:.3f}"
    assert "1 queries without relevant documents are left out of the means." in out


def test_no_machine_paths_in_what_travels(ferries, capsys):
    assert dispatch(["run", *BASE]) == 0
    folder = Path(capsys.readouterr().out.splitlines()[-1].removeprefix("written: "))
    for path in folder.iterdir():
        assert str(ferries.parents[2]).encode() not in path.read_bytes(), path.name


def test_interrupted(ferries, monkeypatch, capsys):
    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("stressrag.experiment.run.load_dataset", stop)
    assert dispatch(["run", *BASE]) == 130
    assert "the same command goes on where it stopped" in capsys.readouterr().err


# ---- Hydra's own ways ----------------------------------------------------------------------------


def runs() -> list[tuple[str, int]]:
    found = [
        c["config"] for p in Path("runs").glob("*/DONE") for c in open_run(p.parent).summary["conditions"]
    ]
    return sorted((c["retriever"], c["budget"]) for c in found)


def test_multirun(ferries):
    assert dispatch(["run", "-m", *BASE, "retriever=bm25,lsa", "attack.budget=1,2"]) == 0
    assert runs() == [("bm25", 1), ("bm25", 2), ("lsa", 1), ("lsa", 2)]


def test_multirun_flag_behind(ferries):
    assert dispatch(["run", *BASE, "attack.budget=1,2", "--multirun"]) == 0
    assert runs() == [("bm25", 1), ("bm25", 2)]


def test_joblib_launcher(ferries):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "stressrag",
        "run",
        "-m",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
    ]
    done = subprocess.run([*command, *BASE, "attack.budget=1,2,3"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert runs() == [("bm25", 1), ("bm25", 2), ("bm25", 3)]


@pytest.mark.parametrize(
    "words",
    [
        ["--cfg", "job", "k=7"],
        ["k=7", "--cfg", "job"],
        ["preset=paper", "--cfg", "job", "k=7"],
        ["k=7", "-c", "job"],
    ],
)
def test_cfg_job(ferries, capsys, words):
    assert dispatch(["run", *words]) == 0
    out = capsys.readouterr().out
    assert "\nk: 7\n" in out
    assert ("payloads: bipia" in out) == ("preset=paper" in words)
    assert not Path("runs").exists()


def test_hydras_errors_are_ours(ferries, capsys):
    for words in (["retreiver=bm25"], ["attack.budget=abc"], ["k=0"]):
        assert dispatch(["run", "-m", *BASE, *words]) == 2
        err = capsys.readouterr().err
        assert "Traceback" not in err
        assert err.splitlines()[-1].startswith("error: ")


# ---- attack --------------------------------------------------------------------------------------


def test_attack_writes_a_corpus(ferries, capsys):
    words = [
        "attack=partial",
        "attack.terms=2",
        "attack.strategy=idf",
        "attack.budget=3",
        "attack.targets=[q1,q3]",
    ]
    assert dispatch(["attack", "dataset=ferries", *words, "out=poison.jsonl"]) == 0
    assert capsys.readouterr().out == "6 poison documents written: poison.jsonl\n"
    lines = [json.loads(line) for line in Path("poison.jsonl").read_text("utf-8").splitlines()]
    assert [line["_id"] for line in lines] == [f"poison-{q}-{j}" for q in ("q1", "q3") for j in range(3)]
    for line in lines:
        assert set(line) == {"_id", "title", "text", "metadata"}
        assert line["metadata"]["target"] == line["_id"].split("-")[1]
        assert line["metadata"]["poison"] is True
    assert {line["metadata"]["coverage"] for line in lines[:3]} == {0.5}
    # the file appended to the corpus is a collection that reads
    with open(ferries / "corpus.jsonl", "a") as f:
        f.write(Path("poison.jsonl").read_text("utf-8"))
    collection = load_folder(ferries)
    assert len(collection.corpus) == 18
    assert list(collection.corpus.texts)[12:] == [line["text"] for line in lines]


def test_attack_to_standard_output(ferries, capsys):
    assert dispatch(["attack", "dataset=ferries", "attack=query_only", "attack.budget=1", "out=-"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["metadata"]["target"] for line in lines] == ["q1", "q2", "q3", "q4", "q5", "q9"]


def test_attack_is_refused(ferries, capsys):
    assert "attack needs out=FILE" in refused(capsys, "attack", "dataset=ferries")
    assert "attack needs out=FILE" in refused(capsys, "attack", "dataset=ferries", "out=")
    assert "attack=clean has no poison" in refused(
        capsys, "attack", "dataset=ferries", "attack=clean", "out=x"
    )
    assert "asks for more" in refused(capsys, "attack", "dataset=ferries", "attack.budget=1,2", "out=x")
    Path("file").write_text("")
    assert "cannot write" in refused(capsys, "attack", "dataset=ferries", "out=file/x")
    assert not Path("x").exists()


# ---- start-up ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["sweep", "--help"],
        ["run", "-h"],
        ["attack", "--help"],
        ["compare", "--help"],
        ["gate", "-h"],
        ["export", "--help"],
        ["nonsense"],
    ],
)
def test_help_imports_nothing_heavy(argv):
    program = f"""
import sys
from stressrag.cli.main import dispatch
dispatch({argv!r})
heavy = {{"numpy", "hydra", "omegaconf", "scipy", "sklearn", "pyarrow", "ir_measures"}}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_goes_away(ferries):
    """As with ``| head``: no traceback."""
    command = f"{sys.executable} -m stressrag sweep --help | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.startswith("Evaluate every combination")
    assert done.stderr == ""


def test_the_module_is_a_command(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "stressrag", "rnu"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: no verb 'rnu'; did you mean 'run'?\n"


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (["defense.quota=1,2"], "note: defense.quota=1,2 plays no part here; it goes with defense=quota"),
        (["defense.filter_rate=2"], "it goes with defense=repetition or perplexity"),
        (["defense.perplexity_window=9", "defense=repetition"], "it goes with defense=perplexity"),
        (["lsa.seed=3"], "note: lsa.seed=3 plays no part here; it goes with retriever=lsa or hybrid"),
        (["attack.snippet_tokens=5"], "it goes with attack=corpus_neutral"),
        (["attack.terms=2"], "it goes with attack.anchor=terms"),
        (["attack.group_size=3"], "it goes with attack.scope=group"),
        (["rrf.constant=10", "retriever=lsa"], "it goes with retriever=hybrid"),
        (["defense.tau=.5", "defense=overlap"], ""),
        (["defense.filter_rate=2", "defense=perplexity"], ""),
        (["defense.similarity=lsa", "defense=mmr", "lsa.seed=2"], ""),
        (["lsa.seed=2", "retriever=bm25,hybrid", "rrf.constant=9"], ""),
        (["attack=partial", "attack.terms=2", "attack.strategy=idf"], ""),
    ],
)
def test_settings_that_play_no_part_are_told(ferries, capsys, words, note):
    assert dispatch(["sweep", "dataset=ferries", *words]) == 0
    err = capsys.readouterr().err
    assert note in err
    assert bool(err) == bool(note)
