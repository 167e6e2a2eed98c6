from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.embedded import control_value
from dissectors.embedded.control import LeaderChangeMessage
from dissectors.records import ControlType

# 26_k430_add_controller_controller.pcap: records of control batches in __cluster_metadata and its snapshots
RECORDED = {
    "SNAPSHOT_HEADER": (
        "0000 000001a1fd8830c7 00",
        {"version": 0, "last_contained_log_timestamp": 1795254923463},
    ),
    "SNAPSHOT_FOOTER": ("0000 00", {"version": 0}),
    "KRAFT_VERSION": ("0000 0001 00", {"version": 0, "kraft_version": 1}),
}
VOTERS = "0000 02 00000001 14036055a30c4cc899d7634f5d7ce7e0 02 0443544c 0a3132372e302e302e31 2b53 00 0000 0001 00 00 00"


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_values(name: str) -> None:
    data, expected = RECORDED[name]
    found = control_value(name, bytes.fromhex(data))
    assert found is not None
    assert (found.value, found.problems) == (expected, ())


def test_voters() -> None:
    found = control_value("KRAFT_VOTERS", bytes.fromhex(VOTERS))
    assert found is not None
    assert found.problems == ()
    assert found.value["voters"] == [
        {
            "voter_id": 1,
            "voter_directory_id": "FANgVaMMTMiZ12NPXXzn4A",
            "endpoints": [{"name": "CTL", "host": "127.0.0.1", "port": 11091}],
            "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
        }
    ]


def test_leader_changes_of_all_releases() -> None:
    voters = {"leader_id": 1, "voters": [{"voter_id": 1}]}
    both = {**voters, "granting_voters": [{"voter_id": 1}]}
    newest = LeaderChangeMessage[0]
    until28, until27 = newest.older
    for layout, value in ((newest, {"version": 0, **both}), (until28, both), (until27, voters)):
        found = control_value("LEADER_CHANGE", layout.build(value))
        assert found is not None
        assert (found.value, found.problems) == (value, ())


def test_the_layout_of_version_1_is_known_though_never_written() -> None:
    directory = "FANgVaMMTMiZ12NPXXzn4A"
    voters = [{"voter_id": 1, "voter_directory_id": directory}]
    value = {"version": 1, "leader_id": 1, "voters": voters, "granting_voters": []}
    found = control_value("LEADER_CHANGE", LeaderChangeMessage[1].build(value))
    assert found is not None
    assert (found.value, found.label) == (value, "LeaderChangeMessage v1")


def test_nothing_to_decode() -> None:
    assert control_value("COMMIT", bytes(6)) is None
    assert control_value("UNKNOWN(9)", b"x") is None
    assert control_value("KRAFT_VERSION", None) is None
    assert control_value("KRAFT_VERSION", b"") is None


def test_cuts() -> None:
    found = control_value("KRAFT_VOTERS", bytes.fromhex(VOTERS)[:30])
    assert found is not None
    assert found.value["voters"][0]["voter_id"] == 1
    assert found.problems[0][1].startswith("voters[0]")


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([kind.name for kind in ControlType]))
def test_any_bytes(data: bytes, name: str) -> None:
    found = control_value(name, data)
    assert found is None or isinstance(found.value, dict)
