"""Replacing a run in its folder: the earlier one is put back when the new one fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

BEFORE = ".before"
"""Where the run that is being replaced waits until the new one is finished."""


@contextmanager
def replacing(folder: Path, names: Sequence[str], done: str, overwrite: bool) -> Iterator[None]:
    """With ``overwrite``, replace the run in a folder; it is put back when the new one fails.

    Parameters
    ----------
    folder : Path
        Of the run; what it holds under other names is left alone.
    names : sequence of str
        The files and folders that a run writes there.
    done : str
        The one of them that only a finished run has. What is left of an unfinished run is not kept.
    overwrite : bool
        Without it nothing is replaced.
    """
    before = folder / BEFORE
    if not overwrite:
        yield
        shutil.rmtree(before, ignore_errors=True)  # of a run that was killed while it replaced another
        return
    there = [n for n in names if (folder / n).exists()]
    if done in there:
        shutil.rmtree(before, ignore_errors=True)
        before.mkdir()
        for name in sorted(there, key=lambda n: n != done):  # first, so that what is left is no finished run
            (folder / name).rename(before / name)
    _remove(folder, there)
    try:
        yield
    except BaseException:
        _remove(folder, names)
        for path in sorted(before.glob("*"), key=lambda p: p.name == done):
            path.rename(folder / path.name)
        shutil.rmtree(before, ignore_errors=True)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _remove(folder: Path, names: Sequence[str]) -> None:
    for path in (folder / n for n in names):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
