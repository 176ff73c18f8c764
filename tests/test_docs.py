"""Every command and every Python block of README and docs is run; the reference is that of the docstrings."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from conftest import write_collection

from stressrag.cli.main import dispatch

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
ELSEWHERE = {
    "python -m stressrag reproduce retrieval-paper": "test_reproduce.py runs it",
}


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def commands(page: Path) -> list[str]:
    """The stressrag commands of a page, those behind `&&` too."""
    lines = [line for text in blocks(page, "bash") for line in text.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [p for p in parts if p.startswith("python -m stressrag") and p not in ELSEWHERE]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A working directory with a collection `my-collection`, and the pages' own Python files."""
    folder = tmp_path_factory.mktemp("docs")
    write_collection(folder / "my-collection")
    for page in PAGES:
        for text in blocks(page, "python"):
            if match := re.match(r"# (\w+\.py)\n", text):
                (folder / match[1]).write_text(text)
    before = os.getcwd()
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    yield folder
    os.chdir(before)
    sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("page", "command"),
    [pytest.param(p, c, id=f"{p.stem}: {c[20:80]}") for p in PAGES for c in commands(p)],
)
def test_command(page, command, place, capsys, request):
    if any(name in command for name in ("scifact", "preset=paper", "bipia")):
        request.getfixturevalue("data_root")
    words = shlex.split(command)[3:]
    if words[0] == "attack":
        Path("poison.jsonl").unlink(missing_ok=True)
    if names := {"RUN", "RUN_A", "RUN_B"} & set(words):
        finished = request.getfixturevalue("finished")
        words = [finished[w] if w in names else w for w in words]
    if words[0] == "export" or words[:2] == ["aligned", "init"]:
        words.append("--overwrite")
    if words[0] == "run" and "retriever.target=my_search:Search" in words:
        words.append("dataset=folder")
        words.append("dataset.path=my-collection")
        words = [w for w in words if not w.startswith("attack.targets=")]
    if words[0] == "audit" and "retriever.target=my_search:Search" in words:
        words += ["dataset=folder", "dataset.path=my-collection"]
        words = [w for w in words if not w.startswith("attack.targets=")]
    assert dispatch(words) in ((0, 1) if words[0] == "gate" else (0,)), capsys.readouterr().err
    assert capsys.readouterr().out.strip()


@pytest.fixture(scope="module")
def finished(place) -> dict[str, str]:
    """Folders of finished runs, for commands that read some, and a gate file."""
    import stressrag

    words = ("attack=payload,partial", "attack.terms=2")
    one = stressrag.sweep(*words, "retriever=bm25", "output_dir=a-run")
    other = stressrag.sweep(*words, "retriever=lsa", "output_dir=another-run")
    Path("gate.yaml").write_text("rules:\n  - min: {Evid: 0.5}\n")
    return {"RUN": str(one.folder), "RUN_A": str(one.folder), "RUN_B": str(other.folder)}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        pytest.param(p, t, id=f"{p.stem} {n}")
        for p in PAGES
        for n, t in enumerate(blocks(p, "python"))
        if not re.match(r"# \w+\.py\n", t)
    ],
)
def test_python(page, text, place, capsys):
    exec(compile(text, str(page), "exec"), {})


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebook(path, tmp_path, monkeypatch, capsys):
    """The code cells one after another in one namespace, and none of them empty of meaning."""
    monkeypatch.chdir(tmp_path)
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    assert len(code) >= 4
    namespace: dict[str, object] = {}
    for text in code:
        exec(compile(text, str(path), "exec"), namespace)
    assert capsys.readouterr().out.strip()
    shutil.rmtree(tmp_path / "runs", ignore_errors=True)


def test_there_are_notebooks():
    assert {p.stem for p in NOTEBOOKS} >= {"quickstart", "reading-records"}


def test_the_reference_is_made_from_the_docstrings():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_reference import reference
    finally:
        sys.path.pop(0)
    assert (ROOT / "docs" / "reference.md").read_text("utf-8") == reference()
