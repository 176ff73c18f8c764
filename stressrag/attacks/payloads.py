"""Payloads: the injected instructions, from the product, from BIPIA or from a file of the user's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from stressrag.attacks.draw import draw
from stressrag.errors import StressragError

_STRIDE = 5  # documents per target in the paper, whose numbering the order ``cycle`` keeps


@dataclass(frozen=True)
class Payloads:
    """Instructions in file order, and which file they are.

    Attributes
    ----------
    texts : tuple of str
        The instructions.
    source : str
        ``builtin``, ``bipia`` or the file's name.
    sha256 : str
        Hash of the texts, so that records say which set they rest on.
    """

    texts: tuple[str, ...]
    source: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.texts).encode()).hexdigest()

    def choose(self, order: str, seed: int, query_id: str, target: int, number: int) -> str:
        """The payload of poison document ``number`` of a target.

        Parameters
        ----------
        order : {"hashed", "cycle"}
            ``hashed``: consecutive payloads from a start hashed from seed and query id. ``cycle``: entry
            ``5 * target + number``, the order that gives the retrieval paper's table.
        seed : int
            The config's seed.
        query_id : str
            The target query.
        target : int
            Its place among all judged queries, whichever of them a run targets.
        number : int
            Which of its documents, from 0.
        """
        start = _STRIDE * target if order == "cycle" else draw(seed, "payload", query_id)
        return self.texts[(start + number) % len(self.texts)]


def load_payloads(name: str) -> Payloads:
    """Payloads by name: ``builtin``, ``bipia`` or the path of a file.

    A file is BIPIA-style JSON (categories of lists), a JSON list, or plain text with one payload a line.

    Raises
    ------
    StressragError
        When the file is missing, not readable as one of these, or holds no payload.
    """
    if name == "builtin":
        text = files("stressrag.attacks").joinpath("payloads.json").read_text("utf-8")
        return Payloads(_flatten(json.loads(text), name), name)
    if name == "bipia":
        from stressrag.collection.catalogue import find_bipia

        path = find_bipia()
        if path is None:
            raise StressragError(
                "attack.payloads=bipia: BIPIA's text_attack_test.json is not here; get it with "
                "python -m stressrag data fetch bipia, or set STRESSRAG_DATA to a folder that holds bipia/"
            )
    else:
        path = Path(name).expanduser()
    return Payloads(_read(path), "bipia" if name == "bipia" else path.name)


def _read(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError as e:
        raise StressragError(
            f"attack.payloads: no file {str(path)!r}; give builtin, bipia or the path of a file"
        ) from e
    except (OSError, UnicodeDecodeError) as e:
        raise StressragError(f"attack.payloads: cannot read {str(path)!r}: {e}") from e
    if not text.lstrip().startswith(("{", "[")):
        return _flatten([line.strip() for line in text.split("\n")], str(path))
    try:
        return _flatten(json.loads(text), str(path))
    except json.JSONDecodeError as e:
        raise StressragError(f"attack.payloads: {path}:{e.lineno}: broken JSON: {e.msg}") from e


def _flatten(value: Any, where: str) -> tuple[str, ...]:
    lists = list(value.values()) if isinstance(value, dict) else [value]
    if not all(isinstance(part, list) and all(isinstance(t, str) for t in part) for part in lists):
        raise StressragError(
            f"attack.payloads: {where} is neither a list of texts nor categories of such lists"
        )
    texts = tuple(t for part in lists for t in part if t.strip())
    if not texts:
        raise StressragError(f"attack.payloads: {where} holds no payload")
    return texts
