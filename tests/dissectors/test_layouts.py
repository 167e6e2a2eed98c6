"""Drift test: every layout of every API against the facts of Kafka's own message definitions."""

from __future__ import annotations

from typing import Any

import pytest

from dissectors import apis, headers
from tests.definitions import facts
from tests.definitions.declared import drift
from tests.dissectors.values import every_layout

pytestmark = pytest.mark.quick

MESSAGES = facts.kept().of_kind("request", "response")
HEADERS = facts.kept().of_kind("header")


@pytest.mark.turns(1)
@pytest.mark.sample(139)
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_every_layout_is_kafkas(message: facts.Message) -> None:
    assert drift(message) == []


@pytest.mark.parametrize("key", range(len(apis.NAMES)))
def test_names_are_kafkas(key: int) -> None:
    known = apis.api(key)
    assert known is not None
    names = {message.name for message in MESSAGES if message.key == key}
    assert {known.request.name, known.response.name} == names


def test_nothing_is_declared_that_kafka_has_not() -> None:
    known = {
        (message.kind, message.key, version): len(layouts)
        for message in MESSAGES
        for version, layouts in message.layouts.items()
    }
    ours = [(layout.message.kind, layout.message.key, layout.version) for layout in every_layout()]
    assert {place: ours.count(place) for place in set(ours)} == known


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_headers_are_kafkas(header: facts.Message) -> None:
    # the definition of 2.2 called v0 what its code wrote as v1: the first that Kafka was generated from is of 2.4
    layouts = {version: layouts[-1:] for version, layouts in header.layouts.items()}
    assert list(getattr(headers, header.name).versions) == sorted(layouts)
    assert drift(facts.Message(header.name, header.kind, header.key, layouts)) == []


@pytest.mark.parametrize("key", range(len(apis.NAMES)))
def test_every_field_says_what_it_means(key: int) -> None:
    known = apis.api(key)
    assert known is not None
    assert known.doc.startswith(f"{known.name} (key {key})")

    def undocumented(struct: Any, path: str) -> list[str]:
        found = []
        for field in struct.fields:
            here = f"{path}.{field.name}"
            if not field.doc:
                found.append(here)
            inner = getattr(field.type, "element", field.type)
            if hasattr(inner, "fields"):
                found += undocumented(inner, here)
        return found

    assert (
        undocumented(known.request.struct, "request") + undocumented(known.response.struct, "response") == []
    )
