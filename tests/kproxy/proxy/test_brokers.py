"""Where clients find brokers."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.addresses import Broker
from kproxy.proxy.brokers import Brokers, Place, Ports, PortsError
from kproxy.proxy.tls.sni import NodeNames


class Listening:
    """Opens no listener, but remembers which were asked for."""

    def __init__(self, *, busy: frozenset[int] = frozenset()) -> None:
        self.asked: list[int] = []
        self.changes: list[tuple[int, str]] = []
        self._busy = busy
        self._free = count(50_000)

    def listen(self, place: Place, port: int) -> int:
        self.asked.append(port)
        return next(self._free) if port == 0 or port in self._busy else port

    def changed(self, place: Place, before: str) -> None:
        self.changes.append((place.node_id, before))

    def brokers(self, ports: str = "", **options: Any) -> Brokers:
        return Brokers(Ports.parse(ports, 9092), "proxy", self.listen, self.changed, **options)


def broker(node_id: int, host: str = "", port: int = 9092, role: Any = "broker") -> Broker:
    return Broker(role, node_id, host or f"kafka{node_id}", port)


def test_the_port_is_a_base_and_the_node_id() -> None:
    brokers = Listening().brokers()
    assert [brokers.advertise(broker(each)) for each in (0, 7, 1001)] == [
        ("proxy", 9093),
        ("proxy", 9100),
        ("proxy", 10_094),
    ]
    assert brokers.advertise(broker(7)) == ("proxy", 9100)


def test_controllers_have_ports_of_their_own() -> None:
    """In combined mode they have the node IDs of brokers, and other addresses."""
    brokers = Listening().brokers()
    assert brokers.advertise(broker(1)) == ("proxy", 9094)
    assert brokers.advertise(broker(1, port=9093, role="controller")) == ("proxy", 10_094)


def test_a_range_is_given_out_in_the_order_of_appearance_then_the_system_chooses() -> None:
    listening = Listening()
    brokers = listening.brokers("9093-9094")
    assert [brokers.advertise(broker(each))[1] for each in (500, 3, 9)] == [9093, 9094, 50_000]


def test_node_ids_beyond_the_ports_there_are_get_one_that_the_system_chooses() -> None:
    assert Listening().brokers().advertise(broker(2_000_000)) == ("proxy", 50_000)


def test_a_busy_port_is_replaced() -> None:
    assert Listening(busy=frozenset({9094})).brokers().advertise(broker(1)) == ("proxy", 50_000)


def test_without_a_listener_clients_are_sent_nowhere_until_there_is_one() -> None:
    listening = Listening()
    open_now = False
    brokers = Brokers(
        Ports.parse("", 9092), "proxy", lambda _, port: port if open_now else 0, listening.changed
    )
    assert brokers.advertise(broker(1)) == ("proxy", 1)
    open_now = True
    assert brokers.advertise(broker(1)) == ("proxy", 9094)


def test_with_sni_all_share_a_port() -> None:
    listening = Listening()
    brokers = listening.brokers(sni=(NodeNames("b{node_id}.kafka.test"), 9092))
    assert brokers.advertise(broker(3)) == ("b3.kafka.test", 9092)
    assert not listening.asked


def test_a_broker_that_moves_keeps_its_listener() -> None:
    listening = Listening()
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
    first = Listening().brokers("any", **options)
    ports = {each: first.advertise(broker(each))[1] for each in (4, 2)}
    again = Listening()
    second = again.brokers("any", **options)
    second.remember()
    assert {place.node_id: place.listens for place in second} == ports
    assert again.asked == [ports[4], ports[2]]


def test_another_choice_of_ports_overrules_what_is_known(tmp_path: Path) -> None:
    options = {"file": tmp_path / "brokers.json", "bootstrap": (("kafka", 9092),)}
    Listening().brokers("any", **options).advertise(broker(4))
    brokers = Listening().brokers("12000+", **options)
    brokers.remember()
    assert [place.listens for place in brokers] == [12_004]


def test_another_cluster_is_not_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "brokers.json"
    Listening().brokers(file=file, bootstrap=(("kafka", 9092),)).advertise(broker(4))
    other = Listening().brokers(file=file, bootstrap=(("elsewhere", 9092),))
    other.remember()
    assert not list(other)


def test_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "brokers.json").write_text("{")
    brokers = Listening().brokers(file=tmp_path / "brokers.json")
    brokers.remember()
    assert not list(brokers)


@pytest.mark.parametrize("text", ["9093", "0+", "70000+", "9100-9000", "9000-70000", "-", "some"])
def test_a_choice_of_ports_that_makes_no_sense_is_explained(text: str) -> None:
    with pytest.raises(PortsError, match=r"9093\+ \(and the node ID\)"):
        Ports.parse(text, 9092)
