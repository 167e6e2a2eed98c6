"""Paths according to the declarations, and APIs that need no decoding."""

from __future__ import annotations

import pytest

from captures.filters.paths import UnknownStepError, apis_with, find
from captures.meaning import mentions
from captures.meaning.payload import _records_fields
from captures.meaning.plans import plan
from dissectors.apis import NAMES, version_limits
from dissectors.sides import SIDES


@pytest.mark.parametrize(
    ("kind", "choices"),
    [
        ("topic", [mentions._topic_fields]),
        ("group", [mentions._GROUPS._choice]),
        ("member", [mentions._MEMBERS._choice]),
        ("transaction", [mentions._TRANSACTIONS._choice]),
        ("producer", [mentions._producer_fields]),
        ("records", [_records_fields]),
    ],
)
def test_no_api_is_left_out_that_may_mention_it(kind, choices):
    found = {
        key
        for key in range(len(NAMES))
        for low, high in [version_limits()[key]]
        for version in range(low, high + 1)
        for side in SIDES
        for choice in choices
        if plan(choice, key, version, side)
    }
    assert found <= apis_with(kind)
    assert len(apis_with(kind)) < len(NAMES)


@pytest.mark.parametrize(
    ("text", "steps", "kinds"),
    [
        ("request.group_id", (("group_id", None),), {"string"}),
        (
            "request.topics[2].partitions.partition",
            (("topics", 2), ("partitions", None), ("partition", None)),
            {"int32"},
        ),
        ("response.error_code", (("error_code", None),), {"int16"}),
        ("request.replica_state.replica_id", (("replica_state", None), ("replica_id", None)), {"int32"}),
    ],
)
def test_found(text, steps, kinds):
    path = find(text)
    assert path.steps == steps
    assert {field.type.kind for field in path.leaves} == kinds
    assert path.records_at == path.embedded_at == 0


def test_records_and_embedded_protocols_are_gone_through():
    assert find("request.topic_data.partition_data.records.records.key").records_at == 3
    assert find("request.topic_data.partition_data.records").records_at == 0
    path = find("request.protocols.metadata.topics.anything")
    assert path.embedded_at == 2
    assert 11 in path.apis


@pytest.mark.parametrize(
    ("text", "offset", "hint"),
    [
        ("request.topisc", 8, "topics"),
        ("response.responses.partitions.recrods", 30, "records"),
        ("request.topic_data.partition_data.records.recods.key", 42, "records"),
        ("request.group_id.name", 17, ""),
    ],
)
def test_unknown(text, offset, hint):
    with pytest.raises(UnknownStepError) as caught:
        find(text)
    assert caught.value.offset == offset
    assert hint in caught.value.hint
