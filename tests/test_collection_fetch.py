"""Downloads without a network: what is checked, and what is left behind."""

import hashlib
import shutil
import sys
import types
import zipfile
from dataclasses import replace

import pytest

from stressrag.collection import fetch, load_dataset
from stressrag.collection.catalogue import BIPIA, CATALOGUE
from stressrag.errors import StressragError

FILES = {
    "scifact/corpus.jsonl": '{"_id": "d", "text": "x"}\n',
    "scifact/queries.jsonl": '{"_id": "q", "text": "x"}\n',
    "scifact/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq\td\t1\n",
}


def zip_of(path, files):
    with zipfile.ZipFile(path, "w") as z:
        for name, content in files.items():
            z.writestr(name, content)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("STRESSRAG_DATA", raising=False)
    monkeypatch.setenv("STRESSRAG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Put an archive in the place of BEIR's server, and its checksum in the catalogue."""

    def put(files=FILES, md5=None, error=None):
        archive = zip_of(tmp_path / "served.zip", files)

        def download_url(url, save_path):
            assert url == CATALOGUE["scifact"].source
            shutil.copy(archive, save_path)
            if error:
                raise error

        util = types.ModuleType("beir.util")
        util.download_url = download_url
        monkeypatch.setitem(sys.modules, "beir", types.ModuleType("beir"))
        monkeypatch.setitem(sys.modules, "beir.util", util)
        md5 = md5 or hashlib.md5(archive.read_bytes()).hexdigest()
        monkeypatch.setitem(CATALOGUE, "scifact", replace(CATALOGUE["scifact"], md5=md5))

    return put


def left_behind(cache):
    return [p.name for p in (cache / "datasets").iterdir() if not p.name.endswith(".lock")]


def test_fetch_then_load(cache, serve, capsys):
    serve()
    assert fetch.fetch("scifact") == cache / "datasets" / "scifact"
    assert left_behind(cache) == ["scifact"]
    serve(error=AssertionError("fetched twice"))
    assert fetch.fetch("scifact") == cache / "datasets" / "scifact"
    assert "already there" in capsys.readouterr().err
    assert load_dataset("scifact").corpus.ids == ["d"]


def test_load_fetches(cache, serve):
    serve()
    assert load_dataset("scifact").origin == str(cache / "datasets" / "scifact")


def test_wrong_checksum_leaves_nothing(cache, serve):
    serve(md5="0" * 32)
    with pytest.raises(StressragError, match=r"md5 .* instead of 0000"):
        fetch.fetch("scifact")
    assert left_behind(cache) == []


def test_network_failure_is_one_line(cache, serve):
    serve(error=OSError("no route\nto host"))
    with pytest.raises(StressragError, match=r"cannot download https://\S+scifact.zip: no route$"):
        fetch.fetch("scifact")
    assert left_behind(cache) == []


@pytest.mark.parametrize("name", ["../evil", "/evil", "scifact/../../evil", "C:/evil", "..\\evil"])
def test_unsafe_members_are_refused(cache, serve, name, tmp_path):
    serve({**FILES, name: "x"})
    with pytest.raises(StressragError, match="unsafe member"):
        fetch.fetch("scifact")
    assert left_behind(cache) == []
    assert not list(tmp_path.rglob("evil"))


def test_links_are_refused(tmp_path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as z:
        z.writestr(info, "/etc")
    with pytest.raises(StressragError, match="unsafe member 'link'"):
        fetch.unpack(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_of_something_else(cache, serve):
    serve({"other/corpus.jsonl": ""})
    with pytest.raises(StressragError, match=r"holds no scifact/corpus.jsonl"):
        fetch.fetch("scifact")


def test_missing_extra(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "beir", None)
    monkeypatch.setitem(sys.modules, "beir.util", None)
    with pytest.raises(
        StressragError, match=r'STRESSRAG_DATA .* beir/nfcorpus.* pip install "stressrag\[beir\]"'
    ):
        load_dataset("nfcorpus")


def test_names(cache):
    with pytest.raises(StressragError, match="did you mean 'fever'"):
        fetch.fetch("fevr")
    with pytest.raises(StressragError, match="cranfield cannot be downloaded"):
        fetch.fetch("cranfield")


def test_bipia(cache, tmp_path, monkeypatch, capsys):
    served = tmp_path / "served"
    served.mkdir()
    for file in BIPIA.sha256:
        (served / file).write_text(file)
    good = {f: hashlib.sha256(f.encode()).hexdigest() for f in BIPIA.sha256}
    resource = replace(BIPIA, base=served.as_uri() + "/", sha256={**good, "text_attack_train.json": "0" * 64})
    monkeypatch.setattr(fetch, "BIPIA", resource)
    with pytest.raises(StressragError, match="sha256"):
        fetch.fetch("bipia")
    assert [p for p in (cache / "bipia").iterdir() if not p.name.endswith(".lock")] == []
    monkeypatch.setattr(fetch, "BIPIA", replace(resource, sha256=good))
    assert fetch.fetch("bipia") == cache / "bipia"
    assert sorted(p.name for p in (cache / "bipia").glob("*.json")) == sorted(good)
    assert fetch.fetch("bipia") == cache / "bipia"
    assert "already there" in capsys.readouterr().err
    shutil.rmtree(cache)
    shutil.rmtree(served)
    with pytest.raises(StressragError, match="cannot download file://"):
        fetch.fetch("bipia")
