"""Recording the traffic of lanes with tcpdump."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lanes.tools import CannotRun, need, wait_for

#: in immediate mode tcpdump receives each packet at once; the last ones still need to be written
_SETTLE_S = 1.4
#: in immediate mode each packet takes as much buffer as the largest possible one; the default is full after eight
_BUFFER_KIB = "65536"


@contextmanager
def recorded(path: Path, *ports: int, interface: str = "lo", only: str = "") -> Iterator[None]:
    """Record ports of an interface to a pcap file during the block; of a bridge, the traffic of its own host.

    :param only: tcpdump filter in addition to the ports

    :raises CannotRun: without tcpdump, or without the privileges for it
    """
    need("tcpdump")
    wanted = " or ".join(f"tcp port {port}" for port in ports)
    if only:
        wanted = f"({wanted}) and {only}"
    command = [
        "tcpdump",
        "-i",
        interface,
        "-p",
        "-s0",
        "--immediate-mode",
        "-B",
        _BUFFER_KIB,
        "-U",
        "-w",
        str(path),
        wanted,
    ]
    with path.with_suffix(".tcpdump").open("w+b") as log:
        tcpdump = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for("tcpdump", lambda: _listening(tcpdump, log.name))
            yield
            time.sleep(_SETTLE_S)
        finally:
            tcpdump.terminate()
            tcpdump.wait()
    Path(log.name).unlink()


def _listening(tcpdump: subprocess.Popen[bytes], log: str) -> bool:
    said = Path(log).read_text(errors="replace")
    if tcpdump.poll() is not None:
        raise CannotRun(f"tcpdump ended, it needs root or CAP_NET_RAW: {said.strip()}")
    return "listening on" in said
