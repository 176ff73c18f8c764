"""``gate``: verdicts by hand on made-up runs and against a real summary; nothing undefined ever passes."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stressrag
from stressrag.cli.main import dispatch
from stressrag.records.folder import Run
from stressrag.report.gate import gate, gate_junit, gate_lines, gate_markdown


def made_up(*conditions, folder="runs/a") -> Run:
    """A run of conditions (id, config, metrics, intervals)."""
    run = Run(Path(folder), "plan")
    names = ("id", "config", "metrics", "intervals")
    run.__dict__["summary"] = {"conditions": [dict(zip(names, c, strict=True)) for c in conditions]}
    return run


CLEAN = (
    "clean",
    {"budget": 0, "scope": None},
    {"TargetExp": 0.0, "SafeR": 0.8, "Rank": None},
    {"SafeR": [0.7, 0.9]},
)
ONE = (
    "one",
    {"budget": 1, "scope": "isolated"},
    {"TargetExp": 0.2, "SafeR": 0.6, "Rank": 2.0},
    {"TargetExp": [0.1, 0.3], "SafeR": [0.5, 0.7]},
)
FIVE = (
    "five",
    {"budget": 5, "scope": "isolated"},
    {"TargetExp": 0.5, "SafeR": 0.3, "Rank": 1.0},
    {"TargetExp": [0.4, 0.6], "SafeR": [0.2, 0.65]},
)
RUN = made_up(CLEAN, ONE, FIVE)


def verdicts(*args, **kwargs):
    value = gate(RUN, *args, **kwargs)
    return [(r["metric"], r["passed"], r["worst"]["condition"], r["worst"]["judged"]) for r in value["rules"]]


def test_verdicts_by_hand():
    assert verdicts([{"max": {"TargetExp": 0.5}}]) == [("TargetExp", True, "five", 0.5)]  # at the limit
    assert verdicts([{"max": {"TargetExp": 0.49}}]) == [("TargetExp", False, "five", 0.5)]
    assert verdicts([{"min": {"SafeR": 0.3}}]) == [("SafeR", True, "five", 0.3)]
    assert verdicts([{"min": {"SafeR": 0.31}, "where": {"budget": 1.0}}]) == [("SafeR", True, "one", 0.6)]
    assert verdicts([{"max": {"TargetExp": 0.2}, "min": {"SafeR": 0.7}}], where="budget=1") == [
        ("TargetExp", True, "one", 0.2),
        ("SafeR", False, "one", 0.6),
    ]
    value = gate(RUN, [{"max": {"TargetExp": 0.2}}])
    assert [c["passed"] for c in value["rules"][0]["conditions"]] == [True, True, False]
    assert value["passed"] is False
    assert gate(RUN, [{"max": {"TargetExp": 1}}])["passed"] is True


def test_the_unfavorable_end_by_hand():
    where = {"scope": "isolated"}
    assert verdicts([{"max": {"TargetExp": 0.5}, "where": where}], use_interval=True) == [
        ("TargetExp", False, "five", 0.6)
    ]
    assert verdicts([{"max": {"TargetExp": 0.6}, "where": where}], use_interval=True)[0][1]
    assert verdicts([{"min": {"SafeR": 0.2}}], use_interval=True) == [("SafeR", True, "five", 0.2)]
    assert verdicts([{"min": {"SafeR": 0.21}}], use_interval=True) == [("SafeR", False, "five", 0.2)]


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=5),
    st.floats(0, 1),
    st.sampled_from(["max", "min"]),
    st.booleans(),
)
def test_a_gate_passes_when_every_condition_does(values, limit, bound, use_interval):
    rows = [(str(i), {"k": 1}, {"m": v}, {"m": [v - 0.25, v + 0.5]}) for i, v in enumerate(values)]
    value = gate(made_up(*rows), [{bound: {"m": limit}}], use_interval=use_interval)
    if bound == "max":
        assert value["passed"] == all(v + 0.5 * use_interval <= limit for v in values)
    else:
        assert value["passed"] == all(v - 0.25 * use_interval >= limit for v in values)
    assert value["rules"][0]["worst"]["passed"] == value["passed"]


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ([], {}, "gate needs at least one rule"),
        ([{"max": {"TargetEx": 0.2}}], {}, "no metric 'TargetEx'; did you mean 'TargetExp'"),
        ([{"max": {"Rank": 5}}], {}, "Rank is undefined in clean"),
        ([{"max": {"TargetExp": 5}}], {"use_interval": True}, "TargetExp has no interval in clean"),
        (
            [{"max": {"TargetExp": 5}, "where": {"budget": 7}}],
            {},
            "no condition has budget=7; there is 0, 1, 5",
        ),
        ([{"max": {"TargetExp": 5}, "where": {"budgt": 5}}], {}, "no setting 'budgt'; did you mean 'budget'"),
        (
            [{"max": {"TargetExp": 5}, "where": {"budget": 0, "scope": "isolated"}}],
            {},
            "budget=0,scope=isolated",
        ),
        (
            [{"max": {"TargetExp": 5}}],
            {"where": "scope=multi"},
            "no condition has scope=multi; there is null, isolated",
        ),
        (
            [{"max": {"TargetExp": 5}, "where": {"budget": 5}}],
            {"where": "budget=5"},
            "budget is filtered by already",
        ),
        ([{"max": {"TargetExp": float("nan")}}], {}, "the limit of TargetExp is nan"),
        ([{"max": {"TargetExp": True}}], {}, "the limit of TargetExp is True"),
        ([{"max": {"TargetExp": "low"}}], {}, "the limit of TargetExp is 'low'"),
        (
            [{"max": {"TargetExp": 1}}, {"maxx": {"SafeR": 1}}],
            {},
            "rule 2: no key 'maxx'; did you mean 'max'",
        ),
        ([{"where": {"budget": 5}}], {}, "rule 1: has neither max nor min"),
        ([{"max": {}}], {}, "rule 1: max needs a metric"),
        ([{"max": {"TargetExp": 1}, "where": ["budget"]}], {}, "rule 1: where:"),
        ([{"max": {"TargetExp": 1}, "where": {"budget": [1, 5]}}], {}, "budget takes one value"),
        (["TargetExp"], {}, "rule 1: 'TargetExp' is no rule"),
    ],
)
def test_refused(rules, options, message):
    with pytest.raises(stressrag.StressragError) as e:
        gate(RUN, rules, **options)
    assert message in str(e.value)
    assert "\n" not in str(e.value)


# ---- the files -----------------------------------------------------------------------------------

ODD = made_up(
    ('a<b>&"|\x07', {"scope": "x|<y>"}, {"m<": 0.5}, {}),
    ("b", {"scope": "x|<y>"}, {"m<": 0.1}, {}),
    folder="r&n",
)


def test_junit():
    root = ElementTree.fromstring(gate_junit(gate(ODD, [{"max": {"m<": 0.2}, "where": {"scope": "x|<y>"}}])))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    bad, good = suite
    assert bad.get("name") == 'max m<=0.2 where scope=x|<y>: a<b>&"|?'
    assert bad.get("classname") == "stressrag.gate.r&n"
    assert bad[0].get("message") == 'm< 0.500 exceeds 0.2 in a<b>&"|?'
    assert len(good) == 0


def test_markdown():
    lines = gate_markdown(gate(ODD, [{"max": {"m<": 0.2}}, {"min": {"m<": 0.1}}])).splitlines()
    assert lines[0] == "## stressrag gate: FAIL"
    table = [line for line in lines if line.startswith("|")]
    assert table[1] == "| --- | --- | --- | --- | --- |"
    assert table[2].startswith('| FAIL | max m&lt;=0.2 | 0.500 | a&lt;b>&"\\|\x07 | 1 of 2 |')
    assert table[3] == "| PASS | min m&lt;=0.1 | 0.100 | b | 2 of 2 |"


def test_a_value_beside_its_limit_is_shown_in_full():
    run = made_up(("c", {}, {"m": 0.2004}, {}))
    assert "0.2004" in gate_lines(gate(run, [{"max": {"m": 0.2}}]))


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path_factory, monkeypatch):
    """A finished run ``r`` in a fresh working directory."""
    where = tmp_path_factory.mktemp("gate")
    monkeypatch.chdir(where)
    stressrag.sweep(
        "retriever=bm25", "attack=partial", "attack.terms=1,2", "latency_sample=0", "output_dir=r"
    )
    return where


def test_the_command(folder, capsys):
    summary = json.loads(Path("r/summary.json").read_text())
    chosen = [c for c in summary["conditions"] if c["config"]["terms"] == 2]
    worst = max(chosen, key=lambda c: c["metrics"]["TargetExp"])
    value, (low, high) = worst["metrics"]["TargetExp"], worst["intervals"]["TargetExp"]
    words = ["gate", "r", "--where", "terms=2", "--where", "budget=5.0"]
    assert dispatch([*words, "--max", f"TargetExp={value!r}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        f"PASS  max TargetExp={value:g} where terms=2,budget=5.0  {value:.3f} [{low:.3f} {high:.3f}]"
    )
    assert worst["id"] in out
    assert dispatch([*words, "--max", f"TargetExp={value!r}", "--use-interval"]) == 1
    assert capsys.readouterr().out.startswith("FAIL  max TargetExp")
    assert dispatch([*words, "--max", f"TargetExp={value - 1e-9!r}", "--min", "SafeR=0"]) == 1
    assert [line[:4] for line in capsys.readouterr().out.splitlines()[:2]] == ["FAIL", "PASS"]


def test_the_command_with_a_file(folder, capsys):
    Path("gate.yaml").write_text(
        "use_interval: true\nrules:\n- max: {TargetExp: 1e0, Shortage: .5}\n"
        "  where: {scope: isolated}\n- min: {SafeR: 0.99}\n  where: {scope: null}\n"
    )
    assert dispatch(["gate", "r", "gate.yaml", "--junit", "out/j.xml", "--markdown", "m.md"]) == 1
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["PASS", "PASS", "FAIL"]
    assert "unfavorable ends" in out
    root = ElementTree.parse("out/j.xml").getroot()
    isolated = json.loads(Path("r/summary.json").read_text())["conditions"]
    n = sum(c["config"]["scope"] == "isolated" for c in isolated)
    assert len(root.findall(".//testcase")) == 2 * n + 1
    assert len(root.findall(".//failure")) == 1
    assert "| FAIL | min SafeR=0.99 where scope=null |" in Path("m.md").read_text()
    assert stressrag.gate("r", "gate.yaml")["passed"] is False


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (["r"], "", "gate needs at least one rule"),
        ([], "", "gate needs one run"),
        (["nowhere", "--max", "TargetExp=1"], "", "no run at nowhere"),
        (["r", "--max", "TargetExp"], "", "is no METRIC=NUMBER"),
        (["r", "--max", "TargetExp=1", "--max", "TargetExp=.1"], "", "TargetExp stands there twice"),
        (["r", "--maxx", "TargetExp=1"], "", "did you mean '--max'"),
        (["r", "--max", "TargetExp=1", "--where", "k=10", "--where", "k=10"], "", "k stands there twice"),
        (["r", "--max"], "", "expected one argument"),
        (["r", "g.yaml", "--max", "TargetExp=1"], "rules: []", "give one of both"),
        (["r", "none.yaml"], "", "no rules at none.yaml"),
        (["r", "g.yaml"], "", "holds no rules"),
        (["r", "g.yaml"], "rules: [", "g.yaml:1: not YAML"),
        (["r", "g.yaml"], "rules: []", "gate needs at least one rule"),
        (["r", "g.yaml"], "rule: []", "no key 'rule'; did you mean 'rules'"),
        (["r", "g.yaml"], "rules: {max: {SafeR: 1}}", "rules is a list"),
        (["r", "g.yaml"], "use_interval: maybe\nrules: [{max: {SafeR: 1}}]", "use_interval is true or false"),
        (["r", "g.yaml"], "rules:\n- max: {SafeR: 1}\n  max: {Evid: 1}", "g.yaml:3: max stands there twice"),
        (["r", "g.yaml"], "rules: [{max: {SafeR: 1}, were: {k: 1}}]", "g.yaml: rule 1: no key 'were'"),
        (["r", "g.yaml"], "rules: [{max: {[a]: 1}}]", "g.yaml:1: not YAML"),
    ],
)
def test_bad_commands(folder, capsys, words, text, message):
    Path("g.yaml").write_text(text)
    before = sorted(folder.rglob("*"))
    assert dispatch(["gate", *words, "--junit", "j.xml", "--markdown", "m.md"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_help(capsys):
    assert dispatch(["gate", "--help"]) == 0
    out = capsys.readouterr().out
    assert "usage: python -m stressrag gate" in out
    assert "examples:" in out


@pytest.mark.parametrize(
    "text",
    [
        "rules: [{max: {TargetExp: 1}, where: {seed: 2024-99-99}}]",
        "rules: [{max: {TargetExp: !!int x}}]",
        "rules: [{max: {TargetExp: !!bool x}}]",
        f"rules: [{{max: {{TargetExp: 1{'0' * 400}}}}}]",
        f"rules: [{{max: {{TargetExp: 1{'0' * 5000}}}}}]",
        "rules: " + "[" * 3000 + "]" * 3000,
    ],
    ids=["date", "int", "bool", "long", "longer", "deep"],
)
def test_values_that_no_rule_can_hold(text, tmp_path, capsys):
    run = stressrag.run("retriever=bm25", "attack=clean", "resamples=0", f"output_dir={tmp_path / 'a'}")
    (tmp_path / "gate.yaml").write_text(text)
    assert dispatch(["gate", str(run.folder), str(tmp_path / "gate.yaml")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert len(error) < 500


def test_files_that_must_not_be_written(tmp_path, capsys):
    run = stressrag.run("retriever=bm25", "attack=clean", "resamples=0", f"output_dir={tmp_path / 'a'}")
    before = (run.folder / "summary.json").read_bytes()
    rule = ["gate", str(run.folder), "--min", "Evid=0"]
    for option in (".", "/", "", str(run.folder / "summary.json"), str(run.folder / "records.parquet")):
        for name in ("--junit", "--markdown"):
            assert dispatch([*rule, name, option]) == 2, (name, option)
    assert dispatch(["compare", str(run.folder), str(run.folder), "--json", str(run.folder / "DONE")]) == 2
    same = str(tmp_path / "x")
    assert dispatch([*rule, "--junit", same, "--markdown", same]) == 2
    assert (run.folder / "summary.json").read_bytes() == before
    assert not (tmp_path / "x").exists()


def test_a_gate_that_cannot_be_judged_leaves_no_green_file(tmp_path, capsys):
    run = stressrag.run("retriever=bm25", "attack=clean", "resamples=0", f"output_dir={tmp_path / 'a'}")
    junit = tmp_path / "gate.xml"
    assert dispatch(["gate", str(run.folder), "--min", "Evid=0", "--junit", str(junit)]) == 0
    assert 'errors="0"' in junit.read_text()
    assert dispatch(["gate", str(run.folder), "--min", "Nope=0", "--junit", str(junit)]) == 2
    assert 'errors="1"' in junit.read_text()
    assert "Nope" in junit.read_text()
