"""What is wrong with the files of a collection, gathered while they are read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

# Past this many in one file the rest is only counted: a wrong file must not fill the memory.
_LISTED_ERRORS = 1000
_LISTED_LINES = 3


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: an error stops the loading, a warning does not.

    Attributes
    ----------
    severity : {'error', 'warning'}
    file : str
        The file as it was opened.
    line : int or None
        Counted from 1; for a repeated warning the first one. ``None``: the file as a whole.
    message : str
        What is wrong, without file and line.
    count : int
        How often it occurs in this file.
    """

    severity: str
    file: str
    line: int | None
    message: str
    count: int = 1

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.severity}: {self.message}"


class ProblemLog:
    """Gathers problems in reading order: each error by itself, warnings of one kind in one line."""

    def __init__(self) -> None:
        self._errors: dict[str, list[Problem]] = {}
        self._unlisted: dict[str, int] = {}
        self._warnings: dict[tuple[str, str], tuple[Problem, list[int]]] = {}
        self._files: list[str] = []

    def _note_file(self, file: str) -> None:
        if file not in self._files:
            self._files.append(file)

    def error(self, file: str, line: int | None, message: str) -> None:
        """Something that cannot be worked with."""
        self._note_file(file)
        listed = self._errors.setdefault(file, [])
        if len(listed) < _LISTED_ERRORS:
            listed.append(Problem("error", file, line, message))
        else:
            self._unlisted[file] = self._unlisted.get(file, 0) + 1

    def warn(self, file: str, line: int | None, kind: str, example: str = "") -> None:
        """Something that can be worked with; the same ``kind`` in the same file is counted."""
        self._note_file(file)
        key = (file, kind)
        if key not in self._warnings:
            message = f"{kind}: {example}" if example else kind
            self._warnings[key] = (Problem("warning", file, line, message), [])
            return
        problem, lines = self._warnings[key]
        self._warnings[key] = (replace(problem, count=problem.count + 1), lines)
        if line is not None and len(lines) < _LISTED_LINES:
            lines.append(line)

    def problems(self) -> list[Problem]:
        """Everything gathered, file by file in reading order and line by line."""
        found = [p for listed in self._errors.values() for p in listed]
        found += [_counted(problem, lines) for problem, lines in self._warnings.values()]
        order = {file: i for i, file in enumerate(self._files)}
        found.sort(key=lambda p: (order[p.file], p.line or 0))
        for file, count in self._unlisted.items():
            found.append(Problem("error", file, None, f"{count} further errors, not listed", count))
        return found


def _counted(problem: Problem, lines: list[int]) -> Problem:
    if problem.count == 1:
        return problem
    also = ""
    if lines:
        noun = "line" if problem.count == 2 else "lines"
        rest = ", …" if problem.count > len(lines) + 1 else ""
        also = f"; also {noun} " + ", ".join(map(str, lines)) + rest
    return replace(problem, message=f"{problem.message} ({problem.count} times{also})")


def collapsed(problems: Iterable[Problem]) -> list[Problem]:
    """Errors, those of one file that say the same once: with the first lines and how often, as warnings."""
    log = ProblemLog()
    for p in problems:
        log.warn(p.file, p.line, p.message)
    return [replace(p, severity="error") for p in log.problems()]
