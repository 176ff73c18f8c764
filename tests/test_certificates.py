"""Certificates: bounds by hand, and attacked with random and with optimal documents; none may be broken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stressrag import load_dataset
from stressrag.attacks.aim import Aim
from stressrag.attacks.keyword_writer import KeywordWriter
from stressrag.certificates.certify import Certifier
from stressrag.certificates.keyword_bound import KeywordBound
from stressrag.collection.model import Corpus
from stressrag.defenses.base import Evasion, Pool, judges
from stressrag.defenses.mmr import MMR
from stressrag.defenses.near_duplicate import NearDuplicate
from stressrag.defenses.overlap import Overlap
from stressrag.defenses.perplexity import Perplexity
from stressrag.defenses.quota import Quota
from stressrag.defenses.repetition import Repetition
from stressrag.defenses.score_detector import ScoreDetector
from stressrag.defenses.similarity import TermSimilarity
from stressrag.experiment.system import RetrievalSystem
from stressrag.retrievers.base import PoisonTexts
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.lsa import LSA
from stressrag.retrievers.ranking import NO_DOC, Ranking
from stressrag.retrievers.weights import VARIANTS
from stressrag.settings.places import choices
from stressrag.text.eligible import eligible_terms


def made(texts) -> Corpus:
    return Corpus([f"d{i}" for i in range(len(texts))], [""] * len(texts), list(texts), [{} for _ in texts])


def random_corpus(rng) -> tuple[Corpus, list[str]]:
    """Short documents over few words, so that ties, copies and rare terms all occur."""
    words = [f"w{i}a" for i in range(int(rng.integers(6, 30)))]
    p = 1 / np.arange(1, len(words) + 1) ** rng.uniform(0, 1.2)
    sizes = rng.integers(1, 25, int(rng.integers(15, 80)))
    texts = [" ".join(rng.choice(words, size=n, p=p / p.sum())) for n in sizes]
    texts += [texts[int(i)] for i in rng.integers(0, len(texts), 3)]
    return made(texts), words


def defenses(name, bm25, corpus, rng):
    overlap = Overlap(bm25.index_, float(rng.uniform(0.1, 1.05)))
    near = NearDuplicate(TermSimilarity(bm25.index_), float(rng.uniform(0.3, 0.99)), int(rng.integers(1, 3)))
    quota = Quota(rng.integers(-1, 3, len(corpus)), int(rng.integers(-1, 3)), int(rng.integers(1, 3)))
    repetition = Repetition(bm25.index_, corpus.texts, 20)
    found = {
        "none": [],
        "overlap": [overlap],
        "near_duplicate": [near],
        "quota": [quota],
        "mmr": [MMR(TermSimilarity(bm25.index_), 0.7)],
        "filters": [repetition, Perplexity(bm25.index_, corpus.texts, 20)],
        "score_detector": [ScoreDetector("gap", [np.array([9.0, 5.0]), np.array([4.0])], 10)],
        "chain": [overlap, near, quota],
    }
    return found[name]


def planted(rng, terms, others, copies, max_tokens, writer, query):
    """Some documents that hold no query term but these: random mixes with fill, decoys, and the best one."""
    rows = []
    for _ in range(copies):
        n = int(rng.integers(1, min(max_tokens or 400, 400) + 1))
        some = [t for t in terms if rng.random() < 0.8] or terms[:1]
        kind = rng.random()
        if kind < 0.3 and some:
            rows.append(writer.write(query, some)[0])
        elif kind < 0.4:
            rows.append(" ".join(rng.choice(others, size=n)) if rng.random() < 0.7 else "")
        else:
            share = rng.dirichlet(np.ones(len(some))) if some else None
            full = int(n * (1 if rng.random() < 0.6 else rng.random()))
            tokens = list(rng.choice(some, size=max(1, full), p=share)) if some else []
            rows.append(" ".join([*tokens, *rng.choice(others, size=max(0, n - len(tokens)))][: max(n, 1)]))
    return [rows[0]] * copies if rng.random() < 0.4 else rows


@pytest.mark.parametrize("defense", ["none", "overlap", "near_duplicate", "quota", "mmr", "filters", "chain"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_no_document_enters_a_certified_query(defense, hybrid):
    """Random systems, both kinds of statistics, all variants: whatever is planted stays out."""
    rng = np.random.default_rng(7 + 31 * hybrid)
    certified = 0
    for _ in range(45):
        corpus, words = random_corpus(rng)
        bm25 = BM25(
            variant=str(rng.choice(sorted(VARIANTS))),
            k1=float(rng.choice([0, 0.9, 1.5])),
            b=float(rng.choice([0, 0.4, 0.75, 1])),
            query_terms=str(rng.choice(["all", "unique"])),
        ).fit(corpus)
        statistics, ties = (
            str(rng.choice(["live", "frozen"])),
            str(rng.choice(["clean_first", "poison_first"])),
        )
        copies, k = int(rng.choice([1, 2, 5])), int(rng.integers(1, 6))
        pool = max(k, int(rng.choice([k, 10, 20])))
        length = None if rng.random() < 0.4 else int(rng.choice([3, 10, 60]))
        leaves = [bm25, LSA(dimensions=4).fit(corpus)] if hybrid else [bm25]
        fusion = {"constant": float(rng.choice([1, 10, 60])), "depth": int(rng.choice([10, 30, 100]))}
        chain = defenses(defense, bm25, corpus, rng)
        certifier = Certifier(
            leaves, fusion if hybrid else {}, chain, statistics=statistics, copies=copies, k=k, pool=pool,
            max_tokens=length,
        )  # fmt: skip
        if certifier.reason:
            continue
        aim = Aim(None, length or 400, statistics, copies, (), k, pool if chain else 0, ties)
        system = RetrievalSystem(aim, leaves, fusion if hybrid else {}, chain, len(corpus))
        writer = KeywordWriter(bm25, aim)
        query = " ".join(rng.choice([*words, "unheard"], size=int(rng.integers(1, 6))))
        unique = list(dict.fromkeys(query.split()))
        n = int(rng.integers(0 if hybrid else 1, len(unique) + 1))
        terms = [str(t) for t in rng.choice(unique, size=n, replace=False)]
        others = [w for w in words if w not in unique] + ["junk"]
        safe = bool(certifier.certified([query], [[terms]])[0][0])
        fewest = int(certifier.fewest([query], len(unique))[0])
        certified += safe
        if safe or n < fewest:
            rows = [planted(rng, terms, others, copies, length, writer, query) for _ in range(60)]
            assert not system.outcome([query] * len(rows), rows).shown.any()
    assert certified >= (1 if hybrid else 5)


def entered(leaves, fusion, chain, query, documents, *, statistics="frozen", k=1, pool=10, corpus):
    aim = Aim(None, 50, statistics, len(documents), (), k, pool if chain else 0, "poison_first")
    return bool(
        RetrievalSystem(aim, leaves, fusion, chain, len(corpus)).outcome([query], [documents]).shown[0]
    )


@pytest.mark.parametrize("statistics", ["frozen", "live"])
@pytest.mark.parametrize("tau", [None, 0.5, 0.01])
def test_a_hybrid_may_bring_in_a_document_without_any_query_term(statistics, tau):
    """By its other retriever; so neither no terms nor terms that admission refuses are certified."""
    rows = ["car engine motor wheel"] * 4 + ["automobile engine motor wheel"] * 4
    corpus = made([*rows, *(f"fish{i} sea{i % 3} boat" for i in range(10))])
    leaves = [BM25().fit(corpus), LSA(dimensions=2).fit(corpus)]
    fusion = {"constant": 60.0, "depth": 20}
    chain = [] if tau is None else [Overlap(leaves[0].index_, tau)]
    kind = {"statistics": statistics, "k": 5, "pool": 10}
    certifier = Certifier(leaves, fusion, chain, copies=1, max_tokens=10, **kind)
    assert entered(leaves, fusion, chain, "automobile", ["engine motor wheel"], corpus=corpus, **kind)
    assert not certifier.certified(["automobile"], [[[], ["automobile"]]])[0].any()
    assert certifier.fewest(["automobile"], 3).tolist() == [0]


def test_what_admission_refuses_may_have_pushed_out_others_before():
    """Near-duplicate admission first: what overlap refuses later has taken a clean document's place."""
    rows = [" ".join(["alpha"] * 12), *(f"beta y{i} z{i}" for i in range(8))]
    rows += ["alpha q1 q2 q3 q4 q5 q6 q7 q8", *(f"u{i} v{i} w{i}" for i in range(30))]
    corpus = made(rows)
    bm25 = BM25(b=0.4).fit(corpus)
    near, overlap = NearDuplicate(TermSimilarity(bm25.index_), 0.7, 1), Overlap(bm25.index_, 0.95)
    documents = ["alpha alpha alpha beta", "alpha j1 j2 j3"]
    for chain, comes_in in (([near, overlap], True), ([overlap, near], False)):
        certifier = Certifier([bm25], {}, chain, statistics="frozen", copies=2, k=1, pool=10, max_tokens=4)
        assert entered([bm25], {}, chain, "alpha beta", documents, corpus=corpus) == comes_in
        safe = certifier.certified(["alpha beta"], [[["alpha", "beta"]]])[0][0]
        assert safe == (not comes_in)


def test_ten_thousand_documents_a_query():
    """Queries of small corpora at BM25's usual settings, each against 10,000 documents of its own terms."""
    rng = np.random.default_rng(3)
    attacked = 0
    while attacked < 4:
        corpus, words = random_corpus(rng)
        statistics = "live" if attacked % 2 else "frozen"
        bm25 = BM25().fit(corpus)
        aim = Aim(None, 50, statistics, 1, (), 3, 0)
        system, writer = RetrievalSystem(aim, [bm25], {}, [], len(corpus)), KeywordWriter(bm25, aim)
        certifier = Certifier([bm25], {}, [], statistics=statistics, copies=1, k=3, pool=3, max_tokens=50)
        query = " ".join(rng.choice(words, size=4, replace=False))
        terms = query.split()[:2]
        if not certifier.certified([query], [[terms]])[0][0]:
            continue
        attacked += 1
        others = [w for w in words if w not in query.split()]
        rows = [planted(rng, terms, others, 1, 50, writer, query) for _ in range(10_000)]
        assert not system.outcome([query] * len(rows), rows).shown.any()


@pytest.mark.parametrize("statistics", ["frozen", "live"])
def test_on_the_embedded_collection_no_query_is_left_undecided(statistics):
    """One document without a defense: either it is certified, or the optimal document enters."""
    collection = load_dataset("pellmore")
    bm25 = BM25().fit(collection.corpus)
    queries = list(collection.evaluated.texts)
    aim = Aim(None, 100, statistics, 1, (), 10, 0)
    system, writer = RetrievalSystem(aim, [bm25], {}, [], len(collection.corpus)), KeywordWriter(bm25, aim)
    certifier = Certifier([bm25], {}, [], statistics=statistics, copies=1, k=10, pool=10, max_tokens=100)
    terms = [eligible_terms(q, bm25.index_)[:1] for q in queries]
    safe = np.array([s[0] for s in certifier.certified(queries, [[t] for t in terms])])
    written = [[writer.write(q, t)[0]] for q, t in zip(queries, terms, strict=True)]
    entered = system.outcome(queries, written).shown > 0
    assert safe.any()
    assert entered.any()
    assert not (safe & entered).any()
    assert (safe | entered).mean() > 0.99


# ---- bounds --------------------------------------------------------------------------------------


def test_one_term_by_hand():
    """Frozen, any length: idf (k1 + 1) / (1 + k1 b / average). Two documents of 2 and 4 tokens."""
    corpus = made(["ferry pier", "ferry tide tide buoy"])
    bm25 = BM25().fit(corpus)
    bound = KeywordBound(bm25, "frozen", 1).of("pier", np.array([0, 1]))
    idf = np.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    assert bound.upper(np.array([[True]])) == pytest.approx(idf * 2.5 / (1 + 1.5 * 0.75 / 3))
    norm = 1 - 0.75 + 0.75 * 2 / 3
    assert bound.lower(np.array([[True]]))[0, 0].tolist() == pytest.approx([idf * 2.5 / (1 + 1.5 * norm), 0])
    limited = KeywordBound(bm25, "frozen", 1, 6).of("pier", np.array([0, 1]))
    assert limited.upper(np.array([[True]])) == pytest.approx(
        idf * 6 * 2.5 / (6 + 1.5 * (0.25 + 0.75 * 6 / 3))
    )


def test_live_bounds_hold_the_scores_of_an_index_with_the_poison():
    rng = np.random.default_rng(5)
    for _ in range(40):
        corpus, words = random_corpus(rng)
        bm25 = BM25(b=float(rng.choice([0.3, 0.75]))).fit(corpus)
        query = " ".join(rng.choice(words, size=3, replace=False))
        held = query.split()[:2]
        copies = int(rng.integers(1, 4))
        docs = bm25.search([query], 10).row(0)[0]
        if not len(docs):
            continue
        bound = KeywordBound(bm25, "live", copies).of(query, docs)
        sets = np.isin(query.split(), held)[None]
        texts = [" ".join(rng.choice([*held, "junk"], size=int(rng.integers(1, 200)))) for _ in range(copies)]
        there = BM25(b=bm25.b).fit(corpus.extended(texts))
        average = there.statistics_.average_length
        low, high = KeywordBound(bm25, "live", copies).cells
        cell = int(np.flatnonzero((low <= average) & (average <= high))[0])
        found, scores = there.search([query], len(corpus) + copies).row(0)
        by = dict(zip(found.tolist(), scores.tolist(), strict=True))
        lower, higher = bound.lower(sets)[0, cell], bound.higher()[0][cell]
        for d, lo, hi in zip(docs.tolist(), lower, higher, strict=True):
            assert lo - 1e-9 <= by[d] <= hi + 1e-9
        for number in range(copies):
            got = by.get(len(corpus) + number, 0.0)
            assert got <= bound.upper(sets)[0, cell] + 1e-9


def test_why_there_is_none():
    corpus = made(["ferry pier", "tide buoy"])
    kind = {"statistics": "live", "copies": 1, "k": 1, "pool": 1}
    lsa = LSA(dimensions=1).fit(corpus)
    assert "no bound" in str(Certifier([lsa], {}, [], **kind).reason)
    el = BM25(variant="l").fit(corpus)
    assert "without limit" in str(Certifier([el], {}, [], **kind).reason)
    assert Certifier([el], {}, [], **kind, max_tokens=9).reason is None
    okapi = BM25(variant="okapi").fit(corpus)
    assert "Okapi" in str(Certifier([okapi], {}, [], **kind).reason)
    assert Certifier([okapi], {}, [], **{**kind, "statistics": "frozen"}).reason is None
    fusion = {"constant": 60.0, "depth": 5}
    refit = [BM25().fit(corpus), LSA(dimensions=1, mode="refit").fit(corpus)]
    for statistics in ("live", "frozen"):
        again = Certifier(refit, fusion, [], **{**kind, "statistics": statistics})
        assert "anew with every poison" in str(again.reason)
    two = [BM25().fit(corpus), BM25(tokenizer="ascii").fit(corpus)]
    assert "different tokenizers" in str(Certifier(two, fusion, [], **kind).reason)


def test_two_bm25_in_one_hybrid():
    """Their heaviest terms may differ, and okapi's scores may be below 0: no certified query is entered."""
    rng = np.random.default_rng(11)
    certified = 0
    for _ in range(60):
        corpus, words = random_corpus(rng)
        variants, counted = ["okapi", "plus", "lucene"], ["all", "unique"]
        leaves = [
            BM25(variant=str(rng.choice(variants)), query_terms=str(rng.choice(counted))).fit(corpus)
            for _ in range(2)
        ]
        fusion = {"constant": 60.0, "depth": int(rng.choice([10, 100]))}
        kind = {"statistics": "frozen", "copies": 1, "k": 2, "pool": 2, "max_tokens": 40}
        certifier = Certifier(leaves, fusion, [], **kind)
        query = " ".join(rng.choice(words, size=int(rng.integers(1, 6))))
        unique = list(dict.fromkeys(query.split()))
        n = int(rng.integers(1, len(unique) + 1))
        terms = [str(t) for t in rng.choice(unique, size=n, replace=False)]
        aim = Aim(None, 40, "frozen", 1, (), 2, 0)
        system, writer = RetrievalSystem(aim, leaves, fusion, [], len(corpus)), KeywordWriter(leaves[0], aim)
        others = [w for w in words if w not in unique] + ["junk"]
        safe = bool(certifier.certified([query], [[terms]])[0][0])
        certified += safe
        if safe or n < int(certifier.fewest([query], len(unique))[0]):
            rows = [planted(rng, terms, others, 1, 40, writer, query) for _ in range(80)]
            assert not system.outcome([query] * len(rows), rows).shown.any()
    assert certified >= 3


# ---- what defenses say of themselves ----------------------------------------------------------------


def every_defense(bm25, corpus, rng):
    names = ("overlap", "near_duplicate", "quota", "mmr", "filters", "score_detector")
    return [d for name in names for d in defenses(name, bm25, corpus, rng)]


def test_every_defense_names_its_adaptive_attacker():
    rng = np.random.default_rng(0)
    corpus, _ = random_corpus(rng)
    known = every_defense(BM25().fit(corpus), corpus, rng)
    assert {d.name for d in known} == set(choices("defense")) - {"none"}
    for d in known:
        said = d.evasion()
        assert isinstance(said, Evasion) or (isinstance(said, str) and said.strip())
        if isinstance(said, Evasion):
            assert said != Evasion()  # it names at least one thing to try
        assert type(d).evasion.__doc__


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_what_a_defense_judges_by(seed):
    """``text``: a candidate's fate is the same in any pool; ``above``: it does not hang on those below it."""
    rng = np.random.default_rng(seed)
    corpus, words = random_corpus(rng)
    bm25 = BM25().fit(corpus)
    query = " ".join(rng.choice(words, size=3, replace=False))
    ranking = bm25.search([query], 12)
    docs = ranking.docs[0][ranking.docs[0] != NO_DOC]
    poison = PoisonTexts([])

    def kept(defense, some):
        found = Ranking(some[None], np.arange(len(some), 0, -1.0)[None])
        out = defense.apply(Pool([query], found, len(corpus), poison), len(some)).docs[0]
        return out[out != NO_DOC].tolist()

    for d in every_defense(bm25, corpus, rng):
        if judges(d) == "all":
            continue
        whole = kept(d, docs)
        assert whole == [x for x in docs.tolist() if x in whole]  # in their order
        cut = docs[: len(docs) // 2]
        assert kept(d, cut) == [x for x in whole if x in cut.tolist()]
        if judges(d) == "text":
            some = docs[rng.random(len(docs)) < 0.5]
            assert kept(d, some) == [x for x in whole if x in some.tolist()]
