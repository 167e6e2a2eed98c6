from __future__ import annotations

from dissectors.embedded import EmbeddedValue, Hints, decode, trace
from dissectors.embedded.connect import ConnectAssignment, ConnectMetadata

# 21_k430_connect_eager.pcap: JoinGroup, protocol "default"
EAGER = bytes.fromhex("00000017687474703a2f2f3132372e302e302e313a31343133312fffffffffffffffff")
# 21_k430_connect_eager.pcap: SyncGroup
EAGER_ASSIGNMENT = bytes.fromhex(
    "0000 0000 0027 77312d34643530643464302d316233632d346362612d386563362d663135343531356432643830"
    "0017 687474703a2f2f3132372e302e302e313a31343133312f ffffffffffffffff 00000000"
)  # fmt: skip

ASSIGNED = {
    "error": 1,
    "leader": "w1",
    "leader_url": "http://w1:8083/",
    "config_offset": 7,
    "assigned": [{"connector": "files", "tasks": (-1, 0)}],
    "revoked": None,
    "delay": 300_000,
}


def metadata(data: bytes, name: str = "compatible") -> EmbeddedValue:
    return decode("group_metadata", data, Hints("connect", name))


def test_eager() -> None:
    found = metadata(EAGER, "default")
    assert found.value == {"version": 0, "url": "http://127.0.0.1:14131/", "config_offset": -1}
    assert (found.label, found.problems) == ("ConnectMetadata v0", ())
    found = decode("group_assignment", EAGER_ASSIGNMENT, Hints("connect", "default"))
    assert found.value == {
        "version": 0,
        "error": 0,
        "leader": "w1-4d50d4d0-1b3c-4cba-8ec6-f154515d2d80",
        "leader_url": "http://127.0.0.1:14131/",
        "config_offset": -1,
        "assigned": [],
    }
    assert found.names == {"error": "NO_ERROR"}


def test_without_protocol_type_it_is_found_out() -> None:
    found = decode("group_metadata", EAGER)
    assert found.label == "ConnectMetadata v0"
    assert found.guess == "protocol type not seen, all bytes match connect"
    found = decode("group_assignment", EAGER_ASSIGNMENT)
    assert found.label == "ConnectAssignment v0"


def test_incremental_metadata_holds_an_assignment() -> None:
    allocation = b"\0\1" + ConnectAssignment[1].build(ASSIGNED)
    for version in (1, 2):
        worker = {"url": "http://w2/", "config_offset": 7, "allocation": allocation}
        data = bytes([0, version]) + ConnectMetadata[version].build(worker)
        found = metadata(data)
        assert found.value == {**worker, "version": version, "allocation": {"version": 1, **ASSIGNED}}
        assert found.names == {"allocation.error": "CONFIG_MISMATCH"}
        tree = trace("group_metadata", data, Hints("connect", "compatible"))
        assert tree is not None
        assert tree.to_value() == found.value
        by_path = dict(tree.walk())
        node = by_path["allocation.leader"]
        assert data[node.start : node.end] == b"\0\2w1"


def test_last_fields_may_be_missing() -> None:
    whole = ConnectAssignment[1].build(ASSIGNED)
    missing = {4: {"delay"}, 8: {"delay", "revoked"}}
    for cut, names in missing.items():
        found = decode("group_assignment", b"\0\1" + whole[:-cut], Hints("connect", "compatible"))
        assert found.problems == ()
        expected = {name: item for name, item in ASSIGNED.items() if name not in names}
        assert found.value == {"version": 1, **expected}
    found = metadata(b"\0\1" + ConnectMetadata[0].build({"url": "http://w2/", "config_offset": 7}))
    assert found.value == {"version": 1, "url": "http://w2/", "config_offset": 7}
    assert found.problems == ()


def test_a_cut_inside_a_field_is_a_problem() -> None:
    whole = b"\0\1" + ConnectAssignment[1].build(ASSIGNED)
    found = decode("group_assignment", whole[:-2], Hints("connect", "compatible"))
    assert found.value["leader"] == "w1"
    assert found.problems[0][1] == "delay"
