"""Writes ``docs/reference.md`` from the docstrings of what ``import stressrag`` offers."""

from __future__ import annotations

import inspect
from pathlib import Path

import stressrag


def reference() -> str:
    """The page: each public name with its signature and docstring."""
    out = [
        "# Reference",
        "",
        "What `import stressrag as sr` offers, from the docstrings (`python docs/make_reference.py`).",
        "",
    ]
    for name in sorted(stressrag.__all__, key=str.lower):
        thing = getattr(stressrag, name)
        out += [f"## `{name}{_signature(thing)}`", "", "```text", inspect.getdoc(thing) or "", "```", ""]
        if inspect.isclass(thing):
            for method, value in vars(thing).items():
                text = inspect.getdoc(value) if not method.startswith("_") and callable(value) else None
                if text:
                    out += [f"* `{method}{_signature(value)}`: {text.splitlines()[0]}"]
            out.append("")
    return "\n".join(out).rstrip() + "\n"


def _signature(thing: object) -> str:
    try:
        return str(inspect.signature(thing))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""


if __name__ == "__main__":
    Path(__file__).with_name("reference.md").write_text(reference(), "utf-8")
