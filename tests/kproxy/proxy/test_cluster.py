"""Several clusters behind one proxy: each client sees the brokers of its cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from captures.interventions import UpstreamBroker, as_comment
from kproxy.proxy.commands import commands
from kproxy.proxy.recorder import RecordingOptions
from kproxy.proxy.rules import Inspection
from kproxy.proxy.settings import ClusterSettings
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.proxy.planes import Client, run, running
from tests.lanes.tools import free_ports
from tests.waiting import until

NODE = 2
ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def named(name: str, port: int) -> ClusterSettings:
    return ClusterSettings(name=name, bootstrap=(("127.0.0.1", port),), listen=("127.0.0.1", 0))


async def topics_at(port: int) -> list[str]:
    async with await Client.connect(("127.0.0.1", port)) as client:
        return [each["name"] for each in (await client.ask(METADATA, 12, ALL_TOPICS))["topics"]]


def test_brokers_rules_and_answers_are_those_of_the_cluster_that_the_client_chose(tmp_path: Path) -> None:
    async def test() -> None:
        (closed,) = free_ports(1)
        async with FakeBroker() as east, FakeBroker() as west:
            for name, broker in (("east", east), ("west", west)):
                broker.advertised = [(NODE, "127.0.0.1", broker.port)]
                broker.topic(f"orders-{name}", partitions=1)
            others = named("west", west.port), named("down", closed)
            async with running(tmp_path, ("127.0.0.1", east.port), name="east", others=others) as proxy:
                clusters = {each.name: each for each in proxy.plane.clusters}
                for name in ("east", "west"):
                    place = clusters[name].brokers.get("broker", NODE)
                    assert place is not None
                    for port in (clusters[name].listeners[0].port, place.listens):
                        assert await topics_at(port) == [f"orders-{name}"]
                (note,) = proxy.told.of("note")
                assert note["text"].startswith("brokers of down will be known when a client asks for them: ")

                asked = commands(proxy.plane)
                assert [(each["cluster"], each["node_id"]) for each in asked["brokers"]({})] == [
                    ("east", NODE),
                    ("west", NODE),
                ]
                assert asked["status"]({})["clusters"]["west"]["brokers"] == 1

                rules = proxy.plane.inspection.rules
                ports = {name: clusters[name].brokers.get("broker", NODE) for name in ("east", "west")}
                assert ports["east"] is not None
                assert ports["west"] is not None
                rules.add(f"broker west/{NODE} down, name=away")
                with pytest.raises(ConnectionRefusedError):
                    await topics_at(ports["west"].listens)
                assert await topics_at(ports["east"].listens) == ["orders-east"]
                rules.remove("away")
                assert await topics_at(ports["west"].listens) == ["orders-west"]

                rules.add("cluster == west and api == Metadata => drop")
                async with await Client.connect(("127.0.0.1", ports["west"].listens)) as client:
                    client.send(b"\0")
                    await until(lambda: [each["cluster"] for each in asked["connections"]({})] == ["west"])
                assert await topics_at(ports["east"].listens) == ["orders-east"]

    run(test)


def test_the_recording_names_the_broker_of_a_connection_again(tmp_path: Path) -> None:
    """So a reader that starts with a later file of a recording knows it, too."""
    path = tmp_path / "recorded.pcapng"

    async def test() -> None:
        recorded = RecordingOptions(path=str(path))
        async with FakeBroker() as broker:
            broker.advertised = [(NODE, "127.0.0.1", broker.port)]
            at = "127.0.0.1", broker.port
            async with running(tmp_path, at, name="east", recorded=recorded, sample=0.01) as proxy:
                (listener,) = [each for each in proxy.plane.listeners if each.upstream is not None]
                async with await Client.connect(("127.0.0.1", listener.port)) as client:
                    await client.ask(METADATA, 12, ALL_TOPICS)
                    (session,) = proxy.plane.sessions
                    await until(lambda: proxy.plane.network(session)["broker"] is not None)
                    (shown,) = commands(proxy.plane)["connections"]({})
                    assert shown["connection"] == 0  # as in what is recorded

    run(test)
    comment = as_comment(UpstreamBroker(cluster="east", node_id=NODE)).encode()
    assert path.read_bytes().count(comment) > 1


@pytest.mark.parametrize(
    ("clusters", "rule", "why"),
    [
        (("east", "west"), "broker 2 down", "several clusters, say which: east, west, as in broker east/2 down"),
        (("east", "west"), "broker south/2 down", "there is no cluster 'south', say which: east, west"),
        (("",), "broker south/2 down", "there is no cluster 'south': broker south/2 down"),
    ],
)  # fmt: skip
def test_a_rule_names_the_cluster_of_its_broker(clusters: tuple[str, ...], rule: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Inspection(clusters=clusters).rules.add(rule)


@pytest.mark.parametrize(
    ("clusters", "named", "why"),
    [
        (("east", "west"), "cluster == wset", "there is no cluster wset.*did you mean west"),
        (("east", "west"), "api == Fetch and not cluster in {west, north}", "no cluster north.*there are east, west"),
        (("",), "cluster == east", "there is no cluster east.*no cluster has a name here"),
    ],
)  # fmt: skip
def test_a_filter_of_a_rule_or_hold_names_a_cluster_that_there_is(
    clusters: tuple[str, ...], named: str, why: str
) -> None:
    inspection = Inspection(clusters=clusters)
    with pytest.raises(ValueError, match=f"(?s){why}"):
        inspection.rules.add(f"{named} => delay 1s")
    with pytest.raises(ValueError, match=f"(?s){why}"):
        inspection.holds.set_filter(named)


def test_the_only_cluster_needs_no_name_in_a_rule() -> None:
    rules = Inspection(clusters=("east",)).rules
    rules.add("broker 2 down")
    assert list(rules.outages) == [("east", 2)]
    with pytest.raises(ValueError, match="broker east/2 is down already"):
        rules.add("broker east/2 down")
