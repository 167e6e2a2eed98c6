"""Input and result of decoding embedded bytes: :class:`Hints` and :class:`EmbeddedValue`.

Rules of this package:

* Malformed bytes never raise: everything read before an error stays, and the error becomes a problem.
* Empty bytes are common in groups that have nothing to say; they have no value and no problem.
* A conjecture is marked in ``guess`` and accepted only if it accounts for every byte.
* Secrets are replaced by None and listed in ``masked``, unless the caller asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dissectors.budget import Budget
from dissectors.errors import DecodeError

#: byte offset in the bytes handed in (-1: unknown), field path inside the value, reason in words
EmbeddedProblem = tuple[int, str, str]


class Hints(msgspec.Struct, frozen=True):
    """Facts from the surroundings of a bytes field about its content. All of them may be missing.

    :ivar protocol_type: protocol type of the group: ``consumer``, ``connect``, ``sr`` ...
    :ivar protocol_name: assignor or Connect protocol: ``range``, ``sticky``, ``stream``, ``compatible`` ...
    :ivar mechanism: SASL mechanism of the connection, as in SaslHandshake
    :ivar compression: codec number of pushed telemetry
    :ivar inner_key: API key of the request inside the Envelope to which this is the response
    :ivar inner_version: version of that request
    :ivar show_secrets: leave passwords, proofs and tokens readable
    :ivar budget: budget of the message that contains the field; None gives the field a message's budget of its own
    """

    protocol_type: str | None = None
    protocol_name: str | None = None
    mechanism: str | None = None
    compression: int | None = None
    inner_key: int | None = None
    inner_version: int | None = None
    show_secrets: bool = False
    budget: Budget | None = None


NO_HINTS = Hints()


class EmbeddedValue(msgspec.Struct, frozen=True):
    """The content of a bytes field.

    :ivar value: dicts, lists and leaves; bytes only if nothing is known about them; None if nothing was read
    :ivar label: name of the content, for people: ``ConsumerProtocolSubscription v3``
    :ivar version: version announced by the bytes, if any
    :ivar problems: what was wrong
    :ivar masked: paths inside ``value`` of secrets that were replaced by None
    :ivar guess: why it was decoded as something that was not announced; empty if it was announced
    :ivar names: names of enumerated values inside ``value``, by path
    :ivar limit: name of the limit beyond which nothing was decided, empty if none was reached
    """

    value: Any
    label: str
    version: int | None = None
    problems: tuple[EmbeddedProblem, ...] = ()
    masked: tuple[str, ...] = ()
    guess: str = ""
    names: Mapping[str, str] = {}
    limit: str = ""


def problem_of(error: DecodeError) -> EmbeddedProblem:
    """Return a decoder's error as a problem."""
    return error.offset, error.field_path, error.reason


def inside(
    path: str, problems: tuple[EmbeddedProblem, ...] | list[EmbeddedProblem], offset: int = 0
) -> list[EmbeddedProblem]:
    """Return the problems of a part as problems of the whole.

    :param path: path of the part
    :param offset: byte offset of the part
    """
    return [
        (at + offset if at >= 0 and offset >= 0 else -1, join(path, where), why)
        for at, where, why in problems
    ]


def join(path: str, rest: str) -> str:
    """Join two field paths: ``members[0]`` and ``user_data.generation``; either may be empty."""
    return f"{path}.{rest}" if path and rest and not rest.startswith("[") else path + rest
