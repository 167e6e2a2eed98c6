"""The tables of docs/security.md: the cost of hostile files and clients. Made from ``hostile.json`` alone.

``python -m tests.lanes.hostile --write`` (``gate``), ``python -m tests.lanes.hostile.beside --write`` (``readers``) and
``python -m tests.lanes.hostile.live --write`` (``live``) write that file, with date, machine and commit. Each replaces
its own part. Figures of files that were not measured again stay, with their commit and processor, if they were measured
in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent
RESULTS = DOCS / "hostile.json"
PAGE = "security.md"

#: ``gate``, ``readers`` and ``live``, each with ``began``, ``commit``, ``machine`` and its figures
Book = dict[str, Any]

_MIB = 1 << 20
_MB = 1_000_000
_OF_A_RUN = {"began", "load", "commit", "machine", "files"}
"""What may differ between two runs of a lane whose figures stand in one table."""


def load() -> Book:
    """Return the content of the file."""
    book: Book = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return book


def write(part: str, entry: Mapping[str, Any]) -> None:
    """Replace a part in the file."""
    book, new = load(), dict(entry)
    if "files" in new:
        before = book.get(part, {})
        alike = all(before.get(name) == new[name] for name in new.keys() - _OF_A_RUN)
        kept = _measured_files(before) if alike else {}
        new["files"] = dict(sorted((kept | _measured_files(new)).items()))
    RESULTS.write_text(
        json.dumps(dict(sorted((book | {part: new}).items())), indent=1, ensure_ascii=False) + "\n"
    )


def _measured_files(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files measured in a run, each with its commit and processor."""
    run = {"commit": entry["commit"], "processor": entry["machine"]["processor"]} if entry else {}
    return {name: run | file for name, file in entry.get("files", {}).items()}


def tables(book: Book) -> dict[str, str]:
    """Return the tables of the page, by the names of their markers."""
    parts = {"readers": _readers, "gate": _gate, "live": _live}
    return {
        name: "\n\n".join(told(book[name])) if name in book else "Not measured yet."
        for name, told in parts.items()
    }


def _readers(entry: Mapping[str, Any]) -> Iterator[str]:
    patience = entry["patience"]
    yield (
        f"{_measured(entry)} Both programs print the table of `kproxy read`, tshark {entry['tshark']} with "
        f"`-T fields`; both are ended after {patience} s."
    )
    head = ("file", "attacks by", "MB", "kproxy: s, MiB", "tshark: s, MiB")
    yield _table(
        head,
        (
            (
                f"`{name}`",
                file["about"],
                f"{file['bytes'] / _MB:,.1f}" if file["bytes"] >= _MB / 10 else f"{file['bytes'] / _MB:.4f}",
                _took(file["kproxy"]),
                _took(file["tshark"]),
            )
            for name, file in entry["files"].items()
        ),
    )


def _gate(entry: Mapping[str, Any]) -> Iterator[str]:
    files, bounds = entry["files"], entry["bounds"]
    failed = [(f"`{name}`", *each) for name, file in files.items() for each in file["failed"]]
    size = "in full size" if entry["scale"] == 1 else f"made at {entry['scale']:g} of their size"
    runs = entry["commands"] * len(files)
    yield (
        f"{_measured(entry)} {len(files)} files {size}, {entry['commands']} commands on each: {runs:,} runs, "
        f"each limited to {bounds['seconds']} s of processor time and {bounds['memory'] // _MIB:,} MiB. "
        f"{len(failed) or 'None'} of them failed."
    )
    yield _table(
        ("file", "slowest command, s", "largest command, MiB"),
        (
            (
                f"`{name}`",
                f"{file['slowest'][0]:.1f} ({file['slowest'][1]})",
                f"{file['largest'][0] / _MIB:,.0f} ({file['largest'][1]})",
            )
            for name, file in files.items()
        ),
    )
    if failed:
        yield "These runs failed:"
        yield _table(("file", "command", "how"), failed)


def _took(took: Mapping[str, Any]) -> str:
    if took["code"] < 0 or took["code"] > 127:
        return f"ended after {took['seconds']:.0f} s, {took['memory'] / _MIB:,.0f}"
    return f"{took['seconds']:.2f}, {took['memory'] / _MIB:,.0f}"


def _live(entry: Mapping[str, Any]) -> Iterator[str]:
    yield f"{_measured(entry)} Each attack runs against its own proxy, which does not record."
    head = (
        "attack",
        "by",
        "others waited, ms",
        "of which without the proxy",
        "forwarding process, MiB",
        "ports",
    )
    yield _table(
        head,
        (
            (
                each["name"],
                each["about"],
                f"{each['waited'] * 1000:,.0f}",
                f"{each['without'] * 1000:,.0f}",
                f"{each['memory']:,}",
                f"{each['ports']:,}",
            )
            for each in entry["attacks"]
        ),
    )


def _measured(entry: Mapping[str, Any]) -> str:
    machine = entry["machine"]
    files = _measured_files(entry).values() or [
        {"commit": entry["commit"], "processor": machine["processor"]}
    ]
    processors = " and ".join(dict.fromkeys(each["processor"] for each in files))
    place = f"{machine['cores']} cores of {processors}, Python {machine['Python'].split()[-1]}"
    code = " and ".join(f"`{each}`" for each in dict.fromkeys(each["commit"] for each in files))
    return (
        f"Measured {entry['began'][:10]} of commit {code} by `{entry['command']}`, on {place}; load when "
        f"it began: {entry['load']:.1f}."
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([each.replace("|", "\\|") for each in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
