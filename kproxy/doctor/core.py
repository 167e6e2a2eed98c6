"""The core: Python, the packages that kproxy always needs, and whether a capture is read, with any compression."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from time import perf_counter

from dissectors.codec import KNOWN_CODECS
from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import install_command, listed, own_version, requirements

_LEAST_PYTHON = (3, 11)
_TEXT = b"compressed and decompressed " * 64


def checks() -> Iterator[Check]:
    """Check what everything else depends on."""
    yield python()
    yield packages()
    yield from (reading(), codecs())


def python() -> Check:
    """Check the version of Python."""
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info < _LEAST_PYTHON:
        return Check("Python", State.BROKEN, found, "kproxy needs Python 3.11 or later")
    return Check("Python", State.OK, found)


def packages() -> Check:
    """Check the packages that are always needed."""
    needed = [each for each in requirements() if each.extra is None]
    if own_version() is None:
        about = "kproxy runs from its sources; what it needs is not known without its metadata"
        return Check("packages", State.LIMITED, "kproxy is not installed", about, install_command("-e", "."))
    wrong = [each for each in needed if not each.fits]
    if not wrong:
        return Check("packages", State.OK, f"kproxy {own_version()} and the {len(needed)} packages it needs")
    found = listed(f"{each.name} {each.installed or 'missing'} (needs {each.bounds})" for each in wrong)
    asked = [f"{each.name}{each.bounds}" for each in wrong]
    about = "Commands that need these will fail"
    return Check("packages", State.BROKEN, found, about, install_command(*asked))


def reading() -> Check:
    """Read the capture that comes with kproxy: packets, TCP, exchanges, decoding."""
    from captures.exchanges import ExchangeReader, open_capture
    from kproxy.text.summary import Tally

    name = "rebalance.pcap"
    tally = Tally()
    begin = perf_counter()
    with as_file(files("captures") / "samples" / name) as path:
        capture = open_capture([str(path)])
        capture.read()
        for exchange in ExchangeReader(capture):
            tally.add(exchange)
        clean = tally.clean(capture)
    found = f"the sample {name}, {tally.exchanges} exchanges in {perf_counter() - begin:.1f} s"
    if not clean:
        about = "All of the sample is known to decode, and here it does not"
        return Check("reading", State.BROKEN, found, about)
    return Check("reading", State.OK, found)


def codecs() -> Check:
    """Compress and decompress with each codec of record data."""
    from dissectors.records.codecs import compress, inflate

    known = [codec for codec in KNOWN_CODECS if codec]
    wrong = [codec for codec in known if inflate(codec, compress(codec, _TEXT)) != (_TEXT, None)]
    if wrong:
        found = f"{listed(each.label for each in wrong)} does not restore its input"
        return Check("codecs", State.BROKEN, found, "records compressed so cannot be read")
    return Check("codecs", State.OK, listed(each.label for each in known))
