"""Live capture: libpcap, the privilege, interfaces, whose processes can be named, and disk space for captured
packets."""

from __future__ import annotations

import ctypes
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dissectors.units import GIB
from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import system_command

_PCAP_PACKAGES = {"": "libpcap", "apt-get": "libpcap0.8", "zypper": "libpcap1"}
_SMALL_BUFFER = 1 << 20
_INIT = Path("/proc/1/fd")


def checks() -> Iterator[Check]:
    """Check what ``kproxy sniff`` needs."""
    yield library()
    yield privilege()
    yield tls_calls()
    yield processes()
    yield spool()


def library() -> Check:
    """Check for libpcap."""
    from captures.live.pcap import libpcap

    found = libpcap()
    if found is not None:
        tell = found.pcap_lib_version
        tell.restype = ctypes.c_char_p
        return Check("libpcap", State.OK, tell().decode(errors="replace").partition(" (")[0])
    command = system_command(_PCAP_PACKAGES)
    if sys.platform != "linux":
        return Check("libpcap", State.MISSING, "not found", "kproxy sniff cannot capture", command)
    about = "Capturing takes packet sockets instead: slower, and without capture filters"
    return Check("libpcap", State.LIMITED, "not found", about, command)


def privilege() -> Check:
    """Open an interface as ``kproxy sniff`` does, and close it again."""
    from captures.live.device import ANY, DeviceError, NotPermittedError, Settings
    from captures.live.devices import interfaces, open_device

    name = "capturing"
    try:
        names = [each.name for each in interfaces()]
        wanted = ANY if sys.platform == "linux" else names[0]
        open_device(Settings(wanted, promiscuous=False, buffer_size=_SMALL_BUFFER)).close()
    except NotPermittedError:
        about = "kproxy sniff needs CAP_NET_RAW" if sys.platform == "linux" else "kproxy sniff needs root"
        if sys.platform == "linux" and os.geteuid() == 0:
            about += ", which root does not have here: a container needs --cap-add NET_RAW"
            return Check(name, State.MISSING, "not permitted", about)
        about += "; docs/sniff.md has other ways"
        return Check(name, State.MISSING, "not permitted", about, sudo_command())
    except (DeviceError, IndexError) as error:
        return Check(
            name, State.MISSING, str(error) or "no interfaces", "kproxy sniff has nothing to capture on"
        )
    return Check(name, State.OK, f"permitted on {', '.join(each for each in names if each != ANY)}")


def sudo_command() -> str:
    """Return the command that captures with the privilege; it has the full path, which ``sudo`` may not find."""
    program = Path(sys.prefix) / "bin" / "kproxy"
    if os.access(program, os.X_OK):
        return shlex.join(["sudo", str(program), "sniff"])
    return shlex.join(["sudo", sys.executable, "-m", "kproxy", "sniff"])


def tls_calls() -> Check:
    """Set a probe at this process's own TLS library, as ``kproxy sniff --tls-of`` does at others'."""
    from captures.live.taps.device import bpftrace_path, obstacles, trial

    name = "TLS calls"
    wrong = obstacles() or trial()
    if not wrong:
        return Check(name, State.OK, f"{bpftrace_path()} sets probes")
    about = (
        "kproxy sniff --tls-of reads nothing; what else works with TLS: a key log (docs/tls.md), kproxy proxy, "
        "the broker's request log (docs/request-log.md)"
    )
    command = ""
    if sys.platform == "linux":
        command = sudo_command() if os.geteuid() else ""
        command = command if bpftrace_path() else system_command({"": "bpftrace"})
    return Check(name, State.MISSING, "; ".join(wrong), about, command)


def processes() -> Check:
    """Check whose processes can be named."""
    import psutil

    name = "process names"
    try:
        psutil.net_connections("tcp")
        if sys.platform == "linux":
            list(_INIT.iterdir())
    except (psutil.AccessDenied, OSError):
        about = "Local ends of other users' connections stay without a name"
        return Check(name, State.LIMITED, "your own processes", about, sudo_command())
    return Check(name, State.OK, "all processes")


def spool() -> Check:
    """Check whether there is room for packets that are kept until they are shown."""
    from captures.packets.spool import DEFAULT_SPOOL, spare_bytes, spool_directory

    name = "spool"
    directory = spool_directory()
    with suppress(OSError):
        spare = spare_bytes(directory)
        found = f"{max(spare, 0) / GIB:,.1f} GiB to spare in {directory}"
        if spare >= DEFAULT_SPOOL and os.access(directory, os.W_OK | os.X_OK):
            return Check(name, State.OK, found)
        about = f"Captures from pipes and interfaces may take {DEFAULT_SPOOL // GIB} GiB; the oldest packets go first"
        return Check(name, State.LIMITED, found, about, "export TMPDIR=DIR")
    return Check(
        name, State.MISSING, directory, "There is nowhere to keep what is captured", "export TMPDIR=DIR"
    )
