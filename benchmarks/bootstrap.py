"""The bootstrap as one matrix product against a plain loop over resamples.

Intervals of 200 columns over 300 queries from 10,000 resamples (percentile); the loop draws the same
number of resamples of the same columns, a NumPy mean at a time, on a sample of the resamples.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from data import seconds

from stressrag.stats.bootstrap import bootstrap

QUERIES, COLUMNS, RESAMPLES = 300, 200, 10_000
LOOPED = 200


def values() -> np.ndarray:
    """Scores between 0 and 1, most columns skewed."""
    return np.random.default_rng(5).beta(0.5, 1.5, (QUERIES, COLUMNS))


def loop(x: np.ndarray, resamples: int) -> np.ndarray:
    """A plain loop over resamples and columns, as one would first write it."""
    rng = np.random.default_rng(6)
    out = np.empty((resamples, x.shape[1]))
    for b in range(resamples):
        rows = rng.integers(0, len(x), len(x))
        for column in range(x.shape[1]):
            out[b, column] = x[rows, column].mean()
    return np.quantile(out, [0.025, 0.975], axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    x, ids = values(), [f"q{i}" for i in range(QUERIES)]
    made = bootstrap(x, ids)
    looped = loop(x, 1000)
    width = made.high - made.low
    disagreement = float(np.max(np.abs(looped - np.stack([made.low, made.high])) / width))
    ours = seconds(lambda: bootstrap(x, ids))
    bca = seconds(lambda: bootstrap(x, ids, method="bca"))
    theirs = seconds(lambda: loop(x, LOOPED)) * RESAMPLES / LOOPED
    result = {
        "seconds": ours,
        "seconds_bca": bca,
        "seconds_loop": theirs,
        "speed_ratio_loop": theirs / ours,
        "largest_disagreement_in_widths": disagreement,
    }
    if args.json:
        print(json.dumps(result))
        return
    print(f"{RESAMPLES:,} resamples x {QUERIES} queries x {COLUMNS} columns")
    print(f"ours, percentile   {ours:8.3f} s")
    print(f"ours, bca          {bca:8.3f} s")
    print(f"loop (from {LOOPED})    {theirs:8.1f} s, {theirs / ours:,.0f} times ours")
    print(f"largest disagreement of an end: {disagreement:.2f} of the interval's width (1,000 in the loop)")


if __name__ == "__main__":
    main()
