"""A finished run as it lies on disk: everything right of the records starts here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stressrag.errors import StressragError
from stressrag.records.files import file_hash
from stressrag.records.names import DONE, RANKINGS, RECORDS, SUMMARY, TEXTS
from stressrag.records.schema import SUMMARY_VERSION, check_schema

__all__ = ["DONE", "RANKINGS", "RECORDS", "SUMMARY", "TEXTS", "Run", "open_run"]


@dataclass(frozen=True)
class Run:
    """A finished run.

    Attributes
    ----------
    folder : Path
        Where it lies.
    plan_hash : str
        Identity of what it computed.
    """

    folder: Path
    plan_hash: str

    @cached_property
    def summary(self) -> dict[str, Any]:
        """``summary.json``: the means of every condition."""
        value: dict[str, Any] = json.loads((self.folder / SUMMARY).read_text("utf-8"))
        if value["schema"] != SUMMARY_VERSION:
            raise StressragError(
                f"{self.folder / SUMMARY}: written by stressrag {value['stressrag']} with other contents "
                "than this one reads; make the run again with overwrite=true"
            )
        return value

    def records(self) -> pa.Table:
        """One row per condition and query."""
        return self._table(RECORDS)

    def rankings(self) -> pa.Table:
        """One row per condition, query and rank."""
        return self._table(RANKINGS)

    def texts(self) -> pa.Table | None:
        """Queries and ranked documents with their texts; ``None`` for a run with ``texts=false``."""
        return self._table(TEXTS) if (self.folder / TEXTS).exists() else None

    def _table(self, name: str) -> pa.Table:
        table = pq.read_table(self.folder / name)
        check_schema(table.schema, str(self.folder / name))
        return table


def open_run(folder: str | Path) -> Run:
    """The finished run in a folder.

    Raises
    ------
    StressragError
        When there is none, it is not finished, or a file is not the one that was written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise StressragError(f"no run at {folder}")
    try:
        done = json.loads((folder / DONE).read_text("utf-8"))
    except FileNotFoundError as e:
        raise StressragError(f"{folder} holds no finished run; run its command again to finish it") from e
    except ValueError as e:
        raise StressragError(f"{folder / DONE} is damaged; make the run again with overwrite=true") from e
    for name, expected in done["sha256"].items():
        path = folder / name
        if not path.is_file() or file_hash(path) != expected:
            raise StressragError(
                f"{path} is missing or was changed after the run; make it again with overwrite=true"
            )
    return Run(folder, done["plan"])
