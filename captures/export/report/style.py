"""How a report looks: the look of pages with groups, and what pictures of amounts need besides.

The seven colours of series are Paul Tol's bright scheme, which can be told apart with any colour vision; the shades of
heat maps go from light to dark in steps of lightness (dark to light on a dark page).
"""

from captures.export.group_html.style import STYLE as PAGE

_LIGHT = """--c0: #4477aa; --c1: #ee6677; --c2: #228833; --c3: #ccbb44; --c4: #66ccee; --c5: #aa3377;
    --c6: #7f7f7f; --rest: #c4c8cf; --h0: #e3edf7; --h1: #c6dbef; --h2: #9ecae1; --h3: #6baed6; --h4: #3f8fc5;
    --h5: #1f68a9; --h6: #08306b; --hon: #ffffff; --hoff: #14304f; --offer: #eceff3; --high: #b3261e;
    --medium: #a85b00; --low: #2c55a5; --info: #5c6675; --sev: #ffffff;"""
_DARK = """--c0: #5f94c9; --c1: #f07f8e; --c2: #4aa65a; --c3: #cdbd52; --c4: #66ccee; --c5: #cf6aa4;
    --c6: #9a9fa8; --rest: #565d69; --h0: #21405f; --h1: #27557f; --h2: #2f6ea3; --h3: #3f88c2; --h4: #62a3d8;
    --h5: #93c5ea; --h6: #d3eaff; --hon: #0b1726; --hoff: #ffffff; --offer: #2b3340; --high: #ff8a80;
    --medium: #f0b060; --low: #86aaf5; --info: #98a2b1; --sev: #14181f;"""

_SERIES = "\n".join(
    f".c{at} {{ fill: var(--c{at}); background: var(--c{at}); }} svg .line.c{at} {{ stroke: var(--c{at}); }}"
    for at in range(7)
)
_HEATS = "\n".join(
    f".heat{at} {{ fill: var(--h{at}); background: var(--h{at}); }}"
    f" svg .on{at} {{ fill: var({'--hon' if at > 3 else '--hoff'}); }}"
    for at in range(7)
)

STYLE = f"""{PAGE}
:root {{ {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
{_SERIES}
{_HEATS}
.rest {{ fill: var(--rest); background: var(--rest); }}
.offer {{ fill: var(--offer); background: var(--offer); stroke: var(--line); }}
.running {{ fill-opacity: .45; stroke: var(--ink); stroke-dasharray: 3 2; }}
.swatch.running {{ background: none; outline: 1px dashed var(--ink); }}
svg .line {{ fill: none; stroke-linejoin: round; stroke-linecap: round; }}
svg .grid {{ stroke: var(--line); }}
svg .edge {{ stroke: var(--dim); }}
svg .scale {{ text-anchor: end; fill: var(--dim); }}
svg .hover {{ fill: transparent; }}
svg .hover:hover {{ fill: var(--ink); fill-opacity: .08; }}
svg .on {{ text-anchor: middle; font-size: 9px; pointer-events: none; }}
.swatch {{ vertical-align: -.05em; }}
.pair {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(38rem, 100%), 1fr)); gap: 0 2rem; }}
nav {{ margin: .8rem 0; }}
nav a {{ display: inline-block; margin-right: 1.1rem; }}
figure {{ margin: .6rem 0 1.6rem; }}
figure h3 {{ margin-top: .9rem; }}
figure > p.dim {{ font-size: .88rem; margin-bottom: .5rem; }}
ul {{ margin: .3rem 0; padding-left: 1.3rem; }}
td.right {{ font-variant-numeric: tabular-nums; white-space: nowrap; }}
td {{ overflow-wrap: break-word; }}
.pair .bar {{ width: 5.5rem; }}
.nowrap {{ white-space: nowrap; }}
.bar {{ display: inline-block; width: 9rem; height: .75em; background: var(--tint); border-radius: 2px; }}
.fill {{ display: block; height: 100%; border-radius: 2px; min-width: 1px; }}
.severity {{ display: inline-block; padding: 0 .5em; border-radius: .7em; font-size: .82em; font-weight: 600;
  color: var(--sev); background: var(--info); }}
.severity.high {{ background: var(--high); }}
.severity.medium {{ background: var(--medium); }}
.severity.low {{ background: var(--low); }}
.counts .severity {{ margin-right: .6rem; }}
article.finding {{ border-left-color: var(--info); }}
article.finding.high {{ border-left-color: var(--high); }}
article.finding.medium {{ border-left-color: var(--medium); }}
article.finding.low {{ border-left-color: var(--low); }}
details.sql {{ margin: .4rem 0 0; position: relative; font-size: .85rem; }}
details.sql summary {{ color: var(--dim); cursor: pointer; width: max-content; }}
details.sql pre {{ margin: .3rem 0; padding: .6rem .8rem; overflow-x: auto; background: var(--tint);
  border: 1px solid var(--line); border-radius: 4px; }}
.copy {{ position: absolute; right: .5rem; top: 1.9rem; font: inherit; color: var(--ink);
  background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: .1rem .6rem;
  cursor: pointer; }}
@media print {{
  :root {{ {_LIGHT} }}
  figure {{ break-inside: avoid-page; }}
  nav, .copy, figure details.sql {{ display: none; }}
  details.sql pre {{ white-space: pre-wrap; }}
}}
"""
