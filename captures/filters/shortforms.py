"""Short forms in the style of mitmproxy: ``~t orders`` for ``topic ~ "orders"``.

A form takes at most one value, which needs no quotes: ``~t orders.* ~e``. Forms that take a text search for
it as a regular expression, ignoring case. They are only abbreviations: each expands to the main grammar,
and :func:`captures.filters.grammar.render` shows the expansion.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from captures.filters.nodes import (
    EQUAL,
    GREATER,
    MATCHES,
    Compare,
    FieldPresent,
    MatchAll,
    Name,
    Node,
    Or,
    Selector,
    Value,
)
from dissectors.apis import keys_by_name
from dissectors.error_codes import BY_NAME

SLOW = "100ms"
"""Default threshold of ``~s``."""


class Form(msgspec.Struct, frozen=True):
    """One short form.

    :ivar sign: letters after the tilde
    :ivar argument: name of the value in help texts; empty if there is none
    :ivar doc: one line for people
    :ivar make: position of the form and value -> tree
    :ivar optional: whether the value may be left out
    :ivar completes: the field whose values complete it
    """

    sign: str
    argument: str
    doc: str
    make: Callable[[int, Value | None], Node]
    optional: bool = False
    completes: str = ""


def _bare(field: str) -> Callable[[int, Value | None], Node]:
    return lambda position, _: FieldPresent(Name(field, position))


def _test(operator: str, *fields: str, default: str = "") -> Callable[[int, Value | None], Node]:
    def make(position: int, value: Value | None) -> Node:
        given = value or Value(default, position=position)
        tests = tuple(Compare(Name(field, position), operator, given, position=position) for field in fields)
        return tests[0] if len(tests) == 1 else Or(tests)

    return make


def _api(position: int, value: Value | None) -> Node:
    # "~a fetch" means Fetch only, not also OffsetFetch and ShareFetch
    assert value is not None
    operator = EQUAL if value.text.lower() in keys_by_name() else MATCHES
    return _test(operator, "api")(position, value)


FORMS = {
    form.sign: form
    for form in (
        Form("a", "API", "the API: its name, or a regex that is found in it", _api, completes="api"),
        Form("t", "regex", "a topic in request or response", _test(MATCHES, "topic"), completes="topic"),
        Form("p", "number", "a partition in request or response", _test(EQUAL, "partition")),
        Form(
            "g", "regex", "the consumer, share or streams group", _test(MATCHES, "group"), completes="group"
        ),
        Form(
            "c",
            "regex",
            "the client: its ID or its address",
            _test(MATCHES, "client_id", "client"),
            completes="client_id",
        ),
        Form("b", "regex", "the broker's address", _test(MATCHES, "broker"), completes="broker"),
        Form(
            "x",
            "regex",
            "the transactional ID",
            _test(MATCHES, "transactional_id"),
            completes="transactional_id",
        ),
        Form("k", "regex", "the key of a record", _test(MATCHES, "key")),
        Form("v", "regex", "the value of a record", _test(MATCHES, "value")),
        Form(
            "h", "regex", "the name or the value of a record header", _test(MATCHES, "header", "header.value")
        ),
        Form("e", "", "an error that does not belong to a normal conversation", _bare("error")),
        Form("u", "", "no answer came", _bare("unanswered")),
        Form(
            "s",
            "duration",
            f"slower than this, without designed waits; {SLOW} if not given",
            _test(GREATER, "excess", default=SLOW),
            optional=True,
        ),
        Form("d", "", "bytes are missing", _bare("damaged")),
        Form("n", "number", "the number of the exchange", _test(EQUAL, "number")),
        Form("m", "", "marked", lambda position, _: Selector("marked", position)),
        Form("comment", "regex", "the comment", _test(MATCHES, "comment")),
        Form("all", "", "everything", lambda position, _: MatchAll()),
    )
}
"""Short forms by their letters."""


PLAIN_FIELDS = ("api", "client", "broker", "topic", "group")
"""Fields searched for a text alone."""


def plain(value: Value) -> Node:
    """Return the meaning of a text alone: an API or an error of that name, or else a regex for the plain fields."""
    if not value.quoted and value.text.lower() in keys_by_name():
        return _test(EQUAL, "api")(value.position, value)
    if not value.quoted and value.text.upper() in BY_NAME:
        return _test(EQUAL, "error.any")(value.position, value)
    return _test(MATCHES, *PLAIN_FIELDS)(value.position, value)


def signs() -> list[str]:
    """Return all short forms as written."""
    return [f"~{sign}" for sign in FORMS]
