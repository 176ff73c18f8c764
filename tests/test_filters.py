"""Filters of odd texts: bigrams and repetition by hand and by brute force, calibration, real data."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_defenses import lists, pool, sweep

from stressrag.collection.load import load_dataset
from stressrag.defenses.filter import TextFilter, threshold
from stressrag.defenses.perplexity import Perplexity
from stressrag.defenses.repetition import Repetition, repeats
from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.text.bigrams import Bigrams
from stressrag.text.index import TermIndex
from stressrag.text.tokens import unicode_tokens

KINDS = {
    "repetition": Repetition,
    "perplexity": Perplexity,
    "windowed": lambda index, texts, rate: Perplexity(index, texts, rate, window=3),
}
words = st.sampled_from("abcdef")
corpora = st.lists(st.lists(words, max_size=9).map(" ".join), min_size=1, max_size=9)
queries = st.lists(words | st.sampled_from("xyz"), max_size=9).map(" ".join)


def index_of(texts) -> TermIndex:
    return TermIndex.from_texts(texts, unicode_tokens)


def made(kind: str, texts, rate: float) -> TextFilter:
    return KINDS[kind](index_of(texts), texts, rate)


# ---- the bigram model ----------------------------------------------------------------------------


class Plain:
    """The model by its formula, in fractions, one probability at a time."""

    def __init__(self, texts):
        pairs = [p for t in texts for p in zip(["<s>", *t.split()], t.split(), strict=False)]
        self.pairs, self.kinds = pairs, set(pairs)
        self.words = {v for _, v in pairs}

    def probability(self, u: str, v: str) -> Fraction:
        d = Fraction(3, 4)
        if not self.pairs:
            return Fraction(1)
        n, size = len(self.kinds), len(self.words)
        before = sum(b == v for _, b in self.kinds)
        low = max(before - d, Fraction(0)) / n + d * size / n / (size + 1)
        total = sum(a == u for a, _ in self.pairs)
        if not total:
            return low
        after = sum(a == u for a, _ in self.kinds)
        return max(self.pairs.count((u, v)) - d, Fraction(0)) / total + d * after / total * low

    def surprisal(self, text: str) -> list[float]:
        tokens = text.split()
        return [-math.log(self.probability(u, v)) for u, v in zip(["<s>", *tokens], tokens, strict=False)]


def probabilities(corpus, text) -> list[float]:
    index = index_of(corpus)
    model = Bigrams(*index.read(corpus), index.n_terms)
    return np.exp(-model.surprisal(*index.read([text]))).tolist()


def test_bigrams_by_hand():
    """ "a b a b", "a c": pairs ^a twice, ab twice, ba and ac once; four kinds, three words.

    p(a) = (2 - .75) / 4 + .75 * 3 / 4 / 4 = .453125, p(b) = p(c) = .203125, any other word .140625.
    """
    corpus = ["a b a b", "a c"]
    a, b, other = 0.453125, 0.203125, 0.140625
    # ^ is followed by a both times, a by b twice and c once, b by a once (the other ends its text)
    begins = (2 - 0.75) / 2 + 0.75 / 2 * a
    a_b = (2 - 0.75) / 3 + 0.75 * 2 / 3 * b
    a_c = (1 - 0.75) / 3 + 0.75 * 2 / 3 * b
    b_a = (1 - 0.75) / 1 + 0.75 / 1 * a
    assert probabilities(corpus, "a b a c") == pytest.approx([begins, a_b, b_a, a_c])
    # nothing follows c, and nobody knows x: the word alone counts
    assert probabilities(corpus, "a c a x b") == pytest.approx([begins, a_c, a, 0.75 * 2 / 3 * other, b])


def test_a_text_is_left_out_by_hand():
    """Without "a b", "a c" is all there is: b is a word nobody knows; without "a c" it is c."""
    corpus = ["a b", "a c"]
    index = index_of(corpus)
    left_out = np.exp(-Bigrams(*index.read(corpus), index.n_terms).left_out(*index.read(corpus)))
    # of two kinds, two words: p(a) = .25 / 2 + .75 * 2 / 2 / 3 = .375, another's place .25
    begins, other = 0.25 + 0.75 * 0.375, 0.75 * 0.25
    assert left_out.tolist() == pytest.approx([begins, other, begins, other])


@given(corpora, words | st.just("x"))
def test_probabilities_add_up_to_one(corpus, before):
    known = sorted({w for t in corpus for w in t.split()})
    found = [probabilities(corpus, f"{before} {w}")[1] for w in [*known, "unheard"]]
    assert sum(found) == pytest.approx(1)
    assert sum(probabilities(corpus, w)[0] for w in [*known, "unheard"]) == pytest.approx(1)


@settings(deadline=None)
@given(corpora, st.lists(queries, max_size=3))
def test_bigrams_by_brute_force(corpus, texts):
    index = index_of(corpus)
    read = index.read(corpus)
    model = Bigrams(*read, index.n_terms)
    expected = [s for t in texts for s in Plain(corpus).surprisal(t)]
    assert model.surprisal(*index.read(texts)).tolist() == pytest.approx(expected)
    rest = [Plain([*corpus[:i], *corpus[i + 1 :]]).surprisal(t) for i, t in enumerate(corpus)]
    assert model.left_out(*read).tolist() == pytest.approx([s for text in rest for s in text])


# ---- scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("", 0),
        ("ferry", 0),
        ("no no", 0.1),  # as if eight other words followed
        ("Ferry ferry ferry FERRY ferry", 0.4),
        ("a b c d e f g h i j a b", 2 / 12),
        ("ferry " * 50, 49 / 50),
        ("ferry " * 500, 49 / 50),
        (" ".join(f"w{i % 40}" for i in range(200)), 10 / 50),
        (" ".join(f"w{i % 50}" for i in range(200)), 0),  # the same word never twice in one window
        ("ferry " * 20 + " ".join(f"w{i}" for i in range(300)), 19 / 50),
    ],
)
def test_repetition_by_hand(text, score):
    assert made("repetition", ["a"], 1).scores([text, "b", text]).tolist() == [score, 0, score]


@given(st.lists(st.lists(words, max_size=12).map(" ".join), max_size=4), st.integers(1, 6))
def test_repeats_by_brute_force(texts, window):
    expected = []
    for tokens in map(str.split, texts):
        slices = [tokens[i : i + window] for i in range(len(tokens))]
        expected += [len(s) - len(set(s)) for s in slices]
    assert repeats(*index_of(["a"]).read(texts), window).tolist() == expected


@settings(deadline=None)
@given(corpora, st.lists(queries, min_size=1, max_size=3), st.none() | st.integers(1, 5))
def test_perplexity_by_brute_force(corpus, texts, window):
    found = Perplexity(index_of(corpus), corpus, 10, window).scores(texts)
    for text, score in zip(texts, found, strict=True):
        surprisal = Plain(corpus).surprisal(text)
        size = min(window or len(surprisal), len(surprisal))
        means = [sum(surprisal[i : i + size]) / size for i in range(len(surprisal) - size + 1) if size]
        assert score == pytest.approx(math.exp(max(means, default=0)), rel=1e-5)


# ---- calibration ---------------------------------------------------------------------------------


def test_threshold_by_hand():
    scores = np.array([5.0, 1, 4, 4, 2, 3, 0, 0, 0, 0])
    assert [threshold(scores, r) for r in (1, 9.99, 10, 20, 30, 50)] == [5, 5, 4, 4, 3, 1]


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None)
@given(corpus=corpora, rate=st.floats(0.5, 50), data=st.data())
def test_what_is_rejected_of_clean_documents(kind, corpus, rate, data):
    """No more than the nominal rate, and the same documents in whatever order they stand."""
    found = made(kind, corpus, rate)
    assert found.rejected.sum() <= len(corpus) * rate / 100 + 1e-9
    order = data.draw(st.permutations(range(len(corpus))))
    other = made(kind, [corpus[i] for i in order], rate)
    assert other.rejected.tolist() == [found.rejected[i] for i in order]
    assert other.threshold == found.threshold
    texts = data.draw(st.lists(queries, max_size=4))
    assert other.scores(texts).tolist() == found.scores(texts).tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(texts=st.lists(queries, min_size=1, max_size=5))
def test_a_text_is_judged_alone(kind, texts):
    corpus = ["a b c d", "a b d c", "b c", "f e", ""]
    together = made(kind, corpus, 20).scores(texts).tolist()
    assert together == [made(kind, corpus, 20).scores([t])[0] for t in texts]


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_is_filtered(kind):
    """The clean document that is odd goes, and the odd poison; the next pool has poison of its own."""
    corpus = [*["the ferry leaves the pier at nine"] * 9, "kraken " * 40]
    found = made(kind, corpus, 10)
    seen = pool(["q", "r"], [[9, 10, 0, 11, 12], []], 10, ["squid " * 40, corpus[0], "squid " * 40])
    kept = found.apply(seen, 5)
    assert kept.docs.tolist() == [[0, 11, -1, -1, -1], [-1] * 5]
    assert kept.scores[0].tolist() == [3, 2, -np.inf, -np.inf, -np.inf]
    assert found.apply(pool(["q"], [[10, 11]], 10, ["", "squid " * 40]), 2).docs.tolist() == [[10, -1]]
    assert made(kind, corpus, 9).apply(pool(["q"], [[9, 10]], 10, ["ferry"]), 2).docs[0, 0] == 9


# ---- in a run ------------------------------------------------------------------------------------


def test_chains_rates_and_workers(ferries):
    """At half of the corpus something is rejected; a chain rejects what either does."""
    words_ = ["defense=repetition,perplexity,[repetition,perplexity]", "defense.filter_rate=50", "k=5"]
    run = sweep(*words_, "attack=payload", "attack.budget=2")
    found = {c["config"]["defense"]: c for c in run.summary["conditions"] if c["config"]["budget"]}
    assert set(found) == {"none", "repetition", "perplexity", "repetition+perplexity"}
    chain = found["repetition+perplexity"]
    common = {"rate": 50, "tokenizer": "unicode"}
    assert chain["config"]["defense_settings"] == {
        "repetition": common,
        "perplexity": {**common, "window": None},
    }
    rejected = {name: set() for name in found}
    for r in run.records().to_pylist():
        if r["budget"] and r["rejected"]:
            rejected[r["defense"]].add(r["query_id"])
    assert rejected["perplexity"]
    assert rejected["repetition+perplexity"] == rejected["repetition"] | rejected["perplexity"]
    again = sweep(*words_, "attack=payload", "attack.budget=2", "workers=2", "output_dir=again")
    assert again.records() == run.records()
    assert lists(again, chain["id"]) == lists(run, chain["id"])


@pytest.mark.parametrize("rate", ["0", "-1", "50.1", "nan"])
def test_rates_that_mean_nothing(rate):
    with pytest.raises(StressragError, match=rf"filter_rate={rate}.*: a percentage above 0 and at most 50"):
        plan("sweep", ["defense=repetition", f"defense.filter_rate={rate}"])


@pytest.fixture(scope="module")
def scifact(data_root):
    texts = load_dataset("scifact").corpus.texts
    return index_of(texts), texts


@pytest.mark.parametrize("kind", ["repetition", "perplexity"])
def test_on_scifact(kind, scifact):
    """A word said 50 times is rejected, and clean documents about as often as asked for."""
    found = KINDS[kind](*scifact, 1)
    assert 0.006 < found.rejected.mean() <= 0.01
    stuffed, natural = found.scores(["biomaterials " * 50, scifact[1][3]])
    assert natural <= found.threshold < stuffed
    if kind == "perplexity":
        # its own model finds a document likelier than the model of all others does
        assert np.median(found.scores(scifact[1])) < np.median(
            found._perplexity(
                found._model.left_out(*scifact[0].read(scifact[1])), scifact[0].read(scifact[1])[1]
            )
        )


def test_a_window_finds_what_natural_text_hides(scifact):
    index, texts = scifact
    hidden = "biomaterials " * 50 + texts[3]
    whole, window = Perplexity(index, texts, 1), Perplexity(index, texts, 1, window=50)
    assert whole.scores([hidden])[0] <= whole.threshold
    assert window.scores([hidden])[0] > window.threshold
    assert 0.009 < window.rejected.mean() <= 0.01
