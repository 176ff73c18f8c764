"""Command lines of the verbs that read finished runs: options, one-line errors."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from stressrag.errors import StressragError, brief, line_of, nearest
from stressrag.records.names import DONE, RUN_FILES

_ANSWERS = (".jsonl", ".jsonl.gz", ".parquet")


class Options(argparse.ArgumentParser):
    """A parser whose errors are a :class:`StressragError` that names the verb.

    Parameters
    ----------
    verb : str
        The verb, for messages.
    """

    def __init__(self, verb: str):
        super().__init__(prog=verb, add_help=False, allow_abbrev=False)
        self.verb = verb

    def error(self, message: str) -> NoReturn:
        """Refuse a command line in one line."""
        short = message.replace("the following arguments are required:", "missing:")
        raise StressragError(f"{self.verb}: {short}; see python -m stressrag {self.verb} --help")

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """The options of a command line; unknown ones are refused with the nearest known."""
        # Options may stand between the positional words.
        args, rest = self.parse_known_intermixed_args(list(argv))
        if rest:
            known = [name for action in self._actions for name in action.option_strings]
            name = rest[0].partition("=")[0]
            hint = nearest(name[:60], known) if name.startswith("-") else f"see {self.verb} --help"
            raise StressragError(f"{self.verb}: {brief(name)} is not understood; {hint}")
        return args


def output_file(verb: str, option: str, text: str | None) -> Path | None:
    """The file that an option names, ``None`` where it was not given.

    Raises
    ------
    StressragError
        When it is empty, a folder or a file that a run consists of.
    """
    if text is None:
        return None
    path = user_path(verb, option, text)
    if not text.strip() or not path.name or path.is_dir():
        raise StressragError(f"{verb}: {option} {brief(text)} is no file; give a file name")
    if path.name in RUN_FILES and (path.parent / DONE).exists():
        raise StressragError(f"{verb}: {option} {text} is part of a run; choose another file")
    return path


def user_path(verb: str, option: str, text: str) -> Path:
    """The path that an option or word names, with ``~`` and ``~user`` in full.

    Raises
    ------
    StressragError
        Where there is no such user, or the text can be no path.
    """
    if "\0" in text:
        raise StressragError(f"{verb}: {option + ' ' if option else ''}{brief(text)} is no path")
    try:
        return Path(text).expanduser()
    except RuntimeError as e:
        what = f"{option} {brief(text)}" if option else brief(text)
        user = line_of(text.partition("/")[0])
        raise StressragError(f"{verb}: {what}: there is no home folder {user}; write the path in full") from e


def refuse_inputs(verb: str, option: str, target: Path | None, inputs: Iterable[str | Path]) -> None:
    """Refuse to write over what a command reads.

    Parameters
    ----------
    verb, option : str
        For the message.
    target : Path or None
        The file to be written; ``None``: there is none.
    inputs : iterable of path
        Files and folders that are read, those of answers with or without ``@settings``.

    Raises
    ------
    StressragError
        When the target is one of the files, by whatever name, or a file of answers in one of the folders.
    """
    if target is None or not target.exists():
        return
    for text in inputs:
        path = user_path(verb, "", str(text))
        if not path.exists() and "@" in str(text):
            path = user_path(verb, "", str(text).rpartition("@")[0])
        inside = path.is_dir() and target.name.endswith(_ANSWERS)
        inside = inside and target.resolve().parent in (path.resolve(), path.resolve() / "answers")
        if inside or (path.exists() and path.samefile(target)):
            raise StressragError(
                f"{verb}: {option} {target} is one of the files that are read; choose another file"
            )


def filter_of(given: Sequence[str] | None) -> str | None:
    """All ``--where`` of a command line as one."""
    return None if given is None else ",".join(given)
