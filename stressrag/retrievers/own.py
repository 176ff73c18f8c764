"""The user's own retriever: any object that searches, or any function from texts to vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stressrag.collection.model import Corpus
from stressrag.errors import StressragError
from stressrag.plugins import call_theirs, import_target
from stressrag.retrievers.base import Retriever, distinct
from stressrag.retrievers.ranking import Floats, Ints, Ranking, best
from stressrag.retrievers.vectors import Role, VectorRetriever


class Own(Retriever):
    """Any object with ``search(queries, k)`` and, for poisoned corpora, ``fit(corpus)``.

    Parameters
    ----------
    target : str or callable
        Import path ``package.module:factory`` of a callable without arguments that makes the object.

    Notes
    -----
    ``search`` gives one result list per query: a mapping from document id to score, or a sequence of
    (document id, score) pairs, or of ids alone, best first. Its order among equal scores is not used: the
    results are sorted here, and asked for again at greater length while the last one asked for is tied.
    The corpus that ``fit`` gets has ``ids`` and ``texts``; for a contaminated search it holds the poison
    too, and a fresh object is made for every view.
    """

    def __init__(self, target: str | Callable[[], Any]):
        self.target = target

    def _make(self) -> Any:
        factory = import_target(self.target, "retriever") if isinstance(self.target, str) else self.target
        if not callable(factory):
            raise StressragError(f"retriever target {self.target!r} is not callable; give a factory")
        made = self._call(factory)
        if not callable(getattr(made, "search", None)):
            raise StressragError(
                f"retriever target {self.target!r} makes an object without search(queries, k)"
            )
        return made

    def fit(self, corpus: Corpus) -> Own:
        super().fit(corpus)
        self.engine_ = self._make()
        if isinstance(self.engine_, Retriever) or callable(getattr(self.engine_, "fit", None)):
            self._call(self.engine_.fit, corpus)
        return self

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return call_theirs(f"retriever target {self.target!r}", function, *arguments)

    def search_slowly(self, *args: Any, **settings: Any) -> Ranking:
        if not callable(getattr(self.engine_, "fit", None)):
            raise StressragError(
                f"retriever target {self.target!r} has no fit(corpus), so poison cannot be put into its index"
            )
        return super().search_slowly(*args, **settings)

    def search_contaminated(self, *args: Any, **settings: Any) -> Ranking:
        if isinstance(self.engine_, Retriever):
            return self.engine_.search_contaminated(*args, **settings)
        return super().search_contaminated(*args, **settings)

    def search(self, queries: Sequence[str], k: int) -> Ranking:
        if isinstance(self.engine_, Retriever):
            return self.engine_.search(queries, k)
        texts, which = distinct(queries)
        n = len(self.corpus_)
        rows: list[tuple[Ints, Floats] | None] = [None] * len(texts)
        ask = min(n, k + 1)
        while pending := [i for i, row in enumerate(rows) if row is None]:
            found = self._call(self.engine_.search, [texts[i] for i in pending], ask)
            if not hasattr(found, "__len__") or isinstance(found, Mapping):
                raise StressragError(
                    f"{self.target!r}: search gave {type(found).__name__}, not a result per query"
                )
            if len(found) != len(pending):
                raise StressragError(
                    f"{self.target!r}: search gave {len(found)} result lists for {len(pending)} queries"
                )
            for i, result in zip(pending, found, strict=True):
                docs, scores = self._read(result)
                ordered = np.sort(scores)[::-1]
                if len(docs) < ask or ask >= n or ordered[k - 1] > ordered[-1]:
                    rows[i] = best(docs, scores, k)
            ask = min(n, 2 * ask)
        return Ranking.from_rows([r for r in rows if r is not None], k).take(which)

    def _read(self, result: Any) -> tuple[Ints, Floats]:
        items = list(result.items()) if isinstance(result, Mapping) else list(result)
        if items and isinstance(items[0], str):  # ids alone: their order is their score
            items = [(name, -float(rank)) for rank, name in enumerate(items)]
        try:
            names, scores = [str(name) for name, _ in items], [float(score) for _, score in items]
        except (TypeError, ValueError) as e:
            raise StressragError(
                f"{self.target!r}: a result is {{id: score}}, (id, score) pairs or ids; got {items[0]!r}"
            ) from e
        numbers = self.corpus_.numbers
        unknown = next((name for name in names if name not in numbers), None)
        if unknown is not None:
            raise StressragError(
                f"{self.target!r}: search gave {unknown!r}, which is no document of the corpus"
            )
        if len(set(names)) != len(names):
            raise StressragError(f"{self.target!r}: search gave a document twice for one query")
        if not np.isfinite(scores).all():
            raise StressragError(f"{self.target!r}: search gave a score that is not finite")
        return np.array([numbers[name] for name in names], np.int64), np.array(scores, np.float64)


class Embedder(VectorRetriever):
    """Any function from a list of texts to an array (n, d); poison is searched the fast exact way.

    Parameters
    ----------
    target : str or callable
        Import path ``package.module:function``. An object with ``encode_queries`` and ``encode_corpus``
        is used through these.
    similarity : {"cosine", "dot"}
        What ranks.
    """

    def __init__(self, target: str | Callable[[list[str]], Any], similarity: str = "cosine"):
        self.target, self.similarity = target, similarity

    @property
    def cosine(self) -> bool:  # type: ignore[override]
        """Whether vectors are brought to length 1."""
        return self.similarity == "cosine"

    def encode(self, texts: Sequence[str], role: Role) -> np.ndarray:
        target = import_target(self.target, "retriever") if isinstance(self.target, str) else self.target
        name = "encode_queries" if role == "query" else "encode_corpus"
        function = getattr(target, name, target)
        if not callable(function):
            raise StressragError(f"retriever target {self.target!r} is no function from texts to vectors")
        if not len(texts):
            return np.zeros((0, self.vectors_.shape[1] if hasattr(self, "vectors_") else 1))
        vectors = np.asarray(call_theirs(f"retriever target {self.target!r}", function, list(texts)))
        if vectors.dtype.kind not in "fiu":
            raise StressragError(f"retriever target {self.target!r} gave {vectors.dtype} values, not numbers")
        return vectors
