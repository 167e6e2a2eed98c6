"""Every bytes field of every recording: real clients of ten libraries against brokers from 0.9 to 4.3."""

from __future__ import annotations

from collections import Counter

import pytest

from dissectors import embedded
from dissectors.embedded import EmbeddedValue
from tests.dissectors.embedded.recorded import RecordedField, recorded
from tests.reference import needs_reference

pytestmark = needs_reference

FIELDS = {
    "group_metadata": 1733,
    "group_assignment": 1176,
    "sasl_token": 1238,
    "telemetry": 10,
    "envelope_request": 20,
    "envelope_response": 20,
    "principal": 20,
    "ip_address": 20,
}


@pytest.fixture(scope="module")
def decoded() -> list[tuple[RecordedField, EmbeddedValue]]:
    return [(field, embedded.decode(field.content, field.data, field.hints)) for field in recorded()]


def made_up(field: RecordedField) -> bool:
    """Return whether no client library wrote it: sweeps fill fields with "sweep", raw error tests with a bare 0."""
    if "_sweep" in field.origin:
        return field.data == b"sweep"
    return "_errors" in field.origin and field.data == b"\0\0"


def test_all_are_there(decoded: list[tuple[RecordedField, EmbeddedValue]]) -> None:
    assert Counter(field.content for field, _ in decoded) == FIELDS


def test_all_that_clients_wrote_is_read_without_problem(
    decoded: list[tuple[RecordedField, EmbeddedValue]],
) -> None:
    for field, found in decoded:
        if field.data and not made_up(field):
            assert found.value is not None, field
            assert found.problems == (), field
        elif not field.data:
            assert (found.value, found.problems) == (None, ())


def test_what_is_made_up_is_told_apart(decoded: list[tuple[RecordedField, EmbeddedValue]]) -> None:
    told = [found for field, found in decoded if made_up(field)]
    assert len(told) == 71
    assert all(found.problems or found.value is None for found in told)


def test_trees_say_what_values_say(decoded: list[tuple[RecordedField, EmbeddedValue]]) -> None:
    compared = 0
    for field, found in decoded:
        if not field.content.startswith("envelope"):
            tree = embedded.trace(field.content, field.data, field.hints)
            if tree is not None:
                assert tree.to_value() == found.value
                compared += 1
    assert compared > 2800


def test_no_secret_is_shown(decoded: list[tuple[RecordedField, EmbeddedValue]]) -> None:
    for field, found in decoded:
        if field.content == "sasl_token":
            assert "secret" not in repr(found)
            assert "-pw" not in repr(found)
            assert set(found.masked) == {name for name, item in (found.value or {}).items() if item is None}
