"""Help of the verbs that take settings, from the config folder's own words (Hydra is not imported)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stressrag.settings.places import GRID, MAIN, choices, groups, settings


def settings_help(
    verb: str,
    what: str,
    examples: Sequence[str],
    *,
    grid: bool = False,
    root: str = MAIN,
    only: Callable[[str], bool] = lambda key: True,
) -> str:
    """Groups with their choices, settings with their defaults (``only`` some), and examples."""
    lines = [
        what,
        "",
        f"usage: python -m stressrag {verb} [group=choice …] [setting=value …]",
        "",
        "examples:",
    ]
    lines += [f"  python -m stressrag {e}" for e in examples]
    lines += ["", "groups:"]
    names = [name for name in ([*groups(root), GRID] if grid else groups(root)) if only(name)]
    for group in names:
        lines.append(f"  {group}=")
        lines += [f"    {name:20} {text}" for name, text in choices(group).items()]
    lines += ["", "settings (default):"]
    for s in (s for s in settings(root) if only(s.key)):
        lines.append(f"  {s.key + '=' + s.default:44} {s.help}".rstrip())
    return "\n".join(lines)
