"""From words on the command line to checked settings."""

from __future__ import annotations

from dataclasses import asdict, fields, is_dataclass
from pathlib import Path

import pytest
import yaml

from stressrag.cli.main import dispatch
from stressrag.errors import StressragError
from stressrag.experiment.plan import plan
from stressrag.settings.compose import expand, only, value_of
from stressrag.settings.places import choices, config_folder, groups, settings
from stressrag.settings.schema import BOUNDS, CHOICES, TOKENIZERS, Settings


def values(words: list[str], *keys: str) -> list:
    out = [tuple(value_of(s, k) for k in keys) for s in expand(words)]
    return [v[0] for v in out] if len(keys) == 1 else out


# ---- several values ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["bm25,lsa", "[bm25,lsa]", "choice(bm25,lsa)"])
def test_lists_of_a_group(text):
    assert values([f"retriever={text}"], "retriever.kind") == ["bm25", "lsa"]


@pytest.mark.parametrize("text", ["1,3", "[1,3]", "range(1,5,2)", "[3,1,3]", "3,1"])
def test_lists_of_a_number(text):
    assert sorted(values([f"attack.budget={text}"], "attack.budget")) == [1, 3]


def test_every_listed_value_runs():
    assert values(["attack.budget=[1,3,5]"], "attack.budget") == [1, 3, 5]
    assert values(["attack.budget=range(1,4)"], "attack.budget") == [1, 2, 3]
    assert values(["defense.tau=.4,0.7,1"], "defense.tau") == [0.4, 0.7, 1.0]
    assert values(["ties=clean_first,poison_first"], "ties") == ["clean_first", "poison_first"]
    assert values(["retriever=glob(bge_*)"], "retriever.label") == ["bge_base", "bge_small"]
    labels = [
        c.retriever.label for c in plan("sweep", ["retriever=[lsa,bm25]", "attack.budget=1,2"]).conditions
    ]
    assert labels == ["lsa", "bm25", "lsa", "lsa", "bm25", "bm25"]


def test_products_in_the_order_of_the_words():
    assert values(["attack.budget=1,2", "k=5,10"], "attack.budget", "k") == [(1, 5), (1, 10), (2, 5), (2, 10)]
    assert values(["k=5,10", "attack.budget=1,2"], "attack.budget", "k") == [(1, 5), (2, 5), (1, 10), (2, 10)]
    assert len(expand(["retriever=bm25,lsa", "attack=payload,query_only", "attack.budget=1,3,5"])) == 12


def test_a_choice_brings_its_own_settings_each_time():
    got = values(
        ["retriever=contriever,bge_small,bm25"], "retriever.kind", "dense.similarity", "dense.query_prompt"
    )
    prompt = "Represent this sentence for searching relevant passages: "
    assert got[0] == ("dense", "dot", "")
    assert got[1] == ("dense", "cosine", prompt)
    assert got[2][0] == "bm25"


def test_the_last_word_of_a_setting_counts():
    assert values(["k=5", "k=7"], "k") == [7]


def test_partial_stands_for_its_grid():
    got = values(["attack=partial"], "attack.terms", "attack.strategy")
    assert got == [(n, s) for n in (1, 2, 4, 8) for s in ("random", "idf")]
    assert values(["attack=partial", "attack.terms=3"], "attack.terms", "attack.strategy") == [
        (3, "random"),
        (3, "idf"),
    ]
    got = values(["attack=payload,partial", "attack.strategy=idf"], "attack.name", "attack.terms")
    assert got == [("payload", None), *(("partial", n) for n in (1, 2, 4, 8))]


def test_the_papers_grid():
    got = expand(["grid=paper"])
    # 5 attacks and 8 partial ones x 3 budgets x 3 retrievers, and multi-target payload
    assert len(got) == 3 * 3 * (5 + 8) + 9
    assert {s.attack.scope for s in got} == {"isolated", "multi"}
    assert {s.retriever.kind for s in expand(["grid=paper", "retriever=lsa"])} == {"lsa"}


def test_chains_and_lists_of_defenses():
    assert values(["defense=[overlap,mmr]"], "defense.names") == [["overlap", "mmr"]]
    assert values(["defense=overlap,mmr"], "defense.names") == [["overlap"], ["mmr"]]
    assert values(["defense=none,[mmr,overlap]"], "defense.names") == [[], ["mmr", "overlap"]]
    assert values(["defense=none"], "defense.names") == [[]]


def test_settings_that_are_lists():
    assert values(["attack.targets=[1,a]"], "attack.targets") == [["1", "a"]]
    assert values(["attack.targets=all,0.5,[7]"], "attack.targets") == ["all", 0.5, ["7"]]
    assert values(["attack.targets=1"], "attack.targets") == [1.0]
    assert values(["rrf.retrievers=[bm25,dense,lsa]"], "rrf.retrievers") == [["bm25", "dense", "lsa"]]


@pytest.mark.parametrize(
    "path", ["~/x(y)é", "a b", "C:\\x", "it's", "/data/50%", "x=y", "ünï/[1]", "a#b", "$HOME/x", "{x}"]
)
def test_paths_of_any_look(path):
    assert only(["dataset=folder", f"dataset.path={path}"]).dataset.path == path


def test_a_folder_by_name_is_a_dataset():
    assert values(["dataset=my-own,scifact"], "dataset.name") == ["my-own", "scifact"]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["retreiver=bm25"], "unknown setting 'retreiver': did you mean 'retriever'"),
        (["retriever=bm52"], "retriever=bm52: no such retriever; did you mean 'bm25'"),
        (["retriever=bm25,lsi"], "retriever=lsi: no such retriever; did you mean 'lsa'"),
        (["attack=quary_only"], "attack=quary_only: no such attack; did you mean 'query_only'"),
        (["defense=[overlap,mmmr]"], "defense=mmmr: no such defense; did you mean 'mmr'"),
        (["defense=overlapp"], "did you mean 'overlap'"),
        (["defense.names=[overlapp]"], "did you mean 'overlap'"),
        (["preset=papre"], "preset=papre: no such preset; did you mean 'paper'"),
        (["grid=papre"], "grid=papre: no such grid; did you mean 'paper'"),
        (["statistics=life"], "did you mean 'live'"),
        (["attack.buget=5"], "unknown setting 'attack.buget': did you mean 'attack.budget'"),
        (["bm25.k=2"], "unknown setting 'bm25.k': did you mean 'bm25.k1'"),
        (["budget=5"], "unknown setting 'budget': did you mean 'attack.budget'"),
        (["zzz=1"], "unknown setting 'zzz': choose from"),
        (["attack.scope=isolate"], "attack.scope=isolate: did you mean 'isolated'"),
        (["attack.strategy=IDF"], "attack.strategy=IDF: did you mean 'idf'"),
        (["ties=clean"], "ties=clean: did you mean 'clean_first'"),
        (["bm25.tokenizer=asci"], "bm25.tokenizer=asci: did you mean 'ascii'"),
        (["bm25.variant=lucen"], "did you mean 'lucene'"),
        (["+foo=1"], "'+foo=1': settings are neither added nor removed"),
        (["~attack"], "'~attack': settings are neither added nor removed"),
        (["attack"], "'attack' is no setting; write key=value"),
        (["=5"], "'=5' is no setting"),
        (["attack.budget=abc"], "attack.budget=.*abc"),
        (["attack.budget=1,abc"], "attack.budget=.*abc"),
        (["attack.budget=1.5"], "attack.budget=.*1.5"),
        (["attack.budget=-1"], "attack.budget=-1: must be at least 1"),
        (["attack.budget=0"], "attack.budget=0: must be at least 1"),
        (["attack.budget=1,0"], "attack.budget=0: must be at least 1"),
        (["attack.budget=interval(1,3)"], "attack.budget: an interval has no end of values"),
        (["attack.budget=glob(a*)"], "works for groups only"),
        (["attack.budget=[]"], "attack.budget: an empty list"),
        (["attack.budget=null"], "attack.budget"),
        (["dataset=null"], "dataset.name"),
        (["retriever=null"], "retriever=null: no such retriever"),
        (["k=0"], "k=0: must be at least 1"),
        (["workers=0"], "workers=0: must be at least 1"),
        (["bm25.b=2"], "bm25.b=2.0: must be at least 0 and at most 1"),
        (["bm25.b=nan"], "bm25.b=nan"),
        (["bm25.k1=-1"], "bm25.k1=-1.0: must be at least 0"),
        (["bm25.k1=inf"], "bm25.k1=inf"),
        (["defense.tau=-0.1"], "defense.tau=-0.1: must be at least 0"),
        (["defense.tau=nan"], "defense.tau=nan"),
        (["defense.mmr_lambda=1.1"], "defense.mmr_lambda=1.1: must be at least 0 and at most 1"),
        (["lsa.seed=-1"], "lsa.seed=-1: must be at least 0"),
        (["attack.targets=0.0"], "a fraction is above 0 and at most 1"),
        (["attack.targets=1.5"], "a fraction is above 0 and at most 1"),
        (["attack.targets=true"], "a fraction is above 0"),
        (["attack.targets=al"], "give all, a fraction"),
        (["attack.targets=[]"], "give query ids, a fraction, or all"),
        (["attack.anchor=terms"], "set attack.terms"),
        (["attack=python"], "needs attack.target=package.module:function"),
        (["retriever=python"], "needs retriever.target=package.module:name"),
        (["retriever=embedder"], "needs retriever.target=package.module:name"),
        (["retriever=hybrid", "rrf.retrievers=[bm25]"], "two or more"),
        (["retriever=hybrid", "rrf.retrievers=[bm25,lsi]"], "did you mean 'lsa'"),
        (["retriever=hybrid", "rrf.retrievers=[lsa,lsa]"], "stands there twice"),
        (["defense=mmr", "pool=5"], "pool=5 is below k=10"),
        (["dataset=folder"], "dataset=folder needs dataset.path"),
    ],
)
def test_refused_before_any_data_is_read(monkeypatch, capsys, tmp_path, words, message):
    def untouched(*args, **kwargs):
        raise AssertionError("data was read")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stressrag.experiment.run.load_dataset", untouched)
    extra = [] if "dataset=folder" in words else ["dataset=nonexistent"]
    assert dispatch(["sweep", *extra, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    with pytest.raises(StressragError, match=message.replace("+", r"\+")):
        plan("sweep", words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [["retriever=bm25,lsa"], ["retriever=[bm25,lsa]"], ["attack.budget=1,3"], ["attack.budget=range(1,4)"]],
)
def test_run_takes_one_value(words):
    with pytest.raises(StressragError, match="asks for more; use sweep, or give one value"):
        plan("run", words)


def test_run_of_an_attack_that_stands_for_several():
    with pytest.raises(
        StressragError, match=r"attack=partial stands for 8; set attack\.terms=1 and attack\.strategy"
    ):
        plan("run", ["attack=partial"])
    with pytest.raises(StressragError, match=r"stands for 4; set attack.terms=1 \(or other"):
        plan("run", ["attack=partial", "attack.strategy=idf"])
    with pytest.raises(StressragError, match="grid=paper asks for more"):
        plan("run", ["grid=paper"])
    assert len(plan("run", ["attack=partial", "attack.terms=2", "attack.strategy=idf"]).conditions) == 1
    assert only(["attack.budget=[3]"]).attack.budget == 3


# ---- presets -------------------------------------------------------------------------------------


def test_the_papers_settings():
    s = only(["preset=paper"])
    assert (s.bm25.variant, s.bm25.k1, s.bm25.b) == ("lucene", 1.5, 0.75)
    assert (s.bm25.tokenizer, s.bm25.query_terms) == ("ascii", "unique")
    assert (s.statistics.isolated, s.statistics.multi) == ("frozen", "live")
    assert (s.lsa.dimensions, s.lsa.tokenizer, s.lsa.mode) == (64, "sklearn", "frozen")
    assert (s.rrf.retrievers, s.rrf.constant, s.rrf.depth) == (["bm25", "lsa"], 60, 100)
    assert (s.pool, s.k, s.grade, s.defense.mmr_lambda) == (50, 10, 1, 0.7)
    assert (s.attack.payloads, s.attack.payload_order, s.attack.tokenizer) == ("bipia", "cycle", "ascii")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("word", "key", "value"),
    [
        ("statistics=live", "statistics.isolated", "live"),
        ("statistics=frozen", "statistics.multi", "frozen"),
        ("statistics.isolated=live", "statistics.isolated", "live"),
        ("bm25.k1=2", "bm25.k1", 2.0),
        ("bm25.tokenizer=unicode", "bm25.tokenizer", "unicode"),
        ("lsa.dimensions=8", "lsa.dimensions", 8),
        ("attack.payloads=builtin", "attack.payloads", "builtin"),
        ("attack=query_only", "attack.name", "query_only"),
        ("retriever=lsa", "retriever.kind", "lsa"),
        ("bm25.k1=1,2", "bm25.k1", 2.0),
        ("statistics=frozen,live", "statistics.isolated", "live"),
    ],
)
def test_the_users_word_beats_the_preset(word, key, value, turned):
    words = [word, "preset=paper"]
    assert values(words[::-1] if turned else words, key)[-1] == value
    (order,) = {s.attack.payload_order for s in expand(words)}
    assert order == "cycle"


def test_an_attack_keeps_the_presets_payloads():
    for s in expand(["preset=paper", "attack=payload,partial,corpus_neutral"]):
        assert (s.attack.payloads, s.attack.payload_order) == ("bipia", "cycle")


def test_no_preset():
    assert only(["preset=null"]) == only([])


# ---- the config folder ---------------------------------------------------------------------------


def every_choice():
    return [(g, c) for g in groups() for c in choices(g)]


@pytest.mark.parametrize(("group", "choice"), every_choice())
def test_every_file_composes(group, choice):
    needs = {
        ("attack", "python"): ["attack.target=a:b"],
        ("retriever", "python"): ["retriever.target=a:b"],
        ("retriever", "embedder"): ["retriever.target=a:b"],
        ("dataset", "folder"): ["dataset.path=x"],
    }
    for s in expand([f"{group}={choice}", *needs.get((group, choice), [])]):
        content = yaml.safe_load((config_folder() / group / f"{choice}.yaml").read_text("utf-8"))
        content = content if group in ("preset",) or set(content) & {"dense", "bm25"} else {group: content}
        for node, settings_there in content.items():
            if node in ("defaults",):
                continue
            for key, value in settings_there.items():
                if (node, key) != ("attack", "grid"):
                    assert value_of(s, f"{node}.{key}") == value
    assert choices(group)[choice], "the first comment says what it is"


def test_defaults_of_the_file_are_those_of_the_schema():
    s = Settings()
    assert asdict(only([])) == asdict(s)


def schema_keys(node=Settings, prefix="") -> list[str]:
    out = []
    for f in fields(node):
        kind = f.default_factory if is_dataclass(f.default_factory) else None
        out += schema_keys(kind, f"{prefix}{f.name}.") if kind else [prefix + f.name]
    return out


def test_every_setting_has_a_line_in_the_file():
    assert sorted(s.key for s in settings()) == sorted(schema_keys())
    assert set(CHOICES) | set(BOUNDS) | set(TOKENIZERS) <= set(schema_keys())


@pytest.mark.parametrize("verb", ["run", "sweep", "attack"])
def test_help_lists_everything(capsys, verb):
    assert dispatch([verb, "--help"]) == 0
    out = capsys.readouterr().out
    for group in groups():
        assert f"\n  {group}=\n" in out
        for choice, what in choices(group).items():
            assert f"\n    {choice:20} {what}\n" in out
    for s in settings():
        assert f"\n  {s.key}={s.default}" in out
    assert ("\n  grid=\n" in out) == (verb == "sweep")
    assert dispatch([verb, "attack.budget=3", "-h"]) == 0


@pytest.mark.parametrize("example", ["run", "sweep", "attack"])
def test_the_helps_examples_are_right(example):
    import importlib
    import shlex

    for line in importlib.import_module(f"stressrag.cli.{example}").EXAMPLES:
        verb, *words = shlex.split(line)
        assert verb == example
        words = [w for w in words if not w.startswith("out=")]
        assert plan("run" if verb == "attack" else verb, words).conditions


def test_config_is_found_whatever_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("k: 3\n")
    assert only([]).k == 10
    assert Path(config_folder(), "config.yaml").is_file()


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("attack.source=", "attack.source= is empty"),
        ("resamples=1", "resamples=1: too few for an interval; 0 for none or at least 100"),
        ("resamples=1000001", "must be at least 0 and at most 1,000,000"),
        ("attack.snippet_tokens=0", "must be at least 1 and at most 1,000"),
        ("defense.quota=0", "must be at least 1"),
    ],
)
def test_values_that_mean_nothing(word, message):
    with pytest.raises(StressragError, match=message):
        expand([word])
