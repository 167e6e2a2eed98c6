"""How the page looks: light, dark, and on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1b2330; --dim: #5c6675; --line: #d8dde5; --tint: #f4f6f9;
  --stable: #b9e0c8; --idle: #e7efe9; --joining: #f5c76a; --syncing: #c0adf0; --revoking: #f3a684;
  --refusing: #e2675d; --silent: #c3c8d1; --band: rgba(66, 99, 176, .13); --mark: #2c55a5; --fail: #b3261e;
  --odd: #8a5a00; --on: #14301f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181f; --ink: #e4e8ee; --dim: #98a2b1; --line: #353d4a; --tint: #1c222b;
    --stable: #2f6a48; --idle: #2b3a33; --joining: #a87a1c; --syncing: #6a55a8; --revoking: #a85a38;
    --refusing: #b5433a; --silent: #4d5563; --band: rgba(120, 155, 235, .17); --mark: #86aaf5; --fail: #ff8a80;
    --odd: #e0b050; --on: #e9f5ee;
  }
}
* { box-sizing: border-box; }
html { font-size: 15px; }
body { margin: 0 auto; padding: 1.5rem 1.5rem 4rem; max-width: 90rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .3rem; border-top: 1px solid var(--line); padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
h4 { font-size: .95rem; margin: 0; font-weight: 600; }
p { margin: .2rem 0; max-width: 75rem; }
a { color: var(--mark); }
code, .id { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: .9em; }
.dim, dt, th { color: var(--dim); font-weight: 400; }
.odd { color: var(--odd); }
.trouble { color: var(--fail); }
.quiet { color: var(--dim); }
dl { display: grid; grid-template-columns: 7rem 1fr; gap: .1rem .8rem; margin: .3rem 0; }
dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: .8rem 0; overflow-x: auto; }
svg { display: block; width: 100%; min-width: 56rem; height: auto; margin-bottom: .4rem; break-inside: avoid; }
svg text { font: 10px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: var(--ink); }
svg .label { text-anchor: end; font-size: 11px; }
svg .time, svg .quiet { text-anchor: middle; fill: var(--dim); }
svg .has { fill: var(--on); pointer-events: none; }
svg .lane, svg .tick { stroke: var(--line); }
svg .tick { stroke-dasharray: 1 3; }
svg .band { fill: var(--band); }
svg .running { stroke: var(--fail); stroke-dasharray: 4 3; }
svg .marker { fill: var(--mark); }
svg .number { fill: var(--paper); text-anchor: middle; font-weight: 600; }
svg .what { fill: var(--dim); }
svg .stem { stroke: var(--mark); opacity: .6; }
svg .fold { fill: var(--paper); opacity: .85; }
svg .foldedge { stroke: var(--dim); stroke-dasharray: 2 3; fill: none; }
svg .coordinator { stroke: var(--fail); stroke-dasharray: 6 3; stroke-width: 1.5; }
.stable { fill: var(--stable); background: var(--stable); }
.idle { fill: var(--idle); background: var(--idle); stroke: var(--line); }
.joining { fill: var(--joining); background: var(--joining); }
.syncing { fill: var(--syncing); background: var(--syncing); }
.revoking { fill: var(--revoking); background: var(--revoking); }
.refusing { fill: var(--refusing); background: var(--refusing); }
.silent { fill: var(--silent); background: var(--silent); }
svg .silent { stroke: var(--dim); stroke-dasharray: 2 2; }
.cause { fill: var(--ink); color: var(--ink); stroke: var(--paper); stroke-width: 1; }
.fail { stroke: var(--fail); color: var(--fail); stroke-width: 2.2; fill: none; }
.legend { color: var(--dim); font-size: .85rem; }
.key { display: inline-block; margin-right: 1.2rem; white-space: nowrap; }
.swatch { display: inline-block; width: 1.3em; height: .8em; border-radius: 2px; }
.swatch.band { background: var(--band); outline: 1px solid var(--line); }
article, section { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0; }
article { break-inside: avoid; }
article:target, tr:target { border-color: var(--mark); background: var(--tint); }
article.odd { border-color: var(--odd); color: inherit; }
article.trouble, section.trouble { border-color: var(--fail); color: inherit; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; }
th, td { text-align: left; padding: .2rem .9rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.right, th.right { text-align: right; }
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --dim: #444; --line: #bbb; --tint: #fff; --stable: #b9e0c8;
    --idle: #e7efe9; --joining: #f5c76a; --syncing: #c0adf0; --revoking: #f3a684; --refusing: #e2675d;
    --silent: #c3c8d1; --band: rgba(66, 99, 176, .13); --mark: #2c55a5; --fail: #b3261e; --odd: #6d4700; --on: #000; }
  html { font-size: 10px; }
  body { padding: 0; max-width: none; print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, .wide { overflow: visible; }
  svg { min-width: 0; }
  th, td { padding-right: .5rem; overflow-wrap: anywhere; }
  details::details-content { content-visibility: visible; block-size: auto; }
  a { text-decoration: none; color: inherit; }
  h2, h3 { break-after: avoid; }
  tr { break-inside: avoid; }
}
"""
