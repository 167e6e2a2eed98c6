"""The group of a Fetch or Produce."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.filters import Context, GroupInference, compile_filter, groups
from captures.filters.groups import named_groups
from dissectors.api_keys import ApiKey
from dissectors.frames import Body

DATA = Path(__file__).resolve().parents[2] / "data"
RECORDINGS = sorted(DATA.rglob("*.pcap*"))
CONTESTED = DATA / "clean" / "36_k332_java.pcap.zst"
"""A recording of consumers of several groups that share a client ID."""


def exchange(
    key, request, response=None, *, connection=1, client="10.0.0.1:40000", client_id="app", version=0
):
    body, answer = (
        None if value is None else Body(key, version, version, {}, value, 0, b"")
        for value in (request, response)
    )
    return Exchange(
        1,
        0,
        connection,
        client,
        "10.0.0.9:9092",
        client_id,
        key,
        version,
        1,
        0,
        1,
        1,
        1,
        Flag(0),
        body,
        answer,
    )


def heartbeat(group, **places):
    return exchange(
        12, {"group_id": group, "generation_id": 1, "member_id": "m"}, {"error_code": 0}, **places
    )


def fetch(*partitions, topic="orders", replica_id=-1, **places):
    topics = (
        [{"topic": topic, "partitions": [{"partition": index} for index in partitions]}] if partitions else []
    )
    return exchange(1, {"replica_id": replica_id, "topics": topics}, {"responses": []}, **places)


def sync(group, *partitions, topic="orders", **places):
    # ConsumerProtocolAssignment.json v0: version, one topic, its partitions, null user data
    data = (
        b"\0\0\0\0\0\1" + len(topic).to_bytes(2, "big") + topic.encode() + len(partitions).to_bytes(4, "big")
    )
    data += b"".join(index.to_bytes(4, "big") for index in partitions) + b"\xff\xff\xff\xff"
    request = {"group_id": group, "generation_id": 1, "member_id": "m", "assignments": []}
    return exchange(14, request, {"error_code": 0, "assignment": data}, **places)


def learned(*exchanges) -> GroupInference:
    made = GroupInference(lambda _: None)
    for one in exchanges:
        made.observe(one)
    return made


@pytest.mark.parametrize(
    ("seen", "asked", "group"),
    [
        ([], fetch(0), None),
        ([heartbeat("a")], fetch(0), "a"),
        ([heartbeat("a")], fetch(0, connection=2, client="10.0.0.1:40001"), "a"),
        ([heartbeat("a")], fetch(0, connection=2, client="10.0.0.2:40001"), None),
        ([heartbeat("a")], fetch(0, connection=2, client_id="other"), None),
        ([heartbeat("a"), heartbeat("b", connection=2)], fetch(0), "a"),
        ([heartbeat("a"), heartbeat("b", connection=2)], fetch(0, connection=3), None),
        ([heartbeat("a"), heartbeat("b")], fetch(0), None),
        ([sync("a", 0, 1), sync("b", 2, connection=2)], fetch(1, connection=3), "a"),
        ([sync("a", 0, 1), sync("b", 2, connection=2)], fetch(2, connection=3), "b"),
        ([sync("a", 0, 1), sync("b", 2, connection=2)], fetch(1, 2, connection=3), None),
        ([sync("a", 0, 1), sync("b", 1, connection=2)], fetch(1, connection=3), None),
        ([sync("a", 0, 1), sync("b", 2, connection=2)], fetch(1, topic="others", connection=3), None),
        # an incremental Fetch names no partitions (KIP-227): the connection was told apart before, or was not
        ([sync("a", 0), sync("b", 2, connection=2), fetch(0, connection=3)], fetch(connection=3), "a"),
        ([sync("a", 0), sync("b", 2, connection=2)], fetch(connection=3), None),
        (
            [sync("a", 0), sync("b", 2, connection=2), fetch(0, connection=3), fetch(2, connection=3)],
            fetch(connection=3),
            None,
        ),
        ([heartbeat("a")], fetch(0, replica_id=2), None),
        ([heartbeat("a")], exchange(0, {"acks": 1, "topic_data": []}), "a"),
        ([heartbeat("a")], exchange(3, {"topics": []}), None),
        # an administrator names groups of which it is not a member
        ([exchange(15, {"groups": ["a", "b"]}, {"groups": []})], fetch(0), None),
    ],
)
def test_inference(seen, asked, group):
    assert learned(*seen).group_of(asked) == (group, group is not None)


def test_a_group_that_is_named_is_not_inferred():
    groups = learned(heartbeat("a"))
    assert groups.group_of(heartbeat("b")) == ("b", False)
    context = Context(groups=groups)
    assert compile_filter("group == b and not group.inferred").match(heartbeat("b"), context)
    assert compile_filter("group == a and group.inferred").match(fetch(0), context)
    assert not compile_filter("group").match(fetch(0))


def test_fetches_of_recorded_consumers_get_their_group(rebalance):
    groups = rebalance.context.groups
    for x in rebalance.exchanges:
        group, inferred = groups.group_of(x)
        if x.api == "Fetch":
            assert (group, inferred) == ("gr2-java_eager_range", True)
        elif x.api == "Produce":
            assert (group, inferred) == (None, False)
        else:
            assert not inferred
            assert [group] == named_groups(x) or group is None


def test_assignments_of_consumer_heartbeats(recording):
    found = recording("21_k430_kip848_java.pcap.zst")
    fetches = [x for x in found.exchanges if x.api == "Fetch" and x.client_id]
    assert fetches
    named = {group for x in found.exchanges if x.api == "ConsumerGroupHeartbeat" for group in named_groups(x)}
    members = {x.client_id for x in found.exchanges if x.api == "ConsumerGroupHeartbeat"}
    inferred = {x.client_id: found.context.groups.group_of(x)[0] for x in fetches if x.client_id in members}
    assert inferred
    assert set(inferred.values()) <= named


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_capture_tells_what_its_exchanges_tell_one_by_one(path):
    inferred_alike(path)


def test_clients_that_share_a_client_id_are_told_apart_whatever_is_read_together(monkeypatch):
    together = inferred_alike(CONTESTED)
    assert together.contested
    monkeypatch.setattr(groups, "BLOCK_ROWS", 7)
    inferred_alike(CONTESTED)


def test_only_exchanges_that_assign_partitions_are_observed_one_by_one(rebalance, monkeypatch):
    observed = Counter[int | None]()
    monkeypatch.setattr(GroupInference, "observe", lambda _, x: observed.update([x.api_key]))
    GroupInference.learn(rebalance.reader())
    assert observed[ApiKey.SYNC_GROUP]
    assert ApiKey.HEARTBEAT not in observed


def read(path):
    capture = open_capture(str(path))
    capture.read()
    return capture


def inferred_alike(path) -> GroupInference:
    """Assert that every exchange gets the same group as when all are observed and fully decoded."""
    capture = read(path)
    exchanges = list(ExchangeReader(capture, annotate=False, summary=False))
    reader = ExchangeReader(capture)
    reader.learn(len(reader))
    together, one_by_one = GroupInference.learn(reader), GroupInference(reader.knowledge.topic_name)
    for fetches in (False, True):
        for each in exchanges:
            if (each.api_key == ApiKey.FETCH) == fetches:
                one_by_one.observe(each)
    assert together.contested == one_by_one.contested
    for each in exchanges:
        # an incremental Fetch that names no partitions gets what its connection was told apart by
        bare = fetch(connection=each.connection, client=each.client, client_id=each.client_id)
        for asked in (each, bare):
            assert together.group_of(asked) == one_by_one.group_of(asked), each.number
    return together
