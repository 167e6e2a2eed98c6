"""Clients that a group refused or fenced are part of its story."""

from __future__ import annotations

from datetime import UTC

import pytest

from captures.analysis.groups.facts import about
from captures.names import Names
from captures.time_format import Clock
from tests.captures.analysis.groups.compare import read_groups
from tests.captures.analysis.groups.truth import FOLDER, read

#: recording -> refused clients: client, instance ID, error, count, and holder of the instance ID
REFUSED = {
    "41_k430_instance_fenced": [("m2", "inst-2", "FENCED_INSTANCE_ID", 1, "m3")],
    "21_k430_java_inconsistent": [
        ("m3", None, "INCONSISTENT_GROUP_PROTOCOL", 1, ""),
        ("m4", None, "INCONSISTENT_GROUP_PROTOCOL", 1, ""),
        ("m5", None, "INCONSISTENT_GROUP_PROTOCOL", 4, ""),
    ],
    "25_k430_group_max_size": [("m1", None, "GROUP_MAX_SIZE_REACHED", 6, "")],
    "36_k231_rebalance_static": [],
}


@pytest.mark.parametrize("name", REFUSED)
def test_who_was_refused_is_told_with_who_has_its_place(name: str) -> None:
    timeline = read_groups(str(FOLDER / f"{name}.pcap.zst"))[read(name).group]
    found = [(each.client, each.instance, each.name, each.count, each.holder) for each in timeline.refused]
    assert found == REFUSED[name]
    told = [
        fact.text for fact in about(timeline, Names(), Clock(UTC, dated=False)) if fact.title == "refused"
    ]
    for text, each in zip(told, timeline.refused, strict=True):
        assert text.startswith(each.client)
        assert f"#{each.number}" in text
        assert (f"{each.holder} has its group.instance.id" in text) == bool(each.holder)
