"""Dense retrieval with any sentence-transformers model."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.collection.places import cache_root
from stressrag.errors import StressragError
from stressrag.retrievers.embeddings import EmbeddingCache
from stressrag.retrievers.vectors import Role, VectorRetriever


class Dense(VectorRetriever):
    """Bi-encoder retrieval; corpus embeddings are cached on disk.

    Parameters
    ----------
    model : str
        Name on the Hugging Face hub (``BAAI/bge-small-en-v1.5``) or a local folder.
    similarity : {"cosine", "dot"}
        What ranks.
    query_prompt, document_prompt : str
        Put before each query or document (and poison), such as BGE's instruction for queries.
    document_tokens, query_tokens, poison_tokens : int or None
        Token limits; by default the model's own, for poison that of the documents.
    batch_size : int
        Texts encoded at once.
    device : str or None
        A torch device; by default what sentence-transformers picks.

    Notes
    -----
    A transformer's embedding moves by about 1e-7 with the batch that it sits in, so each distinct text is
    encoded once and kept.
    """

    def __init__(
        self,
        model: str = "BAAI/bge-small-en-v1.5",
        similarity: str = "cosine",
        query_prompt: str = "",
        document_prompt: str = "",
        document_tokens: int | None = None,
        query_tokens: int | None = None,
        poison_tokens: int | None = None,
        batch_size: int = 32,
        device: str | None = None,
    ):
        self.model, self.similarity = model, similarity
        self.query_prompt, self.document_prompt = query_prompt, document_prompt
        self.document_tokens, self.query_tokens, self.poison_tokens = (
            document_tokens,
            query_tokens,
            poison_tokens,
        )
        self.batch_size, self.device = batch_size, device
        self.model_: Any = None

    @property
    def cosine(self) -> bool:  # type: ignore[override]
        """Whether vectors are brought to length 1."""
        return self.similarity == "cosine"

    def clone(self) -> Dense:
        other = super().clone()
        other.model_ = self.model_  # weights do not change by fitting
        for name in ("_limit", "_fingerprint"):
            if hasattr(self, name):
                setattr(other, name, getattr(self, name))
        return other

    def __getstate__(self) -> dict[str, Any]:
        # A worker process loads the model itself, if it meets a text that the cache lacks.
        return {**self.__dict__, "model_": None}

    def fit(self, corpus: Corpus) -> Dense:
        if self.similarity not in ("cosine", "dot"):
            raise StressragError(f"dense.similarity is cosine or dot, not {self.similarity!r}")
        super().fit(corpus)
        return self

    def _load(self) -> None:
        """Load the model and take its fingerprint. Raises when the extra or the model is missing."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as e:
            raise StressragError(
                f'retriever model {self.model!r} needs sentence-transformers: pip install "stressrag[dense]"'
            ) from e
        try:
            self.model_ = SentenceTransformer(self.model, device=self.device)
        except Exception as e:  # the libraries below raise many kinds for a missing or broken model
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            raise StressragError(
                f"cannot load the model {self.model!r} ({reason[:200]}); give a hub name that this machine "
                "can reach or has cached, or the path of a local folder, with dense.model=…"
            ) from e
        self._limit = int(self.model_.get_max_seq_length() or 512)
        self._fingerprint = _weights_digest(self.model_)

    def tokens(self, role: Role) -> int:
        """The token limit of texts in that role."""
        limit = {"document": self.document_tokens, "query": self.query_tokens}.get(
            role, self.poison_tokens or self.document_tokens
        )
        return min(limit, self._limit) if limit else self._limit

    def loaded(self) -> Any:
        """The sentence-transformers model itself, for attackers who know its weights."""
        if self.model_ is None:
            self._load()
        return self.model_

    def encode(self, texts: Sequence[str], role: Role) -> np.ndarray:
        self.loaded()
        prompt = self.query_prompt if role == "query" else self.document_prompt
        limit = self.tokens(role)
        settings = {"weights": self._fingerprint, "prompt": prompt, "tokens": limit}
        name = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:16]
        folder = cache_root() / "embeddings" / f"{Path(self.model).name}-{name}"

        def run(batch: list[str]) -> np.ndarray:
            self.model_.max_seq_length = limit
            vectors = self.model_.encode(
                [prompt + t for t in batch],
                batch_size=self.batch_size,
                convert_to_numpy=True,
                show_progress_bar=False,
                normalize_embeddings=False,
            )
            return np.asarray(vectors, np.float32)

        return EmbeddingCache(folder).vectors(texts, run, progress=f"{Path(self.model).name}: {role}s")


def _weights_digest(model: Any) -> str:
    """SHA-256 of a model's parameters and modules: two models of one name are told apart."""
    h = hashlib.sha256(repr([type(m).__name__ for m in model]).encode())
    for name, tensor in sorted(model.state_dict().items()):
        h.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        h.update(memoryview(tensor.detach().cpu().float().contiguous().numpy()).cast("B"))
    return h.hexdigest()
