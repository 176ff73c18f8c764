"""The style sheet of the HTML report: light, dark, print and phone; Okabe and Ito's colors."""

from __future__ import annotations

_LIGHT = "#0072B2 #D55E00 #009E73 #CC79A7 #56B4E9 #E69F00 #000000"
_DARK = "#56B4E9 #E69F00 #009E73 #CC79A7 #F0E442 #D55E00 #FFFFFF"


def _colors(values: str) -> str:
    return "".join(f"--s{i}:{c};" for i, c in enumerate(values.split()))


STYLE = (
    f":root{{color-scheme:light dark;--bg:#fff;--fg:#1b1b1b;--dim:#595959;--rule:#d0d0d0;--band:#f3f3f3;"
    f"--bad:#fbe9dd;--good:#e0f3ec;{_colors(_LIGHT)}}}"
    f"@media (prefers-color-scheme:dark){{:root{{--bg:#151719;--fg:#e8e8e8;--dim:#a8a8a8;--rule:#44484c;"
    f"--band:#1f2326;--bad:#43260f;--good:#0d3328;{_colors(_DARK)}}}}}"
    f"@media print{{:root{{--bg:#fff;--fg:#000;--dim:#444;--rule:#bbb;--band:#f3f3f3;--bad:#fbe9dd;"
    f"--good:#e0f3ec;{_colors(_LIGHT)}}}}}"
    + """
*{box-sizing:border-box}
body{margin:0 auto;max-width:1180px;padding:1rem;background:var(--bg);color:var(--fg);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.7rem}h2{font-size:1.35rem;border-bottom:2px solid var(--rule)}
h3{font-size:1.08rem;margin:1.6rem 0 .3rem}summary h3{display:inline}
a{color:var(--s0)}.note,footer,small{color:var(--dim);font-size:.9rem}
.words{background:var(--band);padding:.2rem 1.2rem 1rem;border-left:4px solid var(--s0)}
.words h3{margin-top:1rem}.words ul{margin:0;padding-left:1.2rem}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.84rem;font-variant-numeric:tabular-nums;margin:.4rem 0}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--rule);text-align:right;vertical-align:top;
white-space:nowrap}
th{background:var(--band)}th.w,td.w{text-align:left}
td.w:not(:first-child),.docs td.w{white-space:normal;min-width:9rem}
.docs{width:100%}.docs td.w:last-child{min-width:16rem}.id{font-family:ui-monospace,monospace;font-size:.92em}
tr.poison{background:var(--bad)}tr.relevant{background:var(--good)}
tr.poison td:nth-child(2),tr.relevant td:nth-child(2){font-weight:600}
details{border:1px solid var(--rule);padding:.4rem .8rem;margin:.5rem 0}summary{cursor:pointer}
summary small{display:block}
figure{margin:1.6rem 0}figcaption h3{margin:0}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(340px,100%),1fr));gap:1rem}
.panels .panel{max-width:480px}.wide .panel{min-width:600px;max-width:860px}
.legend{list-style:none;margin:.3rem 0;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;
font-size:.86rem}
svg{display:block;width:100%;height:auto}.swatch{display:inline-block;width:34px;height:14px;vertical-align:middle}
svg text{fill:var(--fg);font:11px system-ui,sans-serif}svg .head{font-weight:600;font-size:12px}
svg .tick,svg .axis{fill:var(--fg)}
svg .grid{stroke:var(--rule);fill:none}svg .zero{stroke:var(--fg);fill:none}
svg .line{fill:none;stroke-width:1.6}
svg .whisker{fill:none;stroke-width:1.2}svg .open{fill:none;stroke-width:2}
svg .hollow *{fill:var(--bg);stroke-width:1.6}svg .hatch{stroke:#000;stroke-width:1.6;opacity:.45}
svg .part{stroke:var(--bg)}.f0{fill:#009E73}.f1{fill:#E69F00}.f2{fill:#BBBBBB}.f3{fill:#D55E00}
svg .in{fill:#000;font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
"""
    + "".join(f"svg .s{i}{{stroke:var(--s{i})}}svg g.s{i}{{fill:var(--s{i})}}" for i in range(7))
    + """
@media (max-width:600px){body{padding:.6rem;font-size:15px}.words{padding:.1rem .7rem .7rem}}
@media print{body{max-width:none;font-size:10pt}.scroll{overflow:visible}figure,tr{break-inside:avoid}
details::details-content{content-visibility:visible;display:block;height:auto}th,td{white-space:normal}}
"""
)
