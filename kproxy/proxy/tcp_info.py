"""The kernel's TCP statistics of a connection: round trip, retransmissions, unacknowledged bytes, zero windows.

A proxy's capture is made of bytes, not of packets, so it shows nothing of the network below. :func:`read` asks the
kernel (``TCP_INFO``, tcp(7), ``struct tcp_info`` in linux/tcp.h), and :class:`Sampler` does so for all live connections
in turn, in bounded time regardless of their number. Linux only.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fcntl import ioctl
from socket import AF_INET, IPPROTO_TCP, SOCK_STREAM, SocketType
from struct import Struct
from termios import TIOCOUTQ
from time import monotonic_ns
from typing import Any, NamedTuple, Protocol

from captures.interventions import TcpSample
from dissectors.sides import End
from dissectors.units import MS, SECOND

_TCP_INFO = 11

# The struct only ever grows at its end (since Linux 2.4), so one that is shorter is read as far as it goes.
_LAYOUT = Struct(
    "=BxBBxxxx"  # state, retransmits, probes
    "8xI4x"  # snd_mss
    "I4xI8x"  # unacked, lost
    "I4xI4x"  # last_data_sent, last_data_recv
    "8xII4xI8xII"  # rtt, rttvar, snd_cwnd, rcv_rtt, rcv_space
    "I"  # total_retrans: the end before Linux 3.15
    "16xQQ"  # bytes_acked, bytes_received: 4.1
    "8xII8xQ"  # notsent_bytes, min_rtt: 4.6; delivery_rate: 4.9
    "8xQ8x"  # rwnd_limited: 4.10
    "36xI"  # snd_wnd: 5.4
)
_WITH_WINDOW = _LAYOUT.size
# as RFC 9293 and ss(8) spell them, in the order of net/tcp_states.h
_STATES = (
    "UNKNOWN",
    "ESTABLISHED",
    "SYN-SENT",
    "SYN-RECEIVED",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "CLOSED",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "SYN-RECEIVED",
)
_SENDING = frozenset({"ESTABLISHED", "CLOSE-WAIT"})


class TcpSocket(Protocol):
    """A connected TCP socket: the standard library's, or what a transport gives as one."""

    def fileno(self) -> int:
        """Return its descriptor, negative if it is closed."""
        ...


class TcpInfo(NamedTuple):
    """The kernel's view of one end of a connection. What an older kernel does not tell is 0, or None where so said.

    :ivar state: of the connection (RFC 9293), ``ESTABLISHED``
    :ivar retransmits: of the oldest unacknowledged segment, without an answer yet; 0 once it is acknowledged
    :ivar probes: of a zero window, or keepalives, without an answer yet
    :ivar snd_mss: bytes of a full segment
    :ivar unacked: segments sent and not acknowledged
    :ivar lost: of these, segments that are held to be lost
    :ivar last_data_sent: ms since data was sent
    :ivar last_data_recv: ms since data came
    :ivar rtt_us: smoothed round trip time, us (RFC 6298)
    :ivar rtt_var_us: its mean deviation, us
    :ivar snd_cwnd: congestion window in segments
    :ivar rcv_rtt_us: round trip as estimated from what is received, us; 0 while there is no estimate
    :ivar rcv_space: bytes that the application took in one round trip
    :ivar total_retrans: segments retransmitted since the connection began
    :ivar bytes_acked: bytes that the other end acknowledged, the SYN included
    :ivar bytes_received: bytes that came in order
    :ivar notsent_bytes: bytes in the socket that were never sent
    :ivar min_rtt_us: lowest round trip of the last minutes, us
    :ivar delivery_rate: bytes a second, as last measured
    :ivar rwnd_limited_us: time in which the other end's window kept data back, us
    :ivar snd_wnd: bytes that the other end is ready to take beyond what it acknowledged; None before Linux 5.4
    :ivar unacked_bytes: bytes written to the socket and not acknowledged, whether sent or not
    """

    state: str
    retransmits: int
    probes: int
    snd_mss: int
    unacked: int
    lost: int
    last_data_sent: int
    last_data_recv: int
    rtt_us: int
    rtt_var_us: int
    snd_cwnd: int
    rcv_rtt_us: int
    rcv_space: int
    total_retrans: int
    bytes_acked: int
    bytes_received: int
    notsent_bytes: int
    min_rtt_us: int
    delivery_rate: int
    rwnd_limited_us: int
    snd_wnd: int | None
    unacked_bytes: int

    @property
    def zero_window(self) -> bool:
        """Whether the other end takes nothing now: its application does not read."""
        return self.snd_wnd == 0 and self.state in _SENDING

    @property
    def troubled(self) -> bool:
        """Whether something keeps data from getting through now."""
        return bool(self.retransmits or self.probes or self.lost or self.zero_window)

    def sample(self, side: End) -> TcpSample:
        """Return what the capture keeps of it."""
        told = self._asdict() | {"side": side, "retransmits": self.total_retrans}
        return TcpSample(**{name: told[name] for name in TcpSample.__struct_fields__})

    def to_json(self) -> dict[str, Any]:
        """Return the values by name, with ``zero_window``."""
        return {**self._asdict(), "zero_window": self.zero_window}


def read(sock: TcpSocket) -> TcpInfo | None:
    """Return what the kernel says about a connection; None if it is closed, no TCP, or the system is not Linux.

    About 3 us. Never raises.
    """
    descriptor = sock.fileno()
    if sys.platform != "linux" or descriptor < 0:
        return None
    try:
        told = _ask(descriptor)
        state, *values, window = _LAYOUT.unpack(told.ljust(_WITH_WINDOW, b"\0"))
        unacked, notsent = values[3], values[15]
        waiting = _outgoing(descriptor) if unacked or notsent else 0
    except OSError:
        return None
    return TcpInfo._make(
        (
            _STATES[state] if state < len(_STATES) else _STATES[0],
            *values,
            window if len(told) == _WITH_WINDOW else None,
            waiting,
        )
    )


def _ask(descriptor: int) -> bytes:
    """Return a socket's ``struct tcp_info``.

    What uvloop's transports give as a socket makes a new one for each question, in Python, ten times as slow.
    """
    # what the class in the standard library is derived from: it does not own the descriptor, but would close it
    probe = SocketType(AF_INET, SOCK_STREAM, 0, descriptor)
    try:
        told: bytes = probe.getsockopt(IPPROTO_TCP, _TCP_INFO, _WITH_WINDOW)
        return told
    finally:
        probe.detach()


def _outgoing(descriptor: int) -> int:
    """Return the bytes in the send queue that are not acknowledged."""
    # SIOCOUTQ of tcp(7) is another name of it (asm-generic/sockios.h)
    return int.from_bytes(ioctl(descriptor, TIOCOUTQ, bytes(4)), sys.byteorder, signed=True)


Report = Callable[[int, End, TcpInfo], None]
"""Called with a sample that has changes: number of the connection, which side, and the sample."""

BUDGET_NS = 1 * MS
UNCHANGED_NS = 10 * SECOND
"""How long nothing is reported of a side with traffic whose figures stay as they were."""
_LEAST_RTT_CHANGE_US = 100
"""Smaller differences of the round trip are the scheduler's, not the network's."""


@dataclass(slots=True)
class _End:
    """One side of a connection.

    :ivar last: newest sample
    :ivar told: newest that was reported, and when (ns)
    """

    side: End
    sock: TcpSocket
    last: TcpInfo | None = None
    told: TcpInfo | None = None
    told_at: int = 0

    def has_news(self, info: TcpInfo, now: int) -> bool:
        told = self.told
        if told is None:
            # the SYN of the end that connected counts as a byte acknowledged
            return info.troubled or info.bytes_acked > 1 or info.bytes_received > 0
        if (info.total_retrans, info.troubled, info.zero_window) != (
            told.total_retrans,
            told.troubled,
            told.zero_window,
        ):
            return True
        if not info.troubled and (info.bytes_acked, info.bytes_received) == (
            told.bytes_acked,
            told.bytes_received,
        ):
            return False
        change = abs(info.rtt_us - told.rtt_us)
        return change > max(told.rtt_us // 4, _LEAST_RTT_CHANGE_US) or now - self.told_at >= UNCHANGED_NS


class Sampler:
    """Samples live connections, each about once in a period, and reports what is new.

    :meth:`tick` takes the connections that are due in turn, until its time is over; those that it did not come to are
    the first of the next tick. With more connections than the budget allows, each is sampled less often.

    Reported is a sample of a side that had traffic or has trouble, if it tells something new: the first; one with more
    retransmissions; trouble or a zero window that began or ended; a round trip time that differs by more than a
    quarter (and 100 us); else one in 10 s. A quiet connection reports nothing.

    :param report: called by :meth:`tick` with samples that have changes
    :param period: seconds
    :param budget: ns that one tick may take
    :param clock: gives ns, monotonic
    """

    def __init__(
        self,
        report: Report,
        *,
        period: float = 1.0,
        budget: int = BUDGET_NS,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._report = report
        self._period = round(period * SECOND)
        self._budget = budget
        self._clock = clock
        self._ends: dict[int, tuple[_End, ...]] = {}
        self._due: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        """Connections that are sampled."""
        return len(self._ends)

    def add(self, connection: int, client: TcpSocket, broker: TcpSocket) -> None:
        """Sample a connection, the first time when a period has passed.

        :param connection: its number, never used before
        :param client: the socket of the client's side, as :func:`read` takes it
        :param broker: of the broker's side
        """
        self._ends[connection] = _End("client", client), _End("broker", broker)
        self._due.append((self._clock() + self._period, connection))

    def remove(self, connection: int) -> None:
        """Forget a connection, if it is known."""
        self._ends.pop(connection, None)

    def tick(self) -> None:
        """Sample what is due; to be called some ten times in a period."""
        now = self._clock()
        end = now + self._budget
        while self._due and self._due[0][0] <= now < end:
            _, connection = self._due.popleft()
            ends = self._ends.get(connection)
            if ends is None:
                continue
            self._due.append((now + self._period, connection))
            for each in ends:
                self._sample(connection, each, now)
            now = self._clock()

    def summary(self, connection: int) -> dict[str, dict[str, Any] | None]:
        """Return the newest sample of both sides, by name; None where there is none yet."""
        ends = self._ends.get(connection, ())
        found = {each.side: each.last.to_json() if each.last else None for each in ends}
        return {"client": found.get("client"), "broker": found.get("broker")}

    def _sample(self, connection: int, end: _End, now: int) -> None:
        info = read(end.sock)
        if info is None:
            return
        end.last = info
        if end.has_news(info, now):
            end.told, end.told_at = info, now
            self._report(connection, end.side, info)
