"""The ``data`` command: what it prints and how it ends."""

import pytest

from stressrag.cli.data import main
from stressrag.errors import StressragError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A good collection called ``mine``, the only one on the machine."""
    monkeypatch.setenv("STRESSRAG_DATA", str(tmp_path))
    monkeypatch.setenv("STRESSRAG_CACHE", str(tmp_path / "cache"))
    mine = tmp_path / "beir" / "mine"
    (mine / "qrels").mkdir(parents=True)
    (mine / "corpus.jsonl").write_text('{"_id": "d", "title": "one", "text": "two three"}\n')
    (mine / "queries.jsonl").write_text('{"_id": "q", "text": "one"}\n')
    (mine / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t2\nq\tx\t1\n")
    return mine


def test_list(folder, capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "documents", "judged", "queries", "where"]
    (scifact,) = [line for line in lines if line.startswith("scifact ")]
    assert scifact.split()[1:3] == ["5,183", "300"]
    assert "to be downloaded" in scifact
    assert any(line.startswith("mine ") and line.endswith(str(folder)) for line in lines)
    assert any(line.startswith("cranfield ") and "local only" in line for line in lines)
    assert len({line.find(line.split("  ")[-1]) for line in lines[:5]}) == 1


@pytest.mark.parametrize("by_path", [False, True])
def test_info(folder, capsys, by_path):
    assert main(["info", str(folder) if by_path else "mine"]) == 0
    out = capsys.readouterr().out
    assert "1, mean 3.0 words" in out
    assert "2 (grade 1: 1, grade 2: 1)" in out
    assert "sha256 content" in out
    assert "qrels/test.tsv:3: the judged document is not in the corpus" in out


def test_info_without_a_copy(folder, capsys):
    assert main(["info", "msmarco"]) == 0
    out = capsys.readouterr().out
    assert "6,980 judged in dev" in out
    assert "to be downloaded" in out


def test_check_warns(folder, capsys):
    assert main(["check", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{folder}/qrels/test.tsv:3: warning: the judged document is not")
    assert lines[1:] == ["1 documents, 1 queries, 1 judged in test by 2 judgments", "0 errors, 1 warning"]


def test_check_fails(folder, capsys):
    with (folder / "corpus.jsonl").open("a") as f:
        f.write("{\n" * 60)
    assert main(["check", str(folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{folder}/corpus.jsonl:2: error: broken JSON")
    assert lines[50] == "and 10 more errors"
    assert lines[-1] == "60 errors, 1 warning"


def test_check_another_split_and_other_files(folder, capsys):
    assert main(["check", str(folder), "--split", "dev"]) == 1
    assert "qrels/dev.tsv: error: the file is missing" in capsys.readouterr().out
    assert main(["check", str(folder), "--qrels", str(folder / "gone")]) == 1
    assert f"{folder / 'gone'}: error: the file is missing" in capsys.readouterr().out
    with pytest.raises(StressragError, match="there is no folder"):
        main(["check", str(folder / "no")])


def test_fetch_of_what_is_there(folder, capsys):
    assert main(["fetch", "mine"]) == 0
    captured = capsys.readouterr()
    assert captured.out.strip() == str(folder)
    assert "already there" in captured.err


def test_misspelt(folder, capsys):
    assert main(["chekc"]) == 2
    assert capsys.readouterr().err.strip() == (
        "python -m stressrag data: there is no command 'chekc'; did you mean 'check'?"
    )
    with pytest.raises(StressragError, match="did you mean 'scifact'"):
        main(["info", "scifac"])


@pytest.mark.parametrize("argv", [[], ["check"], ["list", "x"], ["check", "x", "--spilt", "dev"]])
def test_bad_usage_is_one_line_and_2(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_real_collections_pass(data_root, capsys):
    for folder in sorted((data_root / "beir").iterdir()):
        assert main(["check", str(folder)]) == 0
        assert capsys.readouterr().out.splitlines()[-1].startswith("0 errors, ")
