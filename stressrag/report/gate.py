"""Rules that a finished run has to keep: limits for its means, or for the ends of their intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from stressrag.errors import StressragError, nearest
from stressrag.records.folder import Run, open_run
from stressrag.report.attack_cost import METRICS, judged_cost
from stressrag.report.select import Where, as_where, check_keys, fits, select, words

SCHEMA = 1
_BOUNDS = ("max", "min")
_RULE_KEYS = (*_BOUNDS, "where")
_FILE_KEYS = ("rules", "use_interval")

Rules = str | Path | Sequence[Mapping[str, Any]]


def gate(
    run: Run | str | Path, rules: Rules, *, where: Where = None, use_interval: bool = False
) -> dict[str, Any]:
    """Hold a finished run to rules.

    Parameters
    ----------
    run : Run or path
        The run.
    rules : path or sequence of mapping
        A YAML file, or rules such as ``[{"max": {"TargetExp": 0.2}, "where": {"scope": "isolated"}}]``. A
        rule holds for every condition that its ``where`` selects, the clean and undefended ones that
        comparison added included. A value at the limit keeps it.
    where : str or mapping, optional
        A further filter, for all rules.
    use_interval : bool
        Judge by the unfavorable end of the interval (upper for ``max``, lower for ``min``) and not by the
        mean.

    Returns
    -------
    dict
        ``passed``; ``rules``: for each limit ``bound`` (max or min), ``metric``, ``limit``, ``where``,
        ``passed``, ``worst`` (the worst of its conditions) and ``conditions``: each one's ``condition``
        (id), ``value``, ``low``, ``high``, ``judged`` (what was held to the limit) and ``passed``.

    Raises
    ------
    StressragError
        When the run is not finished, a rule cannot be read, names an unknown metric or setting, selects no
        condition, or what it judges is undefined: none of these is a pass.
    """
    run = run if isinstance(run, Run) else open_run(run)
    if isinstance(rules, str | Path):
        rules, from_file = read_rules(rules)
        use_interval = use_interval or from_file
    extra = as_where(where)
    limits = _limits(rules, extra)
    conditions = run.summary["conditions"]
    # Every rule is checked before any is judged.
    judged = [
        _judge_cost(limit, run.summary, use_interval)
        if str(limit["metric"]) in METRICS
        else _judge(limit, conditions, use_interval)
        for limit in limits
    ]
    return {
        "schema": SCHEMA,
        "run": str(run.folder),
        "plan": run.plan_hash,
        "use_interval": use_interval,
        "passed": all(r["passed"] for r in judged),
        "rules": judged,
    }


# ---- rules ---------------------------------------------------------------------------------------


def read_rules(path: str | Path) -> tuple[list[Mapping[str, Any]], bool]:
    """The rules of a YAML file, and whether it asks for intervals.

    Raises
    ------
    StressragError
        With file and line where it is no YAML or says a key twice.
    """
    import yaml

    path = Path(path).expanduser()

    class Loader(yaml.SafeLoader):  # type: ignore[misc, unused-ignore]
        """Refuses a key that stands twice, of which YAML would drop the first: a rule would be lost."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    continue
                if key.value in seen:
                    at = key.start_mark.line + 1
                    raise StressragError(
                        f"{path}:{at}: {key.value} stands there twice; write a rule for each"
                    )
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        value = yaml.load(path.read_text("utf-8"), Loader)
    except FileNotFoundError as e:
        raise StressragError(f"no rules at {path}") from e
    except UnicodeDecodeError as e:
        raise StressragError(f"{path}: not UTF-8") from e
    except OSError as e:
        raise StressragError(f"{path}: {e.strerror or e}") from e
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None)
        at = f":{mark.line + 1}" if mark else ""
        problem = " ".join(str(getattr(e, "problem", None) or "unreadable").split())
        raise StressragError(f"{path}{at}: not YAML ({problem})") from e
    except (ValueError, LookupError, OverflowError, RecursionError) as e:  # dates, tags, depths
        raise StressragError(f"{path}: a value cannot be read ({str(e)[:80]})") from e
    if not isinstance(value, Mapping):
        raise StressragError(f"{path}: holds no rules, such as rules: [{{max: {{TargetExp: .2}}}}]")
    _check_words(value, _FILE_KEYS, str(path))
    rules, use_interval = value.get("rules"), value.get("use_interval", False)
    if not isinstance(use_interval, bool):
        raise StressragError(f"{path}: use_interval is true or false, not {use_interval!r}")
    if not isinstance(rules, list):
        raise StressragError(f"{path}: rules is a list, such as rules: [{{max: {{TargetExp: .2}}}}]")
    try:
        _limits(rules, {})
    except StressragError as e:
        raise StressragError(f"{path}: {e}") from e
    return rules, use_interval


def parse_limits(texts: Sequence[str], bound: str) -> dict[str, str]:
    """``METRIC=NUMBER`` words of ``--max`` or ``--min``.

    Raises
    ------
    StressragError
        When one is something else, or a metric stands there twice.
    """
    out: dict[str, str] = {}
    for text in texts:
        metric, equals, number = (x.strip() for x in text.rpartition("="))
        if not (metric and equals and number):
            raise StressragError(f"--{bound} {text!r} is no METRIC=NUMBER, such as TargetExp=.2")
        if metric in out:
            raise StressragError(f"--{bound} {metric} stands there twice; give one limit")
        out[metric] = number
    return out


def _limits(rules: Any, extra: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rules as single limits: ``bound``, ``metric``, ``limit``, ``where``."""
    if isinstance(rules, Mapping) or not isinstance(rules, Sequence) or not rules:
        raise StressragError("gate needs at least one rule, such as --max TargetExp=.2")
    out = []
    for number, rule in enumerate(rules, 1):
        here = f"rule {number}"
        if not isinstance(rule, Mapping):
            raise StressragError(f"{here}: {rule!r} is no rule, such as max: {{TargetExp: .2}}")
        _check_words(rule, _RULE_KEYS, here)
        try:
            where = as_where(rule.get("where"))
        except StressragError as e:
            raise StressragError(f"{here}: {e}") from e
        if twice := [key for key in where if key in extra]:
            raise StressragError(f"{here}: where: {twice[0]} is filtered by already; give it one value")
        found = [
            {
                "bound": bound,
                "metric": metric,
                "limit": _number(limit, here, metric),
                "where": {**extra, **where},
            }
            for bound in _BOUNDS
            for metric, limit in _metrics_of(rule, bound, here).items()
        ]
        if not found:
            raise StressragError(f"{here}: has neither max nor min, such as max: {{TargetExp: .2}}")
        out += found
    return out


def _check_words(value: Mapping[Any, Any], known: Sequence[str], here: str) -> None:
    for key in value:
        if key not in known:
            raise StressragError(f"{here}: no key {str(key)!r}; {nearest(str(key), known)}")


def _metrics_of(rule: Mapping[str, Any], bound: str, here: str) -> Mapping[Any, Any]:
    if bound not in rule:
        return {}
    value = rule[bound]
    if not isinstance(value, Mapping) or not value:
        raise StressragError(f"{here}: {bound} needs a metric and a number, such as {bound}: {{SafeR: .6}}")
    return value


def _number(value: Any, here: str, metric: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise StressragError(f"{here}: the limit of {metric} is {value!r}; give a number such as .2"[:300])
    return number


# ---- judging -------------------------------------------------------------------------------------


def _judge(
    limit: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]], use_interval: bool
) -> dict[str, Any]:
    """One limit against all conditions that it selects."""
    metric, bound = limit["metric"], limit["bound"]
    known = {m for c in conditions for m in c["metrics"]}
    if metric not in known:
        raise StressragError(
            f"{bound}: no metric {str(metric)!r}; {nearest(str(metric), {*known, *METRICS})}"
        )
    check_keys(conditions, limit["where"])
    rows = [_row(limit, c, use_interval) for c in select(conditions, limit["where"])]
    worst = (max if bound == "max" else min)(rows, key=lambda r: r["judged"])
    return {**limit, "passed": all(r["passed"] for r in rows), "worst": worst, "conditions": rows}


def _judge_cost(limit: Mapping[str, Any], summary: Mapping[str, Any], use_interval: bool) -> dict[str, Any]:
    """A limit for the cost of attacks, such as AttackCost50.terms, against every curve that it selects."""
    mark, axis = str(limit["metric"]).removeprefix("AttackCost").split(".")
    by_id = {c["id"]: c for c in summary["conditions"]}
    check_keys(summary["conditions"], limit["where"])
    rows = []
    for curve in summary["attack_costs"]:
        some = [by_id[name] for name in curve["conditions"]]
        if curve["axis"] != axis or not all(fits(c, limit["where"]) for c in some):
            continue
        cost = curve["cost"][mark]
        if use_interval and any(p["low"] is None for p in curve["curve"]):
            raise StressragError(
                f"{limit['bound']}: {limit['metric']} has no interval (resamples=0); judge by the mean"
            )
        judged = judged_cost(cost, limit["bound"], use_interval)
        passed = judged <= limit["limit"] if limit["bound"] == "max" else judged >= limit["limit"]
        reached = cost["low" if use_interval else "at_most"]
        if not passed and limit["bound"] == "min" and reached is None:  # more was not tried
            raise StressragError(
                f"min: {limit['metric']}: the run tried no more than {cost['more_than']} and none reaches "
                f"{mark}%; sweep attack.{axis} up to {limit['limit']:g} or more"
            )
        value = math.inf if cost["at_most"] is None else float(cost["at_most"])
        row = {"condition": some[0]["id"], "value": value, "low": cost["low"], "high": cost["high"]}
        rows.append({**row, "judged": judged, "passed": bool(passed)})
    if not rows:
        raise StressragError(
            f"{limit['bound']}: {limit['metric']} needs a run that sweeps attack.{axis} within what where "
            "selects; it has no such curve"
        )
    worst = (max if limit["bound"] == "max" else min)(rows, key=lambda r: r["judged"])
    return {**limit, "passed": all(r["passed"] for r in rows), "worst": worst, "conditions": rows}


def _row(limit: Mapping[str, Any], c: Mapping[str, Any], use_interval: bool) -> dict[str, Any]:
    metric, bound = limit["metric"], limit["bound"]
    value = c["metrics"].get(metric)
    low, high = c["intervals"].get(metric, (None, None))
    judged = value
    if value is None:
        hint = " (such as attack=optimal)" if metric.startswith("Cert") else ""
        raise StressragError(f"{bound}: {metric} is undefined in {c['id']}; leave that out with where{hint}")
    if use_interval:
        judged = high if bound == "max" else low
        if judged is None:
            raise StressragError(
                f"{bound}: {metric} has no interval in {c['id']}; leave that out with where "
                "(such as scope=isolated, without clean conditions), or judge by the mean"
            )
    passed = judged <= limit["limit"] if bound == "max" else judged >= limit["limit"]
    return {
        "condition": c["id"],
        "value": value,
        "low": low,
        "high": high,
        "judged": judged,
        "passed": bool(passed),
    }


# ---- for reading ---------------------------------------------------------------------------------


def gate_lines(value: Mapping[str, Any]) -> str:
    """The verdicts as they are printed: a line for each limit with the worst of its conditions."""
    rows = [
        [_verdict(r), _rule(r), _value(r["worst"], r["limit"]), r["worst"]["condition"], _count(r)]
        for r in value["rules"]
    ]
    widths = [max(len(r[i]) for r in rows) for i in range(4)]
    lines = ["  ".join([*(c.ljust(w) for c, w in zip(r, widths, strict=False)), r[4]]) for r in rows]
    return "\n".join([*lines, "", _summary(value)])


def gate_markdown(value: Mapping[str, Any]) -> str:
    """The verdicts as a GitHub-flavored Markdown table."""
    head = ("", "rule", "worst", "condition", "kept by")
    rows = [
        (_verdict(r), _rule(r), _value(r["worst"], r["limit"]), r["worst"]["condition"], _count(r))
        for r in value["rules"]
    ]
    lines = ["| " + " | ".join(_cell(c) for c in row) + " |" for row in (head, *rows)]
    lines.insert(1, "|" + " --- |" * len(head))
    title = f"## stressrag gate: {'PASS' if value['passed'] else 'FAIL'}"
    return "\n".join([title, "", _cell(f"Run {value['run']}. {_summary(value)}"), "", *lines, ""])


def gate_junit(value: Mapping[str, Any]) -> str:
    """The verdicts as JUnit XML: a test case for each limit and condition."""
    cases = [(r, c) for r in value["rules"] for c in r["conditions"]]
    counts = {"tests": str(len(cases)), "failures": str(sum(not c["passed"] for _, c in cases))}
    counts |= {"errors": "0", "skipped": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "stressrag gate", **counts})
    for rule, c in cases:
        about = {"classname": _legal(f"stressrag.gate.{Path(value['run']).name}"), "time": "0"}
        name = _legal(f"{_rule(rule)}: {c['condition']}")
        case = ElementTree.SubElement(suite, "testcase", {"name": name, **about})
        if not c["passed"]:
            what = "exceeds" if rule["bound"] == "max" else "is below"
            message = _legal(
                f"{rule['metric']} {_value(c, rule['limit'])} {what} {rule['limit']:g} in {c['condition']}"
            )
            ElementTree.SubElement(
                case, "failure", {"message": message, "type": rule["bound"]}
            ).text = message
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=False) + "\n"


def junit_error(message: str) -> str:
    """JUnit XML of a gate that could not be judged."""
    counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "stressrag gate", **counts})
    case = ElementTree.SubElement(suite, "testcase", {"name": "rules", "classname": "stressrag.gate"})
    ElementTree.SubElement(case, "error", {"message": _legal(message), "type": "error"}).text = _legal(
        message
    )
    ElementTree.indent(root)
    return ElementTree.tostring(root, "unicode", xml_declaration=False) + "\n"


def _verdict(row: Mapping[str, Any]) -> str:
    return "PASS" if row["passed"] else "FAIL"


def _rule(r: Mapping[str, Any]) -> str:
    where = f" where {words(r['where'])}" if r["where"] else ""
    return f"{r['bound']} {r['metric']}={r['limit']:g}{where}"


def _value(row: Mapping[str, Any], limit: float) -> str:
    """A mean with its interval, in full where rounding would hide on which side of the limit it lies."""
    low, high = ("more" if x is None else f"{x:.3f}" for x in (row["low"], row["high"]))
    ends = "" if row["low"] is None else f" [{low} {high}]"
    if math.isinf(row["value"]):
        return f"not reached{ends}"
    value = f"{row['value']:.3f}"
    near = abs(row["value"] - limit) < 0.0005 and row["value"] != limit
    return f"{row['value']!r}{ends}" if near else f"{value}{ends}"


def _count(r: Mapping[str, Any]) -> str:
    kept = sum(c["passed"] for c in r["conditions"])
    return f"{kept} of {len(r['conditions'])}"


def _summary(value: Mapping[str, Any]) -> str:
    failed = sum(not r["passed"] for r in value["rules"])
    by = "the unfavorable ends of intervals" if value["use_interval"] else "means"
    verdict = f"{failed} of {len(value['rules'])} rules fail" if failed else "All rules hold"
    return f"{verdict}, judged by {by}; shown is the worst condition of each."


def _cell(text: str) -> str:
    """A text that ends no table cell and starts no tag, code or emphasis."""
    return re.sub(r"([\\|*`])", r"\\\1", " ".join(text.split())).replace("<", "&lt;")


def _legal(text: str) -> str:
    """A text without the signs that XML 1.0 has no way to write."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)
