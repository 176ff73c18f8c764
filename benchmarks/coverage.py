"""How often each 95% interval holds the true value, by simulation.

Prints one row per situation and method: the share of simulated samples whose interval covers the truth, the
shares that miss it on either side, and the median width. ``--samples`` sets how many (2,000 by default, which
leaves a standard error of .005).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stressrag.stats.bootstrap import bootstrap
from stressrag.stats.proportions import clustered_wilson, paired_difference, wilson

Floats = NDArray[np.float64]
N = 300
BOOTSTRAPS = ("percentile", "bca", "studentized")


def binary(rate: float) -> Callable[[np.random.Generator, int], Floats]:
    return lambda rng, n: (rng.random((N, n)) < rate).astype(np.float64)


def loss(rng: np.random.Generator, n: int) -> Floats:
    """nDCG differences: two queries in three lose nothing, the others a Beta(1, 3) part of Beta(3, 2)."""
    hit = rng.random((N, n)) < 1 / 3
    return np.where(hit, -rng.beta(1, 3, (N, n)) * rng.beta(3, 2, (N, n)), 0.0)


LOSS = -(1 / 3) * 0.25 * 0.6


def small_loss(rng: np.random.Generator, n: int) -> Floats:
    """The same for 30 queries only."""
    return loss(rng, n)[:30]


def clustered(rate: float, spread: float) -> Callable[[np.random.Generator, int], Floats]:
    """Ten clusters of ten; a cluster's rate is Beta-distributed round ``rate``."""

    def sample(rng: np.random.Generator, n: int) -> Floats:
        rates = rng.beta(rate * spread, (1 - rate) * spread, (10, n))
        return (rng.random((10, 10, n)) < rates[:, None, :]).astype(np.float64).reshape(100, n)

    return sample


SITUATIONS: dict[str, tuple[Callable[[np.random.Generator, int], Floats], float, bool]] = {
    "rate .01, 300 queries": (binary(0.01), 0.01, False),
    "rate .05, 300 queries": (binary(0.05), 0.05, False),
    "rate .50, 300 queries": (binary(0.5), 0.5, False),
    "rate .99, 300 queries": (binary(0.99), 0.99, False),
    "nDCG loss, 300 queries": (loss, LOSS, False),
    "nDCG loss, 30 queries": (small_loss, LOSS, False),
    "rate .50, 10 clusters of 10": (clustered(0.5, 3), 0.5, True),
    "rate .10, 10 clusters of 10": (clustered(0.1, 3), 0.1, True),
}


def intervals(
    values: Floats, method: str, clusters: list[int] | None, n_resamples: int
) -> tuple[Floats, Floats]:
    """The two ends for each column."""
    if method == "wilson":
        ends = [wilson(float(k), len(values)) for k in values.sum(axis=0)]
        return np.array([e.low for e in ends]), np.array([e.high for e in ends])
    if method == "wilson-clustered":
        ends = [clustered_wilson(column, np.array(clusters)) for column in values.T]
        return np.array([e.low for e in ends]), np.array([e.high for e in ends])
    ids = [str(i) for i in range(len(values))]
    made = bootstrap(values, ids, clusters=clusters, method=method, n_resamples=n_resamples)
    least = min(0.0, float(np.floor(values.min())))  # what the mean cannot leave, as the toolkit cuts too
    return np.maximum(made.low, least), np.minimum(made.high, 1.0)


def row(situation: str, method: str, low: Floats, high: Floats, truth: float) -> dict[str, object]:
    slack = 1e-12
    return {
        "situation": situation,
        "method": method,
        "coverage": float(np.mean((low <= truth + slack) & (truth <= high + slack))),
        "above": float(np.mean(truth > high + slack)),
        "below": float(np.mean(truth < low - slack)),
        "width": float(np.median(high - low)),
    }


def differences(samples: int, n_resamples: int, rng: np.random.Generator) -> list[dict[str, object]]:
    """Paired differences of two rates over 300 queries, and over 40 with few that differ."""
    out = []
    for name, n, cells in (
        ("paired rates .60/.50, 300 queries", 300, (0.45, 0.15, 0.05, 0.35)),
        ("paired rates .04/.01, 300 queries", 300, (0.01, 0.03, 0.0, 0.96)),
    ):
        counts = rng.multinomial(n, cells, samples)
        truth = cells[1] - cells[2]
        ends = [paired_difference(*map(int, c)) for c in counts]
        low, high = np.array([e.low for e in ends]), np.array([e.high for e in ends])
        out.append(row(name, "newcombe", low, high, truth))
        parts = [np.repeat([0.0, 1.0, -1.0, 0.0], c) for c in counts]
        values = np.column_stack(parts)
        for method in BOOTSTRAPS[:2]:
            low, high = intervals(values, method, None, n_resamples)
            out.append(row(name, method, low, high, truth))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    start, rng = time.perf_counter(), np.random.default_rng(20)
    rows = []
    for name, (sample, truth, grouped) in SITUATIONS.items():
        values = sample(rng, args.samples)
        clusters = [i // 10 for i in range(100)] if grouped else None
        is_rate = name.startswith("rate")
        own = (["wilson"] if is_rate else []) + (["wilson-clustered"] if grouped else [])
        for method in (*BOOTSTRAPS, *own):
            low, high = intervals(values, method, clusters, args.resamples)
            label = "wilson, clusters ignored" if method == "wilson" and grouped else method
            rows.append(row(name, label, low, high, truth))
        if grouped:  # what one gets without looking at clusters
            low, high = intervals(values, "percentile", None, args.resamples)
            rows.append(row(name, "percentile, clusters ignored", low, high, truth))
    rows += differences(args.samples, args.resamples, rng)
    if args.json:
        print(json.dumps({"rows": rows, "seconds": time.perf_counter() - start}))
        return
    print(f"{'situation':<34} {'method':<29} coverage  above  below  width")
    for r in rows:
        print(
            f"{r['situation']:<34} {r['method']:<29} {r['coverage']:8.3f} {r['above']:6.3f} "
            f"{r['below']:6.3f} {r['width']:6.3f}"
        )


if __name__ == "__main__":
    main()
