"""The lines of a request log: which line is an entry, and when it was written.

An entry begins with :data:`REQUEST_LOG_MARK`, whatever the layout puts around it: a time of
log4j's ``%d`` with or without a zone, a level. It may be wrapped: as the message of a JSON layout (log4j 2, logstash,
Elastic's), as the ``log`` of Docker's json-file, after the time of Kubernetes' CRI. Containers cut long lines into
parts, which are joined again.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from dissectors.budget import limit, shown

REQUEST_LOG_MARK = b"Completed request:"
"""Start of an entry of a broker's request log (``core/.../network/RequestChannel.scala``)."""

_TIME = re.compile(rb"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s?(Z|UTC|[+-]\d\d:?\d\d)?")
_CRI = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]*(?:Z|[+-]\d\d:\d\d)) (?:stdout|stderr) ([FP])\S* ")
_FRAGMENT = (b'"sendTimeMs":', b'\\"sendTimeMs\\":', b"sendTime:")
"""Text near the end of an entry, which identifies the rest of one that was cut."""
_MESSAGES = ("message", "log", "msg", "@message", "line", "short_message")
_TIMES = ("@timestamp", "timestamp", "time", "ts", "asctime", "datetime")
_MOST_LAYERS = 4
"""Most wrappings of one line: a container, its runtime, a layout, and one to spare."""


class Line(NamedTuple):
    """An entry as the log has it.

    :ivar time: when it was written, in ns since the epoch; None if the line has no time
    :ivar text: from after the mark to the end of the line
    """

    time: int | None
    text: bytes


class IncompleteEntry(NamedTuple):
    """A line that was an entry, but is incomplete."""

    reason: str


class LogLineReader:
    """Finds the entries among lines, and joins the parts of lines that a container has cut."""

    def __init__(self) -> None:
        self._times = _Times()
        self._parts = bytearray()

    def read(self, line: bytes) -> Line | IncompleteEntry | None:
        """Return the entry in a line; None if it is something else, or only a part of one."""
        return self._read(line.rstrip(b"\r"), None, _MOST_LAYERS)

    def _read(self, line: bytes, outer: int | None, layers: int) -> Line | IncompleteEntry | None:
        if not layers:
            return IncompleteEntry(f"it is wrapped over {_MOST_LAYERS - 1} times")
        if line[:1] == b"{":
            return self._unwrapped(line, outer, layers)
        cri = _CRI.match(line)
        if cri is not None:
            time = self._times.of(cri[1])
            text = self._whole(line[cri.end() :], last=cri[2] == b"F")
            if not isinstance(text, bytes):
                return text
            return self._read(text, time if time is not None else outer, layers - 1)
        index = line.find(REQUEST_LOG_MARK)
        if index < 0:
            return (
                IncompleteEntry("the beginning is missing")
                if any(each in line for each in _FRAGMENT)
                else None
            )
        time = self._times.of(line[:index])
        return Line(time if time is not None else outer, line[index + len(REQUEST_LOG_MARK) :])

    def _unwrapped(self, line: bytes, outer: int | None, layers: int) -> Line | IncompleteEntry | None:
        """Read the message in a JSON object."""
        try:
            fields = _ANY.decode(line)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return (
                IncompleteEntry("no whole JSON object")
                if REQUEST_LOG_MARK in line or _FRAGMENT[1] in line
                else None
            )
        message = next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str)), None)
        if message is None:
            return None
        time = self._times.of_fields(fields)
        text = message.encode()
        if "log" in fields and "stream" in fields:  # Docker ends the last part of a line with a newline
            joined = self._whole(text.removesuffix(b"\n"), last=text.endswith(b"\n"))
            if not isinstance(joined, bytes):
                return joined
            text = joined
        return self._read(text.rstrip(b"\r\n"), time if time is not None else outer, layers - 1)

    def _whole(self, part: bytes, *, last: bool) -> bytes | IncompleteEntry | None:
        """Return a line once its last part has arrived."""
        if last and not self._parts:
            return part
        self._parts += part
        if not last and len(self._parts) <= limit("log_line_bytes"):
            return None
        joined = bytes(self._parts)
        self._parts.clear()
        return (
            joined
            if last
            else IncompleteEntry(f"its parts would go over the limit {shown('log_line_bytes')}")
        )


class _Times:
    """Parses times; the result for a second is cached. A time without a zone is in this machine's zone."""

    def __init__(self) -> None:
        self._second: tuple[bytes, ...] = ()
        self._base = 0

    def of(self, text: bytes) -> int | None:
        """Return the first time in a text, in ns since the epoch."""
        found = _TIME.search(text)
        if found is None:
            return None
        date, clock, fraction, zone = found.groups(b"")
        key = (date, clock, zone)
        if key != self._second:
            try:
                moment = datetime.fromisoformat(f"{date.decode()}T{clock.decode()}{_zone(zone)}")
                self._base = int(moment.timestamp()) * 1_000_000_000
            except (ValueError, OverflowError, OSError):
                return None
            self._second = key
        return _moment(self._base + int(fraction.ljust(9, b"0") or 0))

    def of_fields(self, line: dict[str, Any]) -> int | None:
        """Return the time in a JSON layout, in ns since the epoch."""
        instant = line.get("instant")
        if isinstance(instant, dict) and isinstance(instant.get("epochSecond"), int):
            nanoseconds = instant.get("nanoOfSecond")
            seconds = instant["epochSecond"] * 1_000_000_000
            return _moment(seconds + (nanoseconds if isinstance(nanoseconds, int) else 0))
        for name in ("timeMillis", *_TIMES):
            value = line.get(name)
            if isinstance(value, str):
                return self.of(value.encode())
            if isinstance(value, int | float):
                return _moment(value * _unit(value))
        return None


def _moment(nanoseconds: float) -> int | None:
    """Return a time in ns since the epoch; None if it is out of the range of a capture."""
    return int(nanoseconds) if 0 <= nanoseconds < 1 << 62 else None


def _zone(text: bytes) -> str:
    return "+00:00" if text in (b"Z", b"UTC") else text.decode()


def _unit(value: float) -> int:
    """Return the nanoseconds of a number's unit: seconds, ms, us or ns since the epoch, by its magnitude."""
    latest = datetime(2116, 1, 1, tzinfo=UTC).timestamp()
    return next((unit for unit in (10**9, 10**6, 10**3) if value < latest * (10**9 // unit)), 1)


_ANY = msgspec.json.Decoder(dict[str, Any])
