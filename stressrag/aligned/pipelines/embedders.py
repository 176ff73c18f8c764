"""Embedding models of passages for pipelines: by name, from a folder, or a function of the user's own.

==========  ============================================================  ==============================
name        model                                                         sentence vector
==========  ============================================================  ==============================
simcse      princeton-nlp/sup-simcse-bert-base-uncased                    last hidden state of ``[CLS]``
minilm      sentence-transformers/all-MiniLM-L6-v2                        as the model says
mpnet       sentence-transformers/all-mpnet-base-v2                       as the model says
terms       none: counts of the words, hashed; a stand-in without a model
==========  ============================================================  ==============================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stressrag.errors import StressragError, nearest
from stressrag.plugins import call_theirs, import_target

Floats = NDArray[np.float64]
Embed = Callable[[list[str]], Any]
SIMCSE = "princeton-nlp/sup-simcse-bert-base-uncased"
_NAMES = {
    "simcse": SIMCSE,
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "mpnet": "sentence-transformers/all-mpnet-base-v2",
}
TERMS = "terms"
POOLINGS = ("", "cls", "mean")


class Embedder:
    """Vectors of texts.

    Parameters
    ----------
    model : str or callable
        A name of the table, a model's name on the hub, a folder with one, ``package.module:function``, or a
        function from a list of texts to an array (n, d).
    pooling : {"", "cls", "mean"}
        How a sentence vector is made of the last hidden states; ``""``: ``cls`` for SimCSE, else as the model
        says.
    device : str, optional
        Where the model runs; by default the library chooses.

    Notes
    -----
    Every distinct text is embedded once and by itself, so copies have equal vectors, and no vector depends on
    what else is run (a function of the user's own gets the distinct texts of a context together). Passages
    are cut at the model's token limit. The revision of a hub model is not pinned: give a folder for that.
    """

    def __init__(self, model: str | Embed = "simcse", pooling: str = "", device: str | None = None):
        if pooling not in POOLINGS:
            raise StressragError(
                f"pooling {pooling!r}: give cls, mean or nothing; {nearest(pooling, POOLINGS[1:])}"
            )
        self._function: Embed | None = None
        self._known: dict[str, Any] = {}
        self._model: Any = None
        self.device = device
        if model == TERMS:
            self.model, self._function = TERMS, _term_counts
        elif callable(model):
            named = getattr(model, "__qualname__", type(model).__qualname__)
            self.model, self._function = f"{getattr(model, '__module__', '')}:{named}", model
        elif ":" in model and not Path(model).exists():
            self.model, self._function = model, import_target(model, "embedding model")
            if not callable(self._function):
                raise StressragError(f"embedding model target {model!r} is no function")
        else:
            self.model = _NAMES.get(model, model)
            _check_name(model)
        self.pooling = "" if self._function else pooling or ("cls" if self.is_simcse else "")

    @property
    def is_simcse(self) -> bool:
        """Whether the model goes by the name of TrustRAG's, as a folder too."""
        return self._function is None and Path(self.model).name == Path(SIMCSE).name

    def settings(self) -> dict[str, Any]:
        """Model and pooling, for records."""
        return {"embedding_model": self.model, "pooling": self.pooling}

    def __call__(self, texts: Sequence[str]) -> Floats:
        """The vectors, float64 (n, d).

        Raises
        ------
        StressragError
            When the model cannot be loaded, or what it gives has another shape or is not finite.
        """
        if not texts:
            return np.zeros((0, 0))
        distinct = list(dict.fromkeys(texts))
        if self._function is not None:
            made = call_theirs(f"embedding model {self.model!r}", self._function, distinct)
        else:
            if self._model is None:
                self._model = self._load()
            for text in distinct:
                if text not in self._known:
                    one = self._model.encode([text], convert_to_numpy=True, show_progress_bar=False)
                    self._known[text] = one[0]
            made = np.stack([self._known[text] for text in distinct])
        try:
            vectors = np.asarray(made, np.float64)
        except (TypeError, ValueError) as e:
            raise StressragError(
                f"embedding model {self.model!r} gave {type(made).__name__}, no array"
            ) from e
        if vectors.ndim != 2 or len(vectors) != len(distinct) or not np.isfinite(vectors).all():
            raise StressragError(
                f"embedding model {self.model!r}: {len(distinct)} texts gave shape {vectors.shape}"
                + ("" if np.isfinite(vectors).all() else " with values that are not finite")
            )
        number = {text: i for i, text in enumerate(distinct)}
        return vectors[[number[text] for text in texts]]

    def _load(self) -> Any:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as e:
            raise StressragError(
                f'embedding model {self.model!r} needs sentence-transformers: pip install "stressrag[dense]"'
            ) from e
        try:
            if not self.pooling:
                return SentenceTransformer(self.model, device=self.device)
            parts = _modules()
            body = parts.Transformer(self.model)
            size = getattr(body, "get_embedding_dimension", None) or body.get_word_embedding_dimension
            pooling = parts.Pooling(size(), pooling_mode=self.pooling)
            return SentenceTransformer(modules=[body, pooling], device=self.device)
        except Exception as e:  # the libraries below raise many kinds for a missing or broken model
            reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
            raise StressragError(
                f"cannot load the embedding model {self.model!r} ({reason[:200]}); give a hub name that this "
                f"machine can reach or has cached, one of {', '.join(_NAMES)}, or the path of a local folder"
            ) from e


def _term_counts(texts: list[str]) -> Any:
    """Counts of words in 4,096 hashed places: texts are alike as far as they share words."""
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=4096, norm=None, alternate_sign=False).transform(texts).toarray()


def _modules() -> Any:
    """Where sentence-transformers keeps its layers: they moved, and the old place warns."""
    try:
        return import_module("sentence_transformers.sentence_transformer.modules")
    except ImportError:
        return import_module("sentence_transformers.models")


def _check_name(model: str) -> None:
    """Refuse a slip in a name of the table; other bare words may be models of the hub."""
    hint = nearest(model, (*_NAMES, TERMS))
    slip = model not in _NAMES and not Path(model).exists() and hint.startswith("did you mean")
    if not model or slip:
        raise StressragError(f"no embedding model {model!r}; {hint} or give a hub name or a folder")


def cosines(vectors: Floats) -> Floats:
    """Cosines of all pairs; a vector of zeros is similar to nothing, itself included."""
    size = np.abs(vectors).max(1, keepdims=True, initial=0.0)
    scaled = vectors / np.where(size > 0, size, 1.0)
    length = np.sqrt((scaled**2).sum(1, keepdims=True))
    unit = scaled / np.where(length > 0, length, 1.0)
    # Not matmul: BLAS may give equal passages unequal cosines.
    found: Floats = np.einsum("id,jd->ij", unit, unit)
    return np.clip(found, -1.0, 1.0)
