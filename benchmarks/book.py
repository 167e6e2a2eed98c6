"""The performance book: selected benchmarks, stored with date and machine.

Each part is a benchmark that runs in its own process with ``--json``. Its entry holds the figures, or the reason why
there are none, and when, where, on which commit and with which versions of other programs it ran. Entries are stored in
``docs/performance.json``, from which :mod:`docs.tools.performance` makes the page. Measuring a part again replaces only
its own entry.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from benchmarks.machine import ROOT, commit, machine, version_of
from docs.tools import performance
from docs.tools.performance import Book, Entry
from tests.lanes.tools import CannotRun

_DIGITS = 5  # no benchmark has more significant digits


@dataclass(frozen=True)
class Part:
    """A benchmark in the book.

    :ivar whole: its arguments, with sizes chosen so that the whole book takes less than twenty minutes on two cores
    :ivar quick: arguments for a short trial run
    :ivar peers: programs that it compares with or needs
    """

    whole: tuple[str, ...]
    quick: tuple[str, ...]
    peers: tuple[str, ...] = ()


def _arguments(text: str) -> tuple[str, ...]:
    return tuple(text.split())


#: by the name of the module
PARTS = {
    "analyses": Part(
        _arguments("--rounds 2"),
        _arguments("--mb 5 --tiny-mb 2 --pipeline-mb 5 --cluster-mb 1 --rounds 1"),
        ("tshark",),
    ),
    "captures": Part(
        _arguments("--mb 300 --tiny-mb 60 --json-mb 30"),
        _arguments("--mb 5 --tiny-mb 2 --json-mb 2 --rounds 1"),
        ("tshark",),
    ),
    "decode": Part((), _arguments("--rounds 3"), ("kio", "kafka-python", "construct")),
    "proxy": Part(
        _arguments("--rounds 3"),
        _arguments("--rounds 1 --seconds 0.2 --only pingpong --only fetch"),
        ("HAProxy", "tcpdump", "socat", "Kroxylicious", "mitmproxy", "Apache Kafka", "Java"),
    ),
    "questions": Part(_arguments("--mb 200"), _arguments("--mb 5 --rounds 1")),
    "filters": Part((), _arguments("--rounds 1")),
    "columns": Part(_arguments("--mb 30"), _arguments("--mb 5")),
    "tui": Part(
        _arguments("open scroll follow memory peer"),
        _arguments("--exchanges 20000 open scroll memory peer"),
        ("textual",),
    ),
    "spark": Part(
        _arguments("--mb 300 --rounds 1"), _arguments("--mb 5 --rounds 1"), ("pyspark", "Java", "tshark")
    ),
}


# ---------------------------------------------------------------- measuring
def measure(names: Iterable[str], *, quick: bool, say: Callable[[str], None]) -> Iterator[tuple[str, Entry]]:
    """Measure parts one after the other.

    :param say: receives lines about the progress
    """
    wanted = list(names)
    for number, name in enumerate(wanted, 1):
        part = PARTS[name]
        command = ["-m", f"benchmarks.{name}", *(part.quick if quick else part.whole)]
        say(f"{number} of {len(wanted)}: python {' '.join(command)}")
        entry = _measured(command, part.peers, say)
        say(f"  {entry.get('cannot', 'done')}, {entry['seconds']:.0f} s")
        yield name, entry


def _measured(command: list[str], peers: Iterable[str], say: Callable[[str], None]) -> Entry:
    versions, missing = _versions(peers)
    entry: Entry = {
        "began": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": 0.0,
        "load": os.getloadavg()[0],
        "command": f"python {' '.join(command)}",
        "commit": commit(),
        "machine": machine(),
        "versions": versions,
    }
    begin = monotonic()
    printed, last, code = _run([sys.executable, *command, "--json"], say)
    entry["seconds"] = round(monotonic() - begin, 1)
    found = told(printed)
    missing |= {peer: without_places(why) for peer, why in found.get("missing", {}).items()}
    entry["versions"] = {peer: known for peer, known in versions.items() if peer not in missing}
    entry["missing"] = missing
    if found.get("figures"):
        return entry | {"figures": rounded(found["figures"]), "aims": rounded(found["aims"])}
    why = "; ".join(missing.values()) or without_places(last) or "it told nothing"
    return entry | {"cannot": f"{why} (exit code {code})" if code else why}


def _versions(peers: Iterable[str]) -> tuple[dict[str, str], dict[str, str]]:
    versions, missing = {}, {}
    for peer in peers:
        try:
            versions[peer] = version_of(peer)
        except CannotRun as why:
            missing[peer] = str(why)
    return versions, missing


def _run(command: list[str], say: Callable[[str], None]) -> tuple[str, str, int]:
    """Run to the end; return what was printed, the last line of errors, and the exit code."""
    last: deque[str] = deque(maxlen=1)
    with (
        tempfile.TemporaryFile("w+") as out,
        subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.PIPE, text=True) as process,
    ):
        assert process.stderr is not None
        try:
            for line in process.stderr:
                say(f"  {line.rstrip()}")
                if line.strip():
                    last.append(line.strip())
            code = process.wait()
        finally:
            if process.poll() is None:  # it stops its own brokers and proxies
                process.send_signal(signal.SIGINT)
        out.seek(0)
        return out.read(), "".join(last), code


def told(printed: str) -> dict[str, Any]:
    """Return the results that a benchmark printed; empty if it failed before that."""
    try:
        found = json.loads(printed)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def without_places(why: str) -> str:
    """Return the first line of a reason without paths and addresses, which differ between machines."""
    first = next(iter(why.strip().splitlines()), "")
    first = re.sub(r"\w+://\S+", "...", first)
    return re.sub(r"(?<![\w.])(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", first)


def rounded(value: Any) -> Any:
    """Return figures rounded to significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


# ---------------------------------------------------------------- keeping
def merged(kept: Book, found: Book) -> Book:
    """Return the book with the measured parts replaced, in the order of the page.

    A part that could not be measured keeps its previous figures.
    """
    new = {
        name: entry
        for name, entry in found.items()
        if "cannot" not in entry or "figures" not in kept.get(name, {})
    }
    both = kept | new
    return {name: both[name] for name in PARTS if name in both}


def write(found: Book) -> None:
    """Write parts to the documentation's files."""
    book = merged(performance.load(), found)
    performance.RESULTS.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
    performance.PAGE.write_text(performance.page(book))
