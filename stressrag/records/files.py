"""Writing whole files or none, and saying clearly why not."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stressrag.errors import StressragError

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

    def write(part: Path) -> None:
        part.write_text(text, "utf-8")

    write_atomically(path, write, mend)


def write_json(path: Path, value: Any, mend: str = _MEND) -> None:
    """Write JSON in one step; NaN is not JSON and is refused."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", mend)


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while chunk := f.read(1 << 20):
            h.update(chunk)
    return h.hexdigest()
