"""Parts of recordings: the connections of some clients or with one broker, after or before a time.

Packets are left out as if they had never been captured, including handshakes, FINs and acknowledgments.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.export.passes import CaptureReread
from captures.export.pcapng_writer import Packet, PcapngWriter
from tests.captures.analysis.groups.truth import FOLDER, SECOND


def cut(
    name: str,
    path: Path,
    *,
    clients: frozenset[str] | None = None,
    broker: str = "",
    since: float = 0.0,
    until: float = float("inf"),
) -> str:
    """Write a part of the recording ``NAME.pcap.zst``, and return its path.

    :param clients: keep only connections of these clients, by their client IDs
    :param broker: keep only connections with this broker, ``host:port``, as a capture on its host would; empty for all
    :param since: seconds since the epoch
    :param until: likewise
    """
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    kept = None if clients is None else _connections(capture, clients)
    if broker:
        every = range(len(capture.connections))
        kept = {connection for connection in every if capture.endpoints(connection)[1] == broker}
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        interface = -1
        for placed in CaptureReread(capture):
            if interface < 0:
                interface = writer.interface(placed.interfaces[0].link_type)
            block = placed.packets
            chosen = (block.time >= since * SECOND) & (block.time <= min(until, 1e10) * SECOND)
            for at in chosen.nonzero()[0].tolist():
                if kept is None or int(placed.stream[at]) >> 1 in kept:
                    wire = int(block.frame_wire[at])
                    writer.write_packets([Packet(interface, int(block.time[at]), placed.frame(at), wire, "")])
    assert writer.packets, "nothing is left"
    return str(path)


def brokers_of(name: str) -> list[str]:
    """Return the brokers of a recording, ``host:port``."""
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    return sorted({capture.endpoints(connection)[1] for connection in range(len(capture.connections))})


def _connections(capture: Capture, clients: frozenset[str]) -> set[int]:
    """Return the connections used by these clients only."""
    speakers: dict[int, set[str]] = defaultdict(set)
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        speakers[exchange.connection].add(exchange.client_id or "")
    return {connection for connection, names in speakers.items() if names - {""} and names - {""} <= clients}
