"""What kproxy itself did to an exchange on its way, as it is kept in packet comments.

The proxy records what client and broker sent, before any change. What it changed, held or made up stands in a comment
on the packet that holds the frame: a line that begins with ``kproxy: `` and goes on with a JSON object. What the kernel
tells of the connections (:class:`TcpSample`) stands in the comment of a packet without payload.

The data plane imports this: nothing heavy here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import msgspec

from dissectors.masks import Masks

PREFIX = "kproxy: "

_OPEN = re.compile(r"\b(host|port|(min|max)_version)$")

MOST_BYTES = 48 << 10
"""Bytes of the line that tells of one frame."""


class Change(msgspec.Struct, frozen=True):
    """One value that was replaced.

    :ivar path: field path in the body, ``brokers[0].host``
    :ivar sent: what was sent to kproxy
    :ivar got: what went on in its place
    """

    path: str
    sent: Any
    got: Any

    def masked(self) -> Change:
        """Return it without its values."""
        return Change(self.path, None, None)


class Intervention(msgspec.Struct, omit_defaults=True, frozen=True):
    """What was done to one frame.

    :ivar changed: values that were replaced
    :ivar rule: the fault rule that was applied, as written
    :ivar action: what it did, in words: ``delayed by 200 ms``, ``one byte corrupted at offset 34``
    :ivar held_ns: how long it was held
    :ivar released_by: ``user``, ``timeout``, ``edited``, ``killed``, ``detached`` or empty
    :ivar answered: this response was made by kproxy, the broker never saw the request
    :ivar not_forwarded: this request was not sent on
    :ivar unlisted: how many more values were replaced than ``changed`` lists
    """

    changed: tuple[Change, ...] = ()
    rule: str = ""
    action: str = ""
    held_ns: int = 0
    released_by: str = ""
    answered: bool = False
    not_forwarded: bool = False
    unlisted: int = 0

    @property
    def was_held(self) -> bool:
        """Whether it waited for somebody."""
        return bool(self.held_ns or self.released_by)

    def without_values(self) -> Intervention:
        """Return it with values of addresses and versions only."""
        changed = tuple(each if _OPEN.search(each.path) else each.masked() for each in self.changed)
        return msgspec.structs.replace(self, changed=changed)

    def __bool__(self) -> bool:
        return self != _NOTHING


_NOTHING = Intervention()


class Interventions(NamedTuple):
    """What was done to an exchange, in the order in which it was done.

    :ivar request: to its request
    :ivar response: to its response
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
        """What rules did, and the rules."""
        both = self.request + self.response
        return tuple(text for each in both for text in (each.action, each.rule) if text)

    @property
    def held_ns(self) -> int | None:
        """How long request and response were held together, None if they were not."""
        held = [each.held_ns for each in self.request + self.response if each.was_held]
        return sum(held) if held else None

    @property
    def answered(self) -> bool:
        """Whether kproxy answered in the place of the broker."""
        return any(each.answered for each in self.request + self.response)

    @property
    def not_forwarded(self) -> bool:
        """Whether the request was not sent on."""
        return any(each.not_forwarded for each in self.request + self.response)

    @property
    def flags(self) -> list[str]:
        """Those of :data:`FLAGS` that hold."""
        held = (self.changed, bool(self.faults), self.held_ns is not None, self.answered, self.not_forwarded)
        return [name for name, holds in zip(FLAGS, held, strict=True) if holds]

    def to_json(self, masked: Collection[str] = ()) -> dict[str, Any] | None:
        """Return the documented shape (``docs/json.md``), None if nothing was done.

        :param masked: field paths, with their side, of values that must not be shown
        """
        if not self:
            return None
        return {
            "request": _side_to_json("request", self.request, masked),
            "response": _side_to_json("response", self.response, masked),
        }


UNTOUCHED = Interventions()

FLAGS = ("changed", "fault", "held", "answered_by_kproxy", "not_forwarded")
"""What may have been done to an exchange, by the names of ``flags`` in ``docs/json.md``."""


def _side_to_json(
    side: str, done: tuple[Intervention, ...], masked: Collection[str]
) -> dict[str, Any] | None:
    if not done:
        return None
    masks = Masks(masked)
    changes = [
        change.masked() if masks.covers(f"{side}.{change.path}") else change
        for each in done
        for change in each.changed
    ]
    return {
        "changed": [{"path": path, "sent": sent, "got": got} for path, sent, got in map(_fields, changes)],
        "unlisted": sum(each.unlisted for each in done),
        "faults": [{"rule": each.rule, "action": each.action} for each in done if each.rule or each.action],
        "held_ns": sum(each.held_ns for each in done),
        "released_by": next((each.released_by for each in done if each.released_by), None),
        "answered": any(each.answered for each in done),
        "not_forwarded": any(each.not_forwarded for each in done),
    }


def _fields(change: Change) -> tuple[str, Any, Any]:
    return change.path, change.sent, change.got


class TcpSample(msgspec.Struct, omit_defaults=True, frozen=True, kw_only=True):
    """What the kernel told of one side of a connection at one moment (tcp(7), ``TCP_INFO``).

    :ivar side: ``client`` or ``broker``: whose end of the proxy's connections this is
    :ivar rtt_us: smoothed round trip time in microseconds
    :ivar rtt_var_us: how much it varies
    :ivar retransmits: segments sent again since the connection began
    :ivar unacked: segments that were sent and not acknowledged yet
    :ivar unacked_bytes: bytes that were written and not acknowledged yet, whether sent or not
    :ivar lost: segments taken to be lost
    :ivar snd_wnd: bytes that the other end has room for; None where the kernel does not tell
    :ivar rcv_space: bytes that this end has room for
    :ivar state: of the connection, ``established``
    """

    side: Literal["client", "broker"]
    rtt_us: int = 0
    rtt_var_us: int = 0
    retransmits: int = 0
    unacked: int = 0
    unacked_bytes: int = 0
    lost: int = 0
    snd_wnd: int | None = None
    rcv_space: int = 0
    state: str = ""


class _Line(Intervention, omit_defaults=True, frozen=True):
    """All that a line may hold."""

    tcp: TcpSample | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Line)


def as_comment(told: Intervention | TcpSample) -> str:
    """Return the line of a packet comment.

    Of very many changes the last ones are only counted: a comment has no more than 65,535 bytes.
    """
    if isinstance(told, TcpSample):
        return PREFIX + _ENCODER.encode({"tcp": told}).decode()
    text = _ENCODER.encode(told)
    count = len(told.changed)
    while len(text) > MOST_BYTES and count:
        count //= 2
        left_out = told.unlisted + len(told.changed) - count
        text = _ENCODER.encode(msgspec.structs.replace(told, changed=told.changed[:count], unlisted=left_out))
    return PREFIX + text.decode()


def from_comment(line: str) -> Intervention | None:
    """Return what a line of a packet comment tells of a frame, None if it is something else."""
    told = told_by(line)
    return told if isinstance(told, Intervention) else None


def told_by(line: str) -> Intervention | TcpSample | None:
    """Return what a line of a packet comment tells, None if it is somebody's own text."""
    if not line.startswith(PREFIX + "{"):
        return None
    try:
        read = _DECODER.decode(line[len(PREFIX) :])
    except (msgspec.MsgspecError, RecursionError):
        return None
    if read.tcp is not None:
        return read.tcp
    made = Intervention(**{name: getattr(read, name) for name in Intervention.__struct_fields__})
    return made or None
