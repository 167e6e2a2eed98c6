"""Fault actions, a class for each with everything about it.

A class defines the syntax of its action, what it does to a frame, its documentation and its completion. Defining it
adds it to :data:`ACTIONS`, from which parser, completion, help and docs/faults.md are made.

Offsets and lengths count from the first byte of the frame, its size field included, as everywhere in kproxy.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from random import Random
from typing import ClassVar, NamedTuple, Self

from captures.filters import values
from captures.filters.errors import did_you_mean
from captures.filters.paths import Path, UnknownStepError, find, is_path
from captures.interventions import Change
from dissectors.apis import api
from dissectors.error_codes import BY_NAME, ErrorCode, error_name
from dissectors.headers import (
    SIZE_BYTES,
    request_body_start,
    request_header_version,
    response_body_start,
    response_header_version,
)
from dissectors.sides import SIDES, Side
from kproxy.proxy.rules import edits
from kproxy.proxy.rules.answers import error_response, with_error
from kproxy.proxy.rules.arguments import Argument, bytes_text, duration_text
from kproxy.proxy.rules.distributions import (
    LONGEST_DELAY,
    ConstantDelay,
    Distribution,
    Exponential,
    LogNormal,
    Normal,
    Uniform,
    distribution,
)
from kproxy.proxy.rules.errors import AnswerError, EditError
from kproxy.proxy.rules.record_edits import rule_budget
from kproxy.proxy.verdicts import Ending, Frame, Hold, Verdict

_CORRELATION_ID_END = {"request": 12, "response": 8}
_INT16 = range(-(1 << 15), 1 << 15)

ACTIONS: dict[str, type[Action]] = {}
"""All actions by name, in the order in which they are documented."""


class ActionResult(NamedTuple):
    """The result of applying an action to a frame.

    :ivar words: what was done to the frame: ``delayed by 200ms``
    :ivar changed: values that were replaced
    """

    verdict: Verdict
    words: str
    changed: tuple[Change, ...] = ()


class Action(ABC):
    """What a rule does to a frame. ``str()`` of an action is its text in a rule.

    :cvar name: the first word of the action, in lower case
    :cvar forms: examples of arguments -> what happens to the frame
    :ivar side: whether it applies to requests or to responses; None if the filter decides
    :ivar apis: keys of the APIs whose messages it can be applied to; None for all
    :ivar script: file of the script that decides about the frame while it is held; None if the action itself decides
    """

    __slots__ = ()
    name: ClassVar[str]
    forms: ClassVar[Mapping[str, str]]

    @property
    def side(self) -> Side | None:
        return None

    @property
    def apis(self) -> frozenset[int] | None:
        return None

    @property
    def script(self) -> FilePath | None:
        return None

    def __init_subclass__(cls) -> None:
        ACTIONS[cls.name] = cls

    def __str__(self) -> str:
        return self.name

    @classmethod
    def read(cls, argument: Argument) -> Self:
        """Return the action with its argument; the base class accepts none.

        :raises FilterError: if the argument is invalid
        """
        if argument.text:
            raise argument.error(f"{cls.name} takes nothing behind it")
        return cls()

    @classmethod
    def offers(cls) -> Mapping[str, str]:
        """Return completions of the argument, with a line about each."""
        return {}

    @abstractmethod
    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        """Apply the action to a frame.

        :raises AnswerError: if it cannot be applied to this frame, which is then forwarded unchanged
        """


# ---------------------------------------------------------------- time
@dataclass(frozen=True, slots=True)
class Delay(Action):
    """The frame waits, and everything after it in its direction of the connection waits behind it."""

    by: Distribution
    name = "delay"
    forms: ClassVar[Mapping[str, str]] = {
        each.example: each.meaning for each in (ConstantDelay, Uniform, Normal, Exponential, LogNormal)
    }

    def __str__(self) -> str:
        return f"{self.name} {self.by}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        if not argument.text:
            raise argument.error("how long is missing after delay", f"such as {', '.join(cls.forms)}")
        return cls(distribution(argument))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        delay = min(max(round(self.by.draw(chance)), 0), LONGEST_DELAY)
        return ActionResult(Verdict(delay=delay), f"delayed by {duration_text(delay - delay % 1000)}")


@dataclass(frozen=True, slots=True)
class Throttle(Action):
    """The frame is sent piece by piece.

    :ivar rate: bytes per second
    """

    rate: int
    name = "throttle"
    forms: ClassVar[Mapping[str, str]] = {"100kB/s": "it is sent at this rate"}

    def __str__(self) -> str:
        return f"{self.name} {bytes_text(self.rate)}/s"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        rate, slash, per = argument.text.partition("/")
        size = values.size("".join(rate.split()))
        if not slash or per.strip() != "s" or size is None or size < 1:
            raise argument.error(f"{argument.text!r} is not a bandwidth", "such as 100kB/s, 1.5MiB/s")
        return cls(int(size))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(rate=float(self.rate)), f"throttled to {bytes_text(self.rate)}/s")


# ---------------------------------------------------------------- answers
@dataclass(frozen=True, slots=True)
class Error(Action):
    """A request is answered with an error and not forwarded; a response gets the error inserted.

    A Produce with acks=0 has no answer; if one fails, brokers close the connection, and so does this.
    """

    code: int
    name = "error"
    forms: ClassVar[Mapping[str, str]] = {
        "NOT_LEADER_OR_FOLLOWER": "a request is answered with this error, the broker never sees it; "
        "in a response the error is inserted",
        "6": "the same, by the error's number",
    }

    def __str__(self) -> str:
        named = error_name(self.code)
        return f"{self.name} {self.code if named.startswith('UNKNOWN_CODE_') else named}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        code = error_code(argument.text)
        if code is None:
            hint = did_you_mean(argument.text, BY_NAME) or f"such as {', '.join(cls.forms)}"
            what = f"there is no error {argument.text}" if argument.text else "which error is missing"
            raise argument.error(what, hint)
        if not code:
            raise argument.error("0 is not an error")
        return cls(code)

    @classmethod
    def offers(cls) -> Mapping[str, str]:
        return {error.name: error.advice for error in ErrorCode if error}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return failed(frame, self.code)


def error_code(text: str) -> int | None:
    """Return the error code with a name or number, None if it is neither."""
    known, number = BY_NAME.get(text.upper()), values.number(text)
    if known is not None or number is None:
        return known
    return int(number) if number.denominator == 1 and int(number) in _INT16 else None


def failed(frame: Frame, code: int) -> ActionResult:
    """Answer a request with an error, or insert the error into a response.

    :raises AnswerError: if it cannot be done with this frame
    """
    name = error_name(code)
    if frame.side == "response":
        data = with_error(frame.data, frame.api_key, frame.version, code)
        return ActionResult(Verdict(data=data), f"{name} inserted", edits.differences(frame, data))
    answer = error_response(frame.data, code)
    if answer is None:
        verdict = Verdict(data=b"", ending=Ending.CLOSE)
        return ActionResult(verdict, f"not forwarded, connection closed: how {name} shows with acks=0")
    return ActionResult(Verdict(data=b"", answer=answer), f"answered with {name}")


# ---------------------------------------------------------------- fields
@dataclass(frozen=True, slots=True)
class Set(Action):
    """Fields of the message, and of records in it, get other values; lengths and checksums are corrected.

    :ivar assigned: paths with their values as written
    """

    assigned: tuple[tuple[Path, str, str], ...]
    name = "set"
    forms: ClassVar[Mapping[str, str]] = {
        "response.throttle_time_ms=500": "a field gets another value; the message continues with it",
        "request.topics.partitions.fetch_offset=0": "without an index, in all elements of an array",
        "request.topic_data[0].partition_data[0].records.records.value=hello": "of records: keys, values, headers and "
        "timestamps, as text, JSON, `base64:...` or `null`",
        "request.min_bytes=1, request.max_wait_ms=0": "several fields",
    }

    def __str__(self) -> str:
        return f"{self.name} {', '.join(f'{text}={value}' for _, text, value in self.assigned)}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        if not argument.text:
            raise argument.error("set takes PATH=VALUE", f"such as {next(iter(cls.forms))}")
        assigned = tuple(map(_assignment, argument.split()))
        if len({path.side for path, _, _ in assigned}) > 1:
            raise argument.error("a rule changes the request or the response", "add a rule for each")
        return cls(assigned)

    @property
    def side(self) -> Side | None:
        return self.assigned[0][0].side

    @property
    def apis(self) -> frozenset[int] | None:
        return frozenset.intersection(*(path.apis for path, _, _ in self.assigned))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        changes = {text.partition(".")[2]: edits.FieldText(value) for _, text, value in self.assigned}
        try:
            data, changed = edits.with_changes(frame, changes, rule_budget())
        except EditError as error:
            raise AnswerError(str(error)) from None
        return ActionResult(Verdict(data=data), str(self), changed)


def _assignment(argument: Argument) -> tuple[Path, str, str]:
    text, equals, value = argument.text.partition("=")
    text = text.strip()
    if not equals or not is_path(text):
        hint = f"a path begins with request. or response.: {next(iter(Set.forms))}"
        raise argument.error(f"{argument.text!r} is not PATH=VALUE", hint)
    try:
        path = find(text)
    except UnknownStepError as error:
        at = argument.part(error.offset, error.offset + error.length)
        raise at.error(str(error), error.hint) from None
    except AssertionError:
        raise argument.part(0, len(text)).error(f"{text!r} is not a path") from None
    if path.embedded_at:
        message = "fields of a protocol inside bytes cannot be set"
        raise argument.part(0, len(text)).error(message, "set the bytes as base64:... or 0x...")
    return path, text, value.strip()


# ---------------------------------------------------------------- scripts
@dataclass(frozen=True, slots=True)
class Script(Action):
    """The frame waits for a function of a Python file, which may change, delay or answer it.

    :ivar file: as written
    :ivar path: the absolute path
    :ivar functions: sides of messages for which the file has a function
    """

    file: str
    path: FilePath = field(compare=False)
    functions: frozenset[Side] = field(compare=False)
    name = "script"
    forms: ClassVar[Mapping[str, str]] = {
        "edit.py": "`request(exchange)` or `response(exchange)` of this Python file may change, delay or answer it"
    }

    def __str__(self) -> str:
        return f"{self.name} {self.file}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        if not argument.text:
            raise argument.error(
                "the file is missing after script", f"such as {cls.name} {next(iter(cls.forms))}"
            )
        path = FilePath(argument.text).expanduser().absolute()
        try:
            statements = ast.parse(path.read_bytes()).body
        except OSError as error:
            raise argument.error(f"{path} cannot be read: {error.strerror}") from None
        except (SyntaxError, ValueError) as error:
            raise argument.error(f"{path} is not a Python file: {error}") from None
        names = {each.name for each in statements if isinstance(each, ast.FunctionDef)}
        functions = frozenset(side for side in SIDES if side in names)
        if not functions:
            raise argument.error(f"{path} has neither a function request nor a function response")
        return cls(argument.text, path, functions)

    @classmethod
    def offers(cls) -> Mapping[str, str]:
        return {path.name: "a script in this folder" for path in sorted(FilePath().glob("*.py"))}

    @property
    def side(self) -> Side | None:
        return next(iter(self.functions)) if len(self.functions) == 1 else None

    @property
    def script(self) -> FilePath:
        return self.path

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(hold=Hold(0, frame, 0)), f"given to {self.path.name}")


# ---------------------------------------------------------------- the connection
@dataclass(frozen=True, slots=True)
class Drop(Action):
    """The connection is closed in place of the frame."""

    name = "drop"
    forms: ClassVar[Mapping[str, str]] = {"": "the connection is closed in its place"}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", ending=Ending.CLOSE), "not forwarded, connection closed")


@dataclass(frozen=True, slots=True)
class Reset(Action):
    """The connection is reset in place of the frame."""

    name = "reset"
    forms: ClassVar[Mapping[str, str]] = {"": "the connection is reset (RST) in its place"}

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", ending=Ending.RESET), "not forwarded, connection reset")


@dataclass(frozen=True, slots=True)
class Blackhole(Action):
    """From this frame on nothing is forwarded in either direction, and nothing is closed."""

    name = "blackhole"
    forms: ClassVar[Mapping[str, str]] = {
        "": "from then on, forward nothing in either direction, and close nothing"
    }

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        return ActionResult(Verdict(data=b"", ending=Ending.SWALLOW), "swallowed, with all that follows")


# ---------------------------------------------------------------- bytes
@dataclass(frozen=True, slots=True)
class Truncate(Action):
    """Only the first bytes are sent, then the connection is closed."""

    length: int
    name = "truncate"
    forms: ClassVar[Mapping[str, str]] = {
        "100": "its first 100 bytes are sent, then the connection is closed"
    }

    def __str__(self) -> str:
        return f"{self.name} {self.length}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        return cls(argument.byte_count("how many bytes are sent"))

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        sent = min(self.length, len(frame.data))
        verdict = Verdict(data=frame.data[:sent], ending=Ending.CLOSE)
        return ActionResult(verdict, f"truncated to {sent} of {len(frame.data)} bytes, connection closed")


@dataclass(frozen=True, slots=True)
class Corrupt(Action):
    """One byte is changed.

    :ivar offset: of the byte; None for a random one after the header
    """

    offset: int | None = None
    name = "corrupt"
    forms: ClassVar[Mapping[str, str]] = {
        "": "one byte is changed, at random after the header",
        "17": "the byte at this offset is changed",
    }

    def __str__(self) -> str:
        return self.name if self.offset is None else f"{self.name} {self.offset}"

    @classmethod
    def read(cls, argument: Argument) -> Self:
        return cls(argument.byte_count("the offset") if argument.text else None)

    def apply(self, frame: Frame, chance: Random) -> ActionResult:
        at = self.offset
        if at is None:
            start = min(_body_start(frame), len(frame.data) - 1)
            at = chance.randrange(start, len(frame.data))
        if at >= len(frame.data):
            raise AnswerError(f"there is no offset {at} in a frame of {len(frame.data)} bytes")
        data = bytearray(frame.data)
        before = data[at]
        data[at] ^= chance.randrange(1, 256)
        words = f"byte at offset {at} changed from 0x{before:02x} to 0x{data[at]:02x}"
        return ActionResult(Verdict(data=bytes(data)), words)


def _body_start(frame: Frame) -> int:
    """Return the offset of the body; of the end of the correlation ID if the header cannot be read."""
    known, start = api(frame.api_key), None
    payload = frame.data[SIZE_BYTES:]
    if known is not None and frame.side == "request":
        version = request_header_version(known.request, frame.version)
        start = request_body_start(payload, version)
    elif known is not None:
        start = response_body_start(payload, response_header_version(known.response, frame.version))
    return _CORRELATION_ID_END[frame.side] if start is None else start + SIZE_BYTES
