"""The answers of a running proxy as tables, and its events as sentences."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from captures.meaning import words
from captures.time_format import span
from dissectors.printable import printable
from dissectors.sides import ENDS
from kproxy.text.tables import Column, Table


def lines_of(command: str, answer: Any) -> Iterator[str]:
    """Yield the lines of an answer to a command."""
    made = _TABLES.get(command)
    if made is None:
        yield from _flat(answer)
        return
    table = made(answer)
    if not table.rows:
        yield f"{table.title}: none{f' ({table.about})' if table.about else ''}"
        return
    yield from table.lines(shutil.get_terminal_size().columns)


def held_line(hold: dict[str, Any]) -> str:
    """Return a held message in one line."""
    behind = f", {hold['waiting_behind']} wait behind it" if hold["waiting_behind"] else ""
    return (
        f"{hold['number']}  {hold['side']} {_api(hold)} of {_client(hold)}  released automatically in "
        f"{span(hold['released_in_ns'])}{behind}"
    )


def _flat(answer: Any, before: str = "") -> Iterator[str]:
    if not isinstance(answer, dict):
        yield f"{before or 'answer'}  {_text(answer)}"
        return
    for name, value in answer.items():
        path = f"{before}.{name}" if before else name
        if isinstance(value, dict) and value:
            yield from _flat(value, path)
        elif name == "started_ns":
            yield f"{'started':<28}  {datetime.fromtimestamp(value / 1e9):%Y-%m-%d %H:%M:%S}"
        else:
            yield f"{path:<28}  {_text(value)}"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "-"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _api(hold: dict[str, Any]) -> str:
    return f"{hold['api']} v{hold['version']}"


def _client(item: dict[str, Any]) -> str:
    client = item["client"]
    return str(item["client_id"] or (client if isinstance(client, str) else f"{client[0]}:{client[1]}"))


def _connections(answer: list[dict[str, Any]]) -> Table:
    return Table.of(
        "connections",
        answer,
        [
            (Column("#", right=True), lambda each: str(each["connection"])),
            (Column("client", least=12), lambda each: each["client"]),
            (Column("client ID", least=10, rank=3), lambda each: each["client_id"] or ""),
            *_cluster_column(answer),
            (Column("broker", least=12), lambda each: each["broker"]),
            (
                Column("node", right=True, rank=4),
                lambda each: "" if each["node_id"] is None else str(each["node_id"]),
            ),
            (Column("age", right=True, rank=2), lambda each: span(each["age_ns"])),
            (Column("idle", right=True), lambda each: span(each["idle_ns"])),
            (Column("in flight", right=True), lambda each: str(each["requests_in_flight"])),
            (Column("sent", right=True), lambda each: f"{each['from_client']:,}"),
            (Column("received", right=True), lambda each: f"{each['from_broker']:,}"),
            (Column("held", right=True, rank=5), lambda each: str(each["held"] or "")),
            (
                Column("round trip to client / broker", right=True, rank=1),
                lambda each: _round_trips(each.get("tcp") or {}),
            ),
        ],
    )


def _cluster_column(
    answer: Sequence[Mapping[str, Any]],
) -> list[tuple[Column, Callable[[Mapping[str, Any]], str]]]:
    """Return the column with the names of clusters, if clusters have names."""
    named = any(each.get("cluster") for each in answer)
    return [(Column("cluster"), lambda each: each["cluster"] or "")] if named else []


def _round_trips(tcp: dict[str, Any]) -> str:
    samples = [tcp.get(side) for side in ENDS]
    if not any(samples):
        return ""
    return " / ".join("-" if each is None else f"{each['rtt_us'] / 1000:.2f} ms" for each in samples)


def brokers_table(answer: Sequence[Mapping[str, Any]]) -> Table:
    """Return the brokers in an answer to ``brokers``, with the reason below those that cannot be reached."""
    return Table.of(
        "brokers",
        answer,
        [
            *_cluster_column(answer),
            (Column("role", rank=2), lambda each: each["role"]),
            (Column("broker", right=True), lambda each: str(each["node_id"])),
            (Column("advertised", least=12), lambda each: each["address"]),
            (Column("dialled", least=12, rank=1), lambda each: each["dialled"] or ""),
            (Column("behind", least=12), lambda each: each["at"]),
            (Column("reachable"), lambda each: _REACHABLE[each["reachable"]]),
        ],
        below=lambda each: [each["why"]] if each["why"] else [],
        color=lambda each: "red" if each["why"] else None,
    )


_REACHABLE = {True: "yes", False: "no", None: "not tried"}


def _rules(answer: dict[str, Any]) -> Table:
    def failures(rule: dict[str, Any]) -> list[str]:
        count = rule["failures"]
        return [f"failed {count:,} times: {rule['failure']}"] if count else []

    return Table.of(
        "fault rules",
        answer["rules"],
        [
            (Column("#", right=True), lambda rule: str(rule["number"])),
            (Column("rule", least=20), lambda rule: rule["rule"]),
            (Column("on"), lambda rule: rule["side"] or "broker"),
            (Column("applied", right=True), lambda rule: f"{rule['hits']:,}"),
            (Column("times left", right=True, rank=1), lambda rule: _number(rule["left_count"])),
            (Column("time left", right=True), _time_left),
        ],
        below=failures,
        color=lambda rule: "red" if rule["failures"] else None,
    )


def _time_left(rule: dict[str, Any]) -> str:
    if rule["ended"]:
        return f"ended: {rule['ended']}"
    return "forever" if rule["left_ns"] is None else span(rule["left_ns"])


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _holds(answer: dict[str, Any]) -> Table:
    filters = "; ".join(f"{side}s that fit: {text}" for side, text in answer["filters"].items())
    return Table.of(
        "held",
        answer["held"],
        [
            (Column("#", right=True), lambda each: str(each["number"])),
            (Column("what"), lambda each: f"{each['side']} {_api(each)}"),
            (Column("client", least=12), lambda each: _client(each)),
            (Column("broker", least=12, rank=1), lambda each: "{}:{}".format(*each["broker"])),
            (Column("held for", right=True), lambda each: span(each["held_ns"])),
            (Column("goes on in", right=True), lambda each: span(each["released_in_ns"])),
            (Column("behind it", right=True), lambda each: str(each["waiting_behind"])),
        ],
        about=filters or "nothing is to be held",
    )


_TABLES: dict[str, Callable[[Any], Table]] = {
    "connections": _connections,
    "brokers": brokers_table,
    "rules": _rules,
    "holds": _holds,
}


_LONGEST_ADDRESS = 280
"""Most characters of an address: a host name has at most 253 (RFC 1035)."""

_LONGEST_REASON = 1000


def sentence_of(event: dict[str, Any]) -> str | None:
    """Return a sentence about an event of the data plane; None if it is not for users."""
    made = _SENTENCES.get(event["event"])
    return None if made is None else made(event)


def _broker(event: dict[str, Any]) -> str:
    what = _named(event)
    if event["before"]:
        moved = f"{what} is now at {_address(event)}, not at {_address(event, 'before')}"
        return f"{moved}; clients find it at {event['at']}"
    dialled = f", dialled at {_address(event, 'dialled')}," if event["dialled"] else ""
    return f"{what} at {_address(event)}{dialled} is behind {event['at']}"


def _unreachable(event: dict[str, Any]) -> str:
    why = printable(str(event["why"]), _LONGEST_REASON)
    return f"{_named(event)} cannot be reached from here: {why}"


def _named(event: dict[str, Any]) -> str:
    """Return the name of a broker: ``broker 2``, ``broker 2 of east``."""
    whose = f" of {event['cluster']}" if event.get("cluster") else ""
    return f"{event.get('role', 'broker')} {event['node_id']}{whose}"


def _address(event: dict[str, Any], name: str = "address") -> str:
    """Return an address for display: brokers choose their host names, which may be very long."""
    return printable(str(event[name]), _LONGEST_ADDRESS)


_SENTENCES: dict[str, Callable[[dict[str, Any]], str]] = {
    "listening": lambda event: (
        f"listening on {_address(event)}{f' for {name}' if (name := event.get('cluster')) else ''}"
    ),
    "broker": _broker,
    "unreachable": _unreachable,
    "escaped": lambda event: (
        f"the address of {_named(event)}, {_address(event)}, went to {event['client']} in a response to "
        f"{event['api']}: connections there go past kproxy"
    ),
    "dropped": lambda event: (
        f"{words.counted(event['bytes'], 'byte')} were forwarded but not recorded: recording is slower than traffic "
        f"({event['total']:,} of {words.counted(event['connections'], 'connection')} so far)"
    ),
    "recorder_recovered": lambda event: (
        f"recording goes on: {words.counted(event['lost_packets'], 'packet')} with "
        f"{words.counted(event['lost_bytes'], 'byte')} were not recorded meanwhile"
    ),
    "forwarding": lambda event: "forwarding is on again" if event["on"] else "forwarding is off",
    "note": lambda event: str(event["text"]),
    "warning": lambda event: str(event["text"]),
    "lost": lambda event: f"{event['count']:,} messages of the proxy were missed",
}
