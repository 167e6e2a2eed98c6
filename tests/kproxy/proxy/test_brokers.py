"""Addresses at which clients find brokers."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from dissectors import budget
from kproxy.proxy.addresses import Broker
from kproxy.proxy.broker_policy import BrokerPolicy
from kproxy.proxy.brokers import Brokers, Ports, PortsError, UpstreamAddress
from kproxy.proxy.tls.sni import NodeNames


class FakeListeners:
    """Opens no listeners, but records the requested ones."""

    def __init__(self, *, busy: frozenset[int] = frozenset()) -> None:
        self.asked: list[int] = []
        self.changes: list[tuple[int, str]] = []
        self._busy = busy
        self._free = count(50_000)

    def listen(self, place: UpstreamAddress, port: int) -> int:
        self.asked.append(port)
        return next(self._free) if port == 0 or port in self._busy else port

    def changed(self, place: UpstreamAddress, before: str) -> None:
        self.changes.append((place.node_id, before))

    def brokers(self, ports: str = "", **options: Any) -> Brokers:
        return Brokers(Ports.parse(ports, 9092), "proxy", self.listen, self.changed, **options)


def broker(node_id: int, host: str = "", port: int = 9092, role: Any = "broker") -> Broker:
    return Broker(role, node_id, host or f"kafka{node_id}", port)


def saved(brokers: Brokers) -> None:
    save = brokers.saving()
    assert save is not None
    save()
    assert brokers.saving() is None


def test_the_port_is_a_base_and_the_node_id() -> None:
    brokers = FakeListeners().brokers()
    assert [brokers.advertise(broker(each)) for each in (0, 7, 1001)] == [
        ("proxy", 9093),
        ("proxy", 9100),
        ("proxy", 10_094),
    ]
    assert brokers.advertise(broker(7)) == ("proxy", 9100)


def test_controllers_have_ports_of_their_own() -> None:
    """In combined mode, controllers have the node IDs of brokers, but other addresses."""
    brokers = FakeListeners().brokers()
    assert brokers.advertise(broker(1)) == ("proxy", 9094)
    assert brokers.advertise(broker(1, port=9093, role="controller")) == ("proxy", 10_094)


def test_a_range_is_given_out_in_the_order_of_appearance_then_the_system_chooses() -> None:
    listening = FakeListeners()
    brokers = listening.brokers("9093-9094")
    assert [brokers.advertise(broker(each))[1] for each in (500, 3, 9)] == [9093, 9094, 50_000]


def test_node_ids_beyond_the_ports_there_are_get_one_that_the_system_chooses() -> None:
    assert FakeListeners().brokers().advertise(broker(2_000_000)) == ("proxy", 50_000)


def test_a_busy_port_is_replaced() -> None:
    assert FakeListeners(busy=frozenset({9094})).brokers().advertise(broker(1)) == ("proxy", 50_000)


def test_without_a_listener_clients_are_sent_nowhere_until_there_is_one() -> None:
    listening = FakeListeners()
    open_now = False
    brokers = Brokers(
        Ports.parse("", 9092), "proxy", lambda _, port: port if open_now else 0, listening.changed
    )
    assert brokers.advertise(broker(1)) == ("proxy", 1)
    open_now = True
    assert brokers.advertise(broker(1)) == ("proxy", 9094)


def test_with_sni_all_share_a_port() -> None:
    listening = FakeListeners()
    brokers = listening.brokers(sni=(NodeNames("b{node_id}.kafka.test"), 9092))
    assert brokers.advertise(broker(3)) == ("b3.kafka.test", 9092)
    assert not listening.asked


def test_a_broker_that_moves_keeps_its_listener() -> None:
    listening = FakeListeners()
    brokers = listening.brokers()
    before = brokers.advertise(broker(1, "old"))
    assert brokers.advertise(broker(1, "new", 19092)) == before
    assert listening.changes == [(1, ""), (1, "old:9092")]
    place = brokers.at("new", 19092)
    assert place is not None
    assert place.listens == 9094
    assert len(listening.asked) == 1


def test_what_is_known_outlives_a_restart(tmp_path: Path) -> None:
    options = {"file": tmp_path / "state" / "brokers.json", "bootstrap": (("kafka", 9092),)}
    first = FakeListeners().brokers("any", **options)
    ports = {each: first.advertise(broker(each))[1] for each in (4, 2)}
    saved(first)
    again = FakeListeners()
    second = again.brokers("any", **options)
    second.remember()
    assert {place.node_id: place.listens for place in second} == ports
    assert again.asked == [ports[4], ports[2]]


def test_another_choice_of_ports_overrules_what_is_known(tmp_path: Path) -> None:
    options = {"file": tmp_path / "brokers.json", "bootstrap": (("kafka", 9092),)}
    first = FakeListeners().brokers("any", **options)
    first.advertise(broker(4))
    saved(first)
    brokers = FakeListeners().brokers("12000+", **options)
    brokers.remember()
    assert [place.listens for place in brokers] == [12_004]


def test_another_cluster_is_not_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "brokers.json"
    first = FakeListeners().brokers(file=file, bootstrap=(("kafka", 9092),))
    first.advertise(broker(4))
    saved(first)
    other = FakeListeners().brokers(file=file, bootstrap=(("elsewhere", 9092),))
    other.remember()
    assert not list(other)


def test_the_file_is_written_once_however_many_brokers_there_are(tmp_path: Path) -> None:
    """Forwarding does not write it: a response with 12,000 brokers caused 12,000 writes, which took 100 seconds."""
    file = tmp_path / "brokers.json"
    brokers = FakeListeners().brokers(file=file)
    assert brokers.saving() is None
    for each in range(100):
        brokers.advertise(broker(each))
    assert not file.exists()
    saved(brokers)
    assert file.exists()
    brokers.advertise(broker(7, "elsewhere"))
    assert brokers.saving() is not None


def test_more_brokers_than_there_may_be_lead_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(budget.IN_FORCE, "brokers", 3)
    listening = FakeListeners()
    told: list[tuple[int, str]] = []
    brokers = listening.brokers(refused=lambda broker, why: told.append((broker.node_id, why)))
    addresses = [brokers.advertise(broker(each)) for each in range(50)]
    assert addresses == [("proxy", 9093), ("proxy", 9094), ("proxy", 9095), *[("proxy", 1)] * 47]
    assert listening.asked == [9093, 9094, 9095]
    assert told == [(3, "there may be no more: limit brokers (3 objects)")]
    assert brokers.refusals == 47
    assert brokers.advertise(broker(1, "moved")) == ("proxy", 9094)


@pytest.mark.parametrize(
    ("node_id", "host", "port"),
    [
        (-5, "kafka", 9092),
        (1, "", 9092),
        (1, "kafka", 0),
        (1, "kafka", 70_000),
        (1, "a\x1b]0;pwned\x07", 9092),
        (1, "a\nkproxy: all is well", 9092),
        (1, "a" * 30_000, 9092),
        (1, "fe80::1%\x1b[2J", 9092),
        (1, "a b", 9092),
        (1, "-a", 9092),
        (1, "a..b", 9092),
        (1, "kafka\0", 9092),
    ],
)
def test_what_is_no_address_leads_nowhere(node_id: int, host: str, port: int) -> None:
    listening = FakeListeners()
    told: list[str] = []
    brokers = listening.brokers(refused=lambda broker, why: told.append(why))
    assert brokers.advertise(Broker("broker", node_id, host, port)) == ("proxy", 1)
    assert not listening.asked
    assert not list(brokers)
    (why,) = told
    assert len(why) < 120
    assert why.isprintable()


def test_a_broker_that_moves_to_what_is_no_address_stays_where_it_is() -> None:
    brokers = FakeListeners().brokers()
    brokers.advertise(broker(1))
    assert brokers.advertise(broker(1, "a b")) == ("proxy", 1)
    assert brokers.advertise(broker(1)) == ("proxy", 9094)


def test_with_sni_what_is_no_address_leads_nowhere_too() -> None:
    brokers = FakeListeners().brokers(sni=(NodeNames("b{node_id}.kafka.test"), 9092))
    assert brokers.advertise(broker(3, "a b")) == ("proxy", 1)


def test_what_is_remembered_is_judged_too(tmp_path: Path) -> None:
    file = tmp_path / "brokers.json"
    first = FakeListeners().brokers(file=file)
    for each in (1, 2):
        first.advertise(broker(each, f"10.0.0.{each}"))
    saved(first)
    again = FakeListeners().brokers(file=file, announced=BrokerPolicy(["10.0.0.2"]))
    again.remember()
    assert [place.node_id for place in again] == [2]


def test_why_brokers_are_left_out_is_not_told_for_each_of_very_many() -> None:
    told: list[str] = []
    brokers = FakeListeners().brokers(refused=lambda broker, why: told.append(why))
    for each in range(1000):
        brokers.advertise(broker(each, "a b"))
    assert len(told) == 20
    assert brokers.refusals == 1000


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "brokers.json").write_text("{")
    brokers = FakeListeners().brokers(file=tmp_path / "brokers.json")
    brokers.remember()
    assert not list(brokers)


@pytest.mark.parametrize("text", ["9093", "0+", "70000+", "9100-9000", "9000-70000", "-", "some"])
def test_a_choice_of_ports_that_makes_no_sense_is_explained(text: str) -> None:
    with pytest.raises(PortsError, match=r"9093\+ \(and the node ID\)"):
        Ports.parse(text, 9092)
