"""What kproxy itself did to an exchange on its way, and its form in packet comments.

The proxy records what client and broker sent, before any change. What it changed, held or made up is in a comment on
the packet with the frame: a line of ``kproxy: `` and a JSON object. The kernel's statistics of connections
(:class:`TcpSample`) and their broker (:class:`UpstreamBroker`) are in comments of packets without payload. An entry of
a broker's request log (:class:`BrokerLog`) is in the comment of the packet with the request.

The data plane imports this module: keep it light.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import msgspec

from captures.json_objects import OrNull
from dissectors.masks import Masks
from dissectors.sides import End

PREFIX = "kproxy: "

_OPEN = re.compile(r"\b(host|port|(min|max)_version)$")

MOST_BYTES = 48 << 10
"""Most bytes of the line that describes one frame."""


class Change(msgspec.Struct, frozen=True):
    """One replaced value.

    :ivar path: field path in the body, ``brokers[0].host``
    :ivar sent: what was sent to kproxy
    :ivar got: what was forwarded instead
    """

    path: str
    sent: Any
    got: Any

    def masked(self) -> Change:
        """Return the change without its values."""
        return Change(self.path, None, None)


class Intervention(msgspec.Struct, omit_defaults=True, frozen=True):
    """What was done to one frame.

    :ivar changed: values that were replaced
    :ivar rule: the fault rule that was applied, as written
    :ivar action: what it did, in words: ``delayed by 200 ms``, ``one byte corrupted at offset 34``
    :ivar held_ns: how long it was held
    :ivar released_by: ``user``, ``timeout``, ``edited``, ``killed``, ``detached`` or empty
    :ivar answered: this response was made by kproxy, the broker never saw the request
    :ivar not_forwarded: this message was not forwarded
    :ivar unlisted: number of replaced values beyond those in ``changed``
    :ivar delayed_ns: how long it stayed in kproxy before it was forwarded, for whatever reason: a hold, a delay, a
        bandwidth, or a frame before it on its connection
    :ivar altered: a rule or a user changed its bytes, so that the receiver got something else than was sent. Addresses
        and versions that kproxy rewrites for its own sake do not count
    :ivar ended: what a rule or a user did to the connection then: ``closed``, ``reset``, ``swallowed`` or empty
    """

    changed: tuple[Change, ...] = ()
    rule: str = ""
    action: str = ""
    held_ns: int = 0
    released_by: str = ""
    answered: bool = False
    not_forwarded: bool = False
    unlisted: int = 0
    delayed_ns: int = 0
    altered: bool = False
    ended: str = ""

    @property
    def intervenes(self) -> bool:
        """Whether it changed what client or broker experienced; rewritten addresses do not count."""
        acted = self.rule or self.is_held or self.delayed_ns or self.answered or self.not_forwarded
        return bool(acted or self.altered or self.ended)

    @property
    def is_held(self) -> bool:
        return bool(self.held_ns or self.released_by)

    def without_values(self) -> Intervention:
        """Return it with the values of addresses and versions only."""
        changed = tuple(each if _OPEN.search(each.path) else each.masked() for each in self.changed)
        return msgspec.structs.replace(self, changed=changed)

    def __bool__(self) -> bool:
        return self != _NOTHING


_NOTHING = Intervention()


class Interventions(NamedTuple):
    """What was done to an exchange, in order.

    :ivar request: what was done to its request
    :ivar response: what was done to its response
    """

    request: tuple[Intervention, ...] = ()
    response: tuple[Intervention, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.request or self.response)

    @property
    def changed(self) -> bool:
        """Whether a value was replaced."""
        return any(each.changed or each.unlisted for each in self.request + self.response)

    @property
    def faults(self) -> tuple[str, ...]:
        """Actions and texts of the applied rules."""
        both = self.request + self.response
        return tuple(text for each in both for text in (each.action, each.rule) if text)

    @property
    def held_ns(self) -> int | None:
        """How long request and response were held in total, None if they were not."""
        held = [each.held_ns for each in self.request + self.response if each.is_held]
        return sum(held) if held else None

    @property
    def intervene(self) -> bool:
        """Whether kproxy did more than rewrite addresses: the result does not show how the cluster behaves."""
        return bool(self) and any(each.intervenes for each in self.request + self.response)

    @property
    def request_delay_ns(self) -> int:
        """How long the request stayed in kproxy, which is part of the time until its response arrived."""
        return sum(each.delayed_ns for each in self.request)

    @property
    def delay_ns(self) -> int | None:
        """How long request and response stayed in kproxy in total, None if they were forwarded at once."""
        return sum(each.delayed_ns for each in self.request + self.response) or None

    @property
    def answered(self) -> bool:
        """Whether kproxy answered instead of the broker."""
        return any(each.answered for each in self.request + self.response)

    @property
    def has_injected_errors(self) -> bool:
        """Whether kproxy made the errors in the response: it answered itself, or altered the request."""
        return self.answered or any(each.altered for each in self.request)

    @property
    def ended(self) -> str:
        """What was done to the connection, empty if nothing was."""
        return next((each.ended for each in self.request + self.response if each.ended), "")

    @property
    def not_forwarded(self) -> bool:
        """Whether the request was not forwarded."""
        return any(each.not_forwarded for each in self.request)

    @property
    def kinds(self) -> list[str]:
        """The applicable names of :data:`KINDS`."""
        both = self.request + self.response
        held = (
            any(each.delayed_ns for each in both),
            any(each.is_held for each in both),
            any(each.altered for each in both),
            self.answered,
            self.not_forwarded,
            bool(self.ended),
        )
        return [name for name, holds in zip(KINDS, held, strict=True) if holds]

    @property
    def flags(self) -> list[str]:
        """The applicable names of :data:`FLAGS`."""
        if not self:
            return []
        held = (
            self.changed,
            bool(self.faults),
            self.held_ns is not None,
            self.answered,
            self.not_forwarded,
            self.intervene,
        )
        return [name for name, holds in zip(FLAGS, held, strict=True) if holds]

    def shown(self, masked: Collection[str] = ()) -> ShownInterventions | None:
        """Return the interventions for display, None if nothing was done.

        :param masked: field paths, with their side, of values that must not be shown
        """
        if not self:
            return None
        return ShownInterventions(
            _shown("request", self.request, masked), _shown("response", self.response, masked)
        )


UNTOUCHED = Interventions()

KINDS = ("delayed", "held", "altered", "answered", "not_forwarded", "ended")
"""How kproxy may intervene in an exchange, several at once."""

FLAGS = ("changed", "fault", "held", "answered_by_kproxy", "not_forwarded", "intervened")
"""Kinds of interventions, by their names among the ``flags`` in ``docs/json.md``."""


class Fault(NamedTuple):
    """A fault rule as written, and what it did."""

    rule: str
    action: str


class MessageInterventions(NamedTuple):
    """Everything that was done to one message."""

    changed: list[Change]
    unlisted: int
    faults: list[Fault]
    held_ns: int
    released_by: OrNull[str]
    answered: bool
    not_forwarded: bool
    delayed_ns: int
    altered: bool
    ended: OrNull[str]


class ShownInterventions(NamedTuple):
    """What was done to an exchange, without secrets."""

    request: MessageInterventions | None
    response: MessageInterventions | None


def _shown(side: str, done: tuple[Intervention, ...], masked: Collection[str]) -> MessageInterventions | None:
    if not done:
        return None
    masks = Masks(masked)
    return MessageInterventions(
        [
            change.masked() if masks.covers(f"{side}.{change.path}") else change
            for each in done
            for change in each.changed
        ],
        sum(each.unlisted for each in done),
        [Fault(each.rule, each.action) for each in done if each.rule or each.action],
        sum(each.held_ns for each in done),
        next((each.released_by for each in done if each.released_by), ""),
        any(each.answered for each in done),
        any(each.not_forwarded for each in done),
        sum(each.delayed_ns for each in done),
        any(each.altered for each in done),
        next((each.ended for each in done if each.ended), ""),
    )


class TcpSample(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """The kernel's statistics of one side of a connection at one time (tcp(7), ``TCP_INFO``).

    :ivar side: ``client`` or ``broker``: which of the proxy's two connections this is
    :ivar rtt_us: smoothed round trip time in microseconds
    :ivar rtt_var_us: its variation in microseconds
    :ivar retransmits: segments retransmitted since the connection began
    :ivar unacked: segments sent and not acknowledged yet
    :ivar unacked_bytes: bytes written and not acknowledged yet, whether sent or not
    :ivar lost: segments considered lost
    :ivar snd_wnd: bytes that the other end has room for; None if the kernel does not say
    :ivar rcv_space: bytes that this end has room for
    :ivar state: state of the connection, ``established``
    """

    side: End
    rtt_us: int = 0
    rtt_var_us: int = 0
    retransmits: int = 0
    unacked: int = 0
    unacked_bytes: int = 0
    lost: int = 0
    snd_wnd: int | None = None
    rcv_space: int = 0
    state: str = ""


class UpstreamBroker(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """The broker of a connection, as the proxy knows it.

    :ivar cluster: the user's name for its cluster, empty if it has none
    :ivar node_id: None if it is not known, as for a bootstrap address
    """

    cluster: OrNull[str] = ""
    node_id: int | None = None


NO_UPSTREAM = UpstreamBroker()


class BrokerLog(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """An entry of a broker's request log; times are nanoseconds (``RequestChannel.scala``).

    An exchange with an entry has no real packets: it was made from the log; unless it was captured, too.

    :ivar request_queue: until a handler thread took it up
    :ivar local: in the handler thread: the leader's own work, its disk
    :ivar remote: waiting for others: replicas, group members, records to arrive
    :ivar throttle: for a quota
    :ivar response_queue: until a network thread took the response
    :ivar send: while the network thread sent it
    :ivar request_left_out: bytes of the request's records, which the log omits, beyond their placeholder
    :ivar response_left_out: bytes of the response's records beyond their placeholder
    :ivar listener: name of the listener
    :ivar principal: principal that the client was authenticated as
    :ivar captured: whether the exchange is that of real packets
    :ivar request_added: whether these lack the request, which is that of the entry
    :ivar response_added: whether these lack the response, which is that of the entry
    """

    request_queue: int = 0
    local: int = 0
    remote: int = 0
    throttle: int = 0
    response_queue: int = 0
    send: int = 0
    request_left_out: int = 0
    response_left_out: int = 0
    listener: str = ""
    principal: str = ""
    captured: bool = False
    request_added: bool = False
    response_added: bool = False

    TIMES = ("request_queue", "local", "remote", "throttle", "response_queue", "send")
    """Fields that are times, in the order in which they pass."""
    JSON = (
        "request_queue_ns=request_queue local_ns=local remote_ns=remote throttle_ns=throttle "
        "response_queue_ns=response_queue send_ns=send listener principal"
    )


class _Line(Intervention, omit_defaults=True, frozen=True):
    """Everything that a line may contain."""

    tcp: TcpSample | None = None
    upstream: UpstreamBroker | None = None
    broker: BrokerLog | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


CommentContent = Intervention | TcpSample | UpstreamBroker | BrokerLog


def as_comment(line: CommentContent) -> str:
    """Return the line of a packet comment.

    If there are very many changes, the last ones are only counted: a comment has at most 65,535 bytes.
    """
    if isinstance(line, TcpSample):
        return PREFIX + _ENCODER.encode({"tcp": line}).decode()
    if isinstance(line, UpstreamBroker):
        return PREFIX + _ENCODER.encode({"upstream": line}).decode()
    if isinstance(line, BrokerLog):
        return PREFIX + _ENCODER.encode({"broker": line}).decode()
    text = _ENCODER.encode(line)
    count = len(line.changed)
    while len(text) > MOST_BYTES and count:
        count //= 2
        left_out = line.unlisted + len(line.changed) - count
        text = _ENCODER.encode(msgspec.structs.replace(line, changed=line.changed[:count], unlisted=left_out))
    return PREFIX + text.decode()


def comment_content(line: str) -> CommentContent | None:
    """Return the contents of a line of a packet comment, None if it is a user's text."""
    if not line.startswith(PREFIX + "{"):
        return None
    try:
        read = _DECODER.decode(line[len(PREFIX) :])
    except (msgspec.MsgspecError, RecursionError):
        return None
    if read.tcp is not None:
        return read.tcp
    if read.upstream is not None:
        return read.upstream
    if read.broker is not None:
        return read.broker
    made = Intervention(**{name: getattr(read, name) for name in Intervention.__struct_fields__})
    return made or None
