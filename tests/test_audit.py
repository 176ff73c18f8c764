"""``audit``: the battery, its files, and a gate file that the run itself passes and a worse one fails."""

from __future__ import annotations

import pytest
import yaml

import stressrag
from stressrag.cli.main import dispatch
from stressrag.report.gate_file import gate_file


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return stressrag.audit(f"output_dir={tmp_path_factory.mktemp('audit') / 'out'}")


def test_the_battery_covers_what_it_says(run):
    configs = [c["config"] for c in run.summary["conditions"]]
    assert {c["scope"] for c in configs} == {None, "isolated", "multi"}
    assert {c["budget"] for c in configs} >= {0, 1, 3, 5}
    assert {c["terms"] for c in configs} >= {1, 2, 4}
    filters = {"repetition", "perplexity", "score_detector"}
    assert {c["defense"] for c in configs} == {"none", "overlap", "near_duplicate", "quota", "mmr", *filters}
    assert {c["attack"] for c in configs} == {"clean", "payload", "partial", "optimal"}
    assert run.summary["frontier"]
    assert run.summary["four_conditions"]


def test_its_files(run):
    names = {p.name for p in run.folder.iterdir()}
    assert {"report.html", "report.md", "gate.yaml", "summary.json"} <= names


def test_the_run_passes_its_own_gate_and_a_tighter_one_fails(run, tmp_path, capsys):
    assert dispatch(["gate", str(run.folder), str(run.folder / "gate.yaml")]) == 0
    rules = yaml.safe_load((run.folder / "gate.yaml").read_text())["rules"]
    assert {next(iter(r)) for r in rules} == {"max", "min"}
    assert all(r["where"]["defense"] == "none" for r in rules)
    for r in rules:
        for bound in ("max", "min"):
            for metric, limit in r.get(bound, {}).items():
                assert 0 < limit < 1  # a limit that nothing can break is no rule
                r[bound][metric] = limit - 0.3 if bound == "max" else limit + 0.3
    tighter = tmp_path / "tighter.yaml"
    tighter.write_text(yaml.safe_dump({"rules": rules}))
    assert dispatch(["gate", str(run.folder), str(tighter)]) == 1


def test_limits_by_hand():
    """Upper ends go up, lower ends down to the next hundredth; full exposure makes no rule."""

    def condition(terms, exposure, safe):
        config = {"dataset": "d", "retriever": "bm25", "attack": "partial", "terms": terms, "strategy": "idf"}
        config |= {"scope": "isolated", "budget": 5, "defense": "none"}
        intervals = {"TargetExp": [0.0, exposure], "SafeR": [safe, 1.0]}
        return {"config": config, "intervals": intervals, "metrics": {"TargetExp": 0.5, "SafeR": 0.5}}

    clean = {
        "config": {"dataset": "d", "retriever": "bm25", "attack": "clean", "budget": 0, "defense": "none"},
        "intervals": {"nDCG@10": [0.617, 0.7]},
        "metrics": {"nDCG@10": 0.65, "TargetExp": 0.0, "SafeR": 0.8},
    }
    text = gate_file({"conditions": [clean, condition(1, 0.412, 0.309), condition(2, 1.0, 0.0)]})
    rules = yaml.safe_load(text)["rules"]
    assert [r.get("max") or r.get("min") for r in rules] == [
        {"nDCG@10": 0.61},
        {"TargetExp": 0.42},
        {"SafeR": 0.3},
    ]
    assert rules[1]["where"]["terms"] == 1
    assert "terms: 2, strategy: idf, scope: isolated, budget: 5, defense: none: fully exposed" in text


def test_a_tightened_gate_file_stays(tmp_path):
    words = ("retriever=bm25", "resamples=100", f"output_dir={tmp_path / 'out'}")
    file = stressrag.audit(*words).folder / "gate.yaml"
    file.write_text("rules:\n  - max: {TargetExp: 0.111}\n")
    stressrag.audit(*words)
    assert "0.111" in file.read_text()


@pytest.mark.parametrize("label", ["a: {b}, #c", "yes", "~", "a,b=c", "[x]", "1.5", "null", "plain"])
def test_labels_of_any_kind_come_back_from_the_gate_file(label):
    config = {"dataset": "d", "retriever": label, "attack": "clean", "budget": 0, "defense": "none"}
    clean = {"config": config, "intervals": {"nDCG@10": [0.6, 0.7]}}
    clean["metrics"] = {"nDCG@10": 0.65, "TargetExp": 0.0, "SafeR": 0.8}
    (rule,) = yaml.safe_load(gate_file({"conditions": [clean]}))["rules"]
    assert rule["where"]["retriever"] == label


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["battery=quik"], "battery=quik: did you mean 'quick'?"),
        (["grid=paper"], "grid= has no place here"),
        (["retriever=bm52"], "bm25"),
    ],
)
def test_bad_input(words, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert dispatch(["audit", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
