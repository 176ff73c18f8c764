"""The preset ``paper`` on SciFact against the retrieval paper's table and against our own bands.

Everything that rests on LSA moves with the seed of its randomised SVD, so it is held as a
band over the seeds 0 to 4.
"""

from __future__ import annotations

import pytest

from stressrag.experiment.plan import plan
from stressrag.experiment.run import execute


def sweep(folder, *words: str) -> list[dict]:
    run = execute(plan("sweep", ["preset=paper", "latency_sample=0", f"output_dir={folder}", *words]))
    return run.summary["conditions"]


@pytest.fixture(scope="module")
def scifact(data_root, tmp_path_factory):
    """Conditions of all the paper's tables that are held here; about half a minute."""
    folder = tmp_path_factory.mktemp("paper")
    seeds = "lsa.seed=0,1,2,3,4"
    out = sweep(folder / "bm25", "attack.budget=5", "attack.scope=isolated,multi")
    out += sweep(folder / "fused", "retriever=lsa,hybrid", seeds, "attack.budget=1,3,5")
    out += sweep(
        folder / "terms",
        "retriever=hybrid",
        seeds,
        "attack=partial",
        "attack.terms=2,4",
        "attack.strategy=random",
    )
    idf = ["attack=partial", "attack.terms=4", "attack.strategy=idf"]
    out += sweep(
        folder / "overlap", "retriever=hybrid", seeds, *idf, "defense=overlap", "defense.tau=.40,.95"
    )
    out += sweep(folder / "mmr", "retriever=hybrid", seeds, "defense=mmr", "attack.budget=5")
    return out


def values(
    conditions, metric: str, *, split: str | None = None, tau: float | None = None, **config
) -> list[float]:
    """A metric of the conditions that fit, one per seed."""
    found: dict[int | None, float] = {}
    for c in conditions:
        settings = c["config"]
        if any(settings[k] != v for k, v in {"defense": "none", **config}.items()):
            continue
        if tau is not None and settings["defense_settings"]["overlap"]["tau"] != tau:
            continue
        retriever = settings["retriever_settings"]
        seed = retriever.get("lsa", retriever).get("seed")
        found[seed] = (c["splits"][split] if split else c)["metrics"][metric]
    assert len(found) == (1 if config["retriever"] == "bm25" else 5), sorted(map(str, found))
    return list(found.values())


CLEAN = {"attack": "clean"}
ISOLATED = {"attack": "payload", "scope": "isolated"}


@pytest.mark.parametrize(
    ("config", "metric", "value", "slack"),
    [
        (CLEAN, "nDCG@10", 0.662, 0.002),
        (CLEAN, "Recall@10", 0.781, 0.002),
        (CLEAN, "Evid", 0.800, 0.002),
        (CLEAN, "SafeR", 0.800, 0.002),
        (ISOLATED | {"budget": 5}, "nDCG@10", 0.255, 0.005),
        (ISOLATED | {"budget": 5}, "Recall@10", 0.718, 0.005),
        (ISOLATED | {"budget": 5}, "Evid", 0.7385, 0.0065),
        (ISOLATED | {"budget": 5}, "TargetExp", 1, 0),
        (ISOLATED | {"budget": 5}, "SafeR", 0, 0),
        (ISOLATED | {"budget": 5}, "PoisonCount", 5, 0),
        ({"scope": "multi"}, "nDCG@10", 0.192, 0.003),
        ({"scope": "multi"}, "Recall@10", 0.534, 0.003),
        ({"scope": "multi"}, "Evid", 0.557, 0.003),
        ({"scope": "multi"}, "TargetExp", 1, 0),
        ({"scope": "multi"}, "PoisonCount", 6.22, 0.02),
    ],
)
def test_bm25(scifact, config, metric, value, slack):
    (got,) = values(scifact, metric, retriever="bm25", **config)
    assert got == pytest.approx(value, abs=slack + 1e-9)


@pytest.mark.parametrize(
    ("config", "metric", "published", "low", "high"),
    [
        ({"retriever": "lsa"} | CLEAN, "nDCG@10", 0.295, 0.267, 0.293),
        ({"retriever": "lsa"} | CLEAN, "Recall@10", 0.442, 0.403, 0.447),
        ({"retriever": "lsa"} | CLEAN, "Evid", 0.453, 0.420, 0.463),
        ({"retriever": "lsa", "budget": 5} | ISOLATED, "nDCG@10", 0.119, 0.107, 0.120),
        ({"retriever": "lsa", "budget": 5} | ISOLATED, "Recall@10", 0.347, 0.304, 0.345),
        ({"retriever": "lsa", "budget": 5} | ISOLATED, "TargetExp", 1.0, 0.993, 1.0),
        ({"retriever": "lsa", "budget": 5} | ISOLATED, "Evid", 0.367, 0.327, 0.360),
        ({"retriever": "lsa", "budget": 5} | ISOLATED, "SafeR", 0, 0, 0.003),
        ({"retriever": "hybrid"} | CLEAN, "nDCG@10", 0.465, 0.454, 0.469),
        ({"retriever": "hybrid"} | CLEAN, "Recall@10", 0.649, 0.638, 0.659),
        ({"retriever": "hybrid"} | CLEAN, "Evid", 0.663, 0.657, 0.677),
        ({"retriever": "hybrid", "budget": 1} | ISOLATED, "nDCG@10", 0.328, 0.324, 0.336),
        ({"retriever": "hybrid", "budget": 1} | ISOLATED, "TargetExp", 1.0, 0.990, 0.997),
        ({"retriever": "hybrid", "budget": 1} | ISOLATED, "Evid", 0.647, 0.640, 0.663),
        ({"retriever": "hybrid", "budget": 1} | ISOLATED, "SafeR", 0, 0.003, 0.010),
        ({"retriever": "hybrid", "budget": 3} | ISOLATED, "nDCG@10", 0.232, 0.229, 0.236),
        ({"retriever": "hybrid", "budget": 3} | ISOLATED, "Evid", 0.593, 0.583, 0.613),
        ({"retriever": "hybrid", "budget": 5} | ISOLATED, "nDCG@10", 0.183, 0.182, 0.185),
        ({"retriever": "hybrid", "budget": 5} | ISOLATED, "Recall@10", 0.530, 0.519, 0.528),
        ({"retriever": "hybrid", "budget": 5} | ISOLATED, "Evid", 0.547, 0.533, 0.547),
        ({"retriever": "hybrid", "defense": "overlap", "tau": 0.4} | CLEAN, "nDCG@10", 0.082, 0.080, 0.081),
        (
            {"retriever": "hybrid", "defense": "overlap", "tau": 0.95, "terms": 4},
            "TargetExp",
            0.780,
            0.740,
            0.773,
        ),
        (
            {"retriever": "hybrid", "defense": "overlap", "tau": 0.4, "terms": 4},
            "TargetExp",
            0.053,
            0.043,
            0.053,
        ),
        ({"retriever": "hybrid", "defense": "mmr", "budget": 5} | ISOLATED, "nDCG@10", 0.234, 0.220, 0.230),
        ({"retriever": "hybrid", "defense": "mmr", "budget": 5} | ISOLATED, "TargetExp", 1.0, 1.0, 1.0),
    ],
)
def test_bands_over_seeds(scifact, config, metric, published, low, high):
    """Our band is the recorded one within .01, and widened by .01 it holds the published value."""
    got = values(scifact, metric, **config)
    assert min(got) == pytest.approx(low, abs=0.0105)
    assert max(got) == pytest.approx(high, abs=0.0105)
    assert min(got) - 0.0105 <= published <= max(got) + 0.0105


@pytest.mark.parametrize(
    ("config", "low", "high"),
    [({"retriever": "lsa"}, 4.88, 4.90), ({"retriever": "hybrid"}, 4.95, 4.97)],
)
def test_poison_counts(scifact, config, low, high):
    got = values(scifact, "PoisonCount", budget=5, **config, **ISOLATED)
    assert low - 0.02 <= min(got) <= max(got) <= high + 0.02


@pytest.mark.parametrize(
    ("terms", "coverage", "low", "high"), [(2, 0.198, 0.26, 0.40), (4, 0.396, 0.80, 0.92)]
)
def test_long_queries(scifact, terms, coverage, low, high):
    config = {"retriever": "hybrid", "attack": "partial", "terms": terms, "strategy": "random"}
    chosen = [c for c in scifact if all(c["config"][k] == v for k, v in config.items())]
    assert {c["splits"]["long"]["n_queries"] for c in chosen} == {160}
    assert values(scifact, "Coverage", split="long", **config) == [pytest.approx(coverage, abs=0.001)] * 5
    # Which terms are drawn is ours, not the paper's, and the draw alone moves these by .1 (seed=0..9).
    exposure = values(scifact, "TargetExp", split="long", **config)
    assert low <= min(exposure) <= max(exposure) <= high
