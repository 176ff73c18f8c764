"""One run at a time in a folder; one that is replaced is put back when the new one fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stressrag.errors import StressragError
from stressrag.records.files import cannot_write, write_text

LOCK, BEFORE = ".lock", ".before"
"""Names in a run's folder: of its lock, and of where the run waits that is being replaced."""
_MOVED = ".moved"  # in the latter, once the whole run is there


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder, which is made; a second run in it is told so at once. A killed process lets go.

    Raises
    ------
    StressragError
        When another run holds it, or it cannot be made.
    """
    from filelock import FileLock, Timeout

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except Timeout as e:
        raise StressragError(
            f"another run is at work in {folder}; wait for it or choose another output_dir"
        ) from e
    except OSError as e:
        raise cannot_write(folder, e) from e
    try:
        for part in folder.glob(".*.part"):  # of a killed run: nobody else is at work here
            part.unlink(missing_ok=True)
        yield
    finally:
        lock.release()


@contextmanager
def replacing(folder: Path, names: Sequence[str], done: str, overwrite: bool) -> Iterator[None]:
    """With ``overwrite``, replace the run in a folder; it is put back when the new one fails.

    After a kill the run that was to be replaced waits in ``.before`` until another one ends there: it is put
    back if that one replaces and fails, and else removed.

    Parameters
    ----------
    folder : Path
        Of the run, held; what it holds under other names is left alone.
    names : sequence of str
        The files and folders that a run writes there.
    done : str
        The one of them that only a finished run has. What is left of an unfinished run is not kept.
    overwrite : bool
        Without it nothing is replaced.

    Raises
    ------
    StressragError
        When files cannot be moved; those that were are put back.
    """
    before = folder / BEFORE
    try:
        if before.is_dir() and not (before / _MOVED).exists():  # killed while it moved
            _put_back(before, folder, done)
        if overwrite:
            _set_aside(folder, before, names, done)
    except OSError as e:
        if before.is_dir() and not (before / _MOVED).exists():
            _put_back(before, folder, done)
        raise cannot_write(folder, e) from e
    try:
        yield
    except BaseException:
        if overwrite and (before / _MOVED).exists():
            _remove(folder, names)
            _put_back(before, folder, done)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _set_aside(folder: Path, before: Path, names: Sequence[str], done: str) -> None:
    """Move a finished run away; what is left of an unfinished one is removed."""
    there = [n for n in names if (folder / n).exists()]
    if done in there:
        shutil.rmtree(before, ignore_errors=True)
        before.mkdir()
        for name in sorted(there, key=lambda n: n != done):  # first, so that what is left is no finished run
            (folder / name).rename(before / name)
        write_text(before / _MOVED, "")
    else:
        _remove(folder, there)


def _put_back(before: Path, folder: Path, done: str) -> None:
    for path in sorted((p for p in before.iterdir() if p.name != _MOVED), key=lambda p: p.name == done):
        path.rename(folder / path.name)
    shutil.rmtree(before, ignore_errors=True)


def _remove(folder: Path, names: Sequence[str]) -> None:
    for path in (folder / n for n in names):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
