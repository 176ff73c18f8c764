"""Charts as SVG, written by hand: lines, rows of marks with intervals, and stacked bars.

Colors are classes (``s0`` to ``s6``, Okabe and Ito's palette) that the page's style sheet fills for light,
dark and print; every series also has a marker shape and a dash of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

N_SERIES = 7
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "12 4", "4 2", "1 4")


@dataclass(frozen=True)
class Point:
    """A value with its interval, or without one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Mark:
    """One mark in a row."""

    series: int
    value: float
    low: float | None = None
    high: float | None = None


def marker(series: int, x: float, y: float, r: float = 4) -> str:
    """The shape of a series."""
    shapes = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>',
        f'<path d="M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z"/>',
        f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {2 * r}h{-2 * r - 2}z"/>',
        f'<path d="M{x:.1f} {y - r - 1:.1f}l{r + 1} {r + 1}l{-r - 1} {r + 1}l{-r - 1} {-r - 1}z"/>',
        f'<path d="M{x:.1f} {y + r + 1:.1f}l{r + 1} {-2 * r}h{-2 * r - 2}z"/>',
        f'<path class="open" d="M{x - r:.1f} {y - r:.1f}l{2 * r} {2 * r}m0 {-2 * r}l{-2 * r} {2 * r}"/>',
        f'<path class="open" d="M{x:.1f} {y - r - 1:.1f}v{2 * r + 2}m{-r - 1} {-r - 1}h{2 * r + 2}"/>',
    )
    return f'<g class="s{series}">{shapes[series]}</g>'


def swatch(series: int) -> str:
    """A series' line and marker for a legend."""
    dash = f' stroke-dasharray="{_DASHES[series]}"' if _DASHES[series] else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="swatch" viewBox="0 0 34 14" aria-hidden="true">'
        f'<path class="line s{series}" d="M1 7h32"{dash}/>{marker(series, 17, 7)}</svg>'
    )


def chart(ident: str, title: str, text: str, size: tuple[float, float], body: Sequence[str]) -> str:
    """A whole SVG with its text alternative."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {size[0]:g} {size[1]:g}" '
        f'aria-labelledby="{ident}-t {ident}-d"><title id="{ident}-t">{escape(title)}</title>'
        f'<desc id="{ident}-d">{escape(text)}</desc>{"".join(body)}</svg>'
    )


def label(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    """A line of text."""
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def lines(
    ident: str,
    title: str,
    ticks: Sequence[tuple[float, str]],
    series: Sequence[tuple[int, str, Sequence[Point]]],
    axes: tuple[str, str],
    top: float = 1.0,
) -> str:
    """Values from 0 to ``top`` over evenly spaced ticks, whiskers for the intervals."""
    w, h, left, bottom, upper = 360.0, 250.0, 44.0, 40.0, 24.0
    place = {x: left + (w - left - 12) * (i + 0.5) / len(ticks) for i, (x, _) in enumerate(ticks)}

    def y_of(value: float) -> float:
        return h - bottom - (h - bottom - upper) * max(0.0, min(1.0, value / top))

    body = [label(left, 14, title, "head")]
    for i in range(6):
        y = y_of(top * i / 5)
        body.append(f'<path class="grid" d="M{left} {y:.1f}H{w - 8}"/>')
        body.append(label(left - 5, y + 4, f"{top * i / 5:.1f}", "tick", "end"))
    body += [label(place[x], h - bottom + 15, t, "tick", "middle") for x, t in ticks]
    body.append(label((left + w) / 2, h - 6, axes[0], "axis", "middle"))
    body.append(
        f'<text class="axis" text-anchor="middle" transform="translate(11 {h / 2 - 8}) rotate(-90)">'
        f"{escape(axes[1])}</text>"
    )
    told = []
    for number, name, points in series:
        shift = (number - (len(series) - 1) / 2) * 3  # so that whiskers do not hide each other
        there = sorted(points, key=lambda p: p.x)
        path = "L".join(f"{place[p.x] + shift:.1f} {y_of(p.y):.1f}" for p in there)
        dash = f' stroke-dasharray="{_DASHES[number]}"' if _DASHES[number] else ""
        body.append(f'<path class="line s{number}" d="M{path}"{dash}/>')
        for p in there:
            x = place[p.x] + shift
            if p.low is not None and p.high is not None:
                body.append(
                    f'<path class="whisker s{number}" d="M{x:.1f} {y_of(p.low):.1f}V{y_of(p.high):.1f}"/>'
                )
            body.append(marker(number, x, y_of(p.y), 3.5))
        names = dict(ticks)
        told.append(f"{name}: " + ", ".join(f"{names[p.x]} → {p.y:.3f}" for p in there))
    return chart(ident, title, f"{axes[1]} by {axes[0]}. " + "; ".join(told) + ".", (w, h), body)


def rows(
    ident: str,
    title: str,
    data: Sequence[tuple[str, Sequence[Mark]]],
    axis: str,
    span: tuple[float, float],
    names: Sequence[str] = ("",),
) -> str:
    """A row per label with its marks; a line at zero where the span crosses it."""
    w, left, right, step, upper = 680.0, 290.0, 14.0, 20.0, 26.0
    h = upper + step * len(data) + 44
    low, high = span

    def x_of(value: float) -> float:
        return left + (w - left - right) * (value - low) / (high - low)

    body = [label(4, 14, title, "head")]
    foot = h - 40
    for i in range(6):
        at = low + (high - low) * i / 5
        body.append(f'<path class="grid" d="M{x_of(at):.1f} {upper - 4}V{foot:.1f}"/>')
        body.append(label(x_of(at), foot + 14, f"{at:.2f}".replace("-0.00", "0.00"), "tick", "middle"))
    if low < 0 < high:
        body.append(f'<path class="zero" d="M{x_of(0):.1f} {upper - 4}V{foot:.1f}"/>')
    body.append(label((left + w) / 2, h - 6, axis, "axis", "middle"))
    told = []
    for i, (name, marks) in enumerate(data):
        y = upper + step * (i + 0.5)
        body.append(label(left - 8, y + 4, _short(name), "tick", "end"))
        if len(marks) > 1:
            ends = [m.value for m in marks]
            body.append(f'<path class="grid" d="M{x_of(min(ends)):.1f} {y:.1f}H{x_of(max(ends)):.1f}"/>')
        for m in marks:
            if m.low is not None and m.high is not None:
                body.append(
                    f'<path class="whisker s{m.series}" d="M{x_of(m.low):.1f} {y:.1f}H{x_of(m.high):.1f}"/>'
                )
            body.append(marker(m.series, x_of(m.value), y))
        told.append(f"{name}: " + ", ".join(f"{names[m.series]} {m.value:.3f}".strip() for m in marks))
    return chart(ident, title, f"{axis}. " + "; ".join(told) + ".", (w, h), body)


def stacked(
    ident: str, title: str, data: Sequence[tuple[str, Sequence[float]]], axis: str, names: Sequence[str]
) -> str:
    """A bar per label, its parts told by color, hatching and a number."""
    w, left, right, step, upper = 680.0, 290.0, 24.0, 20.0, 26.0
    h, width = upper + step * len(data) + 44, w - left - right
    body = [_hatch(ident), label(4, 14, title, "head")]
    for i, (name, parts) in enumerate(data):
        y, x = upper + step * i + 2, left
        body.append(label(left - 8, y + 12, _short(name), "tick", "end"))
        for kind, part in enumerate(parts):
            size = width * part
            if part <= 0:
                continue
            area = f'x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{step - 4}"'
            body.append(f'<rect class="part f{kind}" {area}/>')
            if kind % 2:
                body.append(f'<rect fill="url(#{ident}-h)" {area}/>')
            if size > 30:
                body.append(label(x + size / 2, y + 12, f"{100 * part:.0f}%", f"in i{kind}", "middle"))
            x += size
    for i in range(6):
        at = left + (w - left - right) * i / 5
        body.append(label(at, h - 26, f"{20 * i}%", "tick", "middle"))
    body.append(label((left + w) / 2, h - 6, axis, "axis", "middle"))
    told = "; ".join(
        f"{name}: " + ", ".join(f"{n} {100 * p:.1f}%" for n, p in zip(names, parts, strict=True))
        for name, parts in data
    )
    return chart(ident, title, f"{axis}. {told}.", (w, h), body)


def part_swatch(kind: int, ident: str) -> str:
    """A part of stacked bars for a legend."""
    over = f'<rect fill="url(#{ident}-h)" x="1" y="1" width="20" height="12"/>' if kind % 2 else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="swatch" viewBox="0 0 34 14" aria-hidden="true">'
        f'{_hatch(ident)}<rect class="part f{kind}" x="1" y="1" width="20" height="12"/>{over}</svg>'
    )


def _hatch(ident: str) -> str:
    return (
        f'<defs><pattern id="{ident}-h" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern></defs>'
    )


def _short(text: str, most: int = 46) -> str:
    """A label cut in the middle: what tells two apart often stands at the end."""
    return text if len(text) <= most else f"{text[: most - 25]}…{text[-24:]}"


def frontier(
    ident: str,
    title: str,
    points: Sequence[tuple[float, float, bool, str, tuple[float, float]]],
    axes: tuple[str, str],
) -> str:
    """Exposure against clean quality; each point with its name and, where lists fall short, the shares."""
    w, h, left, bottom, upper = 360.0, 270.0, 44.0, 40.0, 24.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + (w - left - 20) * x, h - bottom - (h - bottom - upper) * y

    body = [label(left, 14, _short(title, 50), "head")]
    for i in range(6):
        x, y = place(i / 5, i / 5)
        body.append(f'<path class="grid" d="M{left} {y:.1f}H{w - 20}M{x:.1f} {upper}V{h - bottom}"/>')
        body.append(label(left - 5, y + 4, f"{i / 5:.1f}", "tick", "end"))
        body.append(label(x, h - bottom + 15, f"{i / 5:.1f}", "tick", "middle"))
    body.append(label((left + w) / 2, h - 6, axes[0], "axis", "middle"))
    body.append(
        f'<text class="axis" text-anchor="middle" transform="translate(11 {h / 2 - 8}) rotate(-90)">'
        f"{escape(axes[1])}</text>"
    )
    told, taken = [], list[tuple[float, float]]()
    for clean, exposure, pareto, name, short in sorted(points, key=lambda p: -p[1]):
        x, y = place(clean, exposure)
        body.append(f'<g class="{"" if pareto else "hollow"}">{marker(0 if pareto else 1, x, y)}</g>')
        lack = f" ({100 * short[0]:.0f}% / {100 * short[1]:.0f}%)" if any(short) else ""
        at = y - 7 if y > upper + 14 else y + 15
        while any(abs(at - ty) < 12 and abs(x - tx) < 170 for tx, ty in taken):
            at += 12
        taken.append((x, at))
        end = x > left + 0.6 * (w - left)
        body.append(
            label(x + (6 if not end else 4), at, _short(name + lack, 34), "tick", "end" if end else "start")
        )
        kind = "on the frontier" if pareto else "not on the frontier"
        told.append(f"{name}: clean {clean:.3f}, exposure {exposure:.3f}, {kind}{lack}")
    return chart(ident, title, f"{axes[1]} by {axes[0]}. " + "; ".join(told) + ".", (w, h), body)
