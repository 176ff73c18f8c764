"""``report``: finished runs as one HTML page and a Markdown file, from saved records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag report RUN… [--out FOLDER]

Writes report.html, one page without scripts that loads nothing from elsewhere, and report.md: a summary in
plain words, the threat model of each attack, tables with intervals, figures, and the worst targets with what
was pushed out. Reads the saved records of finished runs; nothing is computed again.

  RUN            the folder of a finished run; several become one page with a section each
  --out FOLDER   where to write (default: the run's own folder; several runs need it)

examples:
  python -m stressrag report runs/sweep-pellmore-hybrid-partial-0123456789
  python -m stressrag report runs/one runs/another --out reports/both"""


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    folders, out = _words(argv)
    if not folders:
        raise StressragError("report needs the folder of a finished run, such as: report runs/NAME-HASH")
    from stressrag.records.folder import open_run
    from stressrag.report.content import HTML, write_report

    folder = write_report([open_run(f) for f in folders], out)
    print(f"written: {folder / HTML}")
    return 0


def _words(argv: Sequence[str]) -> tuple[list[Path], Path | None]:
    folders: list[Path] = []
    out: str | None = None
    words = iter(argv)
    for word in words:
        if word == "--out":
            out = next(words, "")
        elif word.startswith(("--out=", "out=")):
            out = word.split("=", 1)[1]
        elif word.startswith("-"):
            raise StressragError(f"report has no option {word!r}; there is --out FOLDER")
        else:
            folders.append(Path(word).expanduser())
    if out == "":
        raise StressragError("--out needs a folder")
    return folders, None if out is None else Path(out).expanduser()
