"""A request log read as pcapng, from the bytes of the log on."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from captures.export.pcapng_writer import PcapngWriter
from captures.request_log.bodies import BodyError
from captures.request_log.entries import EntryError, entry_of
from captures.request_log.lines import Cut, Unwrapping
from captures.request_log.packets import RequestLogPackets

if TYPE_CHECKING:
    from captures.packets.feeds import Feed

INTERFACE = "kafka.request.logger"
"""Name of the interface that packets of a request log come from."""

_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 28


class RequestLogFeed:
    """The pcapng that a request log becomes.

    :param log: its bytes
    :param live: whether it still grows, so that nothing is waited for
    """

    def __init__(self, log: Feed, *, live: bool) -> None:
        self._log = log
        self._live = live
        self._packets = RequestLogPackets()
        self._unwrapping = Unwrapping()
        self._rest = b""
        self._line = 0
        self._damaged: list[str] = []
        self._lost = 0
        self._ended = False
        self._output = io.BytesIO()
        self._writer = PcapngWriter(self._output)
        self._writer.interface(name=INTERFACE, description="request log of a broker", snapshot_length=0)
        self._ready = memoryview(self._output.getvalue())

    @property
    def damage(self) -> str:
        """Why the log ended early, and how many of its entries could not be read."""
        told = ""
        if self._lost:
            others = f", and {self._lost - 1:,} more" if self._lost > 1 else ""
            told = f"entries of the request log that could not be read: {self._damaged[0]}{others}"
        return "; ".join(filter(None, (self._log.damage, told)))

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the pcapng."""
        while not self._ready and not self._ended:
            self._more()
        part, self._ready = self._ready[:size], self._ready[size:]
        return bytes(part)

    def consumed(self) -> float | None:
        return self._log.consumed()

    def _more(self) -> None:
        """Read on in the log."""
        data = self._log.read(_CHUNK)
        self._ended = not data
        *lines, rest = (self._rest + data).split(b"\n") if data else (self._rest, b"")
        self._rest = rest if len(rest) < _LONGEST_LINE else b""
        for line in lines:
            self._line += 1
            if line:
                self._read(line)
        self._output.seek(0)
        self._output.truncate()
        self._writer.write_packets(self._packets.ready(all_of_them=self._ended or self._live))
        self._ready = memoryview(self._output.getvalue())

    def _read(self, line: bytes) -> None:
        found = self._unwrapping.read(line)
        if found is None:
            return
        if isinstance(found, Cut):
            self._damage(found.reason)
            return
        if found.time is None:
            self._damage("no time stands on the line")
            return
        try:
            self._packets.add(found.time, entry_of(found.text[: found.text.rfind(b"}") + 1]))
        except (EntryError, BodyError) as error:
            self._damage(str(error))

    def _damage(self, reason: str) -> None:
        self._lost += 1
        if not self._damaged:
            self._damaged.append(f"line {self._line:,}: {reason}")
