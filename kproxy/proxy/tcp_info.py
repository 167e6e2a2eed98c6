"""The kernel's TCP statistics of a connection: round trip, retransmissions, unacknowledged bytes, zero windows.

A proxy's capture is made from bytes, not from packets, so it shows nothing of the network below. :func:`read` asks the
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
from typing import TYPE_CHECKING, Any, NamedTuple

from captures.interventions import TcpSample
from dissectors.sides import End
from dissectors.units import MS, SECOND

if TYPE_CHECKING:
    from _typeshed import HasFileno

_TCP_INFO = 11

# The struct only ever grows at its end (since Linux 2.4), so a shorter one is padded with zeros.
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
# spelled as in RFC 9293 and ss(8), in the order of net/tcp_states.h
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


class TcpInfo(NamedTuple):
    """The kernel's view of one end of a connection. Values that older kernels lack are 0, or None if noted.

    :ivar state: of the connection (RFC 9293), ``ESTABLISHED``
    :ivar retransmits: of the oldest unacknowledged segment, so far; 0 once it is acknowledged
    :ivar probes: unanswered keepalives or probes of a zero window
    :ivar snd_mss: bytes of a full segment
    :ivar unacked: segments sent and not acknowledged
    :ivar lost: of these, segments considered lost
    :ivar last_data_sent: ms since data was sent
    :ivar last_data_recv: ms since data was received
    :ivar rtt_us: smoothed round trip time, us (RFC 6298)
    :ivar rtt_var_us: its mean deviation, us
    :ivar snd_cwnd: congestion window in segments
    :ivar rcv_rtt_us: round trip estimated by the receiver, us; 0 while there is no estimate
    :ivar rcv_space: bytes that the application read in one round trip
    :ivar total_retrans: segments retransmitted since the connection began
    :ivar bytes_acked: bytes that the other end acknowledged, the SYN included
    :ivar bytes_received: bytes received in order
    :ivar notsent_bytes: bytes in the socket that were never sent
    :ivar min_rtt_us: lowest round trip of the last minutes, us
    :ivar delivery_rate: bytes per second, as last measured
    :ivar rwnd_limited_us: time in which the other end's window limited sending, us
    :ivar snd_wnd: bytes that the other end accepts beyond those it acknowledged; None before Linux 5.4
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
        """Whether the other end accepts nothing now: its application does not read."""
        return self.snd_wnd == 0 and self.state in _SENDING

    @property
    def troubled(self) -> bool:
        """Whether data does not get through now."""
        return bool(self.retransmits or self.probes or self.lost or self.zero_window)

    def sample(self, side: End) -> TcpSample:
        """Return the sample that the capture keeps."""
        values = self._asdict() | {"side": side, "retransmits": self.total_retrans}
        return TcpSample(**{name: values[name] for name in TcpSample.__struct_fields__})

    def to_json(self) -> dict[str, Any]:
        """Return the values by name, with ``zero_window``."""
        return {**self._asdict(), "zero_window": self.zero_window}


def read(sock: HasFileno) -> TcpInfo | None:
    """Return the kernel's statistics of a connection; None if it is closed, not TCP, or the system is not Linux.

    About 3 us. Never raises.
    """
    descriptor = sock.fileno()
    if sys.platform != "linux" or descriptor < 0:
        return None
    try:
        raw = _tcp_info_bytes(descriptor)
        state, *values, window = _LAYOUT.unpack(raw.ljust(_WITH_WINDOW, b"\0"))
        unacked, notsent = values[3], values[15]
        waiting = _unacked_bytes(descriptor) if unacked or notsent else 0
    except OSError:
        return None
    return TcpInfo._make(
        (
            _STATES[state] if state < len(_STATES) else _STATES[0],
            *values,
            window if len(raw) == _WITH_WINDOW else None,
            waiting,
        )
    )


def _tcp_info_bytes(descriptor: int) -> bytes:
    """Return a socket's ``struct tcp_info``.

    The socket objects of uvloop's transports make a new socket for each call, in Python, ten times as slow.
    """
    # the base class of socket.socket; it would close the descriptor, which it does not own
    probe = SocketType(AF_INET, SOCK_STREAM, 0, descriptor)
    try:
        raw: bytes = probe.getsockopt(IPPROTO_TCP, _TCP_INFO, _WITH_WINDOW)
        return raw
    finally:
        probe.detach()


def _unacked_bytes(descriptor: int) -> int:
    """Return the bytes in the send queue that are not acknowledged."""
    # another name of SIOCOUTQ in tcp(7) (asm-generic/sockios.h)
    return int.from_bytes(ioctl(descriptor, TIOCOUTQ, bytes(4)), sys.byteorder, signed=True)


Report = Callable[[int, End, TcpInfo], None]
"""Called with connection number, side and sample."""

BUDGET_NS = 1 * MS
UNCHANGED_NS = 10 * SECOND
"""ns between reports of a side with traffic and unchanged figures."""
_LEAST_RTT_CHANGE_US = 100
"""Smaller differences of the round trip are due to the scheduler, not the network."""


@dataclass(slots=True)
class _End:
    """One side of a connection.

    :ivar last: newest sample
    :ivar reported: sample that was reported last
    :ivar reported_at: its time, ns
    """

    side: End
    sock: HasFileno
    last: TcpInfo | None = None
    reported: TcpInfo | None = None
    reported_at: int = 0

    def has_news(self, info: TcpInfo, now: int) -> bool:
        before = self.reported
        if before is None:
            # the SYN of the connecting end counts as an acknowledged byte
            return info.troubled or info.bytes_acked > 1 or info.bytes_received > 0
        if (info.total_retrans, info.troubled, info.zero_window) != (
            before.total_retrans,
            before.troubled,
            before.zero_window,
        ):
            return True
        if not info.troubled and (info.bytes_acked, info.bytes_received) == (
            before.bytes_acked,
            before.bytes_received,
        ):
            return False
        change = abs(info.rtt_us - before.rtt_us)
        return (
            change > max(before.rtt_us // 4, _LEAST_RTT_CHANGE_US) or now - self.reported_at >= UNCHANGED_NS
        )


class Sampler:
    """Samples live connections, each about once in a period, and reports samples with news.

    :meth:`tick` samples the connections that are due in turn, until its time is over; the next tick continues with the
    others. With more connections than the budget allows, each is sampled less often.

    A sample of a side with traffic or trouble is reported if it is the first, has more retransmissions, begins or ends
    trouble or a zero window, or has a round trip time that differs by more than a quarter (and 100 us); else once in 10
    s. A quiet connection reports nothing.

    :param report: called by :meth:`tick` with samples to report
    :param period: seconds
    :param budget: ns that one tick may take
    :param clock: ns, monotonic
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
        """Return the number of connections that are sampled."""
        return len(self._ends)

    def add(self, connection: int, client: HasFileno, broker: HasFileno) -> None:
        """Sample a connection, the first time after one period.

        :param connection: its number, never used before
        :param client: the socket of the client's side
        :param broker: the socket of the broker's side
        """
        self._ends[connection] = _End("client", client), _End("broker", broker)
        self._due.append((self._clock() + self._period, connection))

    def remove(self, connection: int) -> None:
        """Stop sampling a connection."""
        self._ends.pop(connection, None)

    def tick(self) -> None:
        """Sample connections that are due. Call this about ten times per period."""
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
        """Return the newest sample of both sides, by name; None for a side without one."""
        ends = self._ends.get(connection, ())
        found = {each.side: each.last.to_json() if each.last else None for each in ends}
        return {"client": found.get("client"), "broker": found.get("broker")}

    def _sample(self, connection: int, end: _End, now: int) -> None:
        info = read(end.sock)
        if info is None:
            return
        end.last = info
        if end.has_news(info, now):
            end.reported, end.reported_at = info, now
            self._report(connection, end.side, info)
