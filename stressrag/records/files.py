"""Writing whole files or none, and saying clearly why not."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stressrag.errors import StressragError, brief

_MEND = "choose another output_dir"


def write_atomically(path: Path, write: Callable[[Path], None], mend: str = _MEND) -> None:
    """Have ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    Raises
    ------
    StressragError
        When the disk is full or the folder cannot be written; nothing is left behind.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        with open(part, "rb+") as f:
            os.fsync(f.fileno())
        os.replace(part, path)
    except OSError as e:
        _remove(part)
        raise cannot_write(path, e, mend) from e
    except BaseException:
        _remove(part)
        raise


def _remove(part: Path) -> None:
    with contextlib.suppress(OSError):  # such as a parent that is a file: there is nothing to remove
        part.unlink()


def cannot_write(path: Path, error: OSError, mend: str = _MEND) -> StressragError:
    """The error for a file that could not be written."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StressragError(
            f"the disk is full: cannot write {path}; make room and run the same command again"
        )
    return StressragError(f"cannot write {path}: {error.strerror or error}; {mend}")


def write_text(path: Path, text: str, mend: str = _MEND) -> None:
    """Write a text file in one step."""
    write_together({path: text}, mend)


def write_together(texts: Mapping[Path, str], mend: str = _MEND) -> None:
    """Write several text files, all of them or none.

    Parameters
    ----------
    texts : mapping
        Path to text, in the order in which they are put in place.
    mend : str
        What to do where a file cannot be written.

    Raises
    ------
    StressragError
        As :func:`write_atomically`, and for a text that is no Unicode: what could not be decoded when it was
        read, in an id or a file's name, cannot be written.
    """
    contents = {path: _encoded(path, text) for path, text in texts.items()}
    parts = {path: path.with_name(f".{path.name}.{os.getpid()}.part") for path in contents}
    try:
        for path, data in contents.items():
            _fill(path, parts[path], data, mend)
        for path, part in parts.items():
            try:
                os.replace(part, path)
            except OSError as e:
                raise cannot_write(path, e, mend) from e
    finally:
        for part in parts.values():
            _remove(part)


def _fill(path: Path, part: Path, data: bytes, mend: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():  # which could be told only when other files are in place already
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with open(part, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
    except OSError as e:
        raise cannot_write(path, e, mend) from e


def _encoded(path: Path, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as e:
        around = text[max(0, e.start - 20) : e.start + 20]
        raise StressragError(
            f"cannot write {path}: {brief(around)} is no Unicode text, and comes from an id or the name of a "
            "file; mend it there"
        ) from e


def write_json(path: Path, value: Any, mend: str = _MEND) -> None:
    """Write JSON in one step; NaN is not JSON and is refused."""
    write_text(path, json_of(value), mend)


def json_of(value: Any) -> str:
    """The text that :func:`write_json` writes."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()
