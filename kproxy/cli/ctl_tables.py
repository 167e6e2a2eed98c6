"""The answers of a running proxy as tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from kproxy.cli.tables import Column, Row, Table
from kproxy.cli.times import span


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
    yield from table.lines(shutil.get_terminal_size().columns, None, color=True)


def held_line(hold: dict[str, Any]) -> str:
    """Return a message that is held, in a line."""
    behind = f", {hold['waiting_behind']} wait behind it" if hold["waiting_behind"] else ""
    return (
        f"{hold['number']}  {hold['side']} {_api(hold)} of {_client(hold)}  goes on by itself in "
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
    columns = [
        Column("#", right=True),
        Column("client", least=12),
        Column("client ID", least=10, rank=3),
        Column("broker", least=12),
        Column("node", right=True, rank=4),
        Column("age", right=True, rank=2),
        Column("idle", right=True),
        Column("in flight", right=True),
        Column("sent", right=True),
        Column("received", right=True),
        Column("held", right=True, rank=5),
        Column("round trip to client / broker", right=True, rank=1),
    ]
    rows = [
        Row(
            [
                str(each["connection"]),
                each["client"],
                each["client_id"] or "",
                each["broker"],
                "" if each["node_id"] is None else str(each["node_id"]),
                span(each["age_ns"]),
                span(each["idle_ns"]),
                str(each["requests_in_flight"]),
                f"{each['from_client']:,}",
                f"{each['from_broker']:,}",
                str(each["held"] or ""),
                _round_trips(each.get("tcp") or {}),
            ]
        )
        for each in answer
    ]
    return Table("connections", columns, rows)


def _round_trips(tcp: dict[str, Any]) -> str:
    told = [tcp.get(side) for side in ("client", "broker")]
    if not any(told):
        return ""
    return " / ".join("-" if each is None else f"{each['rtt_us'] / 1000:.2f} ms" for each in told)


def _brokers(answer: list[dict[str, Any]]) -> Table:
    columns = [Column("role"), Column("node", right=True), Column("address"), Column("clients find it at")]
    rows = [Row([each["role"], str(each["node_id"]), each["address"], each["at"]]) for each in answer]
    return Table("brokers", columns, rows)


def _rules(answer: dict[str, Any]) -> Table:
    columns = [
        Column("#", right=True),
        Column("rule", least=20),
        Column("on"),
        Column("applied", right=True),
        Column("times left", right=True, rank=1),
        Column("time left", right=True),
    ]
    rows = []
    for each in answer["rules"]:
        left = "" if each["left_count"] is None else f"{each['left_count']:,}"
        time_left = f"ended: {each['ended']}" if each["ended"] else span(each["left_ns"])
        cells = [str(each["number"]), each["rule"], each["side"], f"{each['hits']:,}", left, time_left]
        failed = [f"failed {each['failures']:,} times: {each['failure']}"] if each["failures"] else []
        rows.append(Row(cells, below=failed, color="red" if failed else None))
    return Table("fault rules", columns, rows)


def _holds(answer: dict[str, Any]) -> Table:
    columns = [
        Column("#", right=True),
        Column("what"),
        Column("client", least=12),
        Column("broker", least=12, rank=1),
        Column("held for", right=True),
        Column("goes on in", right=True),
        Column("behind it", right=True),
    ]
    rows = [
        Row(
            [
                str(each["number"]),
                f"{each['side']} {_api(each)}",
                _client(each),
                "{}:{}".format(*each["broker"]),
                span(each["held_ns"]),
                span(each["released_in_ns"]),
                str(each["waiting_behind"]),
            ]
        )
        for each in answer["held"]
    ]
    filters = "; ".join(f"{side}s that fit: {text}" for side, text in answer["filters"].items())
    return Table("held", columns, rows, about=filters or "nothing is to be held")


_TABLES: dict[str, Callable[[Any], Table]] = {
    "connections": _connections,
    "brokers": _brokers,
    "rules": _rules,
    "holds": _holds,
}
