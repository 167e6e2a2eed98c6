"""Firewall rules of transparent mode, executed exactly as printed, in their own network namespace."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kproxy.proxy.firewall import FirewallError, Method, Tool, resolve, rules, tool_here
from tests.kproxy.proxy.netlab import BROKERS, CLIENTS, PORT, ROUTER, missing
from tests.waiting import PATIENCE

REPOSITORY = Path(__file__).parents[3]
TOOLS: tuple[Tool, Tool] = ("iptables", "nft")
METHODS: tuple[Method, Method] = ("redirect", "tproxy")
LOOPBACK = [("127.0.0.1", 9999), ("::1", 9999)]
WANTED = [[host, PORT] for host in BROKERS.values()]

needs_namespaces = pytest.mark.skipif(bool(missing()), reason=missing() or "-")


def lab(**scenario: Any) -> dict[str, Any]:
    command = ["unshare", "--net", sys.executable, "-m", "tests.kproxy.proxy.netlab", json.dumps(scenario)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@needs_namespaces
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tool", TOOLS)
def test_connections_that_this_machine_makes(tool: Tool, method: Method) -> None:
    told = lab(tool=tool, method=method)
    assert told["direct"] == told["again"] == list(CLIENTS.values())
    assert told["through"] == list(BROKERS.values())  # this host's source address for connections to itself
    assert told["seen"] == WANTED
    assert told["own"] == "closed"
    assert told["log"].startswith("NotRedirectedError")
    assert told["after"] == told["before"]


@needs_namespaces
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("tool", TOOLS)
def test_connections_that_it_forwards(tool: Tool, method: Method) -> None:
    keep = method == "tproxy"
    told = lab(tool=tool, method=method, forwarded=True, keep_client=keep)
    assert told["direct"] == told["again"] == list(CLIENTS.values())
    assert told["through"] == list(CLIENTS.values() if keep else ROUTER["broker"].values())
    assert told["seen"] == WANTED
    assert told["own"] == "closed"
    assert told["log"].startswith("NotRedirectedError")
    assert told["after"] == told["before"]


@needs_namespaces
def test_whose_address_brokers_see_is_a_choice() -> None:
    kept = lab(tool="iptables", method="tproxy", keep_client=True)
    assert kept["through"] == list(CLIENTS.values())
    own = lab(tool="nft", method="tproxy", forwarded=True)
    assert own["through"] == list(ROUTER["broker"].values())


@needs_namespaces
@pytest.mark.parametrize(("tool", "method"), [("iptables", "redirect"), ("nft", "tproxy")])
def test_rules_that_leave_out_somebody_else_do_not_go_round_for_ever(tool: Tool, method: Method) -> None:
    told = lab(tool=tool, method=method, excluded=4711)
    assert told["through"] == ["closed", "closed"]
    assert told["seen"] == WANTED
    assert told["log"].count("LoopError") == 2


@needs_namespaces
@pytest.mark.parametrize(
    ("scenario", "through"),
    [
        ({"method": "redirect"}, BROKERS),
        ({"method": "tproxy", "forwarded": True, "keep_client": True}, CLIENTS),
    ],
)
def test_the_proxy_itself(scenario: dict[str, Any], through: dict[int, str]) -> None:
    told = lab(tool="nft", real=True, **scenario)
    assert told["through"] == list(through.values())
    assert told["again"] == list(CLIENTS.values())
    assert told["seen"] == WANTED
    assert "connected to kproxy's own address" in told["log"]


@needs_namespaces
def test_the_proxy_itself_does_not_go_round_for_ever() -> None:
    told = lab(tool="nft", method="redirect", real=True, excluded=4711)
    assert "own connection to 10.9.0.1:9092 was brought back" in told["log"]
    assert told["again"] == list(CLIENTS.values())


def test_iptables_redirect() -> None:
    found = rules("iptables", "redirect", [("10.9.0.1", 9092), ("10.9.0.2", 9093)], LOOPBACK, 998)
    assert found.add.splitlines() == [
        "iptables -w -t nat -N KPROXY_9999",
        "iptables -w -t nat -A KPROXY_9999 -p tcp -d 10.9.0.1 --dport 9092 -j REDIRECT --to-ports 9999",
        "iptables -w -t nat -A KPROXY_9999 -p tcp -d 10.9.0.2 --dport 9093 -j REDIRECT --to-ports 9999",
        "iptables -w -t nat -I OUTPUT -p tcp -m owner ! --uid-owner 998 -j KPROXY_9999",
    ]
    assert found.remove.splitlines() == [
        "iptables -w -t nat -D OUTPUT -p tcp -m owner ! --uid-owner 998 -j KPROXY_9999",
        "iptables -w -t nat -F KPROXY_9999",
        "iptables -w -t nat -X KPROXY_9999",
    ]


def test_brokers_are_named_once() -> None:
    brokers = [("10.9.0.1", 9092), ("::ffff:10.9.0.1", 9092), ("10.9.0.1", 9093)]
    assert rules("nft", "redirect", brokers, LOOPBACK, 998).add.count("10.9.0.1 . 9092") == 1


def test_forwarded_connections_are_redirected_where_they_can_be_accepted() -> None:
    brokers = [("10.9.0.1", 9092), ("fd09::1", 9092)]
    found = rules("iptables", "redirect", brokers, [("0.0.0.0", 9999), ("::1", 9999)], 998)
    assert "iptables -w -t nat -I PREROUTING" in found.add
    assert "ip6tables -w -t nat -I PREROUTING" not in found.add
    assert not any("0.0.0.0" in note for note in found.notes)
    loopback = rules("iptables", "redirect", brokers, LOOPBACK, 998)
    assert "PREROUTING" not in loopback.add
    assert any("0.0.0.0" in note for note in loopback.notes)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("method", METHODS)
def test_both_families_on_one_socket(tool: Tool, method: Method) -> None:
    found = rules(tool, method, [("10.9.0.1", 9092), ("fd09::1", 9092)], [("::", 9999)], 0)
    assert "10.9.0.1" in found.add
    assert "fd09::1" in found.add
    assert "PREROUTING" in found.add.upper()


def test_where_the_proxy_listens() -> None:
    brokers = [("10.9.0.1", 9092), ("fd09::1", 9092)]
    assert rules("nft", "tproxy", brokers, [("", 9999)], 998) == rules(
        "nft", "tproxy", brokers, [("0.0.0.0", 9999), ("::", 9999)], 998
    )
    named = rules("nft", "redirect", brokers[:1], [("localhost", 9999)], 998)
    assert named == rules("nft", "redirect", brokers[:1], LOOPBACK, 998)


@pytest.mark.parametrize("tool", TOOLS)
def test_what_is_said_of_root(tool: Tool) -> None:
    assert any(
        "root's connections" in note for note in rules(tool, "redirect", [("10.9.0.1", 1)], LOOPBACK, 0).notes
    )
    assert any("ID 998" in note for note in rules(tool, "redirect", [("10.9.0.1", 1)], LOOPBACK, 998).notes)


@pytest.mark.parametrize("keep", [False, True])
def test_the_way_back_is_only_taken_to_keep_addresses(keep: bool) -> None:
    for tool, words in (("iptables", "-m socket --transparent"), ("nft", "socket transparent 1")):
        found = rules(tool, "tproxy", [("10.9.0.1", 1)], LOOPBACK, 998, keep_client=keep)  # type: ignore[arg-type]
        assert (words in found.add) is keep
        assert any("way back" in note for note in found.notes) is keep


def test_another_mark_for_another_proxy() -> None:
    found = rules("iptables", "tproxy", [("10.9.0.1", 1)], LOOPBACK, 998, mark=7)
    assert "ip rule add fwmark 0x7/0xff lookup 7" in found.add
    assert "0x4b" not in found.add + found.remove


def test_names_of_brokers() -> None:
    addresses = {(str(info[4][0]), 9092) for info in socket.getaddrinfo("localhost", None)}
    assert set(resolve([("localhost", 9092), ("127.0.0.1", 9092)])) == addresses | {("127.0.0.1", 9092)}
    assert len(resolve([("127.0.0.1", 9092), ("127.0.0.1", 9092), ("127.0.0.1", 9093)])) == 2
    with pytest.raises(FirewallError, match=r"nobody\.invalid is not known"):
        resolve([("nobody.invalid", 9092)])


def test_the_tool_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here: set[str] = set()
    monkeypatch.setattr("shutil.which", lambda name, path: name if name in here else None)
    assert tool_here() == "nft"
    here.add("iptables")
    assert tool_here() == "iptables"
    here.add("nft")
    assert tool_here() == "nft"


@pytest.mark.parametrize("at", range(4))
def test_the_documented_commands(at: int) -> None:
    tool, method = TOOLS[at % 2], METHODS[at // 2]
    found = rules(tool, method, [("10.9.0.1", 9092), ("10.9.0.2", 9092)], [("0.0.0.0", 9292)], 998)
    text = (REPOSITORY / "docs" / "proxy-transparent.md").read_text()
    assert found.add in text
    assert found.remove in text


def test_errors() -> None:
    with pytest.raises(FirewallError, match=r"kafka\.test is a name"):
        rules("nft", "redirect", [("kafka.test", 9092)], LOOPBACK, 998)
    with pytest.raises(FirewallError, match=r"\[fd09::1\]:9092 has an IPv6 address.*::1"):
        rules("nft", "redirect", [("10.9.0.1", 9092), ("fd09::1", 9092)], LOOPBACK[:1], 998)
    with pytest.raises(FirewallError, match=r"10\.9\.0\.1:9092 has an IPv4 address.*127\.0\.0\.1"):
        rules("nft", "redirect", [("10.9.0.1", 9092)], LOOPBACK[1:], 998)
    with pytest.raises(FirewallError, match="no brokers"):
        rules("nft", "redirect", [], LOOPBACK, 998)
