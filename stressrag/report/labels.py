"""Names for conditions in a report: what tells them apart, in words; and numbers as a reader wants them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from stressrag.report.cells import SETTINGS, differing, flat, p_text
from stressrag.report.visible import visible

Config = Mapping[str, Any]


class Labels:
    """Labels of the conditions of a summary.

    Parameters
    ----------
    summary : mapping
        As in ``summary.json``.
    """

    def __init__(self, summary: Mapping[str, Any]):
        self.configs: dict[str, Config] = {c["id"]: c["config"] for c in summary["conditions"]}
        configs = list(self.configs.values())
        self.vary = [s for s in SETTINGS if len({str(c[s]) for c in configs}) > 1]
        self.deep = differing(configs)

    def of(self, condition: str, without: Collection[str] = ()) -> str:
        """The label of a condition, some settings left out."""
        config = self.configs[condition]
        shown = [s for s in SETTINGS if (s in self.vary or s == "attack") and s not in without]
        parts = [_part(s, config) for s in shown]
        if "defense" not in without:
            parts += self._deep(config)
        return visible(" ".join(p for p in parts if p) or "clean")

    def place(self, condition: str) -> str:
        """Collection, retriever and statistics of a condition: what one figure is drawn for."""
        config = self.configs[condition]
        parts = [config["dataset"], config["retriever"], *self._of_retriever(config)]
        return visible(", ".join(str(p) for p in parts))

    def defense(self, condition: str) -> str:
        """A defense with the settings that vary."""
        config = self.configs[condition]
        deep = self._deep(config, "defense") if config["defense"] != "none" else []
        return visible(" ".join([config["defense"], *deep]))

    def _of_retriever(self, config: Config) -> list[str]:
        return self._deep(config, "retriever")

    def _deep(self, config: Config, node: str = "") -> list[str]:
        values = flat(config, f"{node}_settings" if node else "")
        names = [n for n in self.deep if n in values]
        return [f"{n.rsplit('.', 1)[-1]} {values[n]}" for n in names if values.get(n)]


def _part(name: str, config: Config) -> str:
    value = config[name]
    if value is None or (name == "budget" and not value) or (name == "defense" and value == "none"):
        return ""
    forms = {"terms": f"{value} term{'s' * (value != 1)}", "budget": f"P={value}", "k": f"k={value}"}
    if name == "targets":
        return "" if value == "all" else f"targets {value}"
    return forms.get(name, str(value))


def same_but(config: Config, *names: str) -> str:
    """A key that conditions share which differ in some settings alone."""
    return json.dumps({k: v for k, v in config.items() if k not in names}, sort_keys=True)


def number(metric: str, value: float | None, *, sign: bool = False) -> str:
    """A value with the digits of its metric."""
    if value is None:
        return "–"
    digits = 2 if metric in ("PoisonCount", "FirstPoisonRank", "FirstEvidenceRank") else 3
    return f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"


def bracket(metric: str, ends: Sequence[float | None] | None) -> str:
    """An interval, or nothing where there is none."""
    if ends is None or ends[0] is None or ends[1] is None:
        return ""
    return f"[{number(metric, ends[0])}, {number(metric, ends[1])}]"


def with_interval(metric: str, value: float | None, ends: Sequence[float | None] | None) -> str:
    """A value and its interval in one cell."""
    return f"{number(metric, value)} {bracket(metric, ends)}".rstrip()


def percent(value: float | None) -> str:
    """A share in per cent."""
    return "–" if value is None else f"{100 * value:.1f}%"


def p_value(value: float | None) -> str:
    """A p-value; the smallest are not spelled out."""
    return "–" if value is None else p_text(value)
