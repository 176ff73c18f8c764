"""Downloads into the cache: checked before they are unpacked, moved into place when they are whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import urllib.request
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from stressrag.collection.catalogue import BIPIA, CATALOGUE, Entry
from stressrag.collection.places import cache_root, check_name, find_bipia, find_local
from stressrag.errors import StressragError, nearest


def fetch(name: str) -> Path:
    """Get a named collection (or ``bipia``) onto this machine.

    Parameters
    ----------
    name : str
        A BEIR collection of the catalogue, or ``'bipia'``.

    Returns
    -------
    Path
        The folder it lies in. A copy that is there already is left as it is.

    Raises
    ------
    StressragError
        If the name is unknown or cannot be downloaded, the beir extra is missing, the network fails or
        a checksum does not match. Nothing half-written is left behind.
    """
    if name == BIPIA.name:
        return _fetch_bipia()
    check_name(name)
    if folder := find_local(name):
        _say(f"{name} is already there: {folder}")
        return folder
    entry = CATALOGUE.get(name)
    if entry is None:
        fetchable = [e.name for e in CATALOGUE.values() if e.md5] + [BIPIA.name]
        raise StressragError(f"there is no dataset {name!r} to download; {nearest(name, fetchable)}")
    if entry.md5 is None:
        raise StressragError(
            f"{name} cannot be downloaded; set STRESSRAG_DATA to a folder holding beir/{name} "
            f"(source: {entry.source})"
        )
    return _fetch_beir(entry)


def _fetch_beir(entry: Entry) -> Path:
    download = _beir_downloader(entry.name)
    home = cache_root() / "datasets"
    target = home / entry.name
    with _workshop(home, entry.name) as room:
        if target.is_dir():  # another process was first while this one waited
            return target
        archive = room / f"{entry.name}.zip"
        _say(f"downloading {entry.source}")
        try:
            download(entry.source, str(archive))
        except OSError as e:  # requests' errors are OSErrors too
            raise StressragError(f"cannot download {entry.source}: {_first_words(e)}") from e
        _verify(archive, "md5", entry.md5 or "", entry.source)
        unpack(archive, room / "unpacked")
        folder = room / "unpacked" / entry.name
        if not (folder / "corpus.jsonl").is_file():
            raise StressragError(f"the archive {entry.source} holds no {entry.name}/corpus.jsonl")
        os.replace(folder, target)
    _say(f"{entry.name} is now in {target}")
    return target


def _beir_downloader(name: str) -> Callable[[str, str], None]:
    """BEIR's own download function (it shows the progress); needs the beir extra."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tqdm's remarks on notebooks
            from beir.util import download_url
    except ImportError as e:
        raise StressragError(
            f"{name} is not on this machine: set STRESSRAG_DATA to a folder holding beir/{name}, "
            f'or install the beir extra to download it: pip install "stressrag[beir]" ({e})'
        ) from e
    return download_url


def _fetch_bipia() -> Path:
    home = cache_root() / BIPIA.name
    found = [find_bipia(file) for file in BIPIA.sha256]
    if found[0] is not None and all(found):
        _say(f"{BIPIA.name} is already there: {found[0].parent}")
        return found[0].parent
    with _workshop(home, BIPIA.name) as room:
        for file, digest in BIPIA.sha256.items():
            url = BIPIA.base + file
            _say(f"downloading {url}")
            try:
                with urllib.request.urlopen(url, timeout=60) as response, (room / file).open("wb") as out:
                    shutil.copyfileobj(response, out)
            except OSError as e:
                raise StressragError(f"cannot download {url}: {_first_words(e)}") from e
            _verify(room / file, "sha256", digest, url)
        for file in BIPIA.sha256:
            os.replace(room / file, home / file)
    _say(f"{BIPIA.name} is now in {home}")
    return home


@contextmanager
def _workshop(home: Path, name: str) -> Iterator[Path]:
    """A folder beside the target (so that a move is atomic) that vanishes; one process at a time."""
    from filelock import FileLock

    try:
        home.mkdir(parents=True, exist_ok=True)
        with (
            FileLock(home / f".{name}.lock"),
            tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home) as room,
        ):
            yield Path(room)
    except OSError as e:
        raise StressragError(
            f"cannot write to the cache {home}: {_first_words(e)}; set STRESSRAG_CACHE"
        ) from e


def _verify(file: Path, algorithm: str, expected: str, url: str) -> None:
    digest = hashlib.new(algorithm, usedforsecurity=False)
    with file.open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    if (actual := digest.hexdigest()) != expected:
        raise StressragError(
            f"{url} is not what it should be: {algorithm} {actual} instead of {expected}; nothing was kept"
        )


def unpack(archive: Path, target: Path) -> None:
    """Unpack a zip file, or nothing of it if a member would land outside ``target``.

    Raises
    ------
    StressragError
        If it is no zip file, or a member is an absolute path, climbs up or is a link.
    """
    try:
        with zipfile.ZipFile(archive) as z:
            for member in z.infolist():
                parts = PurePosixPath(member.filename.replace("\\", "/"))
                is_link = stat.S_ISLNK(member.external_attr >> 16)
                if parts.is_absolute() or ".." in parts.parts or ":" in member.filename or is_link:
                    raise StressragError(
                        f"refused to unpack {archive.name}: unsafe member {member.filename!r}"
                    )
            z.extractall(target)
    except zipfile.BadZipFile as e:
        raise StressragError(f"{archive.name} is not a zip file: {e}") from e


def _first_words(error: OSError) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _say(message: str) -> None:
    print(message, file=sys.stderr)
