"""Finding collections by name, telling copies apart, and the real ones."""

import shutil

import pytest

from stressrag.collection import load_dataset, load_folder
from stressrag.collection.catalogue import BIPIA, CATALOGUE, Copy, Entry
from stressrag.collection.places import EMBEDDED, find_bipia
from stressrag.errors import StressragError


def write(folder, text="x"):
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text(f'{{"_id": "d", "text": "{text}"}}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "x"}\n')
    for split in ("test", "dev"):
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    return folder


@pytest.fixture
def shelves(tmp_path, monkeypatch):
    """An empty data folder and an empty cache."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("STRESSRAG_DATA", str(data))
    monkeypatch.setenv("STRESSRAG_CACHE", str(cache))
    return data, cache


def test_order_of_places(shelves):
    data, cache = shelves
    for folder in (cache / "datasets" / "mine", data / "mine", data / "beir" / "mine"):
        write(folder)
        assert load_dataset("mine").origin == str(folder)


def test_cache_without_data_folder(shelves, monkeypatch):
    monkeypatch.delenv("STRESSRAG_DATA")
    monkeypatch.delenv("STRESSRAG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(shelves[1]))
    folder = write(shelves[1] / "stressrag" / "datasets" / "mine")
    assert load_dataset("mine").origin == str(folder)


def test_names(shelves):
    write(shelves[0] / "beir" / "mine")
    with pytest.raises(StressragError, match=r"did you mean 'scifact'"):
        load_dataset("scifcat")
    with pytest.raises(StressragError, match=r"did you mean 'mine'"):
        load_dataset("Mine")
    for name in ("../mine", "beir/mine", "..", ""):
        with pytest.raises(StressragError, match=r"dataset=folder dataset.path=PATH"):
            load_dataset(name)
    with pytest.raises(StressragError, match=r"add dataset.path=PATH"):
        load_dataset("folder")
    with pytest.raises(StressragError, match="set STRESSRAG_DATA to a folder holding beir/cranfield"):
        load_dataset("cranfield")


def test_data_folder_that_is_none(shelves, monkeypatch):
    monkeypatch.setenv("STRESSRAG_DATA", str(shelves[0] / "gone"))
    with pytest.raises(StressragError, match=r"STRESSRAG_DATA is .* which is no folder"):
        load_dataset("scifact")


def test_path_and_split(shelves):
    folder = write(shelves[0] / "elsewhere")
    assert load_dataset("folder", path=folder).name == "elsewhere"
    assert load_dataset("msmarco", path=folder).split == "dev"
    assert load_dataset("msmarco", path=folder, split="test").split == "test"


def test_another_copy_is_noted(shelves):
    write(shelves[0] / "beir" / "scifact")
    note = "content differs from the known copy (rebuilt from the SciFact abstracts)"
    assert load_dataset("scifact").notes == (note,)


def test_nfcorpus_is_not_nfcorpus_normalised(shelves, monkeypatch):
    normalised = write(shelves[0] / "beir" / "nfcorpus-normalised")
    hashes = load_folder(normalised).hashes
    entry = CATALOGUE["nfcorpus-normalised"]
    copy = Copy("small", hashes["corpus"], hashes["content"])
    known = Entry(**{**vars(entry), "copies": (copy,)})
    monkeypatch.setitem(CATALOGUE, "nfcorpus-normalised", known)
    assert load_dataset("nfcorpus-normalised").notes == ()
    shutil.copytree(normalised, shelves[0] / "beir" / "nfcorpus")
    for split in ("test", "dev"):
        with pytest.raises(StressragError, match="is called nfcorpus but holds nfcorpus-normalised"):
            load_dataset("nfcorpus", split=split)


def test_catalogue_is_sound():
    for name, entry in CATALOGUE.items():
        assert name == entry.name
        assert entry.md5 is None or (len(entry.md5) == 32 and entry.source.endswith(f"/{name}.zip"))
        assert all(len(h) == 64 for copy in entry.copies for h in (copy.corpus, copy.content))


@pytest.mark.parametrize("name", [n for n, e in CATALOGUE.items() if e.copies and n != EMBEDDED])
def test_real_collections(data_root, name):
    if not (data_root / "beir" / name).is_dir():
        pytest.skip(f"needs beir/{name} in STRESSRAG_DATA")
    c, entry = load_dataset(name), CATALOGUE[name]
    assert (len(c.corpus), len(c.evaluated)) == (entry.documents, entry.queries)
    assert c.hashes["content"] in {copy.content for copy in entry.copies}
    assert not any("differs" in note for note in c.notes)


def test_real_scifact(data_root):
    c = load_folder(data_root / "beir" / "scifact")
    assert (len(c.corpus), len(c.queries), len(c.evaluated)) == (5183, 1109, 300)
    assert sum(len(docs) for docs in c.qrels.grades.values()) == 339
    assert load_folder(data_root / "beir" / "scifact", split="train").hashes["corpus"] == c.hashes["corpus"]


def test_real_bipia(data_root):
    import hashlib

    for file, digest in BIPIA.sha256.items():
        path = find_bipia(file)
        assert path is not None
        assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
