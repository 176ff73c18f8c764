"""The lines of a text file, plain or gzipped, decoded one by one so that a bad one has a number."""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from stressrag.collection.problems import ProblemLog

_BOM = b"\xef\xbb\xbf"
_BIG = 20_000_000  # bytes; smaller files are read before a progress bar could be looked at


def read_lines(path: Path, log: ProblemLog) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not blank.

    Lines end at ``\\n`` or ``\\r\\n`` and nowhere else, so U+2028 and its like stay inside the text.
    A byte order mark is dropped. Undecodable lines and unreadable files go to ``log`` as errors.

    Parameters
    ----------
    path : Path
        A UTF-8 file; gzip is told by its first bytes, whatever the name.
    log : ProblemLog
        Takes the errors.

    Yields
    ------
    number : int
        Counted from 1, blank lines included.
    text : str
        Without its line end.
    """
    number = 0
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream: IO[bytes] = gzip.GzipFile(fileobj=raw) if zipped else raw  # type: ignore[assignment]
            for number, line in enumerate(_watched(stream, raw), start=1):
                if number == 1 and line.startswith(_BOM):
                    line = line[len(_BOM) :]
                line = line[:-1] if line.endswith(b"\n") else line
                line = line[:-1] if line.endswith(b"\r") else line
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as e:
                    log.error(
                        str(path),
                        number,
                        f"not UTF-8: byte 0x{line[e.start]:02x} at byte {e.start + 1} of the line",
                    )
                    continue
                if text.strip():
                    yield number, text
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        log.error(str(path), number + 1, f"broken gzip file: {e}")
    except OSError as e:
        log.error(str(path), None, f"cannot be read: {e.strerror or e}")


def first_line(path: Path) -> str:
    """The first line that is not blank, ``""`` where there is none: enough to tell the format."""
    for _, text in read_lines(path, ProblemLog()):
        return text
    return ""


def _watched(stream: IO[bytes], raw: IO[bytes]) -> Iterator[bytes]:
    """Pass the lines on; for a big file move a progress bar on a terminal."""
    size = os.fstat(raw.fileno()).st_size
    if size < _BIG or not sys.stderr.isatty():
        yield from stream
        return
    from tqdm import tqdm

    bar: Any
    with tqdm(total=size, unit="B", unit_scale=True, desc=os.path.basename(raw.name), leave=False) as bar:
        for number, line in enumerate(stream):
            if number % 1000 == 0:
                bar.update(raw.tell() - bar.n)
            yield line
