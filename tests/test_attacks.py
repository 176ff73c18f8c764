"""Attacks: anchors, payloads, bodies and targets, by hand and on the real collection."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest

from stressrag.attacks.anchors import Terms
from stressrag.attacks.payloads import load_payloads
from stressrag.attacks.poison import AttackContext, Recipe, choose_targets, generate, groups
from stressrag.collection import load_dataset
from stressrag.collection.model import Corpus, Queries
from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute
from stressrag.text.index import TermIndex
from stressrag.text.tokens import unicode_tokens

TEXTS = [
    "the ferry leaves the pier",
    "the ferry and the tide",
    "the ferry and the buoy and the tide",
    "rope chain anchor mooring harbour pilot lighthouse keeper fog storm crew deck funnel rail summer island",
]
ASKED = {
    "a": "When does the ferry leave the pier at high tide by the buoy?",
    "b": "tide",
    "c": "who is it",
    "d": "ferry pier tide buoy rope chain anchor mooring",
}
RECIPES = {
    "query_only": Recipe("query_only", "query", "none"),
    "payload": Recipe("payload", "query", "payload"),
    "payload-cycle": Recipe("payload", "query", "payload", payload_order="cycle"),
    "neutral": Recipe("neutral", "query", "neutral"),
    "corpus_neutral": Recipe("corpus_neutral", "query", "corpus_neutral"),
    "payload_only": Recipe("payload_only", "none", "payload"),
    "random2": Recipe("partial", "terms", "payload", terms=2, strategy="random"),
    "idf4": Recipe("partial", "terms", "payload", terms=4, strategy="idf"),
}


def context(texts=TEXTS, asked=ASKED, metadata=()) -> AttackContext:
    corpus = Corpus.from_texts(texts)
    queries = Queries(list(asked), list(asked.values()), metadata)
    return AttackContext(corpus, queries, TermIndex.from_texts(corpus.texts, unicode_tokens))


def poison(recipe: Recipe, budget: int = 1, ctx: AttackContext | None = None) -> dict[str, list[str]]:
    ctx = ctx or context()
    return dict(zip(ctx.queries.ids, generate(recipe, ctx, budget).texts, strict=True))


# ---- anchors -------------------------------------------------------------------------------------


def test_eligible_terms():
    ctx = context()
    assert ctx.eligible("unicode") == [
        ["ferry", "pier", "tide", "buoy"],  # leave and high are unknown, the rest are stop words
        ["tide"],
        [],
        ["ferry", "pier", "tide", "buoy", "rope", "chain", "anchor", "mooring"],
    ]


def anchor(n: int, strategy: str, query_id: str = "d", seed: int = 0) -> list[str]:
    ctx = context()
    terms = ctx.eligible("unicode")[list(ASKED).index(query_id)]
    return Terms(n, strategy, ctx.index, seed)(ASKED[query_id], query_id, terms).text.split()


@pytest.mark.parametrize("strategy", ["random", "idf"])
def test_more_terms_hold_fewer_and_keep_the_querys_order(strategy):
    full = ASKED["d"].split()
    chosen = [anchor(n, strategy) for n in range(1, 9)]
    for n, terms in enumerate(chosen, 1):
        assert len(terms) == n
        assert [t for t in full if t in terms] == terms
    assert all(set(few) < set(more) for few, more in itertools.pairwise(chosen))
    assert anchor(12, strategy) == full


def test_random_terms_depend_on_seed_and_id_alone():
    ctx, one = context(), Recipe("partial", "terms", "none", terms=2, strategy="random")
    drawn = {seed: tuple(anchor(2, "random", seed=seed)) for seed in range(20)}
    assert len(set(drawn.values())) > 5
    assert poison(one)["d"] == [" ".join(drawn[0])]
    turned = context(asked=dict(reversed(list(ASKED.items()))))
    assert poison(one, ctx=turned) == poison(one, ctx=ctx)
    alone = context(asked={"d": ASKED["d"]})
    assert poison(one, ctx=alone)["d"] == poison(one)["d"]
    renamed = {poison(one, ctx=context(asked={str(i): ASKED["d"]}))[str(i)][0] for i in range(20)}
    assert len(renamed) > 5
    # a random draw is not the order of the query in disguise
    firsts = {anchor(1, "random", seed=s)[0] for s in range(60)}
    assert firsts == set(ASKED["d"].split())


def test_the_rarest_terms():
    # document frequencies: ferry 3, tide 2, the others 1, where the query's order decides
    assert anchor(1, "idf") == ["pier"]
    assert anchor(3, "idf") == ["pier", "buoy", "rope"]
    assert anchor(7, "idf") == [t for t in ASKED["d"].split() if t != "ferry"]
    assert anchor(6, "idf") == [t for t in ASKED["d"].split() if t not in ("ferry", "tide")]
    assert anchor(2, "idf", "a") == ["pier", "buoy"]


def test_coverage_and_what_is_missing():
    made = generate(RECIPES["random2"], context(), 3)
    assert made.coverage.tolist() == [0.5, 1.0, 0.0, 0.25]
    assert made.notes == {"fewer_terms": 1, "no_terms": 1}
    assert generate(RECIPES["payload"], context(), 1).coverage.tolist() == [1.0] * 4
    assert generate(RECIPES["payload_only"], context(), 1).coverage.tolist() == [0.0] * 4
    bare = generate(replace(RECIPES["random2"], body="none"), context(), 3)
    assert bare.texts[2] == [""] * 3
    assert bare.notes["empty_texts"] == 3


def test_the_same_terms_in_all_documents_of_a_target():
    for row in poison(RECIPES["random2"], 5).values():
        openings = {" ".join(t.split()[:2]) for t in row}
        if row[0].split()[0] in TEXTS[0] + TEXTS[3]:
            assert len(openings) == 1
    (opening,) = {" ".join(t.split()[:2]) for t in poison(RECIPES["random2"], 5)["d"]}
    assert opening.split() == anchor(2, "random")


# ---- bodies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(RECIPES))
def test_a_budget_is_part_of_a_larger_one(name):
    five = poison(RECIPES[name], 5)
    for budget in (1, 3):
        assert poison(RECIPES[name], budget) == {q: row[:budget] for q, row in five.items()}


def test_recipes_by_hand():
    query = ASKED["a"]
    payloads = load_payloads("builtin").texts
    assert poison(RECIPES["query_only"], 2)["a"] == [query, query]
    (neutral,) = set(poison(RECIPES["neutral"], 3)["a"])
    assert neutral.startswith(query + " This page was last reviewed")
    for i, q in enumerate(ASKED):
        expected = [payloads[(5 * i + j) % len(payloads)] for j in range(3)]
        assert poison(RECIPES["payload-cycle"], 3)[q] == [f"{ASKED[q]} {p}" for p in expected]
    only = poison(RECIPES["payload_only"], 3)["a"]
    assert only == [t.removeprefix(query + " ") for t in poison(RECIPES["payload"], 3)["a"]]
    start = payloads.index(only[0])
    assert only == [payloads[(start + j) % len(payloads)] for j in range(3)]


def test_hashed_payloads_do_not_depend_on_the_other_queries():
    turned = context(asked=dict(reversed(list(ASKED.items()))))
    assert poison(RECIPES["payload"], 3, turned) == poison(RECIPES["payload"], 3)
    alone = context(asked={"d": ASKED["d"]})
    assert poison(RECIPES["payload"], 3, alone)["d"] == poison(RECIPES["payload"], 3)["d"]
    starts = {poison(replace(RECIPES["payload"], seed=s))["a"][0] for s in range(20)}
    assert len(starts) > 10


def test_neutral_snippets(tmp_path):
    """As long as the payload, none of the query's words, a run of one document; short ones are counted."""
    path = tmp_path / "payloads"
    path.write_text("one two three four\nfive six seven eight nine ten eleven\n")
    recipe = replace(RECIPES["corpus_neutral"], payloads=str(path), payload_order="cycle")
    rows = poison(recipe, 4)
    for i, (q, row) in enumerate(rows.items()):
        for j, text in enumerate(row):
            snippet = text.removeprefix(ASKED[q]).strip()
            assert not set(unicode_tokens(snippet)) & set(unicode_tokens(ASKED[q]))
            assert len(unicode_tokens(snippet)) == (4, 7)[(5 * i + j) % 2]
            assert any(snippet in t for t in TEXTS)
    assert generate(recipe, context(), 4).notes == {}
    path.write_text(" ".join(f"w{i}" for i in range(30)))
    made = generate(recipe, context(), 2)
    assert made.notes == {"short_snippets": 8}
    assert TEXTS[3] in made.texts[0][0]  # the longest run there is
    covered = generate(recipe, context(texts=["tide"], asked={"q": "tide"}), 1)
    assert covered.texts == [["tide"]]
    assert covered.notes == {"short_snippets": 1}


def test_neutral_snippets_on_scifact(data_root, monkeypatch):
    monkeypatch.setenv("STRESSRAG_DATA", str(data_root))
    collection = load_dataset("scifact")
    some = collection.evaluated.select(list(collection.evaluated.ids)[::10])
    index = TermIndex.from_texts(collection.corpus.texts, unicode_tokens)
    ctx = AttackContext(collection.corpus, some, index)
    recipe = RECIPES["corpus_neutral"]
    made, payload = generate(recipe, ctx, 2), generate(RECIPES["payload_only"], ctx, 2)
    assert made.notes == {}
    distinct = set()
    for query, row, payloads in zip(some.texts, made.texts, payload.texts, strict=True):
        for text, other in zip(row, payloads, strict=True):
            snippet = text.removeprefix(query).strip()
            distinct.add(snippet)
            assert not set(unicode_tokens(snippet)) & set(unicode_tokens(query))
            assert len(unicode_tokens(snippet)) == len(unicode_tokens(other))
    assert len(distinct) == 60


# ---- payload files -------------------------------------------------------------------------------


def test_builtin_payloads():
    texts = load_payloads("builtin").texts
    assert len(set(texts)) == len(texts) >= 50
    assert all(len(unicode_tokens(t)) >= 3 for t in texts)


@pytest.mark.parametrize(
    "content",
    [
        '{"Kind": ["one", "two"], "Other": ["three"]}',
        '["one", "two", "three"]',
        "one\n\n  two \r\nthree\n",
        "\ufeffone\ntwo\nthree",
    ],
)
def test_files_of_payloads(tmp_path, content):
    path = tmp_path / "my payloads"
    path.write_text(content, "utf-8")
    found = load_payloads(str(path))
    assert found.texts == ("one", "two", "three")
    assert found.source == "my payloads"
    path.write_text('["one", "two", "tree"]')
    assert load_payloads(str(path)).sha256 != found.sha256


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{\n", r":2: broken JSON"),
        ('{"a": "one"}', "neither a list of texts nor categories"),
        ("[1, 2]", "neither a list of texts nor categories"),
        ("[]", "holds no payload"),
        ("", "holds no payload"),
        ('[" "]', "holds no payload"),
        (b"\xff\xfe\x00", "cannot read"),
    ],
)
def test_broken_files_of_payloads(tmp_path, content, message):
    path = tmp_path / "p.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(StressragError, match=message):
        load_payloads(str(path))


def test_missing_payloads(tmp_path, monkeypatch):
    with pytest.raises(StressragError, match=r"no file .*nowhere.*give builtin, bipia or the path of a file"):
        load_payloads(str(tmp_path / "nowhere"))
    with pytest.raises(StressragError, match="cannot read"):
        load_payloads(str(tmp_path))
    monkeypatch.setenv("STRESSRAG_DATA", str(tmp_path))
    monkeypatch.setenv("STRESSRAG_CACHE", str(tmp_path / "cache"))
    with pytest.raises(StressragError, match="data fetch bipia"):
        load_payloads("bipia")


def test_bipia(data_root, monkeypatch):
    monkeypatch.setenv("STRESSRAG_DATA", str(data_root))
    content = json.loads((data_root / "bipia" / "text_attack_test.json").read_text())
    texts = load_payloads("bipia").texts
    assert len(texts) == 75
    assert list(texts) == [t for kind in content.values() for t in kind]


# ---- targets and groups --------------------------------------------------------------------------


def test_targets():
    queries = Queries([f"q{i}" for i in range(40)], ["x"] * 40)
    assert choose_targets("all", queries, 0).all()
    quarter, half = choose_targets(0.25, queries, 0), choose_targets(0.5, queries, 0)
    assert (quarter.sum(), half.sum(), choose_targets(1.0, queries, 0).sum()) == (10, 20, 40)
    assert half[quarter].all()
    assert (choose_targets(0.25, queries, 1) != quarter).any()
    assert choose_targets(0.001, queries, 0).sum() == 1
    assert choose_targets(("q7", "q3"), queries, 0).nonzero()[0].tolist() == [3, 7]
    turned = Queries(queries.ids[::-1], queries.texts)
    assert (choose_targets(0.25, turned, 0)[::-1] == quarter).all()
    with pytest.raises(StressragError, match="no judged query 'q99'; did you mean 'q9'"):
        choose_targets(("q1", "q99"), queries, 0)


def test_groups():
    assert groups(context().queries, 3).tolist() == [0, 0, 0, 1]
    named = context(metadata=[{"group": "x"}, {"group": "y"}, {"group": "x"}, {"group": "z"}])
    assert groups(named.queries, 3).tolist() == [0, 1, 0, 2]
    some = context(metadata=[{"group": "x"}, {}, {"group": "x"}, {}])
    assert groups(some.queries, 2).tolist() == [0, 0, 1, 1]


# ---- the user's own ------------------------------------------------------------------------------


def test_own_attack(ferries):
    with open("mine.py", "w") as f:
        f.write(
            "def shout(query, query_id, number, context):\n"
            "    return f'{query.upper()} {query_id} {number} {context.index.n_docs}'\n"
            "def number(query, query_id, number, context):\n"
            "    return number\n"
        )
    words = ["dataset=ferries", "attack=python", "attack.budget=2"]
    run = execute(plan("run", [*words, "attack.target=mine:shout"]))
    assert run.summary["conditions"][0]["metrics"]["TargetExp"] == 1
    for target, message in {
        "mine:number": "'mine:number' gave int, not a text",
        "mine:shuot": "no 'shuot' there; did you mean 'shout'",
        "mine": "is no import path; write package.module:name",
        "nowhere:x": "cannot import 'nowhere'",
    }.items():
        with pytest.raises(StressragError, match=message):
            execute(plan("run", [*words, f"attack.target={target}"]))


def test_unknown_target(ferries):
    with pytest.raises(StressragError, match="no judged query 'q7'; choose from q1, q2, q3, q4, q5, q9"):
        execute(plan("run", ["dataset=ferries", "attack.targets=[q1,q7]"]))


def test_neutral_snippets_of_a_set_length() -> None:
    """As many tokens as set, none of them the query's, whatever the payload's length."""
    for n in (2, 5):
        recipe = Recipe("corpus_neutral", "none", "corpus_neutral", snippet_tokens=n)
        for name, texts in poison(recipe, 3).items():
            for text in texts:
                assert len(unicode_tokens(text)) == n
                assert not set(unicode_tokens(text)) & set(unicode_tokens(ASKED[name]))
