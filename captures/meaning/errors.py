"""The errors of a response, wherever they occur, and their description."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Body, Names
from captures.meaning.plans import layouts, paths
from dissectors import wire
from dissectors.domains import ERROR_CODE
from dissectors.error_codes import error_name
from dissectors.sides import Side
from dissectors.visitor import Holders, NonZero, Visitor, compiled, plan_of

_LABELS = ("group_id", "transactional_id", "resource_name", "user", "key", "feature", "log_dir", "name")
_MESSAGE_LENGTH = 90
_CODES_SHOWN = 3


class ResponseError(NamedTuple):
    """One error of a response.

    :ivar path: field path from the body's root: ``responses[0].partition_responses[2].error_code``
    :ivar code: as on the wire, never 0
    :ivar message: the broker's text beside it, or None
    :ivar holders: the structs around it, the body first; they identify the subject of the error
    """

    path: str
    code: int
    message: str | None
    holders: tuple[Body, ...]

    @property
    def name(self) -> str:
        return error_name(self.code)


def _is_error(member: wire.Member) -> bool:
    return member.field.type.domain is ERROR_CODE and isinstance(member.con, wire.FixedWidth)


def _error_fields(struct: wire.Struct) -> tuple[str, ...]:
    return tuple(member.name for member in struct.all_members if _is_error(member))


def error_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that :func:`errors_in` reads in a body, including the texts beside the codes."""
    if side == "request":
        return frozenset()
    codes = paths(_error_fields, key, version, side)
    return codes | {_message_of(code) for code in codes}


def _message_of(path: str) -> str:
    holder, dot, name = path.rpartition(".")
    return f"{holder}{dot}{name.replace('code', 'message')}"


def errors_in(key: int, version: int, body: Body | None) -> list[ResponseError]:
    """Return every error of a response body, in declaration order.

    :param version: version in which the body was decoded (:attr:`dissectors.frames.Body.version`)
    """
    found: list[ResponseError] = []
    if body:
        _visitor(key, version)(body, found)
    return found


@cache
def _visitor(key: int, version: int) -> Visitor:
    found = NonZero(_error_found)
    response = layouts(key, version, "response")
    return compiled(plan_of(response, lambda member, _: found if _is_error(member) else None))


def _error_found(code: int, path: str, holders: Holders, found: list[ResponseError]) -> None:
    message = holders[-1].get(_message_of(path.rpartition(".")[2]))
    found.append(ResponseError(path, code, message or None, holders))


# ---------------------------------------------------------------- descriptions
class _Subjects:
    """The subjects of one error code."""

    def __init__(self) -> None:
        self.count = 0
        self.whole = False
        self.topics: dict[str, list[int]] = {}
        self.labels: list[str] = []
        self.messages: set[str] = set()

    def add(self, error: ResponseError, names: Names) -> None:
        self.count += 1
        if error.message:
            self.messages.add(error.message)
        if len(error.holders) == 1:
            self.whole = True
            return
        partition = _place(error.holders, names)
        if partition is None:
            self.labels.extend(_label(error.holders))
            return
        numbers = self.topics.setdefault(partition[0], [])
        if partition[1] is not None:
            numbers.append(partition[1])

    def text(self) -> str:
        if self.whole:
            return ""
        named = [
            *([topic_partitions.groups_text(self.topics)] if self.topics else ()),
            *dict.fromkeys(self.labels),
        ]
        if named and len(named) <= words.SHOWN:
            return " ".join(named)
        return f"{self.count}×" if self.count > 1 else ""


def _place(holders: tuple[Body, ...], names: Names) -> tuple[str, int | None] | None:
    number = None
    for holder in reversed(holders[1:]):
        if number is None:
            number = topic_partitions.index(holder)
        if (
            "topic" in holder
            or "topic_name" in holder
            or "topic_id" in holder
            or (number is not None and "name" in holder)
        ):
            return topic_partitions.topic(holder, names), number
    return None


def _label(holders: tuple[Body, ...]) -> list[str]:
    for holder in reversed(holders[1:]):
        for field in _LABELS:
            value: Any = holder.get(field)
            if value and isinstance(value, str):
                return [value]
        if holder.get("member_id"):
            return [words.member(holder["member_id"])]
    return []


def errors_text(found: list[ResponseError], names: Names) -> str:
    """Describe errors: ``REBALANCE_IN_PROGRESS``, ``orders 0-2 NOT_LEADER_OR_FOLLOWER``.

    The subjects of a code are combined; the broker's own text follows if it is the only one.
    """
    by_code: dict[int, _Subjects] = {}
    for error in found:
        by_code.setdefault(error.code, _Subjects()).add(error, names)
    parts = []
    for code, subjects in list(by_code.items())[:_CODES_SHOWN]:
        about = subjects.text()
        parts.append(f"{about} {error_name(code)}" if about else error_name(code))
    if len(by_code) > _CODES_SHOWN:
        parts.append(f"+{len(by_code) - _CODES_SHOWN} other errors")
    text = ", ".join(parts)
    messages = {message for subjects in by_code.values() for message in subjects.messages}
    return f"{text}: {words.clipped(messages.pop(), _MESSAGE_LENGTH)}" if len(messages) == 1 else text
