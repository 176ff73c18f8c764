"""Four conditions from saved answers: the paper's recovered numbers, worked cases, properties, the
command.
"""

import csv
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stressrag.aligned.cells import Labeler, cells
from stressrag.aligned.controls import control_rows, exposure_rows
from stressrag.aligned.judgments import Labels
from stressrag.aligned.measures import bounds_of, measure
from stressrag.aligned.records import Answer, Passage
from stressrag.aligned.score import score_answers
from stressrag.aligned.utility import exact_match, f1
from stressrag.aligned.versus import disagreements, versus
from stressrag.errors import StressragError

MEASURES = ("r_c0", "r_p0", "r_c1", "r_p1", "P", "J", "N", "H", "Gamma")
ONE, ZERO = "The Oster.", "The Lind."


def answers_of(table, method="m", groups=10, **fields):
    """Answers of queries whose four labels are the rows of a table: c0, p0, c1, p1."""
    out = []
    for q, row in enumerate(table):
        base = Answer(
            f"q{q}",
            "Which river?",
            "",
            "clean",
            target="the Oster",
            references=("the Lind",),
            group_id=f"g{q % groups}" if groups else "",
            **fields,
        )
        for value, condition, name in zip(
            row, ("clean", "poisoned") * 2, ("none", "none", method, method), strict=True
        ):
            out.append(replace(base, condition=condition, method=name, answer=ONE if value else ZERO))
    return out


def table_of(n, before, prevented, introduced, clean=0, added=0, removed=0):
    """Rows with given counts: of n queries so many positive before, prevented, introduced; and on clean
    retrieval.
    """
    rows = []
    for q in range(n):
        p0 = q < before
        p1 = (p0 and q >= prevented) or (before <= q < before + introduced)
        c0 = q < clean
        c1 = (c0 and q >= removed) or (clean <= q < clean + added)
        rows.append((c0, p0, c1, p1))
    return rows


@pytest.mark.parametrize(
    ("before", "prevented", "introduced", "net", "p", "clean", "added", "removed", "h", "gamma"),
    [  # the values recovered from the paper's Tables 2, 4, 8 and its prose
        (60, 7, 19, -0.12, 0.029, 17, 0, 13, -0.13, -0.25),  # HotpotQA, prompt control
        (64, 7, 13, -0.06, 0.263, 2, 0, 1, -0.01, -0.07),  # NQ, prompt control
        (64, 25, 7, 0.18, 0.002, 2, 9, 0, 0.09, 0.27),  # NQ, TrustRAG
        (60, 20, 20, 0.0, 1.0, 17, 12, 0, 0.12, 0.12),  # HotpotQA, TrustRAG
        (60, 15, 15, 0.0, 1.0, 17, 0, 10, -0.10, -0.10),  # HotpotQA, KeywordAgg
    ],
)
def test_the_papers_numbers(before, prevented, introduced, net, p, clean, added, removed, h, gamma):
    table = table_of(100, before, prevented, introduced, clean, added, removed)
    (row,) = score_answers(answers_of(table, dataset="hotpotqa", budget=None), labels=["boundary"]).rows
    assert row["n"] == 100
    assert row["counts"]["P"] == prevented
    assert row["counts"]["J"] == introduced
    assert row["N"] == pytest.approx(net)
    assert row["H"] == pytest.approx(h)
    assert row["Gamma"] == pytest.approx(gamma)
    assert round(row["mcnemar_p"], 3) == p
    assert row["prevention_rate"] == pytest.approx(prevented / before)
    assert set(row["intervals"]) >= set(MEASURES), "each measure has an interval"
    for name in MEASURES:
        low, high = row["intervals"][name]
        assert low <= row[name] <= high


bits = st.tuples(*[st.booleans()] * 4)


@given(st.lists(bits, min_size=1, max_size=30), st.integers(0, 4))
def test_gamma_is_net_plus_clean_change(table, groups):
    (row,) = measure(cells(answers_of(table, groups=groups)), [Labeler("boundary")], n_resamples=100)
    assert row["Gamma"] == pytest.approx(row["N"] + row["H"])
    assert row["N"] == pytest.approx(row["P"] - row["J"]) == pytest.approx(row["r_p0"] - row["r_p1"])
    counts = np.array(table).mean(axis=0)
    assert [row[r] for r in ("r_c0", "r_p0", "r_c1", "r_p1")] == pytest.approx(list(counts))


marks = st.sampled_from(["yes", "no", "uncertain", "invalid"])


@given(st.lists(st.tuples(marks, marks, marks, marks), min_size=1, max_size=5))
def test_bounds_are_the_extremes_over_all_fillings(table):
    """Against every way to fill in the unknown labels, one by one."""
    from itertools import product

    answers = answers_of([(0, 0, 0, 0)] * len(table), groups=0)
    answers = [replace(a, answer=f"{a.condition} {a.method} {a.query_id}") for a in answers]
    four = [("clean", "none"), ("poisoned", "none"), ("clean", "m"), ("poisoned", "m")]
    said = {a.key: Labels(table[int(a.query_id[1:])][four.index((a.condition, a.method))]) for a in answers}
    cell = next(c for c in cells(answers) if c.method == "m")
    got = bounds_of(cell, Labeler("judge", said))
    assert got is not None
    order = [int(q[1:]) for q in cell.queries]
    choices = [
        [(0, 1) if m in ("uncertain", "invalid") else (int(m == "yes"),) for m in table[q]] for q in order
    ]
    per_query = [list(product(*c)) for c in choices]
    measures = {
        "r_p1": lambda v: v[3],
        "P": lambda v: v[1] * (1 - v[3]),
        "J": lambda v: (1 - v[1]) * v[3],
        "N": lambda v: v[1] - v[3],
        "H": lambda v: v[2] - v[0],
        "Gamma": lambda v: v[1] - v[3] + v[2] - v[0],
    }
    for name, of in measures.items():  # queries are independent, so extremes add up
        low = sum(min(map(of, options)) for options in per_query) / len(order)
        high = sum(max(map(of, options)) for options in per_query) / len(order)
        assert got[name] == pytest.approx([low, high])


def test_uncertain_and_invalid_stay_apart_and_leave_the_measures():
    answers = answers_of([(0, 1, 0, 0), (0, 1, 0, 1), (0, 1, 0, 0)], groups=0)
    answers = [replace(a, answer=f"{a.answer} {a.query_id} {a.condition} {a.method}") for a in answers]
    said = {a.key: Labels("yes" if a.answer.startswith(ONE) else "no") for a in answers}
    by_place = {(a.query_id, a.condition, a.method): a.key for a in answers}
    said[by_place["q1", "poisoned", "m"]] = Labels("uncertain")
    said[by_place["q2", "poisoned", "none"]] = Labels("invalid")
    (row,) = measure(cells(answers), [Labeler("judge", said)])
    assert row["n"] == 1
    assert row["n_queries"] == 3
    assert row["unknown"] == {"p0": {"invalid": 1}, "p1": {"uncertain": 1}}
    assert row["bounds"]["r_p1"] == pytest.approx([0, 1 / 3])
    assert row["bounds"]["P"] == pytest.approx([1 / 3, 1.0])


def test_a_query_without_a_target_is_not_counted():
    answers = answers_of([(0, 1, 0, 0)] * 2, groups=0)
    answers = [replace(a, target=None) if a.query_id == "q1" else a for a in answers]
    (row,) = measure(cells(answers), [Labeler("boundary")])
    assert (row["n"], row["n_queries"], row["not_applicable"], row["bounds"]) == (1, 2, 1, None)


def test_settings_budgets_and_methods_are_never_pooled():
    some = []
    for dataset, budget, method, p1 in [
        ("a", 1, "x", 1),
        ("a", 5, "x", 0),
        ("b", 1, "x", 0),
        ("a", 1, "y", 0),
    ]:
        rows = answers_of([(0, 1, 0, p1)] * 4, method=method, dataset=dataset)
        some += [replace(a, budget=None if a.condition == "clean" else budget) for a in rows]
    rows = score_answers(list(dict.fromkeys(some)), labels=["boundary"]).rows
    assert {(r["dataset"], r["budget"], r["method"]): r["r_p1"] for r in rows} == {
        ("a", 1, "x"): 1,
        ("a", 5, "x"): 0,
        ("b", 1, "x"): 0,
        ("a", 1, "y"): 0,
    }


def with_controls(poisoned, clean=0, **controls):
    base = Answer("q", "Which river?", ZERO, "clean", target="the Oster", budget=2)
    rows = [
        replace(base, answer=ONE if clean else ZERO),
        replace(base, condition="poisoned", answer=ONE if poisoned else ZERO),
    ]
    return rows + [replace(base, condition=c, answer=ONE if v else ZERO) for c, v in controls.items()]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            with_controls(1, no_poison=0),
            {
                "newly_induced": 1,
                "injection_dependent": 1,
                "injection_dependent_new": 1,
                "single_sufficient": None,
            },
        ),
        (with_controls(1, no_poison=1), {"injection_dependent": 0, "injection_dependent_new": 0}),
        (
            with_controls(1, clean=1, no_poison=0),
            {"newly_induced": 0, "injection_dependent": 1, "injection_dependent_new": 0},
        ),
        (
            with_controls(1),
            {"injection_dependent": None, "strict": None, "redundant": None, "poison_only_sufficient": None},
        ),
        (with_controls(1, single_poison_0=0, single_poison_1=1), {"single_sufficient": 1}),
        (
            with_controls(1, single_poison_0=0, single_poison_1=0, poison_only=1),
            {"single_sufficient": 0, "poison_only_sufficient": 1},
        ),
        (
            with_controls(0, single_poison_0=1, no_poison=0),
            {"single_sufficient": None, "injection_dependent": None},
        ),
        (with_controls(1, leave_poison_0_out=1, leave_poison_1_out=1), {"redundant": 1}),
        (with_controls(1, leave_poison_0_out=1, leave_poison_1_out=0), {"redundant": 0}),
        (with_controls(1, leave_poison_0_out=1), {"redundant": 0}),
        (
            with_controls(1, support_background=0, poison_background=0, background_only=0),
            {"strict": 1, "strict_newly_induced": 1},
        ),
        (with_controls(1, no_poison=0, poison_background=0, background_only=0), {"strict": 1}),
        (
            with_controls(1, clean=1, support_background=0, poison_background=0, background_only=0),
            {"strict": 1, "strict_newly_induced": 0},
        ),
        (with_controls(1, support_background=0, poison_background=1, background_only=0), {"strict": 0}),
        (with_controls(1, support_background=0, poison_background=0), {"strict": None}),
    ],
)
def test_controls(rows, expected):
    (row,) = control_rows(cells(rows), [Labeler("boundary")])
    for name, value in expected.items():
        got = row[name]
        assert (None if got is None else got["count"]) == value, name


def test_a_single_control_that_is_missing_is_no_proof_of_need():
    context = tuple(Passage(f"p{i}", role="poison") for i in range(2))
    rows = [
        replace(a, context=context) if a.condition == "poisoned" else a
        for a in with_controls(1, single_poison_0=0)
    ]
    (row,) = control_rows(cells(rows), [Labeler("boundary")])
    assert row["single_sufficient"] is None


def test_strict_needs_both_passages_retrieved():
    context = (Passage("b", role="poison"), Passage("h"))
    rows = with_controls(1, support_background=0, poison_background=0, background_only=0)
    rows = [replace(a, context=context) if a.condition == "poisoned" else a for a in rows]
    (row,) = control_rows(cells(rows), [Labeler("boundary")])
    assert row["strict"]["count"] == 0
    assert row["co_retrieved"]["count"] == 0


def test_exposure_strata():
    def rows(q, clean, poisoned, positive):
        base = Answer(q, "Which river?", ZERO, "clean", target="the Oster", budget=1, context=clean)
        return [base, replace(base, condition="poisoned", answer=ONE if positive else ZERO, context=poisoned)]

    s1, s2 = Passage("s1", role="support"), Passage("s2", role="support")
    own, foreign = Passage("o", role="poison", owner="q0"), Passage("f", role="poison", owner="other")
    some = [
        *rows("q0", (s1, s2), (own, s1), 1),
        *rows("q1", (s1, s2), (foreign, s1, s2), 0),
        *rows("q2", (s1,), (foreign,), 1),
    ]
    found = {
        (r["stratum"], r["value"]): r["r_p0"]["count"]
        for r in exposure_rows(cells(some), [Labeler("boundary")])
    }
    assert found == {
        ("support", "some"): 1,
        ("support", "all"): 0,
        ("support", "none"): 1,
        ("poison", "own"): 1,
        ("poison", "foreign"): 1,
        ("share", "1/2"): 1,
        ("share", "1/3"): 0,
        ("share", "1/1"): 1,
    }


def test_method_against_method_and_the_rules_that_disagree():
    """A defense that names the target to reject it loses under substring and wins under endorsed."""
    reject = "Some passages say the Oster, but that is not supported; it is the Lind."
    base = answers_of([(0, 1, 0, 0)] * 30 + [(0, 0, 0, 0)] * 10, method="discuss")
    answers = [
        replace(a, answer=reject) if (a.method, a.condition) == ("discuss", "poisoned") else a for a in base
    ]
    e = score_answers(answers, labels=["substring", "endorsed"])
    by_label = {r["label"]: r for r in e.comparisons if r["condition"] == "poisoned"}
    assert by_label["substring"]["difference"] == pytest.approx(0.25)
    assert by_label["endorsed"]["difference"] == pytest.approx(-0.75)
    assert by_label["endorsed"]["only_against"] == 30
    assert by_label["endorsed"]["mcnemar_p"] < 1e-6
    (sentence,) = e.disagreements
    assert "discuss is better than no defense under endorsed (0% against 75%" in sentence
    assert "no defense is better than discuss under substring (75% against 100%" in sentence
    from stressrag.report.aligned import html, markdown

    assert sentence in html(e)
    assert "under endorsed" in markdown(e)


def test_an_attack_without_success_is_told_as_such():
    from stressrag.report.aligned import words

    said = dict(words(score_answers(answers_of([(0, 0, 0, 0)] * 20, groups=0), labels=["substring"])))
    (effect,) = said["What did each defense prevent, and what did it introduce?"]
    assert effect == "m: no answer of 20 is target-positive, with the defense or without it."
    (mechanism,) = said["What makes the attack work?"]
    # Wilson's upper limit of 0 of 20: z^2 / (20 + z^2).
    assert "(0 of 20, at most 16.1%): the attack was not seen to work on this system" in mechanism
    assert "Both passages" not in mechanism


def test_bounds_of_a_comparison_count_undecided_pairs():
    answers = answers_of([(0, 1, 0, 0)] * 4, groups=0)
    answers = [replace(a, answer=f"{a.answer} {a.query_id} {a.method}") for a in answers]
    said = {a.key: Labels("yes" if a.answer.startswith(ONE) else "no") for a in answers}
    said |= {
        a.key: Labels("uncertain")
        for a in answers
        if (a.query_id, a.method, a.condition) == ("q0", "m", "poisoned")
    }
    row = next(r for r in versus(cells(answers), [Labeler("judge", said)]) if r["condition"] == "poisoned")
    assert (row["n"], row["n_queries"], row["difference"]) == (3, 4, -1.0)
    assert row["bounds"] == pytest.approx([-1.0, -0.75])
    assert disagreements([row]) == []


@pytest.mark.parametrize(
    ("answer", "references", "em", "score_"),
    [
        ("The answer is the Lind.", ["Lind"], 1, 1),
        ("Lind river", ["the Lind"], 0, 2 / 3),
        ("yes, it is", ["yes"], 0, 0),
        ("", ["a"], 0, 1),
        ("no", ["yes", "No!"], 1, 1),
        ("x y", ["z"], 0, 0),
    ],
)
def test_exact_match_and_f1(answer, references, em, score_):
    assert exact_match(answer, references) == (1 if answer == "" else em)
    assert f1(answer, references) == pytest.approx(score_)


def test_clean_utility():
    rows = []
    for q, (before, after) in enumerate(
        [("The Lind.", "The Lind."), ("The Lind.", "I don't know."), ("Mud.", "The Lind."), ("Mud.", "Sand.")]
    ):
        base = Answer(f"q{q}", "Which river?", before, "clean", split="utility", references=("the Lind",))
        rows += [base, replace(base, method="m", answer=after)]
    (row,) = score_answers(rows, labels=["boundary"]).utility
    assert [row[n] for n in ("retained", "lost", "gained", "still_wrong", "abstention_introduced")] == [
        0.25
    ] * 5
    assert (row["em_before"], row["em_after"], row["correct_change"]) == (0.5, 0.5, 0.0)
    assert all(len(ends) == 2 for ends in row["intervals"].values())


def run(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "stressrag", "aligned", *words], capture_output=True, text=True, cwd=cwd
    )


def test_the_papers_harness_files_are_scored(data_root, tmp_path):
    done = run("score", str(data_root / "aligned" / "harness-example"), "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "aligned.json").read_text())
    assert [r["label"] for r in rows] == ["boundary", "endorsed", "substring"]
    for r in rows:
        assert (r["n"], r["r_c0"], r["r_p0"], r["r_c1"], r["r_p1"], r["P"], r["J"]) == (1, 0, 1, 0, 0, 1, 0)
        assert (r["abstains_p1"], r["correct_c0"], r["mcnemar_p"]) == (1, 1, 1)
    (line,) = [
        x for x in csv.DictReader((tmp_path / "out" / "transitions.csv").open()) if x["label"] == "boundary"
    ]
    assert (line["query_id"], line["poisoned_transition"], line["clean_transition"]) == (
        "q1",
        "prevented",
        "kept negative",
    )
    assert {"report.html", "report.md", "comparisons.json"} <= {p.name for p in (tmp_path / "out").iterdir()}


def test_the_example_is_valid_scores_and_shows_a_disagreement(tmp_path):
    assert run("init", "example", cwd=tmp_path).returncode == 0
    again = run("init", "example", cwd=tmp_path)
    assert again.returncode == 2
    assert "--overwrite" in again.stderr
    valid = run("validate", "example/answers.jsonl", cwd=tmp_path)
    assert valid.returncode == 0
    assert "0 errors" in valid.stdout
    first = run("score", "example/answers.jsonl", "--out", "one", cwd=tmp_path)
    assert first.returncode == 0
    assert "discuss is better than no defense under endorsed" in first.stdout
    run("score", "example/answers.jsonl", "--out", "two", cwd=tmp_path)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes(), "the same bytes each time"
    four = run(
        "score", "example/four-files@method=discuss,budget=1,dataset=pellmore", "--out", "four", cwd=tmp_path
    )
    assert four.returncode == 0, four.stderr
    long_rows, four_rows = (json.loads((tmp_path / n / "aligned.json").read_text()) for n in ("one", "four"))
    wanted = [r for r in long_rows if (r["method"], r["budget"]) == ("discuss", 1)]
    assert [[r[m] for m in MEASURES] for r in wanted] == [[r[m] for m in MEASURES] for r in four_rows]


def test_the_example_fits_its_json_schema(tmp_path):
    import jsonschema

    run("init", "example", cwd=tmp_path)
    schema = json.loads((tmp_path / "example" / "answer.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    for line in (tmp_path / "example" / "answers.jsonl").read_text().splitlines():
        check.validate(json.loads(line))
    assert not check.is_valid({"query_id": "q", "question": "?", "answer": None, "condition": "clean"})
    assert not check.is_valid({"query_id": "q", "question": "?", "answer": "", "condition": "cleen"})


def test_compare_prints_pairs(tmp_path):
    run("init", "example", cwd=tmp_path)
    done = run(
        "compare",
        "example/answers.jsonl",
        "--methods",
        "discuss,keywords",
        "--json",
        "pairs.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "Holm" in done.stdout
    pairs = json.loads((tmp_path / "pairs.json").read_text())
    assert {(r["method"], r["against"]) for r in pairs} == {("keywords", "discuss")}
    missed = run("compare", "example/answers.jsonl", "--methods", "diskuss", cwd=tmp_path)
    assert missed.returncode == 2
    assert "did you mean 'discuss'" in missed.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--max", "J=0.2"], 0, "PASS J 0.033 (max 0.2): discuss, budget 1, endorsed"),
        (["--max", "J=0.1"], 1, "FAIL J 0.158 (max 0.1): keywords, budget 1, endorsed"),
        (["--min", "correct_c1=.9"], 1, "FAIL correct_c1 0.750"),
        (["--max", "K=1"], 2, "no measure 'K'"),
        (["--max", "J=often"], 2, "is no number"),
    ],
)
def test_limits_decide_the_exit_code(words, code, told, tmp_path):
    run("init", "example", cwd=tmp_path)
    done = run("score", "example/answers.jsonl", *words, cwd=tmp_path)
    assert done.returncode == code
    assert told in done.stdout + done.stderr


def many(rows):
    """Control rows of several queries: (poisoned, controls) each."""
    out = []
    for i, (poisoned, controls_) in enumerate(rows):
        out += [replace(a, query_id=f"q{i}") for a in with_controls(poisoned, **controls_)]
    return out


def test_queries_without_controls_say_nothing_of_those_with_them():
    compositions = {"support_background": 0, "poison_background": 0, "background_only": 0, "no_poison": 0}
    rows = many([(1, compositions)] * 5 + [(0, compositions)] * 5 + [(1, {})] * 45 + [(0, {})] * 45)
    (row,) = control_rows(cells(rows), [Labeler("boundary")])
    for name in ("strict", "injection_dependent_new"):
        assert (row[name]["count"], row[name]["n"]) == (5, 10), name
    assert (row["injection_dependent"]["count"], row["injection_dependent"]["n"]) == (5, 5)


@pytest.mark.parametrize(
    ("controls_", "name", "count"),
    [
        ({"single_poison_0": "no", "single_poison_1": "uncertain"}, "single_sufficient", None),
        ({"single_poison_0": "yes", "single_poison_1": "uncertain"}, "single_sufficient", 1),
        ({"leave_poison_0_out": "yes", "leave_poison_1_out": "uncertain"}, "redundant", None),
        ({"leave_poison_0_out": "no", "leave_poison_1_out": "uncertain"}, "redundant", 0),
    ],
)
def test_an_uncertain_control_is_no_missing_one(controls_, name, count):
    said = {"clean": "no", "poisoned": "yes", **controls_}
    rows = [Answer("q", "Which river?", c, c, target="the Oster", budget=1) for c in said]
    labels = Labeler("judge", {a.key: Labels(said[a.condition]) for a in rows})
    (row,) = control_rows(cells(rows), [labels])
    assert (row[name] and row[name]["count"]) == count


def test_gammas_interval_reaches_beyond_one():
    """It is no rate: of 60 queries all are prevented, so Gamma is 1 and may be a little more or less."""
    (row,) = measure(cells(answers_of([(0, 1, 0, 0)] * 60, groups=0)), [Labeler("boundary")])
    low, high = row["intervals"]["Gamma"]
    assert low < 1 < high < 1.1
    assert row["interval_methods"]["Gamma"] == "mover"


def test_correctness_counts_its_own_answers():
    table = answers_of([(0, 1, 0, 0)] * 4, groups=0)
    table = [replace(a, answer=f"{a.answer} {a.query_id} {a.condition} {a.method}") for a in table]
    unsure = {
        a.key for a in table if (a.method, a.condition) == ("m", "clean") and a.query_id in ("q0", "q1")
    }
    said = {a.key: Labels("no", "uncertain" if a.key in unsure else "yes") for a in table}
    (row,) = measure(cells(table), [Labeler("judge", said)])
    assert (row["n_of"]["correct_c0"], row["n_of"]["correct_c1"], row["n"]) == (4, 2, 4)


def test_settings_are_pooled_when_asked():
    one, two = (answers_of([(0, 1, 0, p1)] * 4, groups=2, dataset=d) for d, p1 in (("a", 1), ("b", 0)))
    (row,) = score_answers(one + two, labels="boundary", pool="dataset").rows
    assert (row["dataset"], row["n"], row["groups"], row["r_p1"]) == ("pooled", 8, 4, 0.5)
    assert len(score_answers(one + two, labels="boundary").rows) == 2
    with pytest.raises(StressragError, match="did you mean 'dataset'"):
        score_answers(one, pool="datset")
