"""``gate``: a finished run held to rules, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence

from stressrag.errors import StressragError

_HELP = """usage: python -m stressrag gate RUN --max METRIC=NUMBER … --min METRIC=NUMBER … [options]
       python -m stressrag gate RUN RULES.yaml [options]

Exit code 0 when every rule holds, 1 when one fails, 2 when a rule cannot be judged (an unknown metric or
setting, no such condition, an undefined value). A rule holds for every condition that the filter selects,
clean and undefended ones included; a value at the limit keeps it.

options:
  --max METRIC=NUMBER   the metric is at most this (may be repeated)
  --min METRIC=NUMBER   the metric is at least this (may be repeated)
                        AttackCost10, 50 or 90 with .terms, .budget or .max_tokens: the least that exposes so
                        many percent of queries, in a run that sweeps it (--min AttackCost50.terms=3)
  --where key=value,…   only conditions with these settings (numbers are compared as numbers)
  --use-interval        judge by the unfavorable end of the 95% interval: upper for max, lower for min
  --junit FILE          write JUnit XML, a test case for each rule and condition (replaces the file)
  --markdown FILE       write a Markdown table (replaces the file)

RULES.yaml:
  use_interval: true
  rules:
    - max: {TargetExp: .2}
      where: {scope: isolated, budget: 5}
    - min: {SafeR: .6, nDCG@10: .5}

examples:
  python -m stressrag gate runs/nightly --max TargetExp=.2 --min SafeR=.6 --where scope=isolated,budget=5
  python -m stressrag gate runs/nightly gate.yaml --junit gate.xml --markdown gate.md"""


def main(argv: Sequence[str]) -> int:
    """The verb; returns the exit code."""
    if {"-h", "--help"} & set(argv):
        print(_HELP)
        return 0
    from stressrag.cli.options import Options, filter_of, output_file

    options = Options("gate")
    options.add_argument("words", nargs="*", metavar="RUN")
    options.add_argument("--max", action="append", default=[])
    options.add_argument("--min", action="append", default=[])
    options.add_argument("--where", action="append")
    options.add_argument("--use-interval", action="store_true")
    options.add_argument("--junit")
    options.add_argument("--markdown")
    args = options.read(argv)
    if not 1 <= len(args.words) <= 2:
        raise StressragError("gate needs one run, and rules as options or in one YAML file")
    if len(args.words) == 2 and (args.max or args.min):
        raise StressragError("gate: the rules stand in a file or in --max and --min; give one of both")
    junit = output_file("gate", "--junit", args.junit)
    table = output_file("gate", "--markdown", args.markdown)
    if junit and junit == table:
        raise StressragError("gate: --junit and --markdown name the same file; give two")
    from stressrag.records.files import write_text
    from stressrag.report.gate import (
        Rules,
        gate,
        gate_junit,
        gate_lines,
        gate_markdown,
        junit_error,
        parse_limits,
    )

    rules: Rules = args.words[1] if len(args.words) == 2 else []
    if not isinstance(rules, str) and (args.max or args.min):
        given = {"max": parse_limits(args.max, "max"), "min": parse_limits(args.min, "min")}
        rules = [{bound: limits for bound, limits in given.items() if limits}]
    try:
        value = gate(args.words[0], rules, where=filter_of(args.where), use_interval=args.use_interval)
    except StressragError as e:
        if junit and junit.exists():  # it would go on saying that all is well
            write_text(junit, junit_error(str(e)), "choose another file")
        raise
    for path, text in ((junit, gate_junit), (table, gate_markdown)):
        if path:
            write_text(path, text(value), "choose another file")
    print(gate_lines(value))
    return 0 if value["passed"] else 1
