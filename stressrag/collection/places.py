"""Where collections lie on this machine: in the package, ``$STRESSRAG_DATA``, the user's cache."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from stressrag.errors import StressragError

EMBEDDED = "pellmore"
"""The collection that travels in the package and is the default everywhere."""

_PACKAGED = Path(__file__).resolve().parent / "embedded"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def data_root() -> Path | None:
    """The folder that ``STRESSRAG_DATA`` names, ``None`` where it is not set.

    Raises
    ------
    StressragError
        If it names no folder.
    """
    value = os.environ.get("STRESSRAG_DATA")
    if not value:
        return None
    root = Path(value).expanduser()
    if not root.is_dir():
        raise StressragError(
            f"STRESSRAG_DATA is {value!r}, which is no folder; set it to a folder holding beir/NAME"
        )
    return root


def cache_root() -> Path:
    """The folder for downloads; it need not exist yet."""
    if value := os.environ.get("STRESSRAG_CACHE"):
        return Path(value).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "stressrag"


def check_name(name: str) -> str:
    """``name`` itself if it is a plain folder name.

    Raises
    ------
    StressragError
        If it holds path separators or other signs a dataset name has no use for.
    """
    if not _NAME.fullmatch(name):
        raise StressragError(
            f"{name!r} is not a dataset name; for a folder of your own use dataset=folder dataset.path=PATH"
        )
    return name


def _shelves() -> Iterator[Path]:
    """Folders that hold collections, in the order of precedence."""
    yield _PACKAGED
    if root := data_root():
        yield root / "beir"
        yield root
    yield cache_root() / "datasets"


def is_packaged(folder: Path) -> bool:
    """Whether a collection's folder is part of the package."""
    return folder.is_relative_to(_PACKAGED)


def find_local(name: str) -> Path | None:
    """The folder of a collection on this machine; the name must be exact, also in upper and lower case."""
    check_name(name)
    for shelf in _shelves():
        # Listing, not testing for existence: some file systems take NFCorpus for nfcorpus.
        if shelf.is_dir() and name in os.listdir(shelf) and (shelf / name).is_dir():
            return shelf / name
    return None


def local_names() -> list[str]:
    """The names of all folders on this machine that hold a collection."""
    names = {
        folder.name
        for shelf in _shelves()
        if shelf.is_dir()
        for folder in shelf.iterdir()
        if any((folder / file).is_file() for file in ("corpus.jsonl", "corpus.jsonl.gz"))
    }
    return sorted(n for n in names if _NAME.fullmatch(n))


def find_bipia(file: str = "text_attack_test.json") -> Path | None:
    """A BIPIA file on this machine, ``None`` where there is none (``data fetch bipia`` gets it)."""
    root = data_root()
    folders = [root / "bipia"] if root else []
    for folder in [*folders, cache_root() / "bipia"]:
        if (folder / file).is_file():
            return folder / file
    return None
