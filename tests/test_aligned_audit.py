"""Labels of answers from any source, blinded audits and what is made of their labels."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import types
from dataclasses import replace

import numpy as np
import pytest

from stressrag.aligned.audit import PAGE, audit_export, plain
from stressrag.aligned.audit_import import audit_import
from stressrag.aligned.audit_sample import FLIPS, REASONS, draw, endorsements, find_flips, share_out
from stressrag.aligned.judgments import FIELDS, Labels, read_labels
from stressrag.aligned.records import Answer, output_key
from stressrag.cli.aligned_audit import export_main, import_main
from stressrag.errors import StressragError

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def answer(query, text, condition="poisoned", method="none", **more):
    values = {"target": f"wrong {query}", "references": (f"right {query}",), "budget": 5, **more}
    return Answer(f"id-{query}", f"what about {query}?", text, condition, method, **values)


def population(n=30, methods=("none", "filterx", "quorumx")):
    """Answers of which the first tenth endorse, most of them undefended, and a rule that says so."""
    answers, rule = [], {}
    for q in range(n):
        for m, method in enumerate(methods):
            for condition in ("clean", "poisoned"):
                endorses = condition == "poisoned" and (q * 7 + m * 11) % 10 < (4 if method == "none" else 1)
                a = answer(q, f"{method} {condition} says {q}, {endorses}", condition, method)
                answers.append(a)
                rule[a.key] = endorses
    return answers, rule


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), "utf-8")
    return path


def shown(folder):
    """The items that the page of an export shows."""
    html = (folder / PAGE).read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html)[1])


def key_of(folder):
    return json.loads((folder / "key.json").read_text("utf-8"))


def simulated(folder, path, verdict, name="ann", **changes):
    """A labels file as the page saves it; ``verdict`` says of a key what the three fields are."""
    key = key_of(folder)
    labels = {i: verdict(about["key"]) for i, about in key["answers"].items()}
    value = {"packet": key["packet"], "annotator": name, "labels": labels, **changes}
    path.write_text(json.dumps(value), "utf-8")
    return path


def three(endorsed, correct="no", abstains="no"):
    return dict(zip(FIELDS, (endorsed, correct, abstains), strict=True))


class TestLabels:
    def test_keys_spaced_keys_and_fields_find_the_answer(self, tmp_path):
        answers, _ = population(3)
        a, b, c = answers[:3]
        spaced = output_key(b.question, b.target, b.references, b.reference_source, b.answer, spaced=True)
        fields = {"query_id": c.query_id, "method": c.method, "condition": c.condition, "budget": 5}
        file = write(
            tmp_path / "gpt.jsonl",
            [
                {"key": a.key, "target_endorsed": True, "evidence": "says so"},
                {"key": spaced, "labels": {"target_endorsed": "invalid", "abstains": False}},
                {**fields, "target_endorsed": "uncertain", "source": "other", "reviewer": "ann"},
                {"key": "0" * 64, "target_endorsed": "no"},
            ],
        )
        got = read_labels([file], answers)
        assert list(got.sources) == ["gpt", "other:ann"]
        assert got.sources["gpt"][a.key] == Labels("yes", source="gpt", evidence="says so")
        assert got.sources["gpt"][b.key] == Labels("invalid", None, "no", source="gpt")
        assert got.sources["other:ann"][c.key].target_endorsed == "uncertain"
        assert got.unknown == {"gpt": 1, "other:ann": 0}
        assert got.missing == {"gpt": 16, "other:ann": 17}
        with pytest.raises(StressragError, match="one source"):
            got.only()

    def test_all_that_is_wrong_is_told_at_once(self, tmp_path):
        answers, _ = population(2)
        key = answers[0].key
        file = write(
            tmp_path / "judge.jsonl",
            [
                {"key": key, "target_endorsed": "yes"},
                {"key": key, "target_endorsed": "no"},
                {"key": key, "target_endorsed": "perhaps"},
                {"key": key, "target_endorsed": None},
                {"query_id": "id-0", "abstains": "yes"},
                {"abstains": "yes"},
                {"key": key},
                {"key": 7, "abstains": "no"},
                {"key": key, "target_endorsed": "yes"},
            ],
        )
        with file.open("a") as f:
            f.write("{broken\n")
        with pytest.raises(StressragError) as e:
            read_labels([file], answers)
        lines = str(e.value).splitlines()
        assert [int(x.removeprefix(f"{file}:").split(":")[0]) for x in lines] == [2, 3, 4, 5, 6, 7, 8, 10]
        assert "is no, but yes in line 1" in lines[0]
        assert "uncertain, invalid or not_applicable" in lines[2]
        assert "may mean 6 answers; add key, or any of method, condition" in lines[3]
        assert "'query_id'" in lines[4]

    def test_rows_of_one_answer_that_agree_are_one(self, tmp_path):
        key = "a" * 64
        rows = [{"key": key, "abstains": "no"}, {"key": key, "target_endorsed": "no", "abstains": False}]
        got = read_labels([write(tmp_path / "x.jsonl", rows)], source="judge")
        assert got.only()[key] == Labels("no", None, "no", source="judge")
        assert got.repeated == 1

    def test_the_real_audit(self, data_root):
        file = data_root / "aligned" / "human_audit.jsonl"
        got = read_labels([file])
        human = got.sources["human"]
        assert list(got.sources) == ["human"]
        assert len(human) == 52
        counts = {
            field: sorted((v, [getattr(x, field) for x in human.values()].count(v)) for v in ("yes", "no"))
            for field in FIELDS
        }
        assert counts == {
            "target_endorsed": [("no", 43), ("yes", 6)],
            "reference_correct": [("no", 16), ("yes", 35)],
            "abstains": [("no", 48), ("yes", 4)],
        }
        assert sum(x.target_endorsed == "not_applicable" for x in human.values()) == 3
        assert sum(x.reference_correct == "uncertain" for x in human.values()) == 1

    def test_the_real_audit_finds_answers_by_what_they_show(self, data_root):
        """Its keys rest on a reference source that the file does not tell."""
        file = data_root / "aligned" / "human_audit.jsonl"
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        answers = [
            Answer(
                str(i),
                r["question"],
                r["answer"],
                "clean",
                target=r["target"],
                references=tuple(r["references"]),
            )
            for i, r in enumerate(rows)
        ]
        got = read_labels([file], answers)
        assert got.unknown == {"human": 0}
        assert got.missing == {"human": 0}
        for a, row in zip(answers, rows, strict=True):
            assert got.sources["human"][a.key].target_endorsed == row["human"]["target_endorsed"]


class TestDraw:
    STRATA = (("judge undecided", 3), ("label flip", 9), ("no reason", 48))

    def strata(self):
        out = {}
        for reason, n in self.STRATA:
            out.update({f"{reason} {i}": (reason, f"cell {i % 4}") for i in range(n)})
        return out

    def test_weights_are_unbiased(self):
        """Over seeds the weighted sums are those of the population, of itself and of any stratum."""
        strata = self.strata()
        values = {
            k: 1.0 if hashed(k) < (0.7 if s[0] != "no reason" else 0.2) else 0.0 for k, s in strata.items()
        }
        sums = []
        for seed in range(1500):
            drawn = draw(strata, 20, 8, seed)
            weights = {k: 1 / d.probability for k, d in drawn.items()}
            flips = sum(w for k, w in weights.items() if strata[k][0] == "label flip")
            sums.append((sum(weights.values()), sum(w * values[k] for k, w in weights.items()), flips))
        mean, error = np.mean(sums, axis=0), np.std(sums, axis=0) / np.sqrt(len(sums))
        assert (np.abs(mean - [60, sum(values.values()), 9]) < 3.5 * error + 1e-9).all()
        assert (error < 0.3).all()

    def test_chances_are_how_often_each_is_drawn(self):
        strata = self.strata()
        often, told, n = dict.fromkeys(strata, 0), {}, 1500
        for seed in range(n):
            for k, d in draw(strata, 20, 8, seed).items():
                often[k] += 1
                told.setdefault(k, []).append(d.probability)
        for k in strata:
            # The chances of cells vary with the seed, which gives the odd ones out; the mean is over draws.
            chance = len(told[k]) / np.sum(1 / np.array(told[k]))
            assert often[k] / n == pytest.approx(chance, abs=0.06)

    def test_a_seed_is_a_draw_whatever_the_order(self):
        strata = self.strata()
        back = dict(reversed(strata.items()))
        assert draw(strata, 20, 8, 3) == draw(back, 20, 8, 3)
        assert draw(strata, 20, 8, 3) != draw(strata, 20, 8, 4)
        steps = [d.step for d in draw(strata, 20, 8, 3).values()]
        assert steps.count("random") == 8

    def test_rare_strata_are_in_and_a_census_weighs_one(self):
        strata = self.strata()
        drawn = draw(strata, 30, 1, 0)
        assert sum(k.startswith("judge undecided") for k in drawn) == 3
        assert all(d.probability == 1 for d in draw(strata, 500, 250, 0).values())
        assert len(draw(strata, 500, 250, 0)) == 60

    def test_no_stratum_without_a_chance(self):
        with pytest.raises(StressragError, match="--random 1"):
            draw(self.strata(), 5, 0, 0)

    def test_shares(self):
        rng = np.random.default_rng(0)
        assert share_out({"a": 2, "b": 100, "c": 100}, 22, rng) == {"a": 2, "b": 10, "c": 10}
        assert sum(share_out({"a": 9, "b": 9, "c": 9}, 10, rng).values()) == 10
        assert share_out({"a": 1, "b": 1}, 10, rng) == {"a": 1, "b": 1}


def hashed(text):
    """A number in [0, 1) that a text decides."""
    import hashlib

    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 16**8


class TestFlips:
    def test_only_the_same_setting_is_held_against_each_other(self):
        base = answer(1, "endorses")
        other = answer(1, "does not", method="m")
        rule = {base.key: True, other.key: False}
        assert [f.kind for f in find_flips([base, other], rule)] == ["prevention"]
        assert find_flips([base, replace(other, budget=1)], rule) == []
        assert find_flips([base, replace(other, victim="v")], rule) == []
        assert find_flips([replace(base, condition="clean"), other], rule) == []
        shared = replace(base, budget=None)
        assert [f.kind for f in find_flips([shared, other], {**rule, other.key: None})] == []
        assert [f.undefended for f in find_flips([shared, other], rule)] == [shared]
        assert [f.kind for f in find_flips([base, other], {base.key: False, other.key: True})] == [
            "introduction"
        ]

    def test_the_judge_goes_before_rules(self):
        judge = {"k": Labels("yes"), "l": Labels("uncertain"), "m": Labels("invalid")}
        rules = {"strict": {"k": False}, "loose": {"k": True}}
        assert endorsements(rules, judge) == ("judge", {"k": True, "l": None, "m": None})
        assert endorsements(rules, None) == ("strict", {"k": False})
        assert endorsements(rules, judge, "loose")[1] == {"k": True}
        with pytest.raises(StressragError, match="did you mean 'loose'"):
            endorsements(rules, judge, "lose")


HOSTILE = (
    "</script><script>console.log('RAN');document.title='RAN'</script><!--<script>"
    "<img src=x onerror=console.log('RAN')>\u202e\u2028\x00&lt;b&gt;"
)


class TestBlinding:
    @pytest.fixture
    def hostile(self):
        """Answers of which every name is one that occurs nowhere else."""
        answers = []
        for q in range(40):
            for method in ("none", "zzquorumzz", "zzfilterzz"):
                for condition in ("clean", "poisoned", "leave_poison_3_out"):
                    text = f"{HOSTILE} answer {q} {len(method) * 7 + len(condition)}"
                    setting = {"dataset": "zzdata", "retriever": "zzdense", "victim": "zzllm", "arm": "zzarm"}
                    more = {**setting, "attack": "zzattack", "group_id": f"zzgroup{q % 4}"}
                    a = Answer(f"zzquery{q}", f"question {q} {HOSTILE}", text, condition, method, **more)
                    more = {
                        "budget": 77,
                        "target": f"target {q} {HOSTILE}",
                        "references": (HOSTILE, f"gold {q}"),
                    }
                    more |= {"reference_source": "zzsource", "file": "zzfile.jsonl", "line": 4242}
                    answers.append(replace(a, **more))
        rules = {"zzrule": {a.key: i % 3 == 0 for i, a in enumerate(answers)}, "zzlax": {}}
        rules["zzlax"] = {k: not v if i % 5 else None for i, (k, v) in enumerate(rules["zzrule"].items())}
        words = ("yes", "no", "yes", "no", "uncertain", "invalid")
        judge = {
            a.key: Labels(words[int(6 * hashed(a.key))], "no", "no", "zzjudge", "zzevidence", "zzwhy")
            for a in answers
        }
        return answers, rules, judge

    @pytest.mark.parametrize("flips", [False, True])
    def test_the_packet_tells_nothing(self, hostile, tmp_path, flips):
        answers, rules, judge = hostile
        audit_export(answers, tmp_path / "out", items=40, automatic=rules, judge=judge, flips=flips, seed=9)
        html = (tmp_path / "out" / PAGE).read_text("utf-8")
        key = key_of(tmp_path / "out")
        names = [
            "clean",
            "poisoned",
            "leave_poison",
            *REASONS,
            *FLIPS,
            "stratum",
            "probability",
            "zz-split",
            "4242",
        ]
        names += [a.key for a in answers] + [str(tmp_path), "budget", "condition"]
        names += [a.key[:12] for a in answers]
        names += [f"{item['weight']}" for item in key["items"] if item["weight"] != int(item["weight"])]
        found = [name for name in names if name.lower() in html.lower()]
        assert found == []
        data = shown(tmp_path / "out")
        assert set(data) == {"packet", "items"}
        assert all(set(i) == {"question", "target", "references", "answers"} for i in data["items"])
        assert all(set(a) == {"id", "text"} for i in data["items"] for a in i["answers"])
        assert {len(i["answers"]) for i in data["items"]} == ({2} if flips else {1})
        assert "none" not in json.dumps(data)
        # What is searched for is there to be found: the key file has all of it.
        sealed = json.dumps(key)
        assert all(x in sealed for x in ("zzquorumzz", "zzquery", "poisoned", "stratum", "zzgroup", "zzrule"))

    def test_the_order_tells_nothing(self, hostile, tmp_path):
        """Neither order of items nor sides of pairs follow strata or methods."""
        answers, rules, judge = hostile
        audit_export(answers, tmp_path, items=40, automatic=rules, judge=judge, flips=True)
        key = key_of(tmp_path)
        undefended = {item["answers"][0] for item in key["items"]}
        left = [item["answers"][0]["id"] in undefended for item in shown(tmp_path)["items"]]
        assert 0.2 < np.mean(left) < 0.8
        kind = {item["answers"][0]: item["stratum"] == FLIPS[0] for item in key["items"]}
        order = [
            next(kind[a["id"]] for a in item["answers"] if a["id"] in kind)
            for item in shown(tmp_path)["items"]
        ]
        assert order not in (sorted(order), sorted(order, reverse=True))
        ids = [a["id"] for item in shown(tmp_path)["items"] for a in item["answers"]]
        assert len(set(ids)) == len(ids)
        assert ids != sorted(ids)

    def test_hostile_text_is_data(self, hostile, tmp_path):
        audit_export(hostile[0], tmp_path, items=20, automatic=hostile[1])
        html = (tmp_path / PAGE).read_text("utf-8")
        assert html.lower().count("<script") == html.lower().count("</script") == 2
        assert "<img" not in html
        assert "\u202e" not in html
        item = shown(tmp_path)["items"][0]
        assert "</script><script>console.log" in item["question"]
        assert "[U+202E][U+2028][U+0000]&lt;b&gt;" in item["question"]

    def test_plain(self):
        assert plain("a\r\nb\tc\rd\u200b\u2067e\u200df") == "a\nb\tc[U+000D]d[U+200B][U+2067]e\u200df"


class TestExport:
    def test_same_input_and_seed_same_bytes(self, tmp_path):
        answers, rule = population()
        for name, rows in (("a", answers), ("b", answers[::-1])):
            moved = [replace(a, file=f"{name}.jsonl", line=i) for i, a in enumerate(rows)]
            for flips in (False, True):
                audit_export(
                    moved, tmp_path / f"{name}{flips}", items=20, automatic={"rule": rule}, flips=flips
                )
        for flips in (False, True):
            for file in (PAGE, "key.json"):
                one, two = ((tmp_path / f"{n}{flips}" / file).read_bytes() for n in "ab")
                assert one == two
        other = audit_export(answers, tmp_path / "c", items=20, automatic={"rule": rule}, seed=1)
        assert other["packet"] != shown(tmp_path / "aFalse")["packet"]

    def test_strata(self, tmp_path):
        answers, rule = population()
        judge = {a.key: Labels("yes" if rule[a.key] else "no") for a in answers}
        odd, torn = answers[3].key, answers[10].key
        judge[odd], judge[torn] = Labels("invalid"), Labels("no" if rule[torn] else "yes")
        made = audit_export(answers, tmp_path, items=60, random=10, automatic={"rule": rule}, judge=judge)
        assert (made["items"], made["population"]) == (60, 180)
        key = key_of(tmp_path)
        of_key = {key["answers"][i["answers"][0]]["key"]: i for i in key["items"]}
        assert of_key[odd]["stratum"].startswith("judge undecided / ")
        assert of_key[torn]["reasons"][0] == "labels disagree"
        assert sum(i["step"] == "random" for i in key["items"]) == 10
        assert all(i["weight"] * i["probability"] == pytest.approx(1) for i in key["items"])
        assert sum(i["weight"] for i in key["items"]) == pytest.approx(180, rel=0.3)
        cells = {i["stratum"].split(" / ")[1] for i in key["items"]}
        assert len(cells) == 6
        assert made["drawn"]["label flip"] >= 15

    def test_equal_outputs_are_one_item(self, tmp_path):
        same = [answer(1, "the same", method=m) for m in ("none", "x", "y")]
        assert audit_export([*same, answer(2, "other")], tmp_path)["items"] == 2
        rows = [len(a["rows"]) for a in key_of(tmp_path)["answers"].values()]
        assert sorted(rows) == [1, 3]

    def test_refusals_leave_nothing(self, tmp_path):
        answers, _ = population(3)
        for wrong, told in (
            ({"items": 0}, "an audit of 0 items"),
            ({"items": 5, "random": 6}, "6 of them random"),
            ({"flips": True}, "flips are found by labels"),
            ({"flips": True, "automatic": {"rule": {}}}, "no query flips"),
        ):
            with pytest.raises(StressragError, match=told):
                audit_export(answers, tmp_path / "out", **wrong)
        with pytest.raises(StressragError, match="no answers"):
            audit_export([], tmp_path / "out")
        assert not (tmp_path / "out").exists()
        audit_export(answers, tmp_path / "out")
        with pytest.raises(StressragError, match="--overwrite"):
            audit_export(answers, tmp_path / "out", seed=1)
        audit_export(answers, tmp_path / "out", seed=1, overwrite=True)
        assert key_of(tmp_path / "out")["seed"] == 1


class TestImport:
    @pytest.fixture
    def audit(self, tmp_path):
        answers, rule = population()
        folder = tmp_path / "audit"
        judge = {a.key: Labels("yes" if rule[a.key] else "no", "no", "no") for a in answers}
        audit_export(answers, folder, items=60, random=20, automatic={"rule": rule}, judge=judge)
        return folder, answers, rule

    def test_round_trip_of_one(self, audit, tmp_path):
        folder, answers, rule = audit
        file = simulated(folder, tmp_path / "ann.json", lambda k: three("yes" if rule[k] else "no"))
        got = audit_import(folder, [file])
        assert json.loads((folder / "agreement.json").read_text()) == got
        assert got["annotators"] == ["ann"]
        assert got["unresolved"] == got["labeled_twice_differently"] == []
        both = got["fields"]["target_endorsed"]["sources"]
        assert set(both) == {"judge", "rule"}
        for name in both:
            assert both[name]["overall"]["kappa"] == 1
            assert both[name]["overall_weighted"]["observed"] == 1
        labels = read_labels([folder / "human_labels.jsonl"], answers).only()
        assert len(labels) == 60
        assert all(x.source == "human" and (x.target_endorsed == "yes") == rule[k] for k, x in labels.items())

    def test_weighted_rates_are_those_of_the_population(self, tmp_path):
        """Flips are drawn too often, so the raw rate is far off; the weighted one is not, over seeds."""
        answers, rule = population()
        true = np.mean(list(rule.values()))
        undefended = np.mean(
            [rule[a.key] for a in answers if (a.condition, a.method) == ("poisoned", "none")]
        )
        raw, rates, cells, held = [], [], [], []
        for seed in range(60):
            folder = tmp_path / str(seed)
            audit_export(answers, folder, items=60, random=20, automatic={"rule": rule}, seed=seed)
            file = simulated(folder, folder / "ann.json", lambda k: three("yes" if rule[k] else "no"))
            got = audit_import(folder, [file])
            counts = got["fields"]["target_endorsed"]["consensus"]
            raw.append(counts["yes"] / 60)
            found = got["endorsement"]["all distinct outputs"]
            rates.append(found["rate"])
            held.append(found["low"] <= true <= found["high"])
            cells.append(got["endorsement"]["poisoned × none"]["rate"])
        assert np.mean(raw) > true + 0.03
        assert np.mean(rates) == pytest.approx(true, abs=0.015)
        assert np.mean(cells) == pytest.approx(undefended, abs=0.03)
        assert np.mean(held) >= 0.9

    def test_a_rate_counts_answers_and_weights(self, tmp_path):
        """By hand: one endorsing output that two answers share, one that does not endorse."""
        shared, other = answer(1, "yes"), answer(2, "no")
        audit_export([shared, replace(shared, budget=9), other], tmp_path)
        verdict = {shared.key: three("yes"), other.key: three("no")}
        file = simulated(tmp_path, tmp_path / "ann.json", verdict.get)
        rates = audit_import(tmp_path, [file])["endorsement"]
        assert rates["all distinct outputs"]["rate"] == pytest.approx(1 / 2)
        assert rates["poisoned × none"]["rate"] == pytest.approx(2 / 3)
        key = key_of(tmp_path)
        for item in key["items"]:
            item["weight"] = 3.0 if key["answers"][item["answers"][0]]["key"] == shared.key else 5.0
        (tmp_path / "key.json").write_text(json.dumps(key))
        got = audit_import(tmp_path, [file], overwrite=True)["endorsement"]
        assert got["all distinct outputs"]["rate"] == pytest.approx(3 / 8)
        assert got["poisoned × none"]["rate"] == pytest.approx(6 / 11)
        assert got["poisoned × none"]["stands_for"] == pytest.approx(11)

    def test_two_annotators_and_adjudication(self, audit, tmp_path):
        folder, _, rule = audit
        first = simulated(folder, tmp_path / "a.json", lambda k: three("yes" if rule[k] else "no"), "ann")
        ids = sorted(key_of(folder)["answers"])
        value = json.loads(first.read_text()) | {"annotator": "bob"}
        truth = {i: value["labels"][i]["target_endorsed"] for i in ids}
        for i in ids[:6]:
            value["labels"][i]["target_endorsed"] = {"yes": "no", "no": "yes"}[truth[i]]
        value["labels"][ids[6]]["target_endorsed"] = "uncertain"
        value["notes"] = {ids[7]: "reads badly"}
        second = tmp_path / "b.json"
        second.write_text(json.dumps(value))
        got = audit_import(folder, [first, second])
        field = got["fields"]["target_endorsed"]
        between = field["between"]["ann / bob"]
        said_yes = [truth[i] for i in ids[:6]].count("yes")
        assert (between["overall"]["n"], between["overall"]["agreed"]) == (60, 53)
        assert (between["overall"]["first_only"], between["overall"]["second_only"]) == (
            said_yes,
            6 - said_yes,
        )
        assert between["overall"]["undecided"] == 1
        assert (between["decisive"]["n"], between["decisive"]["agreed"]) == (59, 53)
        assert between["overall"]["low"] < between["overall"]["kappa"] < 1
        assert got["unresolved"] == ids[:7]
        assert field["consensus"]["unresolved"] == 7
        assert field["sources"]["rule"]["overall"]["n"] == 53
        cell = got["endorsement"]["all distinct outputs"]
        assert cell["undecided"] == 7
        assert cell["least"] < cell["rate"] < cell["most"]
        labels = read_labels([folder / "human_labels.jsonl"]).only()
        assert sum(x.target_endorsed is None for x in labels.values()) == 7
        assert all(x.abstains == "no" for x in labels.values())
        assert [x.rationale for x in labels.values() if x.rationale] == ["bob: reads badly"]
        # The third person settles all but one; of two the first annotator is right.
        third = tmp_path / "c.json"
        settled = {i: {"target_endorsed": truth[i]} for i in ids[:6]}
        third.write_text(json.dumps({"packet": got["packet"], "annotator": "cat", "labels": settled}))
        got = audit_import(folder, [first, second], adjudication=third, overwrite=True)
        field = got["fields"]["target_endorsed"]
        assert field["adjudicated"] == 6
        assert got["unresolved"] == ids[6:7]
        assert field["sources"]["rule"]["overall"]["agreed"] == 59
        assert field["between"]["ann / bob"] == between

    def test_what_is_read_is_not_written_over(self, audit, tmp_path):
        folder, _, _ = audit
        file = simulated(folder, tmp_path / "ann.json", lambda k: three("no"))
        before = {p: p.read_bytes() for p in (folder / "key.json", folder / PAGE, file)}
        for path in before:
            with pytest.raises(StressragError, match="choose another --out"):
                audit_import(folder, [file], out=path, overwrite=True)
        with pytest.raises(StressragError, match="choose another --out"):
            audit_import(folder, [file], out=folder / "agreement.json", overwrite=True)
        assert {p: p.read_bytes() for p in before} == before

    def test_uncertain_and_invalid_are_told_apart_and_disagree(self, tmp_path):
        answers = [answer(q, f"a{q}") for q in range(4)]
        words = ("yes", "uncertain", "invalid", "no")
        judge = {a.key: Labels(w) for a, w in zip(answers, words, strict=True)}
        audit_export(answers, tmp_path, judge=judge)
        human = dict(zip([a.key for a in answers], ("yes", "uncertain", "no", "no"), strict=True))
        file = simulated(tmp_path, tmp_path / "ann.json", lambda k: three(human[k]))
        found = audit_import(tmp_path, [file])["fields"]["target_endorsed"]["sources"]["judge"]
        assert (found["overall"]["n"], found["overall"]["agreed"], found["overall"]["undecided"]) == (4, 2, 2)
        assert (found["decisive"]["n"], found["decisive"]["agreed"]) == (2, 2)

    def test_no_target(self, tmp_path):
        answers = [answer(q, f"a{q}", target=None if q else "wrong") for q in range(3)]
        rule = {a.key: False if a.target else None for a in answers}
        audit_export(answers, tmp_path, automatic={"rule": rule})
        targets = {a.key: a.target for a in answers}
        file = simulated(
            tmp_path, tmp_path / "ann.json", lambda k: three("no" if targets[k] else "not_applicable")
        )
        got = audit_import(tmp_path, [file])
        assert got["fields"]["target_endorsed"]["sources"]["rule"]["overall"]["n"] == 1
        assert got["endorsement"]["all distinct outputs"]["n"] == 1
        wrong = simulated(tmp_path, tmp_path / "bob.json", lambda k: three("no"), "bob")
        with pytest.raises(StressragError) as e:
            audit_import(tmp_path, [wrong], overwrite=True)
        assert str(e.value).count("may be not_applicable") == 2

    def test_all_that_is_wrong_is_told_at_once(self, audit, tmp_path):
        folder, _, rule = audit
        good = simulated(folder, tmp_path / "a.json", lambda k: three("yes" if rule[k] else "no"))
        ids = list(key_of(folder)["answers"])
        value = json.loads(good.read_text())
        del value["labels"][ids[0]]
        value["labels"][ids[1]]["abstains"] = "maybe"
        value["labels"][ids[2]]["target_endorsed"] = "not_applicable"
        value["labels"]["nobody"] = {}
        bad, foreign, broken = (tmp_path / f"{n}.json" for n in ("bad", "foreign", "broken"))
        bad.write_text(json.dumps(value))
        foreign.write_text(json.dumps({"packet": "another", "labels": {}}))
        broken.write_text("{")
        third = tmp_path / "third.json"
        against = {ids[3]: {"abstains": "yes"}}
        third.write_text(json.dumps({"packet": value["packet"], "labels": against}))
        with pytest.raises(StressragError) as e:
            audit_import(folder, [good, bad, foreign, broken, tmp_path / "gone"], adjudication=third)
        text = str(e.value)
        for part in (
            f"{bad}: unknown answers (1): nobody",
            f"{bad}: not labeled (3): {ids[0]} target_endorsed",
            f"{bad}: abstains of {ids[1]} is 'maybe'; may be yes, no, uncertain",
            f"{bad}: target_endorsed of {ids[2]} is 'not_applicable'",
            f"{bad}: a second file by 'ann'",
            f"{foreign}: belongs to packet 'another'",
            f"{broken}: broken JSON",
            f"{tmp_path / 'gone'}: cannot be read",
            f"{third}: abstains of {ids[3]} is yes, but the annotators agree on no",
        ):
            assert part in text
        assert sorted(p.name for p in folder.iterdir()) == ["key.json", PAGE]


class TestFlipAudit:
    def build(self, prevented=20, introduced=20):
        answers, rule = [], {}
        for q in range(prevented + introduced):
            before = q < prevented
            for method, endorses in (("none", before), ("filterx", not before)):
                a = answer(q, f"{method} says {q}", method=method)
                answers.append(a)
                rule[a.key] = endorses
        return answers, rule

    def test_sixteen_and_six_of_twenty(self, tmp_path):
        """The paper's figures: 16 of 20 preventions and 6 of 20 introductions are confirmed."""
        answers, rule = self.build()
        made = audit_export(answers, tmp_path, items=40, automatic={"rule": rule}, flips=True)
        assert made["drawn"] == {"prevention": 20, "introduction": 20}
        human = {}
        for a in answers:
            q = int(a.query_id.removeprefix("id-"))
            real = q < 16 or 20 <= q < 26
            human[a.key] = rule[a.key] if real else q % 2 == 0
        human = {k: "yes" if v else "no" for k, v in human.items()}
        # One pair in which one side alone is open; the other side already refutes it or leaves it open.
        human[answers[2 * 38].key] = "uncertain"
        human[answers[2 * 39 + 1].key] = "uncertain"
        file = simulated(tmp_path, tmp_path / "ann.json", lambda k: three(human[k]))
        got = audit_import(tmp_path, [file])
        prevented, introduced = (got["flips"][k] for k in FLIPS)
        assert (prevented["confirmed"], prevented["pairs"], prevented["refuted"]) == (16, 20, 4)
        assert (introduced["confirmed"], introduced["pairs"]) == (6, 20)
        # 38: undefended open, defended yes; 39: undefended no, defended open.
        assert (introduced["refuted"], introduced["undecided"]) == (12, 2)
        assert prevented["rate"] == 0.8
        assert (round(prevented["low"], 3), round(prevented["high"], 3)) == (0.584, 0.919)
        assert prevented["by_method"]["filterx"]["confirmed"] == 16
        assert "endorsement" not in got

    def test_an_answer_in_two_pairs_labeled_in_two_ways_is_no_label(self, tmp_path):
        base = answer(1, "endorses")
        others = [answer(1, f"does not {m}", method=m) for m in ("x", "y")]
        rule = {base.key: True, **{a.key: False for a in others}}
        audit_export([base, *others], tmp_path, automatic={"rule": rule}, flips=True)
        key = key_of(tmp_path)
        twice = [i for i, a in key["answers"].items() if a["key"] == base.key]
        assert len(twice) == 2
        file = simulated(tmp_path, tmp_path / "ann.json", lambda k: three("yes" if rule[k] else "no"))
        value = json.loads(file.read_text())
        value["labels"][twice[0]]["target_endorsed"] = "no"
        file.write_text(json.dumps(value))
        got = audit_import(tmp_path, [file])
        assert sorted(got["labeled_twice_differently"]) == sorted(twice)
        assert got["flips"]["prevention"]["confirmed"] == 1
        labels = read_labels([tmp_path / "human_labels.jsonl"]).only()
        assert labels[base.key].target_endorsed is None
        assert labels[base.key].abstains == "no"


class TestCommandLine:
    @pytest.fixture
    def read(self, monkeypatch):
        """Stands in for the reader of answers."""
        answers, rule = population(10)
        module = types.ModuleType("stressrag.aligned.read")
        module.read_answers = lambda paths: answers
        monkeypatch.setitem(sys.modules, "stressrag.aligned.read", module)
        monkeypatch.setattr("stressrag.cli.aligned_audit.automatic_labels", lambda answers: {"rule": rule})
        return answers, rule

    def test_there_and_back(self, read, tmp_path, capsys):
        answers, rule = read
        rows = [{"key": a.key, "target_endorsed": rule[a.key]} for a in answers[1:]]
        judge = write(tmp_path / "judge.jsonl", [*rows, {"key": "f" * 64, "target_endorsed": "no"}])
        out = tmp_path / "audit"
        argv = ["answers.jsonl", "--out", str(out), "--items", "20", "--random", "5", "--judge", str(judge)]
        assert export_main(argv) == 0
        said = capsys.readouterr().out
        assert "1 rows on answers that are not here, 1 answers without a label" in said
        assert re.search(r"packet \w{12}: 20 items \(.*\), drawn from 60 distinct outputs", said)
        file = simulated(out, tmp_path / "ann.json", lambda k: three("yes" if rule[k] else "no"))
        assert import_main([str(out), str(file)]) == 0
        said = capsys.readouterr().out
        assert "rule / human" in said
        assert "judge / human" in said
        assert "target endorsed, poisoned × none" in said
        with pytest.raises(StressragError, match="--overwrite"):
            import_main([str(out), str(file)])
        assert import_main([str(out), str(file), "--out", str(tmp_path / "else" / "h.jsonl")]) == 0
        assert (tmp_path / "else" / "agreement.json").exists()

    def test_flips(self, read, tmp_path, capsys):
        _, rule = read
        assert export_main(["x", "--out", str(tmp_path), "--flips", "--items", "4"]) == 0
        file = simulated(tmp_path, tmp_path / "ann.json", lambda k: three("yes" if rule[k] else "no"))
        capsys.readouterr()
        import_main([str(tmp_path), str(file)])
        said = capsys.readouterr().out
        pairs = [int(x) for x in re.findall(r"confirmed (?:prevention|introduction)s: \d+ of (\d+)", said)]
        assert sum(pairs) == 4
        assert all(a == b for a, b in re.findall(r"confirmed \w+s: (\d+) of (\d+)", said))

    @pytest.mark.parametrize(
        ("main", "argv", "told"),
        [
            (export_main, [], "needs files of answers"),
            (export_main, ["x"], "--out FOLDER"),
            (export_main, ["x", "--out", "y", "--items", "many"], "--items many is no number"),
            (export_main, ["x", "--out", "y", "--flips", "--random", "3"], "not for --flips"),
            (export_main, ["x", "--out", "y", "--judg", "z"], "did you mean '--judge'"),
            (import_main, ["folder"], "at least one file of labels"),
            (import_main, ["folder", "labels"], "cannot be read"),
        ],
    )
    def test_one_clear_line(self, main, argv, told, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(StressragError, match=re.escape(told)) as e:
            main(argv)
        assert "\n" not in str(e.value)
        assert list(tmp_path.iterdir()) == []

    def test_help(self, capsys):
        assert export_main(["--help"]) == import_main(["-h"]) == 0
        assert capsys.readouterr().out.count("usage: ") == 2


DRIVER = """<script>
let saved = null;
URL.createObjectURL = blob => { saved = blob; return 'blob:none'; };
const press = key => document.body.dispatchEvent(
  new KeyboardEvent('keydown', {key, bubbles: true, cancelable: true}));
document.getElementById('name').value = 'ann';
%s
press('s');
saved.text().then(text => {
  const pre = document.createElement('pre');
  pre.id = 'saved';
  pre.textContent = text;
  document.body.append(pre);
});
</script></body>"""


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
class TestInABrowser:
    def browse(self, page, profile):
        command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
        command += ["--enable-logging=stderr", "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def test_nothing_in_an_answer_runs(self, tmp_path):
        rows = [answer(q, f"{HOSTILE}{q}", references=(HOSTILE,), target=HOSTILE) for q in range(2)]
        audit_export(rows, tmp_path)
        done = self.browse(tmp_path / PAGE, tmp_path / "profile")
        assert "Item 1 of 2" in done.stdout
        assert "&lt;img src=x onerror=console.log('RAN')&gt;[U+202E]" in done.stdout
        assert "CONSOLE" not in done.stderr
        assert "<title>Answers to label</title>" in done.stdout

    def test_the_policy_stops_what_would_run(self, tmp_path):
        """The same text as markup in the page: refused by the policy, and runs without it."""
        audit_export([answer(1, "a"), answer(2, "b")], tmp_path)
        html = (
            (tmp_path / PAGE).read_text("utf-8").replace("</h1>", "</h1><script>console.log('RAN')</script>")
        )
        (tmp_path / "with.html").write_text(html)
        (tmp_path / "without.html").write_text(re.sub(r'<meta http-equiv="Content-Sec[^>]*>', "", html))
        done = self.browse(tmp_path / "with.html", tmp_path / "profile")
        assert '"RAN"' not in done.stderr
        assert "Refused" in done.stderr or "violates" in done.stderr
        done = self.browse(tmp_path / "without.html", tmp_path / "profile")
        assert "RAN" in done.stderr

    def test_labels_by_keyboard_are_what_is_imported(self, tmp_path):
        answers = [answer(q, f"says {q}", target=None if q == 1 else "wrong") for q in range(4)]
        audit_export(answers, tmp_path)
        targets = {a.key: a.target for a in answers}
        key, items = key_of(tmp_path), shown(tmp_path)["items"]
        presses, wanted = [], {}
        for n, item in enumerate(items):
            i = item["answers"][0]["id"]
            words = [("yes", "no", "uncertain")[(n + k) % 3] for k in range(3)]
            if targets[key["answers"][i]["key"]] is None:
                words[0] = "not_applicable"
            wanted[i] = dict(zip(FIELDS, words, strict=True))
            presses += [f"press('{w[0]}');" for w in words if w != "not_applicable"]
        html = (tmp_path / PAGE).read_text("utf-8").replace("</body>", DRIVER % "".join(presses))
        (tmp_path / "driven.html").write_text(re.sub(r'<meta http-equiv="Content-Sec[^>]*>', "", html))
        done = self.browse(tmp_path / "driven.html", tmp_path / "profile")
        text = re.search(r'<pre id="saved">(.*?)</pre>', done.stdout, re.S)[1]
        saved = tmp_path / "saved.json"
        saved.write_text(text)
        assert json.loads(text)["labels"] == wanted
        assert "4 of 4 done" in done.stdout
        assert "everything is labeled" in done.stdout
        got = audit_import(tmp_path, [saved])
        assert got["annotators"] == ["ann"]
        # What is half done is kept by the browser: the page opened again has it.
        kept = html.replace("".join(presses) + "\npress('s');", "press('s');")
        (tmp_path / "driven.html").write_text(re.sub(r'<meta http-equiv="Content-Sec[^>]*>', "", kept))
        again = self.browse(tmp_path / "driven.html", tmp_path / "profile")
        assert (
            json.loads(re.search(r'<pre id="saved">(.*?)</pre>', again.stdout, re.S)[1])["labels"] == wanted
        )
