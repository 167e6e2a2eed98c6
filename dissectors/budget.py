"""Limits on the cost of untrusted bytes, and budgets that count against them.

Rules of this file:

* Every limit of kproxy is a row of :data:`LIMITS`, whichever layer enforces it; docs/limits.md is generated from it.
* A :class:`Budget` is passed down to the code that does the work: for one message, one connection, or the process. It
  counts work (bytes, records, objects), never time, so that the same bytes always give the same answer.
* Work beyond a limit is left undecided and reported with the name of the limit (:class:`LimitReached`); everything
  else continues.
* Limits are changed for a whole run, by ``kproxy --limit NAME=VALUE`` or the environment variable
  :data:`ENVIRONMENT`, which child processes inherit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import msgspec

from dissectors.errors import DecodeError

ENVIRONMENT = "KPROXY_LIMITS"
"""``name=value`` pairs, separated by commas."""

KIB, MIB = 1 << 10, 1 << 20

_MULTIPLES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": KIB, "MI": MIB, "GI": 1 << 30}


class Limit(msgspec.Struct, frozen=True):
    """One limit.

    :ivar unit: what is counted
    :ivar scope: what the count covers
    :ivar about: what it bounds and what happens beyond it, for docs/limits.md
    """

    name: str
    default: int
    unit: Literal["bytes", "records", "objects", "times", "characters"]
    scope: Literal["batch", "message", "connection", "file", "process", "line"]
    about: str


# fmt: off
# one line per limit
_LIMITS = (
    Limit("batch_bytes", 128 * MIB, "bytes", "batch", "decompressed bytes of one record batch"),
    Limit("batch_ratio", 1000, "times", "batch", "decompressed bytes for each compressed byte, above batch_ratio_floor"),
    Limit("batch_ratio_floor", MIB, "bytes", "batch", "decompressed bytes that a batch may have regardless of its compression ratio"),
    Limit("batch_records", 1_000_000, "records", "batch", "records decoded from one batch"),
    Limit("message_bytes", 256 * MIB, "bytes", "message", "decompressed bytes of all batches of a request or response, and of its other compressed fields"),
    Limit("message_records", 1_000_000, "records", "message", "records decoded from all batches of a request or response; batches beyond it show only their headers"),
    Limit("message_objects", 1_200_000, "objects", "message", "fields and array elements decoded from a request or response; one with more is not decoded"),
    Limit("shown_fields", 100_000, "objects", "message", "fields of a request or response shown by read -V, read --exchange and the UI; JSON has all"),
    Limit("telemetry_bytes", 16 * MIB, "bytes", "message", "decompressed bytes of the metrics in a PushTelemetry request; brokers allow 1 MiB by default"),
    Limit("telemetry_values", 250_000, "objects", "message", "values decoded from these metrics"),
    # ---- output
    Limit("line_characters", 16_384, "characters", "line", "characters of a printed line; the rest is cut off"),
    Limit("notice_characters", 2_048, "characters", "line", "characters of a line on standard error; the rest is cut off"),
    # the live proxy
    Limit("brokers", 1_000, "objects", "process", "brokers and controllers behind a live proxy; others are announced at an address on which nothing listens"),
    Limit("addresses", 10_000, "objects", "message", "addresses that a live proxy rewrites in one response; a response with more closes the connection"),
    Limit("elements", 50_000, "objects", "message", "array elements of a frame that a live proxy inspects: a frame with more is forwarded, with rules and holds undecided; if addresses follow these elements, the connection is closed"),
    Limit("inspected_bytes", 256 * MIB, "bytes", "process", "bytes of all frames together that are collected for rules and holds; a frame that would exceed it passes uninspected"),
    Limit("rule_bytes", 16 * MIB, "bytes", "message", "decompressed bytes of a frame's records that rules and holds inspect; a frame with more is forwarded, with rules and holds undecided"),
    Limit("rule_records", 20_000, "records", "message", "records of a frame that rules and holds inspect; a frame with more is forwarded, with both undecided"),
    Limit("file_ratio", 200, "times", "file", "bytes that one byte of a compressed capture may decompress to, on average; reading ends there. Packets have headers, numbers and times that differ: captures seldom reach 100, bombs 1,000 (deflate) or 30,000 (zstd)"),
    Limit("file_ratio_from", 256 * MIB, "bytes", "file", "decompressed bytes up to which a capture may have any ratio"),
    Limit("file_sections", 16_384, "objects", "file", "sections of a pcapng file, each in its own byte order; reading the file ends there"),
    Limit("file_interfaces", 65_536, "objects", "file", "interfaces that a pcapng file declares; reading the file ends there"),
    Limit("file_damage", 1000, "objects", "file", "damaged places skipped in a capture file; reading ends at the next one"),
    Limit("file_secrets", 64 * MIB, "bytes", "file", "TLS secrets kept from a pcapng file; later ones are ignored"),
    Limit("log_line_bytes", 16 * MIB, "bytes", "line", "bytes of one line of a broker's request log, also if a container has split it; longer lines are skipped"),
    Limit("log_waiting_bytes", 128 * MIB, "bytes", "file", "memory of request log lines that wait for lines of earlier requests; beyond it, they no longer wait"),
    Limit("waiting_bytes", 16 * MIB, "bytes", "connection", "payload of one direction that waits behind missing bytes; beyond it, these are given up"),
    Limit("waiting_packets", 16_384, "objects", "connection", "packets of one direction that wait behind missing bytes; beyond it, these are given up"),
    Limit("waiting_packets_in_all", 1_000_000, "objects", "process", "packets of all connections that may arrive while one waits behind missing bytes; beyond it, these are given up, so that no more packets wait in all directions together"),
    Limit("frame_bytes", 100 * MIB, "bytes", "message", "bytes kept of one frame; a longer one keeps only `frame_prefix`"),
    Limit("frame_prefix", 4 * KIB, "bytes", "message", "bytes kept of a frame that is too long to keep whole"),
    Limit("request_size", 100 * MIB, "bytes", "message", "size of a request that is accepted from any client ID; longer ones only from a client ID seen before"),
    Limit("response_size", 1024 * MIB, "bytes", "message", "size of a response that is accepted with any correlation ID; longer ones only if the ID is due"),
    Limit("pending_requests", 65_536, "objects", "connection", "requests in flight; beyond it, the oldest one counts as unanswered"),
    Limit("pending_bytes", 256 * MIB, "bytes", "connection", "payload of the requests in flight; beyond it, only `frame_prefix` of each is kept"),
    Limit("token_bytes", 512 * KIB, "bytes", "message", "one raw SASL token, and bytes that wait to be identified"),
    Limit("resync_bytes", MIB, "bytes", "connection", "how far a search for the next frame looks ahead"),
    Limit("foreign_bytes", 64 * KIB, "bytes", "connection", "how much of an unknown protocol is searched for Kafka"),
    Limit("tls_bytes", 8 * MIB, "bytes", "connection", "ciphertext of one direction that waits for its secret"),
    Limit("tls_bytes_in_all", 256 * MIB, "bytes", "process", "ciphertext of all connections that waits for secrets; the connection with the most is given up"),
    Limit("datagrams", 1024, "objects", "process", "IP datagrams that wait for fragments; the oldest one is given up for a new one"),
    Limit("datagram_bytes", 64 * MIB, "bytes", "process", "fragments of all waiting datagrams; the oldest datagram is given up for a new fragment"),
)
# fmt: on
LIMITS: Mapping[str, Limit] = {each.name: each for each in _LIMITS}


class LimitSettingError(ValueError):
    """A setting names no limit, or its value is not a number."""


class LimitReached(DecodeError):  # noqa: N818  # says what happened, reads well at the raise
    """Work ended because a limit was reached; everything beyond it is undecided.

    :ivar limit: name of the limit
    """

    def __init__(self, limit: str, what: str, offset: int = -1, field_path: str = "") -> None:
        self.limit = limit
        super().__init__(f"{what} would go over the limit {shown(limit)}", offset, field_path)


def limit_of(error: DecodeError) -> str:
    """Return the name of the limit that caused an error, empty if none did."""
    return error.limit if isinstance(error, LimitReached) else ""


class Budget:
    """The remainder of some limits for one piece of work.

    :param names: limits that start in full with this piece of work
    """

    __slots__ = ("_left",)

    def __init__(self, *names: str) -> None:
        self._left = {name: IN_FORCE[name] for name in names}

    def left(self, name: str) -> int:
        """Return how much of a limit may still be spent."""
        return self._left.get(name, IN_FORCE[name])

    def spend(self, name: str, amount: int, what: str = "this", offset: int = -1, path: str = "") -> None:
        """Take `amount` from the remainder.

        :param what: what needs the amount, for the error
        :param offset: byte offset of what needs the amount, for the error; so is the field's ``path``
        :raises LimitReached: if less than `amount` is left; nothing is taken then
        """
        left = self._left.get(name, IN_FORCE[name])
        if amount > left:
            raise LimitReached(name, what, offset, path)
        if name in self._left:
            self._left[name] = left - amount

    def give_back(self, name: str, amount: int) -> None:
        """Return an amount that is no longer held."""
        if name in self._left:
            self._left[name] += amount


def message_budget() -> Budget:
    """Return the budget of one message, shared by its batches and fields."""
    return Budget("message_bytes", "message_records", "message_objects")


def limit(name: str) -> int:
    """Return the current value of a limit."""
    return IN_FORCE[name]


def shown(name: str) -> str:
    """Return a limit with its value, for messages: ``message_records (1,000,000 records)``."""
    return f"{name} ({limit(name):,} {LIMITS[name].unit})"


def configure(settings: Iterable[str]) -> None:
    """Change limits in this process and in those that it starts.

    :param settings: ``name=value``, where values may end in K, M, G (powers of 1000) or KiB, MiB, GiB
    :raises LimitSettingError: says what is wrong with one of them; no limit is changed then
    """
    changed = dict(_parsed(setting) for setting in settings)
    IN_FORCE.update(changed)
    given = {name: value for name, value in IN_FORCE.items() if value != LIMITS[name].default}
    if given:
        os.environ[ENVIRONMENT] = ",".join(f"{name}={value}" for name, value in given.items())
    else:
        os.environ.pop(ENVIRONMENT, None)


@contextmanager
def changed(**values: int) -> Iterator[None]:
    """Change limits temporarily, in this process only: for tests, and for fuzzing with small inputs.

    :param values: values by limit name
    """
    before = IN_FORCE.copy()
    IN_FORCE.update(values)
    try:
        yield
    finally:
        IN_FORCE.update(before)


def _parsed(setting: str) -> tuple[str, int]:
    name, _, value = (part.strip() for part in setting.partition("="))
    if name not in LIMITS:
        raise LimitSettingError(f"there is no limit {name!r}: the limits are {', '.join(LIMITS)}")
    digits = value.rstrip("KMGiIbBkmg")
    factor = _MULTIPLES.get(value[len(digits) :].upper().removesuffix("B"))
    if not digits.isdecimal() or factor is None:
        raise LimitSettingError(f"limit {name}: {value!r} is not a number such as 500000, 64M or 64MiB")
    return name, int(digits) * factor


def from_environment() -> dict[str, int]:
    """Return all limits: those set in the environment, and defaults for the others.

    :raises LimitSettingError: says what is wrong with the environment variable
    """
    given = (part for part in os.environ.get(ENVIRONMENT, "").split(",") if part.strip())
    return {name: each.default for name, each in LIMITS.items()} | dict(map(_parsed, given))


def _at_import() -> dict[str, int]:
    """Return the limits, defaults if :func:`from_environment` fails: an import cannot report errors."""
    try:
        return from_environment()
    except LimitSettingError:
        return {name: each.default for name, each in LIMITS.items()}


def reference() -> str:
    """Return the limits as a table in Markdown."""
    rows = [f"| `{each.name}` | {_rounded(each)} | {each.scope} | {each.about} |" for each in LIMITS.values()]
    return "\n".join(["| limit | default | counted for | what it bounds |", "|---|---|---|---|", *rows])


def _rounded(each: Limit) -> str:
    if each.unit != "bytes":
        return f"{each.default:,} {each.unit}"
    for unit, size in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", KIB)):
        if each.default >= size and each.default % size == 0:
            return f"{each.default // size:,} {unit}"
    return f"{each.default:,} bytes"


IN_FORCE = _at_import()
"""Current values, for code that cannot afford a call of :func:`limit`; :func:`configure` changes them."""
