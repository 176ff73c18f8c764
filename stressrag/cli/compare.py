"""``compare``: finished runs against each other, query by query."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag compare RUN_A RUN_B [RUN_C …] [options]

Holds finished runs against the first one on the same queries. Conditions are paired when they share data
set, attack, budget, scope, targets, seed, k and grade; what is compared is their retriever, defense,
statistics or index. Says for each pair and metric the difference (other less baseline) with its interval, and
for metrics that are 0 or 1 McNemar's exact p and Holm's correction over all pairs; then lists the queries
that differ most.

options:
  --where key=value,…         only pairs of which one side has these settings
  --metrics NAME,…            which metrics (default: ranking quality, TargetExp, Evid, SafeR, PoisonCount)
  --queries N                 list so many queries for each pair (default 5; --json keeps them by metric)
  --json FILE                 write everything as JSON as well (replaces the file)
  --allow-different-content   compare shared query ids of collections that differ

examples:
  python -m stressrag compare runs/bm25 runs/hybrid
  python -m stressrag compare runs/plain runs/defended --where budget=5 --metrics TargetExp,SafeR
  python -m stressrag compare runs/may runs/june --allow-different-content --json change.json"""


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.cli.options import Options, filter_of, output_file

    options = Options("compare")
    options.add_argument("runs", nargs="*", metavar="RUN")
    for name in ("--metrics", "--json"):
        options.add_argument(name)
    options.add_argument("--where", action="append")
    options.add_argument("--queries", default="5")
    options.add_argument("--allow-different-content", action="store_true")
    args = options.read(argv)
    if len(args.runs) < 2:
        raise StressragError("compare needs two runs or more, such as: compare runs/one runs/other")
    if not (args.queries.isdecimal() and args.queries.isascii()):
        raise StressragError(f"compare: --queries {args.queries} is no number from 0 on")
    metrics = [m.strip() for m in args.metrics.split(",") if m.strip()] if args.metrics is not None else None
    out = output_file("compare", "--json", args.json)
    from stressrag.records.files import write_json
    from stressrag.report.compare import compare, comparison_table

    value = compare(
        *args.runs,
        where=filter_of(args.where),
        metrics=metrics,
        queries=int(args.queries),
        allow_different_content=args.allow_different_content,
    )
    if out:
        write_json(out, value, "choose another --json")
    print(comparison_table(value, int(args.queries)))
    if out:
        print(f"\nwritten: {args.json}")
    return 0
