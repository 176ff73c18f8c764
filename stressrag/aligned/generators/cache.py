"""Answers kept on disk under the hash of what was asked of which generator.

Every entry is a file of its own, ``ab/cd/<hash>.json``, written beside its place and moved there in one
step: a killed process loses the answer it was waiting for and nothing else, processes need no server between
them, and single entries can be looked at, copied or deleted. One database file would save inodes, but is not
safe on network drives and all would be lost with it. Entries hold a checksum; a broken one counts as missing.

Whoever asks holds the lock of the prompt, so that two processes do not ask the same at once. Locks are a
bounded number of files, each for all hashes of one beginning: lock files of their own would double the number
of files, and removing them is not safe while others wait.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stressrag.aligned.generators.base import Completion, Prompt
from stressrag.errors import StressragError
from stressrag.records.files import cannot_write, write_text

_MEND = "choose another cache folder"
_LOCKS = 3  # hexadecimal digits: at most 4096 lock files


def prompt_hash(generator_identity: Mapping[str, Any], prompt: Prompt) -> str:
    """SHA-256 of the canonical JSON of a generator's identity and a prompt.

    Raises
    ------
    StressragError
        When the identity holds something that is no JSON value.
    """
    return _digest({"generator": dict(generator_identity), "prompt": asdict(prompt)})


def _digest(value: Mapping[str, Any]) -> str:
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as e:
        raise StressragError(f"the identity of a generator must hold JSON values only: {e}") from e
    return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class Entry:
    """A cached answer, and how long the generator took for it."""

    completion: Completion
    seconds: float = 0.0


class Cache:
    """A folder of answers.

    Parameters
    ----------
    folder : Path
        Made when the first answer is written.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def path(self, key: str) -> Path:
        """Where the entry of a hash lies."""
        return self.folder / key[:2] / key[2:4] / f"{key}.json"

    def get(self, key: str) -> Entry | None:
        """The entry of a hash; ``None`` when there is none that is whole."""
        try:
            row = json.loads(self.path(key).read_bytes())
            check = row.pop("check")
            if row["prompt"] != key or check != _digest(row):
                return None
            kept = {name: row[name] for name in Completion.__dataclass_fields__}
            return Entry(Completion(**kept), row["seconds"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StressragError, RecursionError):
            return None  # broken in whatever way: it is asked again and written anew

    def put(self, key: str, identity: Mapping[str, Any], entry: Entry) -> None:
        """Write an entry.

        Raises
        ------
        StressragError
            When the disk is full or the folder cannot be written.
        """
        row = {"prompt": key, "generator": dict(identity), **asdict(entry.completion)}
        row["seconds"] = round(entry.seconds, 4)
        row["check"] = _digest(row)
        write_text(self.path(key), json.dumps(row, indent=1) + "\n", _MEND)

    @contextlib.contextmanager
    def lock(self, key: str) -> Iterator[None]:
        """Hold the right to ask for a hash; waits while another thread or process does.

        Raises
        ------
        StressragError
            When the folder cannot be written.
        """
        from filelock import FileLock

        path = self.folder / "locks" / f"{key[:_LOCKS]}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            lock.acquire()
        except NotImplementedError:
            yield  # a drive without locks: asking twice is then possible, a broken entry is not
            return
        except OSError as e:
            raise cannot_write(path, e, _MEND) from e
        try:
            yield
        finally:
            lock.release()
