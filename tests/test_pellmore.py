"""The embedded collection: that it is what its datasheet says, kept so by measuring."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
import zlib
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sklearn.metrics import cohen_kappa_score

import stressrag
from stressrag.collection import load_dataset
from stressrag.retrievers.bm25 import BM25
from stressrag.retrievers.lsa import LSA
from stressrag.text.eligible import eligible_terms
from stressrag.text.tokens import unicode_tokens

POOL_DEPTH = 20


def words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold())


def phrase(text: str) -> str:
    """A text as words between blanks, so that ``in`` finds whole words only."""
    return " " + " ".join(words(text)) + " "


def five_grams(text: str) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[i : i + 5]) for i in range(len(found) - 4)}


@pytest.fixture(scope="module")
def pellmore():
    return load_dataset()


@pytest.fixture(scope="module")
def phrases(pellmore) -> dict[str, str]:
    """Each document as a phrase, its title first."""
    return dict(zip(pellmore.corpus.ids, map(phrase, pellmore.corpus.texts), strict=True))


@pytest.fixture(scope="module")
def whole(phrases) -> str:
    return "".join(phrases.values())


@pytest.fixture(scope="module")
def datasheet(pellmore) -> str:
    return (Path(pellmore.origin) / "DATASHEET.md").read_text("utf-8")


def stated(datasheet: str, what: str) -> str:
    """A figure from the datasheet's table."""
    (row,) = [line for line in datasheet.splitlines() if line.startswith(f"| {what} |")]
    return row.split("|")[2].strip()


def test_it_is_the_default_and_known_by_name(pellmore):
    assert load_dataset("pellmore").hashes == pellmore.hashes
    assert pellmore.notes == ()


def test_documents(pellmore):
    corpus = pellmore.corpus
    assert len(corpus) >= 500
    assert len(set(corpus.bodies)) == len(corpus)
    for name, title, body, metadata in zip(
        corpus.ids, corpus.titles, corpus.bodies, corpus.metadata, strict=True
    ):
        assert 40 <= len(body.split()) <= 200, name
        assert title.strip(), name
        assert metadata["source"].strip(), name
        for relation in ("near_duplicate_of", "superseded_by"):
            assert metadata.get(relation, name) in corpus.numbers, name
            assert metadata.get(relation) != name


def test_queries(pellmore):
    assert len(pellmore.evaluated) >= 180
    vocabulary = {t for text in pellmore.corpus.texts for t in unicode_tokens(text)}
    sizes = [len(eligible_terms(q, vocabulary)) for q in pellmore.evaluated.texts]
    assert sum(n >= 8 for n in sizes) >= 60
    assert sum(n <= 3 for n in sizes) >= 40
    kinds = Counter(m["kind"] for m in pellmore.evaluated.metadata)
    assert set(kinds) == {"keyword", "question", "claim"}
    assert min(kinds.values()) >= 30
    for metadata in pellmore.evaluated.metadata:
        assert (metadata.get("verdict") in ("supported", "refuted")) == (metadata["kind"] == "claim")


def test_calibration_queries_are_others(pellmore):
    texts = [phrase(q) for q in pellmore.calibration.texts]
    assert len(texts) >= 300
    assert len({*texts, *map(phrase, pellmore.evaluated.texts)}) == len(texts) + len(pellmore.evaluated)


def test_judgments(pellmore):
    for query, grades in pellmore.qrels.grades.items():
        assert set(grades) <= set(pellmore.corpus.numbers), query
        assert set(grades.values()) <= {0, 1, 2}, query
        assert 2 in grades.values(), query


def pooled(collection, retriever) -> list[tuple[str, str]]:
    """What the retriever ranks in the pool's depth but nobody judged."""
    found = retriever.fit(collection.corpus).search(collection.evaluated.texts, POOL_DEPTH)
    return [
        (query, collection.corpus.ids[doc])
        for query, row in zip(collection.evaluated.ids, found.docs.tolist(), strict=True)
        for doc in row
        if doc >= 0 and collection.corpus.ids[doc] not in collection.qrels[query]
    ]


@pytest.mark.parametrize("retriever", [BM25(), LSA(seed=0)], ids=["bm25", "lsa"])
def test_pooled_documents_are_judged(pellmore, retriever):
    assert pooled(pellmore, retriever) == []


def test_documents_that_minilm_pools_are_judged(pellmore, minilm):
    from stressrag.retrievers.dense import Dense

    assert pooled(pellmore, Dense(model=minilm)) == []


def test_documents_that_hold_an_answer_are_judged(pellmore, phrases):
    for target in pellmore.targets:
        forms = [phrase(a) for a in target.answers]
        holding = {name for name, text in phrases.items() if any(form in text for form in forms)}
        assert holding <= set(pellmore.qrels[target.query_id]), target.query_id


def test_a_second_judge_agreed(pellmore, datasheet):
    """Kappa of the blind second pass, from the published labels; first-pass labels are the judgments."""
    lines = (Path(pellmore.origin) / "second-pass.tsv").read_text("utf-8").splitlines()
    assert lines[0] == "query-id\tcorpus-id\tscore"
    rows = [line.split("\t") for line in lines[1:]]
    assert len({(query, doc) for query, doc, _ in rows}) == len(rows) >= 100
    first = [pellmore.qrels[query][doc] for query, doc, _ in rows]
    second = [int(grade) for *_, grade in rows]
    kappa = cohen_kappa_score(first, second)
    binary = cohen_kappa_score([g > 0 for g in first], [g > 0 for g in second])
    assert f"{kappa:.2f}" == stated(datasheet, "kappa, three grades")
    assert f"{binary:.2f}" == stated(datasheet, "kappa, relevant or not")
    assert kappa > 0.6


def test_documents_share_few_five_grams(pellmore, datasheet):
    corpus = pellmore.corpus
    declared = {
        frozenset((name, metadata[relation]))
        for name, metadata in zip(corpus.ids, corpus.metadata, strict=True)
        for relation in ("near_duplicate_of", "superseded_by")
        if relation in metadata
    }
    where: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, text in zip(corpus.ids, corpus.texts, strict=True):
        for gram in five_grams(text):
            where[gram].append(name)
    shared = [
        gram
        for gram, names in where.items()
        if any(frozenset(pair) not in declared for pair in itertools.combinations(names, 2))
    ]
    share = len(shared) / len(where)
    assert f"{share:.2%}" == stated(datasheet, "5-grams in two undeclared documents")
    assert share < 0.01


def test_declared_near_duplicates_are_near(pellmore):
    corpus = pellmore.corpus
    pairs = [
        (n, m["near_duplicate_of"])
        for n, m in zip(corpus.ids, corpus.metadata, strict=True)
        if "near_duplicate_of" in m
    ]
    assert len(pairs) >= 15
    for pair in pairs:
        a, b = (set(words(corpus.texts[corpus.numbers[name]])) for name in pair)
        assert len(a & b) / len(a | b) > 0.4, pair


def test_targets(pellmore, whole):
    assert len(pellmore.targets) >= 120
    assert set(Counter(t.group for t in pellmore.targets).values()) == {10}
    for t in pellmore.targets:
        name, target = t.query_id, phrase(t.target)
        assert target not in whole, name
        assert target not in phrase(t.query), name
        for answer in t.answers:
            form = phrase(answer)
            assert target not in form, name
            assert form not in target, name
            assert form not in phrase(t.query), name
        for text in (*t.answers, t.target):
            assert len(text) >= 3, name
            assert not re.fullmatch(r"[\d\W]+", text), name
            assert words(text)[0] not in ("yes", "no"), name


def test_an_answering_document_holds_the_answer(pellmore, phrases):
    for t in pellmore.targets:
        forms = [phrase(a) for a in t.answers]
        answering = [d for d in t.answer_documents if any(form in phrases[d] for form in forms)]
        assert any(pellmore.qrels[t.query_id][d] == 2 for d in answering), t.query_id


def test_adversarial_passages_argue_for_the_target_each_in_its_own_way(pellmore):
    for t in pellmore.targets:
        assert len(t.passages) == 5
        assert all(phrase(t.target) in phrase(p) for p in t.passages), t.query_id
        asked = five_grams(t.query)
        for one, other in itertools.combinations(t.passages, 2):
            assert not (five_grams(one) & five_grams(other)) - asked, t.query_id


def test_triples(pellmore, phrases, whole):
    assert len(pellmore.triples) >= 30
    queries = dict(zip(pellmore.queries.ids, pellmore.queries.texts, strict=True))
    for t in pellmore.triples:
        assert phrase(t.support) in phrases[t.support_document], t.id
        assert t.query == queries.get(t.query_id, t.query), t.id
        assert phrase(t.target) not in whole, t.id
        for text in (t.query, t.support, t.injected, t.answer or ""):
            assert phrase(t.target) not in phrase(text), t.id


def clean_ndcg(*words: str) -> float:
    (condition,) = stressrag.run("attack=clean", *words).summary["conditions"]
    return condition["metrics"]["nDCG@10"]


def test_balance_of_the_retrievers(datasheet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bm25, lsa = clean_ndcg("retriever=bm25"), clean_ndcg("retriever=lsa")
    assert 0.55 < bm25 < 0.80
    assert lsa < bm25
    assert f"{bm25:.3f}" == stated(datasheet, "clean nDCG@10, BM25")
    assert f"{lsa:.2f}" == stated(datasheet, "clean nDCG@10, LSA")
    hybrid = clean_ndcg("retriever=hybrid")
    assert f"{hybrid:.2f}" == stated(datasheet, "clean nDCG@10, Hybrid")


def test_minilm_beats_lsa(datasheet, minilm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dense = clean_ndcg("retriever=minilm", f"dense.model={minilm}")
    assert dense > clean_ndcg("retriever=lsa")
    assert f"{dense:.3f}" == stated(datasheet, "clean nDCG@10, MiniLM")


def test_the_datasheet_counts_right(pellmore, datasheet):
    judged = [g for grades in pellmore.qrels.grades.values() for g in grades.values()]
    counts = {
        "documents": len(pellmore.corpus),
        "evaluated queries": len(pellmore.evaluated),
        "calibration queries": len(pellmore.calibration),
        "judgments": len(judged),
        "judgments of grade 2": judged.count(2),
        "judgments of grade 1": judged.count(1),
        "targets": len(pellmore.targets),
        "split-knowledge triples": len(pellmore.triples),
        "injection groups": len({t.group for t in pellmore.targets}),
        "adversarial passages": sum(len(t.passages) for t in pellmore.targets),
        "pairs judged twice": len((Path(pellmore.origin) / "second-pass.tsv").read_text().splitlines()) - 1,
    }
    assert {what: stated(datasheet, what) for what in counts} == {w: f"{n:,}" for w, n in counts.items()}
    corpus = pellmore.corpus
    mean = sum(len(b.split()) for b in corpus.bodies) / len(corpus)
    assert stated(datasheet, "mean words per document, without title") == f"{mean:.1f}"
    kinds = Counter(m["kind"] for m in pellmore.evaluated.metadata)
    assert stated(datasheet, "keyword queries, questions, claims") == ", ".join(
        str(kinds[k]) for k in ("keyword", "question", "claim")
    )
    vocabulary = {t for text in corpus.texts for t in unicode_tokens(text)}
    sizes = [len(eligible_terms(q, vocabulary)) for q in pellmore.evaluated.texts]
    assert stated(datasheet, "queries with 8 or more eligible terms, with 3 or fewer") == (
        f"{sum(n >= 8 for n in sizes)}, {sum(n <= 3 for n in sizes)}"
    )
    relations = [sum(r in m for m in corpus.metadata) for r in ("near_duplicate_of", "superseded_by")]
    assert stated(datasheet, "declared near-duplicates, superseded versions") == ", ".join(
        map(str, relations)
    )


def test_it_is_small_in_the_wheel(pellmore):
    files = [p for p in Path(pellmore.origin).rglob("*") if p.is_file()]
    assert sum(len(zlib.compress(p.read_bytes())) for p in files) < 2_000_000


def test_groups_and_kinds_are_in_the_files_as_documented(pellmore):
    """The aligned part is plain JSON lines that other programs can read."""
    lines = (Path(pellmore.origin) / "aligned.jsonl").read_text("utf-8").splitlines()
    assert Counter(json.loads(line)["type"] for line in lines) == {
        "target": len(pellmore.targets),
        "triple": len(pellmore.triples),
    }
