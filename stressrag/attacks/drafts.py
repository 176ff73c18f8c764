"""Drafts of worst-case documents, where the best wording cannot be computed and has to be tried.

Each retriever's own writer proposes a wording: water-filling for BM25, coordinate ascent of the cosine for
LSA, a greedy search over words for a dense encoder. A hybrid is offered each of them and halves of two.
Defenses add drafts of their own: subsets of the terms that admission lets pass, documents that differ from
each other, and terms spread through natural text of the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from stressrag.attacks.aim import Draft, System, Target, cut, decoy, holders, planted
from stressrag.attacks.bodies import NEUTRAL
from stressrag.attacks.keyword_writer import KeywordWriter, admitted
from stressrag.attacks.keywords import written
from stressrag.collection.model import Corpus
from stressrag.defenses.base import evasion_of
from stressrag.retrievers.base import Retriever
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.dense import Dense
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.ranking import Floats, Ints
from stressrag.retrievers.vectors import VectorRetriever, normalized
from stressrag.text.index import TermIndex

_SUBSETS = 3
_LEVELS = np.array([0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])
_SWEEPS, _STEPS = 4, 4
_WINDOWS = (1, 3, 6)  # words to each side of a known term in natural text
_EXAMPLES = 4  # documents that natural text of a term is taken from


class Drafts:
    """Writes the drafts of targets.

    Parameters
    ----------
    index : TermIndex
        The clean corpus; its tokenizer measures lengths.
    corpus : Corpus
        The clean documents, for natural text.
    """

    def __init__(self, index: TermIndex, corpus: Corpus):
        self.index, self.corpus = index, corpus
        self._bm25: BM25 | None = None
        self._neighbors: dict[str, list[list[str]]] = {}

    def length(self, text: str) -> int:
        """Tokens of a text."""
        assert self.index.tokenizer is not None
        return len(self.index.tokenizer(text))

    def of(self, system: System, targets: Sequence[Target]) -> list[list[Draft]]:
        """The drafts of each target, at least one, the likeliest first."""
        assert self.index.tokenizer is not None
        rest = decoy(system.aim.max_tokens, self.index.tokenizer)
        evasions = [e for e in map(evasion_of, system.defenses) if e]
        weaker = any(e.weaker for e in evasions)
        counts = list(range(1, system.aim.copies + 1)) if weaker else holders(system.aim)
        subsets = [self._subsets(system, t) for t in targets]
        wordings = self._wordings(system, targets, subsets)
        out = []
        for target, some, found in zip(targets, subsets, wordings, strict=True):
            if any(e.natural for e in evasions):  # of terms that admission lets pass, where there is one
                natural = (self._natural(target._replace(terms=t), system.aim.max_tokens) for t in some)
                found = [*found, *(text for texts in natural for text in texts)]
            target = target._replace(terms=some[0])
            if weaker:
                found = [*found, *self._weaker(system, target)]
            room = system.aim.max_tokens - max(map(self.length, target.payloads))
            found = list(dict.fromkeys(cut(words, room, self.index.tokenizer) for words in found))
            drafts = [planted(target, words, n, rest) for words in found for n in counts]
            if len(target.payloads) > 1 and (len(found) > 1 or any(e.differing for e in evasions)):
                drafts += self._different(target, found, room, any(e.differing for e in evasions))
            out.append(list(dict.fromkeys(drafts)))
        return out

    # ---- which terms ---------------------------------------------------------------------------

    def _subsets(self, system: System, target: Target) -> list[list[str]]:
        """The sets of known terms to write with: all of them, or the heaviest that admission lets pass."""
        if not any(e and e.admits for e in map(evasion_of, system.defenses)) or not target.terms:
            return [target.terms]
        writer = self._keyword_writer(system)
        terms, sets, _ = admitted(writer, system, target, target.payloads[0])
        return [[terms[i] for i in s] for s in sets[:_SUBSETS]] or [target.terms]

    # ---- how they are worded -------------------------------------------------------------------

    def _wordings(
        self, system: System, targets: Sequence[Target], subsets: Sequence[Sequence[list[str]]]
    ) -> list[list[str]]:
        """Texts of each target by every writer, and their halves side by side."""
        flat = [(t, terms) for t, some in zip(targets, subsets, strict=True) for terms in some]
        writers = [self._writer(leaf, system) for leaf in system.leaves]
        full = [write(flat, system.aim.max_tokens) for write in writers]
        # Two documents in one text have to share the room, each beside the same payload.
        half = (
            [write(flat, self._half(system.aim.max_tokens, flat)) for write in writers]
            if len(writers) > 1
            else []
        )
        rows = []
        for i, (_, terms) in enumerate(flat):
            once, padded = " ".join(terms), " ".join([*terms, NEUTRAL])
            mixed = [" ".join(column[i] for column in half)] if half else []
            rows.append([*mixed, *(column[i] for column in full), once, padded])
        out, start = [], 0
        for some in subsets:
            out.append([text for row in rows[start : start + len(some)] for text in row])
            start += len(some)
        return out

    def _half(self, max_tokens: int, flat: Sequence[tuple[Target, list[str]]]) -> int:
        longest = max((self.length(p) for t, _ in flat for p in t.payloads), default=0)
        return longest + max(1, (max_tokens - longest) // 2)

    def _writer(
        self, leaf: Retriever, system: System
    ) -> Callable[[Sequence[tuple[Target, list[str]]], int], list[str]]:
        if isinstance(leaf, LSA):
            return lambda flat, n: [self._for_lsa(leaf, t, terms, n) for t, terms in flat]
        if isinstance(leaf, Dense) and system.aim.gradients:
            return lambda flat, n: self._flipped(leaf, flat, n)
        if isinstance(leaf, VectorRetriever):
            return lambda flat, n: self._for_encoder(leaf, flat, n)
        # A retriever of the user's, or the package rank-bm25: BM25 of the same terms stands in.
        bm25 = leaf if isinstance(leaf, BM25) else self._term_bm25()
        writer = KeywordWriter(bm25, system.aim)
        return lambda flat, n: [writer.write(t.query, terms, t.payloads[0], n)[0] for t, terms in flat]

    def _keyword_writer(self, system: System) -> KeywordWriter:
        """Of the system's BM25, where it has one."""
        leaf = next((x for x in system.leaves if isinstance(x, BM25)), None)
        return KeywordWriter(leaf or self._term_bm25(), system.aim)

    def _term_bm25(self) -> BM25:
        """BM25 with its usual settings over the same terms."""
        if self._bm25 is None:
            self._bm25 = BM25().fit(self.corpus, self.index)
        return self._bm25

    def _for_lsa(self, lsa: LSA, target: Target, terms: Sequence[str], max_tokens: int) -> str:
        """Counts by coordinate ascent of the cosine to the query, from several starts."""
        own, rest, held = lsa.term_vectors(terms, target.payloads[0])
        query = lsa.embed([target.query], "query")[0]
        room = max_tokens - self.length(target.payloads[0])
        if not len(terms) or not np.any(own):
            return " ".join(terms)
        starts = [np.ones(len(terms), np.int64), *np.eye(len(terms), dtype=np.int64)]
        ascents = [_ascend(own, rest, held, query, start, room) for start in starts]
        counts, _ = max(ascents, key=lambda found: found[1])
        return written(terms, counts.tolist()) or " ".join(terms)

    def _for_encoder(
        self, encoder: VectorRetriever, flat: Sequence[tuple[Target, list[str]]], max_tokens: int
    ) -> list[str]:
        """Words by a greedy search: one is appended, put first or dropped as long as the cosine grows."""
        queries = encoder.embed([t.query for t, _ in flat], "query").astype(np.float64)
        words = [list(terms) for _, terms in flat]
        value = np.full(len(flat), -np.inf)
        for _ in range(_STEPS):
            tries, owner = [], []
            for i, (_, terms) in enumerate(flat):
                moves = [words[i], *([*words[i], t] for t in terms), *([t, *words[i]] for t in terms)]
                moves += [words[i][:j] + words[i][j + 1 :] for j in range(len(words[i])) if len(words[i]) > 1]
                tries += moves
                owner += [i] * len(moves)
            texts = [
                f"{' '.join(w)} {flat[i][0].payloads[0]}".strip() for w, i in zip(tries, owner, strict=True)
            ]
            near = np.einsum("id,id->i", encoder.embed(texts, "poison").astype(np.float64), queries[owner])
            fits = np.array([self.length(t) <= max_tokens for t in texts])
            near[~fits] = -np.inf
            before = value.copy()
            for at in np.argsort(near, kind="stable"):
                if near[at] > value[owner[at]] + 1e-9:
                    value[owner[at]], words[owner[at]] = near[at], tries[at]
            if not (value > before).any():
                break
        return [" ".join(w) for w in words]

    def _flipped(
        self, encoder: Dense, flat: Sequence[tuple[Target, list[str]]], max_tokens: int
    ) -> list[str]:
        """The greedy search's words, flipped along the gradient."""
        from stressrag.attacks.hotflip import HotFlip

        flip, queries = HotFlip(encoder), normalized(encoder.embed([t.query for t, _ in flat], "query"))
        out = []
        for (target, _), text, query in zip(
            flat, self._for_encoder(encoder, flat, max_tokens), queries.astype(np.float64), strict=True
        ):
            fits = lambda t: self.length(t) <= max_tokens  # noqa: E731
            out.append(" ".join(flip.better(query, text.split(), target.payloads[0], fits)))
        return out

    # ---- what defenses make worth trying ---------------------------------------------------------

    def _weaker(self, system: System, target: Target) -> list[str]:
        """Fewer of the terms, and shorter texts of them: documents that score less."""
        writer = self._keyword_writer(system)
        payload = target.payloads[0]
        sets = [target.terms, *(target.terms[:n] for n in range(1, len(target.terms)))]
        sets += [[t] for t in target.terms]
        rooms = (1, 2, 4, 8, 16)
        return [
            writer.write(target.query, terms, payload, self.length(payload) + n)[0]
            for terms in sets
            for n in rooms
        ]

    def _natural(self, target: Target, max_tokens: int) -> list[str]:
        """The known terms in stretches of the corpus's own text, once and as often as there is room."""
        room = max_tokens - max(map(self.length, target.payloads))
        out = []
        for window in _WINDOWS:
            texts = self._stretched(target, window)
            for n in (1, len(texts)):
                text = " ".join(texts[:n])
                if text and self.length(text) <= room:
                    out.append(text)
        return out

    def _stretched(self, target: Target, window: int) -> list[str]:
        """Texts of so many words around each known term, from other documents each, without further words of
        the query."""
        assert self.index.tokenizer is not None
        taboo = set(self.index.tokenizer(target.query)) - set(target.terms)
        out = []
        for example in range(_EXAMPLES):
            words: list[str] = []
            for term in target.terms:
                found = self._stretches(term)
                if example < len(found):
                    stretch = found[example]
                    at = next(i for i, w in enumerate(stretch) if term in self.index.tokenizer(w))
                    near = stretch[max(0, at - window) : at + window + 1]
                    words += [w for w in near if taboo.isdisjoint(self.index.tokenizer(w))]
            if words:
                out.append(" ".join(words))
        return out

    def _stretches(self, term: str) -> list[list[str]]:
        """Words around a term in the first documents that hold it."""
        if term not in self._neighbors:
            assert self.index.tokenizer is not None
            number = self.index.vocabulary[term]
            start, stop = self.index.indptr[number], self.index.indptr[number + 1]
            found = []
            for doc in self.index.docs[start : min(stop, start + _EXAMPLES)].tolist():
                words = self.corpus.texts[doc].split()
                at = next((i for i, w in enumerate(words) if term in self.index.tokenizer(w)), None)
                if at is not None:
                    found.append(words[max(0, at - max(_WINDOWS)) : at + max(_WINDOWS) + 1])
            self._neighbors[term] = found
        return self._neighbors[term]

    def _different(self, target: Target, found: Sequence[str], room: int, far: bool) -> list[Draft]:
        """Documents of different wordings: those found in turn, the terms in other selections and, where they
        have to be far from each other, inside different stretches of natural text."""
        assert self.index.tokenizer is not None
        less = [" ".join(x for x in target.terms if x != t) for t in target.terms if len(target.terms) > 1]
        turns = [[*found, *less], [*found[:1], *less], target.terms]
        if far:
            for window in _WINDOWS:
                apart = [text for text in self._stretched(target, window) if self.length(text) <= room]
                turns += [apart, [*found[:1], *apart]]
        return [
            tuple(
                f"{cut(turn[j % len(turn)], room, self.index.tokenizer)} {p}".strip()
                for j, p in enumerate(target.payloads)
            )
            for turn in turns
            if turn
        ]


def _ascend(
    own: Floats, rest: Floats, held: Ints, query: Floats, start: Ints, room: int
) -> tuple[Ints, float]:
    """Counts of the terms, changed one at a time while the cosine grows."""
    counts = start.copy()

    def vectors(trials: Ints) -> Floats:
        total = trials + held
        weights = np.where(total > 0, 1 + np.log(np.maximum(total, 1)), 0.0)
        return np.asarray(weights @ own + rest)

    value = float((normalized(vectors(counts[None])) @ query)[0])
    for _ in range(_SWEEPS):
        before = value
        for term in range(len(counts)):
            levels = _LEVELS[room - (counts.sum() - counts[term]) >= _LEVELS]
            if not len(levels):
                continue
            trials = np.repeat(counts[None], len(levels), 0)
            trials[:, term] = levels
            near = normalized(vectors(trials)) @ query
            near[trials.sum(1) == 0] = -np.inf
            at = int(near.argmax())
            if near[at] > value + 1e-12:
                value, counts = float(near[at]), trials[at]
        if value <= before:
            break
    return counts, value
