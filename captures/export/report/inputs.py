"""What was read into a folder of tables, as the runs that wrote them have noted it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from captures.export.group_html.markup import Markup, tag, together
from captures.export.report.scales import amount, duration
from captures.meaning import words
from captures.tables.folder import FolderError, Manifest, read_manifests

_MOST_INPUTS = 12
_MOST_RUNS = 12
_MOST_FAULTS = 6


def inputs(folder: Path) -> list[Markup]:
    """Return what the runs into a folder have read, and what they could not; nothing where none has left a note."""
    try:
        runs = read_manifests(str(folder))
    except FolderError as error:
        return [tag("p", f"What was read is not known: {error}", class_="odd")]
    if not runs:
        return []
    shown = runs[-_MOST_RUNS:]
    earlier = len(runs) - len(shown)
    before = (
        [tag("p", f"{words.counted(earlier, 'earlier run')} not shown.", class_="dim")] if earlier else []
    )
    return [tag("figure", tag("h3", "What was read"), *before, *[_run(run) for run in shown])]


def _run(run: Manifest) -> Markup:
    told = [
        f"{words.counted(len(run.inputs), 'file')}, {amount(sum(each.size for each in run.inputs), 'B')}",
        words.counted(packets, "packet") if (packets := run.summary.get("packets")) else "",
        f"in {duration(seconds * 1e9)}" if (seconds := run.summary.get("seconds")) else "",
        f"written {run.written} by kproxy {run.kproxy}",
    ]
    files = [
        tag("li", tag("code", each.path), f" {amount(each.size, 'B')}") for each in run.inputs[:_MOST_INPUTS]
    ]
    if len(run.inputs) > len(files):
        files.append(tag("li", f"and {words.counted(len(run.inputs) - len(files), 'more file')}"))
    return together(
        tag("p", f"Run {run.run}: {words.listed(told)}"),
        tag("ul", *files),
        *[tag("p", each, class_="odd") for each in _faults(run)],
        *[tag("p", each, class_="dim") for each in run.summary.get("notes", ())],
    )


def _faults(run: Manifest) -> Iterator[str]:
    """Yield what a run could not read, decode or find, in words."""
    summary = run.summary
    yield from _some(
        "Not read", [f"{each['path']}: {each['reason']}" for each in summary.get("unreadable", ())]
    )
    yield from _some("Damaged", summary.get("damage", ()))
    lost, undecoded = summary.get("lost_bytes", 0), summary.get("undecoded", 0)
    if lost:
        yield f"Lost: {amount(lost, 'B')} of TCP streams are not in the captures."
    if undecoded:
        yield f"Not decoded in whole: {words.counted(undecoded, 'exchange')}."


def _some(title: str, found: Sequence[str]) -> Iterator[str]:
    yield from (f"{title}: {each}" for each in found[:_MOST_FAULTS])
    if len(found) > _MOST_FAULTS:
        yield f"{title}: {len(found) - _MOST_FAULTS:,} more"
