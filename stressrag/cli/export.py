"""``export``: a finished run as TREC, CSV or LaTeX files."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag export RUN (--trec | --csv | --latex) [options]

  --trec    ID.run and ID.qrels for each condition; trec_eval -c and ir_measures give the summary's nDCG and
            Recall on them. Scores are k, k - 1, …, 1, so no ties are left. Queries without relevant documents
            are left out. White space, control signs and % in ids are percent-encoded. Needs the collection.
  --csv     conditions.csv, comparisons.csv and four_conditions.csv
  --latex   the same as tables for booktabs, with intervals

options:
  --out FOLDER        where to write (default RUN-FORMAT in the working directory); refused if it exists
  --overwrite         replace an earlier export
  --where key=value,… only conditions with these settings
  --dataset FOLDER    where the collection lies, if not where the run found it

examples:
  python -m stressrag export runs/nightly --trec --where scope=isolated
  ir_measures nightly-trec/ID.qrels nightly-trec/ID.run nDCG@10 R@10
  python -m stressrag export runs/nightly --latex --out paper/tables --overwrite"""


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.cli.options import Options, filter_of

    options = Options("export")
    options.add_argument("runs", nargs="*", metavar="RUN")
    formats = ("trec", "csv", "latex")
    for name in formats:
        options.add_argument(f"--{name}", action="store_true")
    for name in ("--out", "--dataset"):
        options.add_argument(name)
    options.add_argument("--where", action="append")
    options.add_argument("--overwrite", action="store_true")
    args = options.read(argv)
    asked = [name for name in formats if getattr(args, name)]
    if len(args.runs) != 1:
        raise StressragError("export needs one run, such as: export runs/one --csv")
    if len(asked) != 1:
        raise StressragError("export needs one of --trec, --csv and --latex")
    from stressrag.report.export import export

    folder = export(
        args.runs[0],
        asked[0],
        args.out,
        where=filter_of(args.where),
        dataset=args.dataset,
        overwrite=args.overwrite,
    )
    print(f"written: {folder}")
    return 0
