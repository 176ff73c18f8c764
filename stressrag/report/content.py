"""What a report says of one run, before it is HTML or Markdown; and the writing of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stressrag.errors import StressragError
from stressrag.records.files import write_text
from stressrag.records.folder import Run
from stressrag.report.labels import Labels
from stressrag.report.plots import Figure, figures
from stressrag.report.tables import Table, tables
from stressrag.report.targets import Losses, losses
from stressrag.report.threats import threats
from stressrag.report.visible import visible
from stressrag.report.words import plain_words

HTML, MARKDOWN = "report.html", "report.md"


@dataclass(frozen=True)
class Content:
    """Everything that a report says of one run; texts are cut and safe to look at, not yet escaped."""

    name: str
    about: str
    labels: Labels
    words: list[tuple[str, list[str]]]
    threats: Table
    figures: list[Figure]
    missing: list[str]
    tables: list[Table]
    losses: Losses
    losses_note: str


def content(run: Run, number: int = 1) -> Content:
    """The content of a finished run.

    Parameters
    ----------
    run : Run
        A finished run.
    number : int
        Its place in the report, from 1.
    """
    summary = run.summary
    labels = Labels(summary)
    drawn, missing = figures(summary, labels, f"r{number}-")
    lost = losses(run)
    collections = ", ".join(f"{visible(n)} ({h[:12]})" for n, h in summary["content_sha256"].items())
    about = (
        f"{len(summary['conditions'])} condition{'s' * (len(summary['conditions']) != 1)}; collection "
        f"and SHA-256: "
        f"{collections}; plan {summary['plan'][:12]}; stressrag {summary['stressrag']}."
    )
    return Content(
        visible(run.folder.resolve().name),
        about,
        labels,
        [
            (heading, [visible(s, 1000) for s in sentences])
            for heading, sentences in plain_words(summary, labels)
        ],
        threats(summary),
        drawn,
        missing,
        tables(summary, labels),
        lost,
        _told(lost),
    )


def _told(lost: Losses) -> str:
    if not lost.worst:
        return "In no condition did poison come in and a relevant document go out of the top k."
    many = f"{lost.queries:,} quer{'y' if lost.queries == 1 else 'ies'}"
    shown = "all of them" if len(lost.worst) == lost.queries else f"the worst {len(lost.worst)}"
    return (
        f"In {lost.pairs:,} pairs of condition and query, over {many}, poison came in and a relevant "
        f"document went "
        f"out of the top k. Here {shown}, each under the condition that harmed it most. {lost.note}"
    ).strip()


def write_report(runs: Sequence[Run], out: Path | None = None) -> Path:
    """Write ``report.html`` and ``report.md``.

    Parameters
    ----------
    runs : sequence of Run
        At least one finished run.
    out : Path, optional
        The folder; by default that of the run, where there is one.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    StressragError
        When there are several runs and no folder, or it cannot be written.
    """
    from stressrag.report.html import page
    from stressrag.report.markdown import markdown

    if not runs:
        raise StressragError("report needs the folder of a finished run")
    if out is None and len(runs) > 1:
        raise StressragError("a report of several runs needs a folder; give --out FOLDER")
    folder = out or runs[0].folder
    contents = [content(run, i) for i, run in enumerate(runs, 1)]
    write_text(folder / HTML, page(contents))
    write_text(folder / MARKDOWN, markdown(contents))
    return folder
