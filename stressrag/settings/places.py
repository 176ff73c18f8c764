"""Where the config folder lies, and what it offers, without importing Hydra."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from stressrag.errors import StressragError

_PACKAGE = Path(__file__).resolve().parent.parent
GRID = "grid"
MAIN, ALIGNED = "config", "aligned"
"""The two roots: settings of retrieval runs, and those of ``aligned run``."""
_GROUPS = {
    MAIN: ("attack", "dataset", "defense", "preset", "retriever", "statistics"),
    ALIGNED: ("dataset", "generator", "retriever"),
}


@lru_cache(maxsize=1)
def config_folder() -> Path:
    """``conf/`` inside the package (wheel) or beside it (checkout, editable install)."""
    for folder in (_PACKAGE / "conf", _PACKAGE.parent / "conf"):
        if (folder / "config.yaml").is_file():
            return folder
    raise StressragError(f"the config folder is missing beside {_PACKAGE}; install stressrag again")


def groups(root: str = MAIN) -> list[str]:
    """Names of the config groups of a root."""
    return list(_GROUPS[root])


def choices(group: str) -> dict[str, str]:
    """The choices of a group (or the named grids) and what each is, from its first comment."""
    return {p.stem: _first_comment(p) for p in sorted((config_folder() / group).glob("*.yaml"))}


def _first_comment(path: Path) -> str:
    for line in path.read_text("utf-8").split("\n"):
        if line.startswith("# ") and not line.startswith("# @"):
            return line[2:].strip()
    return ""


class Setting(NamedTuple):
    """One line of a root's file in ``conf/``: dotted key, default as written, help."""

    key: str
    default: str
    help: str


@lru_cache(maxsize=2)
def settings(root: str = MAIN) -> tuple[Setting, ...]:
    """All settings in the order of the file, read as text: two levels, a comment behind each value."""
    out, node, listing = [], "", False
    for line in (config_folder() / f"{root}.yaml").read_text("utf-8").split("\n"):
        bare, _, comment = line.partition("  #") if "  #" in line else (line, "", "")
        key, colon, default = bare.strip().partition(":")
        if not colon or line.startswith("#") or key.startswith("- "):
            continue
        if not line.startswith(" "):
            listing = key == "defaults"
            node = "" if default.strip() else key
            if not default.strip():
                continue
        if not listing:
            name = f"{node}.{key}" if line.startswith(" ") else key
            out.append(Setting(name, default.strip(), comment.strip()))
    return tuple(out)
