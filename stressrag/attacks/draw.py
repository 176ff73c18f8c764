"""Random draws by hashing: the same draw whatever the order, the workers or the rows beside it."""

from __future__ import annotations

import hashlib


def draw(seed: int, what: str, *ids: str | int) -> int:
    """A number below 2**64 that depends on these values alone.

    Parameters
    ----------
    seed : int
        The config's seed.
    what : str
        What is drawn, so that two draws for one query differ.
    ids : str or int
        What it is drawn for.
    """
    text = "\x1f".join([str(seed), what, *map(str, ids)])
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
