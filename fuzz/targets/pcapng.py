"""pcapng files: the whole input is the file.

The invariants are those of pcap files (:mod:`fuzz.targets.pcap`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from fuzz.targets import framing, pcap
from fuzz.targets.packets import sample
from tests.captures.packets.kit import T0, block, enhanced, interface, option, pcapng_of, section

LONGEST = 8192

run, every, mutate = pcap.run, pcap.every, framing.pcapng


def several(inputs: Sequence[bytes]) -> None:
    """Read files joined as sections; those that cannot be joined are read alone."""
    pcap.several(inputs, framing.join_pcapng)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield files with every supported block and option, of both byte orders, and with several sections."""
    frames = pcap.connection()
    for order, name in (("<", "little-endian"), (">", "big-endian")):
        packets = b"".join(enhanced(frame, number, order=order) for number, frame in enumerate(frames))
        yield name, section(order) + interface(order=order) + packets
    nano = interface(1, option(9, b"\x09"), option(14, struct.pack("<q", 5)), option(2, b"eth0"))
    noted = b"".join(enhanced(frame, T0 + n, 0, option(1, b"a comment")) for n, frame in enumerate(frames))
    yield "comments", section() + nano + noted
    simple = b"".join(block(3, struct.pack("<I", len(frame)) + frame) for frame in frames)
    yield "simple", section() + interface(snaplen=96) + simple
    old = b"".join(
        block(2, struct.pack("<HHIIII", 0, 0, 0, number, len(frame), len(frame)) + frame)
        for number, frame in enumerate(frames)
    )
    yield "old", section() + interface() + old
    names = block(4, struct.pack("<HH", 1, 9) + b"\x0a\0\0\2broker\0\0" + b"\0\0\0\0")
    counted = block(5, struct.pack("<III", 0, 0, 1) + option(5, struct.pack("<Q", 7)) + option(0, b""))
    custom = block(0x0BAD, struct.pack("<I", 32473) + b"data")
    yield "blocks", section() + interface() + names + custom + enhanced(frames[0], 1) + counted
    both = section() + interface() + enhanced(frames[0], 1) + section(">") + interface(101, order=">")
    yield "sections", both + enhanced(frames[1][14:], 2, order=">")
    layers = list(pcap.link_layers())
    many = b"".join(interface(link_type) for _, _, link_type in layers)
    each = b"".join(enhanced(frames_[3 % len(frames_)], n, n) for n, (_, frames_, _) in enumerate(layers))
    yield "interfaces", section() + many + each
    secrets = b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"11" * 48 + b"\n"
    yield "secrets", pcapng_of(sample(1500), secrets)
    yield "sample", pcapng_of(sample(4000), b"")
