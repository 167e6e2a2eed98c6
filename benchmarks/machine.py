"""The circumstances of a measurement: the machine, versions of the compared programs, and the commit of kproxy."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from pathlib import Path

import psutil

from benchmarks.proxies import KROXYLICIOUS, MITMPROXY
from tests.lanes.broker import KAFKA
from tests.lanes.tools import CannotRun, need

ROOT = Path(__file__).parent.parent
GIB = 1 << 30

_COMMANDS = {
    "tshark": ("tshark", "--version"),
    "HAProxy": ("haproxy", "-v"),
    "socat": ("socat", "-V"),
    "tcpdump": ("tcpdump", "--version"),
    "Java": ("java", "-version"),
}
_PACKAGES = ("kio", "kafka-python", "construct", "textual", "pyspark")
#: downloaded by the benchmark itself, in the version that it names
_FETCHED = {
    "Kroxylicious": KROXYLICIOUS.rpartition(":")[2],
    "mitmproxy": MITMPROXY.rpartition("=")[2],
    "Apache Kafka": KAFKA,
}
_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")


def version_of(peer: str) -> str:
    """Return the version of a program that kproxy is compared with.

    :raises CannotRun: if it is not installed
    """
    if peer in _FETCHED:
        return _FETCHED[peer]
    if peer in _PACKAGES:
        try:
            return package_version(peer)
        except PackageNotFoundError:
            raise CannotRun(f"{peer} is not installed") from None
    command = _COMMANDS[peer]
    need(command[0])
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = _VERSION.search(done.stdout + done.stderr)
    return found[0] if found else "unknown"


def machine() -> dict[str, str]:
    """Return the properties of the machine on which figures depend, by name; none of them changes while measuring."""
    processor, virtual = _processor()
    made = {
        "processor": processor,
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{psutil.virtual_memory().total / GIB:.0f} GiB",
        "system": _system(),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "numpy": package_version("numpy"),
    }
    return made | ({"virtual machine": "yes"} if virtual else {})


def _processor() -> tuple[str, bool]:
    """Return the name of the processor, and whether it is virtual."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine(), False
    found = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())
    }
    name = found.get("model name") or platform.machine()
    if "cpu family" in found and "model" in found:
        name += f" (family {found['cpu family']}, model {found['model']})"
    return name, "hypervisor" in found.get("flags", "").split()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.platform(terse=True)


def commit() -> str:
    """Return the measured commit, with ``+`` if files differ from it; ``unknown`` outside a clone."""
    if shutil.which("git") is None:
        return "unknown"
    head = _git("rev-parse", "--short=12", "HEAD")
    changed = _git("status", "--porcelain", "--", ".", ":!docs")
    return f"{head}{'+' if changed else ''}" if head else "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""
