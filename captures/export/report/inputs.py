"""The inputs of a folder of tables, as its runs recorded them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from captures.export.markup import PARTS, Markup
from captures.export.report.scales import amount
from captures.meaning import words
from captures.tables.folder import FolderError, read_manifests
from captures.tables.manifest import Manifest
from captures.time_format import latency

_MOST_INPUTS = 12
_MOST_RUNS = 12
_MOST_FAULTS = 6


def inputs(folder: Path) -> list[Markup]:
    """Return what each run into the folder read and what it could not read; nothing if no run left a manifest."""
    try:
        runs = read_manifests(str(folder))
    except FolderError as error:
        return [PARTS.paragraph("odd", f"What was read is not known: {error}")]
    if not runs:
        return []
    earlier = len(runs) - _MOST_RUNS
    before = words.counted(earlier, "earlier run") if earlier > 0 else ""
    return [PARTS.inputs([_run(run) for run in runs[-_MOST_RUNS:]], before)]


def _run(run: Manifest) -> dict[str, Any]:
    facts = [
        f"{words.counted(len(run.inputs), 'file')}, {amount(sum(each.size for each in run.inputs), 'B')}",
        words.counted(packets, "packet") if (packets := run.summary.get("packets")) else "",
        f"in {latency(seconds * 1e9)}" if (seconds := run.summary.get("seconds")) else "",
        f"written {run.written} by kproxy {run.kproxy}",
    ]
    more = len(run.inputs) - _MOST_INPUTS
    return {
        "sentence": f"Run {run.run}: {words.listed(facts)}",
        "files": [(each.path, words.volume(each.size)) for each in run.inputs[:_MOST_INPUTS]],
        "more": words.counted(more, "more file") if more > 0 else "",
        "faults": list(_faults(run)),
        "notes": run.summary.get("notes", ()),
    }


def _faults(run: Manifest) -> Iterator[str]:
    """Yield sentences about what a run could not read, decode or find."""
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
