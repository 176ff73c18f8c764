"""A cache of embeddings on disk, by model and text hash.

A folder per encoder holds segments: ``NAME.npy`` with vectors and ``NAME.keys`` with the SHA-256 of each
text. Segments are written once, the keys last and by renaming, so a killed run keeps what it finished
and two runs at once do not disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from stressrag.errors import StressragError

_KEY = 32  # bytes of a SHA-256
SEGMENT = 1024  # texts encoded before they are saved


def text_key(text: str) -> bytes:
    """What a text is known by."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class EmbeddingCache:
    """Vectors of the texts that one encoder has seen.

    Parameters
    ----------
    folder : Path
        A folder for this encoder alone: its name holds the model, prompt and token limit.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._arrays: list[np.ndarray] = []
        self._where: dict[bytes, tuple[int, int]] = {}
        if folder.is_dir():
            for keys in sorted(folder.glob("*.keys")):
                self._open(keys)

    def _open(self, keys: Path) -> None:
        blob = keys.read_bytes()
        try:
            vectors = np.load(keys.with_suffix(".npy"), mmap_mode="r")
        except (OSError, ValueError):
            return  # a damaged segment is as good as none
        if len(blob) != _KEY * len(vectors):
            return
        self._arrays.append(vectors)
        for i in range(len(vectors)):
            self._where.setdefault(blob[_KEY * i : _KEY * (i + 1)], (len(self._arrays) - 1, i))

    def vectors(
        self, texts: Sequence[str], encode: Callable[[list[str]], np.ndarray], progress: str = ""
    ) -> np.ndarray:
        """Vectors of some texts; those not known yet are encoded, once each, and kept.

        Parameters
        ----------
        texts : sequence of str
            The texts.
        encode : callable
            From a list of texts to an array (n, d).
        progress : str
            What a progress bar is labelled with; none when empty.
        """
        from tqdm import tqdm

        keys = [text_key(t) for t in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._where}
        # Long texts first keeps batches even, and shows the longest remaining time first.
        todo = sorted(missing.items(), key=lambda item: -len(item[1]))
        bar = tqdm(total=len(todo), desc=progress, unit="text", disable=None if progress and todo else True)
        with bar:
            for s in range(0, len(todo), SEGMENT):
                chunk = todo[s : s + SEGMENT]
                self._save([k for k, _ in chunk], encode([t for _, t in chunk]))
                bar.update(len(chunk))
        if not texts:
            return np.zeros((0, self._arrays[0].shape[1] if self._arrays else 1), np.float32)
        places = np.array([self._where[k] for k in keys])
        out = np.empty((len(texts), self._arrays[places[0, 0]].shape[1]), self._arrays[places[0, 0]].dtype)
        for segment in np.unique(places[:, 0]):
            rows = places[:, 0] == segment
            out[rows] = self._arrays[segment][places[rows, 1]]
        return out

    def _save(self, keys: list[bytes], vectors: np.ndarray) -> None:
        name = uuid.uuid4().hex
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / f"{name}.npy", "wb") as f:
                np.save(f, vectors)
            part = self.folder / f"{name}.part"
            part.write_bytes(b"".join(keys))
            os.replace(part, self.folder / f"{name}.keys")
        except OSError as e:
            raise StressragError(f"cannot write the embedding cache {self.folder}: {e.strerror or e}") from e
        self._open(self.folder / f"{name}.keys")
