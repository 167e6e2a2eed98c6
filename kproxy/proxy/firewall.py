"""The firewall rules of transparent mode: commands to copy, never run by kproxy itself.

For iptables (with ip6tables) and for nftables, with both ways to bring connections to a proxy: REDIRECT, which changes
the destination of their packets, and TPROXY, which hands them over unchanged. Connections made by this machine pass
the OUTPUT hook, forwarded ones PREROUTING. All rules are in a chain or table of their own, so that removing them
removes nothing else.

The proxy's own connections to brokers must get through. They are recognised by the user that the proxy runs as.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kproxy.addresses import Address

Family = Literal[4, 6]
Tool = Literal["iptables", "nft"]
Method = Literal["redirect", "tproxy"]

MARK = 0x4B
"""Packet mark of TPROXY, in the lowest byte, which Kubernetes, Calico, Cilium and Tailscale leave alone."""
_MASK = 0xFF
_OTHERS = 0xFFFFFFFF ^ _MASK
_ANY: dict[Family, str] = {4: "0.0.0.0", 6: "::"}  # noqa: S104  # means "any" in rules


class FirewallError(Exception):
    """No rules can be made; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Commands for a root shell.

    :ivar add: one command a line, or a here-document for nft
    :ivar remove: removes everything that ``add`` made
    :ivar notes: sentences about their effects
    """

    add: str
    remove: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Path:
    """The brokers of one address family, and the listener that takes their connections.

    :ivar any_host: whether the listener accepts connections to any address of this machine
    """

    family: Family
    brokers: tuple[Address, ...]
    host: str
    port: int
    any_host: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    name: str
    method: Method
    ways: tuple[_Path, ...]
    uid: int
    mark: int
    keep_client: bool


def tool_here() -> Tool:
    """Return the tool to show first: nft, unless this machine has only iptables."""
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    lacks_nft = shutil.which("nft", path=path) is None
    return "iptables" if lacks_nft and shutil.which("iptables", path=path) else "nft"


def resolve(brokers: Iterable[Address]) -> list[Address]:
    """Return all IP addresses of brokers, each once.

    :raises FirewallError: if a name cannot be resolved
    """
    found: dict[Address, None] = {}
    for host, port in brokers:
        try:
            known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            raise FirewallError(f"The address of {host} is not known: {error.strerror}") from None
        found |= {(str(sockaddr[0]), port): None for *_, sockaddr in known}
    return list(found)


def rules(
    tool: Tool,
    method: Method,
    brokers: Iterable[Address],
    listeners: Sequence[Address],
    uid: int,
    *,
    keep_client: bool = False,
    mark: int = MARK,
) -> Rules:
    """Return the commands that redirect connections to brokers to the proxy.

    :param brokers: IP address and port of each
    :param listeners: host and port where the proxy listens; the first that accepts a broker's address family serves it.
        An empty host means all addresses
    :param uid: of the user that the proxy runs as
    :param keep_client: the proxy uses the client's address towards brokers (TPROXY)
    :param mark: 1 to 255, for TPROXY; also the number of the routing table. Two proxies need two marks
    :raises FirewallError: if a broker has no IP address, or no listener accepts its family
    """
    found = _by_family(brokers)
    listening = [(each, port) for host, port in listeners for each in ([host] if host else _ANY.values())]
    known = resolve(listening)
    ways = tuple(_path(family, addresses, known) for family, addresses in found.items() if addresses)
    if not ways:
        raise FirewallError("There are no brokers to make firewall rules for")
    plan = _Plan(f"kproxy_{ways[0].port}", method, ways, uid, mark, keep_client and method == "tproxy")
    add, remove = (_iptables if tool == "iptables" else _nft)(plan)
    if method == "tproxy":
        add = [*_routing(plan, "add"), *add]
        remove += _routing(plan, "del")
    return Rules("\n".join(add) + "\n", "\n".join(remove) + "\n", tuple(_notes(plan)))


def _by_family(brokers: Iterable[Address]) -> dict[Family, tuple[Address, ...]]:
    found: dict[Family, dict[Address, None]] = {4: {}, 6: {}}
    for host, port in brokers:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise FirewallError(
                f"Firewall rules need IP addresses, and {host} is a name: look it up first"
            ) from None
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        family: Family = 6 if mapped is None and address.version == 6 else 4
        found[family][str(mapped or address), port] = None
    return {family: tuple(addresses) for family, addresses in found.items()}


def _path(family: Family, brokers: tuple[Address, ...], listeners: Sequence[Address]) -> _Path:
    for host, port in listeners:
        address = ipaddress.ip_address(host)
        if address.version == family:
            return _Path(family, brokers, host, port, any_host=address.is_unspecified)
        if family == 4 and host == "::":
            return _Path(family, brokers, _ANY[4], port, any_host=True)
    host, port = brokers[0]
    raise FirewallError(
        f"The broker {f'[{host}]' if family == 6 else host}:{port} has an IPv{family} address, and kproxy listens on "
        f"none: clients would go around it. Listen on {'::1 or ::' if family == 6 else '127.0.0.1 or 0.0.0.0'} too"
    )


# ---------------------------------------------------------------- iptables
def _iptables(plan: _Plan) -> tuple[list[str], list[str]]:
    add, remove = list[str](), list[str]()
    for way in plan.ways:
        made, undone = (_redirect if plan.method == "redirect" else _tproxy)(plan, way)
        tool = "iptables -w -t" if way.family == 4 else "ip6tables -w -t"
        add += [f"{tool} {command}" for command in made]
        remove += [f"{tool} {command}" for command in undone]
    return add, remove


def _redirect(plan: _Plan, way: _Path) -> tuple[list[str], list[str]]:
    chain = plan.name.upper()
    jumps = [f"OUTPUT -p tcp -m owner ! --uid-owner {plan.uid} -j {chain}"]
    if way.any_host:
        jumps.append(f"PREROUTING -p tcp -j {chain}")
    targets = [
        f"-A {chain} -p tcp -d {host} --dport {port} -j REDIRECT --to-ports {way.port}"
        for host, port in way.brokers
    ]
    return _chain("nat", chain, targets, jumps)


def _tproxy(plan: _Plan, way: _Path) -> tuple[list[str], list[str]]:
    chain, own = plan.name.upper(), f"{plan.name.upper()}_OUT"
    mark = f"{plan.mark:#x}/{_MASK:#x}"
    # packets from this machine to itself pass here too: only those that the other chain marked are a client's
    first = [f"-A {chain} -i lo -m mark ! --mark {mark} -j RETURN"]
    if plan.keep_client:
        # brokers answer to the clients' addresses
        first.insert(0, f"-A {chain} -p tcp -m socket --transparent -j MARK --set-xmark {mark}")
    target = f"-j TPROXY --on-ip {way.host} --on-port {way.port} --tproxy-mark {mark}"
    taken = [f"-A {chain} -p tcp -d {host} --dport {port} {target}" for host, port in way.brokers]
    marked = [
        f"-A {own} -p tcp -d {host} --dport {port} -j MARK --set-xmark {mark}" for host, port in way.brokers
    ]
    prerouting = _chain("mangle", chain, first + taken, [f"PREROUTING -p tcp -j {chain}"])
    output = _chain("mangle", own, marked, [f"OUTPUT -p tcp -m owner ! --uid-owner {plan.uid} -j {own}"])
    return prerouting[0] + output[0], prerouting[1] + output[1]


def _chain(table: str, chain: str, targets: list[str], jumps: list[str]) -> tuple[list[str], list[str]]:
    """Return the commands that create and remove a chain; jumps to it are added last and removed first."""
    # -I: before the rules of others, such as those for services of Kubernetes
    add = [f"-N {chain}", *targets, *(f"-I {jump}" for jump in jumps)]
    remove = [*(f"-D {jump}" for jump in jumps), f"-F {chain}", f"-X {chain}"]
    return [f"{table} {command}" for command in add], [f"{table} {command}" for command in remove]


# ---------------------------------------------------------------- nftables
class _Chain(NamedTuple):
    """A base chain of nftables.

    :ivar type: type, hook and priority, in the syntax of nft(8)
    """

    name: str
    type: str
    statements: list[str]


def _nft(plan: _Plan) -> tuple[list[str], list[str]]:
    lines = ["nft -f - <<'END'", f"table inet {plan.name} {{"]
    for chain in _nft_redirect(plan) if plan.method == "redirect" else _nft_tproxy(plan):
        lines += [f"    chain {chain.name} {{", f"        type {chain.type}; policy accept;"]
        lines += [f"        {statement}" for statement in chain.statements]
        lines.append("    }")
    return [*lines, "}", "END"], [f"nft delete table inet {plan.name}"]


def _nft_redirect(plan: _Plan) -> Iterator[_Chain]:
    # before -100, the usual priority of NAT, because the first chain that decides about a connection wins
    yield _Chain(
        "output",
        "nat hook output priority -110",
        [f"meta skuid != {plan.uid} {_to(way)} redirect to :{way.port}" for way in plan.ways],
    )
    forwarded = [f"{_to(way)} redirect to :{way.port}" for way in plan.ways if way.any_host]
    if forwarded:
        yield _Chain("prerouting", "nat hook prerouting priority -110", forwarded)


def _nft_tproxy(plan: _Plan) -> Iterator[_Chain]:
    mark = f"meta mark set meta mark & {_OTHERS:#x} | {plan.mark:#x}"
    taken = [f'iifname "lo" meta mark & {_MASK:#x} != {plan.mark:#x} return']
    if plan.keep_client:
        taken.insert(0, f"meta l4proto tcp socket transparent 1 socket wildcard 0 {mark}")
    for way in plan.ways:
        to = f"ip to {way.host}" if way.family == 4 else f"ip6 to [{way.host}]"
        taken.append(f"{_to(way)} tproxy {to}:{way.port} {mark} accept")
    yield _Chain("prerouting", "filter hook prerouting priority mangle", taken)
    marked = [f"meta skuid != {plan.uid} {_to(way)} {mark}" for way in plan.ways]
    yield _Chain("output", "route hook output priority mangle", marked)


def _to(way: _Path) -> str:
    """Return the expression that matches packets to the brokers."""
    elements = ", ".join(f"{host} . {port}" for host, port in way.brokers)
    return f"{'ip' if way.family == 4 else 'ip6'} daddr . tcp dport {{ {elements} }}"


# ---------------------------------------------------------------- routing, words
def _routing(plan: _Plan, verb: Literal["add", "del"]) -> Iterator[str]:
    """Yield the commands that keep marked packets on this machine."""
    for way in plan.ways:
        ip = "ip" if way.family == 4 else "ip -6"
        yield f"{ip} rule {verb} fwmark {plan.mark:#x}/{_MASK:#x} lookup {plan.mark}"
        yield f"{ip} route {verb} local default dev lo table {plan.mark}"


def _notes(plan: _Plan) -> Iterator[str]:
    yield "While the rules are in place and kproxy is not running, clients cannot reach the brokers."
    yield "They are for the brokers known now: make them anew when brokers are added, or get other addresses."
    if plan.uid:
        yield (
            f"Connections of the user with ID {plan.uid} go around kproxy, since that is how its own get through: "
            "run clients on this machine as another user."
        )
    else:
        yield (
            "kproxy runs as root, so root's connections from this machine go around it, since that is how its own "
            "get through: run clients, or kproxy, as another user."
        )
    if plan.method == "tproxy":
        yield "Connections that exist when the rules are added, or taken away, break; clients connect again."
    else:
        yield "Connections that exist when the rules are added go on without kproxy."
        if not any(way.any_host for way in plan.ways):
            yield (
                "Only connections that this machine makes itself are redirected. To redirect those that it forwards, "
                "let kproxy listen on 0.0.0.0 or ::."
            )
    if plan.keep_client:
        yield (
            "Brokers answer to the addresses of the clients: their way back must lead through this machine, or no "
            "connection is established."
        )
