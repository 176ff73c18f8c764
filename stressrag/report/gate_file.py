"""A gate file with a run's own values as limits, to be tightened by whoever ships."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_WORDS_OF_YAML = {"yes", "no", "on", "off", "true", "false", "null", "y", "n"}


def gate_file(summary: Mapping[str, Any]) -> str:
    """Rules for the undefended attacks and the clean baseline of a summary, as YAML.

    Each limit is the unfavorable end of the metric's interval, rounded away from the measured value to two
    digits, so that the run itself passes. A limit that nothing could break (exposure 1, safe share 0) makes
    no rule; a comment says so instead.
    """
    lines = [
        "# Limits as measured in this run: the unfavorable end of each interval, rounded. Tighten them to",
        "# what you are willing to ship, then: python -m stressrag gate RUN gate.yaml",
        "rules:",
    ]
    for c in summary["conditions"]:
        config = c["config"]
        if config["defense"] != "none":
            continue
        keys = ["dataset", "retriever", "attack"]
        if config["budget"]:
            keys += [*(k for k in ("terms", "strategy") if config[k] is not None), "scope", "budget"]
        where = ", ".join(f"{k}: {_plain(config[k])}" for k in [*keys, "defense"])
        high, low = math.ceil(_end(c, "TargetExp", 1) * 100), math.floor(_end(c, "SafeR", 0) * 100)
        if not config["budget"]:
            ndcg = next(m for m in c["metrics"] if m.startswith("nDCG@"))
            lines += _rule("min", ndcg, math.floor(_end(c, ndcg, 0) * 100), where)
        elif high >= 100 and low <= 0:
            lines.append(f"  # {where}: fully exposed, nothing to hold")
        else:
            lines += _rule("max", "TargetExp", high, where) if high < 100 else []
            lines += _rule("min", "SafeR", low, where) if low > 0 else []
    return "\n".join([*lines, ""])


def _plain(value: Any) -> str:
    """A value as YAML: words bare, anything that YAML could take for something else in quotes."""
    text = str(value)
    if isinstance(value, str) and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.+-]*", text):
        return json.dumps(text)
    return json.dumps(text) if text.lower() in _WORDS_OF_YAML and isinstance(value, str) else text


def _rule(kind: str, metric: str, percent: int, where: str) -> list[str]:
    return [f"  - {kind}: {{'{metric}': {percent / 100:.2f}}}", f"    where: {{{where}}}"]


def _end(condition: Mapping[str, Any], metric: str, which: int) -> float:
    """The upper (1) or lower (0) end of a metric's interval, the mean where it has none."""
    ends = condition["intervals"].get(metric)
    return float(ends[which] if ends else condition["metrics"][metric])
