"""Killed, disturbed and damaged runs: what was finished is kept, the end is the same to the byte."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import DOCUMENTS, QRELS, QUERIES, write_collection
from filelock import FileLock

import stressrag.experiment.run as running
from stressrag.cli.main import dispatch
from stressrag.errors import StressragError
from stressrag.experiment.engine import Engine
from stressrag.records.files import write_atomically, write_json
from stressrag.records.folder import open_run

RESULTS = ("records.parquet", "rankings.parquet", "summary.json", "summary.csv")
WORDS = ["sweep", "dataset=ferries", "latency_sample=0", "attack.budget=1,3", "output_dir=out"]


def results(folder) -> dict[str, bytes]:
    return {name: (Path(folder) / name).read_bytes() for name in RESULTS}


@pytest.fixture
def blocks_of_two(ferries, monkeypatch):
    """Three blocks of two queries."""
    monkeypatch.setattr(running, "block_size", lambda family: 2)
    return ferries


@pytest.fixture
def calls(monkeypatch):
    """The blocks computed, as they are."""
    made: list[tuple[int, int]] = []
    run_block = Engine.run_block
    monkeypatch.setattr(Engine, "run_block", lambda self, a, b: made.append((a, b)) or run_block(self, a, b))
    return made


@pytest.fixture
def undisturbed(blocks_of_two, calls):
    """What the command writes when nothing comes between."""
    assert dispatch([*WORDS[:-1], "output_dir=whole"]) == 0
    assert calls == [(0, 2), (2, 4), (4, 6)]
    calls.clear()
    return results("whole")


def interrupt(monkeypatch, after: int) -> Path:
    """Run the command and stop it when some blocks are saved; the folder of the blocks."""
    save, saved = running._Execution._save, []

    def stop(self, *args):
        if len(saved) == after:
            raise KeyboardInterrupt
        saved.append(args)
        save(self, *args)

    with monkeypatch.context() as m:
        m.setattr(running._Execution, "_save", stop)
        assert dispatch(WORDS) == 130
    return Path("out/blocks")


def test_kill_nine(tmp_path):
    """A process killed at any moment, again and again, loses no finished block and changes no byte."""
    rng = random.Random(7)
    words = [f"w{i}" for i in range(300)]
    text = lambda n: " ".join(rng.choices(words, k=n))  # noqa: E731
    write_collection(
        tmp_path / "data" / "beir" / "many",
        {f"d{i}": ("", text(60)) for i in range(1500)},
        {f"q{i}": text(9) for i in range(400)},
        {f"q{i}": {f"d{i}": 1} for i in range(400)},
    )
    env = {**os.environ, "STRESSRAG_DATA": str(tmp_path / "data"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "stressrag", "sweep", "dataset=many", "retriever=hybrid"]
    command += ["attack.budget=1,3,5", "attack.scope=isolated,group,multi", "latency_sample=0"]

    def start(folder: str) -> subprocess.Popen:
        return subprocess.Popen(
            [*command, f"output_dir={folder}"],
            cwd=tmp_path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    begin = time.perf_counter()
    assert start("whole").wait(120) == 0
    length = time.perf_counter() - begin
    out, kept, killed = tmp_path / "out", {}, 0
    for _ in range(8):
        process = start("out")
        try:
            process.wait(length * rng.uniform(0.35, 0.95))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
        process.stdout.close()
        blocks = {
            p.name: p for p in (out / "blocks").glob("[0-9]*-*") if p.suffix in (".records", ".rankings")
        }
        for name, before in kept.items():
            if name in blocks and Path(name).with_suffix(".records").name in kept:
                assert blocks[name].stat().st_mtime_ns == before, f"{name} was computed twice"
        kept = {name: p.stat().st_mtime_ns for name, p in blocks.items()}
        if (out / "DONE").exists():
            break
    assert killed
    last = start("out")
    output = last.communicate()[0].decode()
    assert last.returncode == 0, output
    assert results(out) == results(tmp_path / "whole")
    assert not (out / "blocks").exists()
    assert not list(out.rglob("*.part"))


@pytest.mark.parametrize("after", [0, 1, 2])
def test_goes_on_where_it_stopped(undisturbed, calls, monkeypatch, capsys, after):
    interrupt(monkeypatch, after)
    assert "goes on where it stopped" in capsys.readouterr().err
    assert not Path("out/DONE").exists()
    calls.clear()
    assert dispatch(WORDS) == 0
    assert calls == [(0, 2), (2, 4), (4, 6)][after:]
    assert results("out") == undisturbed


def test_stopped_before_the_end(undisturbed, calls, monkeypatch):
    """All blocks are there, the result is not yet put together."""

    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(running._Execution, "_finish", stop)
        assert dispatch(WORDS) == 130
    calls.clear()
    assert dispatch(WORDS) == 0
    assert calls == []
    assert results("out") == undisturbed


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def scribble(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    middle = len(whole) // 3
    whole[middle : middle + 8] = b"\0\xff" * 4
    path.write_bytes(bytes(whole))


@pytest.mark.parametrize("damage", [truncate, scribble, Path.unlink, lambda p: p.write_bytes(b"")])
@pytest.mark.parametrize("suffix", ["records", "rankings", "seconds"])
def test_damaged_blocks_are_computed_again(undisturbed, calls, monkeypatch, suffix, damage):
    blocks = interrupt(monkeypatch, 2)
    first = sorted(blocks.glob(f"*.{suffix}"))[0]
    damage(first)
    calls.clear()
    assert dispatch(WORDS) == 0
    assert calls == [(0, 2), (4, 6)]
    assert results("out") == undisturbed


def test_damaged_notes_are_made_again(undisturbed, monkeypatch):
    def stop(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(running._Execution, "_finish", stop)
        assert dispatch(WORDS) == 130
    (meta,) = Path("out/blocks").glob("*.json")
    meta.write_text("{")
    assert dispatch(WORDS) == 0
    assert results("out") == undisturbed


def test_leftovers_of_a_killed_process_do_not_disturb(undisturbed, monkeypatch):
    blocks = interrupt(monkeypatch, 1)
    (blocks / ".0000-0000002-0000004.records.99999.part").write_text("half")
    assert dispatch(WORDS) == 0
    assert results("out") == undisturbed


def test_two_at_once(ferries, capsys):
    Path("out").mkdir()
    with FileLock("out/.lock"):
        assert dispatch(WORDS) == 2
    assert capsys.readouterr().err == (
        "error: another run is at work in out; wait for it or choose another output_dir\n"
    )
    assert not Path("out/environment.json").exists()
    assert dispatch(WORDS) == 0


@pytest.mark.parametrize("finished", [True, False])
def test_another_plan_in_the_folder(blocks_of_two, monkeypatch, capsys, finished):
    if finished:
        assert dispatch(WORDS) == 0
    else:
        interrupt(monkeypatch, 1)
    capsys.readouterr()
    assert dispatch([*WORDS, "k=3"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: out holds another run")
    assert err.count("\n") == 1
    assert dispatch([*WORDS, "k=3", "overwrite=true"]) == 0
    assert open_run("out").summary["conditions"][0]["config"]["k"] == 3


def test_changed_collection(blocks_of_two, calls, monkeypatch, capsys):
    interrupt(monkeypatch, 1)
    write_collection(blocks_of_two, DOCUMENTS | {"d12": ("", "not empty any more")})
    capsys.readouterr()
    assert dispatch(WORDS) == 2
    assert "the collection has changed since this run began" in capsys.readouterr().err
    calls.clear()
    assert dispatch([*WORDS, "overwrite=true"]) == 0
    assert calls == [(0, 2), (2, 4), (4, 6)]


def test_changed_collection_under_a_finished_run(ferries, capsys):
    """A finished run is a result of the collection as it was."""
    assert dispatch(WORDS) == 0
    before = results("out")
    write_collection(ferries, DOCUMENTS, QUERIES, QRELS | {"q9": {"d9": 1}})
    assert dispatch([*WORDS, "overwrite=true"]) == 0
    assert results("out") != before


def test_changed_version(blocks_of_two, monkeypatch, capsys):
    interrupt(monkeypatch, 1)
    path = Path("out/environment.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "stressrag": "0.0.0"}))
    assert dispatch(WORDS) == 2
    assert "was begun by stressrag 0.0.0" in capsys.readouterr().err


def test_overwrite_spares_what_is_not_ours(ferries, calls):
    assert dispatch(WORDS) == 0
    Path("out/notes.txt").write_text("mine")
    calls.clear()
    assert dispatch([*WORDS, "overwrite=true"]) == 0
    assert calls
    assert Path("out/notes.txt").read_text() == "mine"


def test_found_finished(ferries, calls, capsys):
    assert dispatch(WORDS) == 0
    first = capsys.readouterr().out
    calls.clear()
    assert dispatch(WORDS) == 0
    assert calls == []
    assert capsys.readouterr().out == first.replace("written: ", "found finished: ")


@pytest.mark.parametrize("name", ["records.parquet", "rankings.parquet", "summary.json"])
def test_tampered_results(ferries, name):
    assert dispatch(WORDS) == 0
    path = Path("out") / name
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(bytes(whole))
    with pytest.raises(
        StressragError, match=rf"{name} is missing or was changed after the run.*overwrite=true"
    ):
        open_run("out")
    path.unlink()
    with pytest.raises(StressragError, match=f"{name} is missing"):
        open_run("out")


def test_no_run(tmp_path):
    with pytest.raises(StressragError, match="no run at"):
        open_run(tmp_path / "none")
    with pytest.raises(StressragError, match="holds no finished run"):
        open_run(tmp_path)


def test_foreign_records(ferries):
    assert dispatch(WORDS) == 0
    run = open_run("out")
    table = run.records().replace_schema_metadata({b"stressrag_schema": b"99"})
    pq.write_table(table, "out/records.parquet")
    with pytest.raises(StressragError, match="schema 99, this stressrag reads 2"):
        run.records()
    pq.write_table(table.replace_schema_metadata(None), "out/records.parquet")
    with pytest.raises(StressragError, match="not written by stressrag"):
        run.records()


def test_the_output_folder_is_a_file(ferries, capsys):
    Path("out").write_text("")
    assert dispatch(WORDS) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: cannot write out: ")
    assert err.endswith("choose another output_dir\n")
    assert err.count("\n") == 1


def test_full_disk(blocks_of_two, monkeypatch, capsys):
    """The line says so, nothing half is left, and with room again the run goes on."""
    replace, done = os.replace, []

    def full(source, target):
        if str(target).endswith(".records") and len(done) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        done.extend([1] if str(target).endswith(".records") else [])
        replace(source, target)

    with monkeypatch.context() as m:
        m.setattr(os, "replace", full)
        assert dispatch(WORDS) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: the disk is full: cannot write out/blocks/")
    assert err.count("\n") == 1
    assert not list(Path("out").rglob("*.part"))
    assert dispatch(WORDS) == 0


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "Permission denied"), ValueError("no"), KeyboardInterrupt()]
)
def test_atomic_writing_leaves_all_or_nothing(tmp_path, error):
    path = tmp_path / "there" / "file"
    write_json(path, {"a": 1})

    def half(part: Path) -> None:
        part.write_text("half")
        raise error

    with pytest.raises(StressragError if isinstance(error, OSError) else type(error)):
        write_atomically(path, half)
    assert [p.name for p in path.parent.iterdir()] == ["file"]
    assert json.loads(path.read_text()) == {"a": 1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["defense=nowhere_to_be:Found"], "cannot import"),
        (["attack.targets=[nosuch]"], "nosuch"),
        (["dataset=folder", "dataset.path=nosuch"], "nosuch"),
        (["metrics=nowhere_to_be:m"], "nowhere_to_be"),
        (["attack=optimal", "attack.terms=1", "attack.body=payload", "attack.max_tokens=2"], "no room"),
    ],
)
def test_a_run_to_be_replaced_is_put_back_when_the_new_one_fails(undisturbed, words, message, capsys):
    before = {p.name: p.read_bytes() for p in Path("whole").iterdir() if p.is_file()}
    assert dispatch(["report", "whole"]) == 0
    before |= {n: (Path("whole") / n).read_bytes() for n in ("report.html", "report.md")}
    command = [w for w in WORDS[:-1] if w.partition("=")[0] not in {x.partition("=")[0] for x in words}]
    assert dispatch([*command, *words, "output_dir=whole", "overwrite=true"]) == 2
    assert message in capsys.readouterr().err
    assert {p.name: p.read_bytes() for p in Path("whole").iterdir() if p.is_file()} == before
    assert not (Path("whole") / ".before").exists()
    open_run("whole")
    assert dispatch([*WORDS[:-1], "attack.budget=2", "output_dir=whole", "overwrite=true"]) == 0
    assert not (Path("whole") / "report.html").exists()
    assert {c["config"]["budget"] for c in open_run("whole").summary["conditions"]} == {0, 2}
