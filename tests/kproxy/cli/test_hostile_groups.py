"""Names on the wire cannot harm the output of group commands: terminals, pages, tickets, diagrams."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dissectors.apis import api
from dissectors.headers import request_header_version, response_header_version
from kproxy.cli import main
from tests.captures.analysis.groups.talk import assignment, subscription
from tests.captures.exchanges.talk import Talk, packets
from tests.captures.packets.kit import MS, T0, Record, pcap

PRODUCE, FETCH, COMMIT, JOIN, LEAVE, SYNC, VERSIONS = 0, 1, 8, 11, 13, 14, 18
UNKNOWN_MEMBER_ID = 25

NAMES = [
    "\x1b[2J\x1b]0;title\x07",
    "one\ntwo\r\nthree\x85\u2028",
    "\x9b31m\x90\x00",
    "user\u202egpj.exe\u2066",
    "</title><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\"' onmouseover='alert(1)' href='javascript:alert(1)",
    "`a` [b](javascript:c) **d** | <e> <!-- f\n# g",
    "a;b #35; %%{init: {}}%% end\n    B->>A: h",
    "[bold red]i[/] $(j) `k`",
    "注文トピック" * 8,
    "طلبات" * 20,
    "e" + "\u0301" * 40,
    "x" * 5_000,
    "",
]


class Member:
    """A connection of a member that joins, consumes, fails to commit, and leaves."""

    def __init__(self, number: int, name: str) -> None:
        self.talk = Talk(number)
        self.name = name
        self.topic = name or "orders"
        self._count = 0

    def ask(self, key: int, version: int, request: dict[str, Any], response: dict[str, Any]) -> None:
        known = api(key)
        assert known is not None
        self._count += 1
        tags = b"\0" if request_header_version(known.request, version) == 2 else b""
        client_id = self.name[:5_000]
        body = tags + known.request[version].build(request)
        self.talk.ask(self._count, body, key=key, version=version, client_id=client_id)
        tags = b"\0" if response_header_version(known.response, version) == 1 else b""
        self.talk.answer(tags + known.response[version].build(response))

    def live(self, generation: int) -> list[Record]:
        name, topic = self.name, self.topic
        who = {"group_id": name, "member_id": f"{name}-id", "group_instance_id": name or None}
        self.ask(
            VERSIONS,
            3,
            {"client_software_name": name, "client_software_version": name},
            {"error_code": 0, "api_keys": [], "finalized_features": [{"name": name}]},
        )
        protocols = [{"name": name, "metadata": subscription([topic])}]
        self.ask(
            JOIN,
            9,
            who
            | {
                "member_id": "",
                "session_timeout_ms": 6_000,
                "rebalance_timeout_ms": 60_000,
                "protocol_type": "consumer",
            }
            | {"protocols": protocols, "reason": name},
            {"error_code": 0, "generation_id": generation, "protocol_type": "consumer", "protocol_name": name}
            | {"leader": f"{name}-id", "skip_assignment": False, "member_id": f"{name}-id"}
            | {"members": [{"member_id": f"{name}-id", "metadata": subscription([topic])}]},
        )
        given = assignment({topic: range(3)})
        self.ask(
            SYNC,
            5,
            who
            | {"generation_id": generation, "protocol_type": "consumer", "protocol_name": name}
            | {"assignments": [{"member_id": f"{name}-id", "assignment": given}]},
            {"error_code": 0, "protocol_type": "consumer", "protocol_name": name, "assignment": given},
        )
        answer = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": b""}
        self.ask(
            FETCH,
            6,
            {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1_000}
            | {"topics": [{"topic": topic, "partitions": [{"partition": 0, "fetch_offset": 4}]}]},
            {"responses": [{"topic": topic, "partitions": [answer]}]},
        )
        for error in (0, UNKNOWN_MEMBER_ID):
            self.ask(
                COMMIT,
                8,
                who
                | {"generation_id_or_member_epoch": generation}
                | {
                    "topics": [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 4}]}]
                },
                {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "error_code": error}]}]},
            )
        gone = {"member_id": f"{name}-id", "group_instance_id": None}
        self.ask(
            LEAVE,
            5,
            {"group_id": name, "members": [gone | {"reason": name}]},
            {"error_code": 0, "members": [gone | {"error_code": 0}]},
        )
        return packets(self.talk, Random(self.talk.number))


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [record for number, name in enumerate(NAMES) for record in Member(number, name).live(1)]
    for number, record in enumerate(records):
        record.time = T0 + number * 5 * MS
    path = tmp_path_factory.mktemp("hostile") / "hostile.pcap"
    path.write_bytes(pcap(records, nano=True))
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def lines(*arguments: str | Path) -> Iterator[str]:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    return iter(result.stdout.split("\n"))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "command",
    [
        ("groups",),
        ("groups", "--all"),
        ("groups", "--mermaid"),
        ("lag", "--all"),
        ("api-versions", "--all"),
        ("stats", "--by", "latency"),
        ("diagnose", "--all"),
        ("diagnose", "--all", "--markdown"),
    ],
    ids=" ".join,
)
def test_lines_are_inert(command: tuple[str, ...], capture: Path) -> None:
    told = list(lines(*command, capture))
    assert len(told) > 8
    assert [line for line in told if not line.isprintable()] == []


# programs need names as they were on the wire
@pytest.mark.parametrize("command", [("groups",), ("lag",), ("api-versions",), ("diagnose",)], ids=" ".join)
def test_json_holds_the_names_as_they_were(command: tuple[str, ...], capture: Path) -> None:
    told = [json.loads(line) for line in lines(*command, "--json", capture) if line]
    text = json.dumps(told)
    assert "\\u001b[2J" in text


def test_every_group_with_a_name_has_its_story(capture: Path) -> None:
    told = [json.loads(line) for line in lines("groups", "--json", capture) if line]
    assert {each["group"] for each in told} == {name for name in NAMES if name}
    assert {each["trigger"] for each in told} == {"member_joined", "member_left"}


class Page(HTMLParser):
    """The content of a page as a browser parses it: tags, attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def test_a_page_has_no_markup_of_its_capture(capture: Path) -> None:
    text = "\n".join(lines("groups", "--html", "-", capture))
    page = Page(text)
    assert not page.tags & {"script", "img", "iframe", "object", "embed", "link", "e"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert {value[:1] for name, value in page.attributes if name == "href"} == {"#"}
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


def test_a_page_names_each_place_once(capture: Path) -> None:
    page = Page("\n".join(lines("groups", "--html", "-", capture)))
    places = [value for name, value in page.attributes if name == "id"]
    assert len(places) == len(set(places)) > len(NAMES)
    assert {value[1:] for name, value in page.attributes if name == "href"} <= set(places)


def test_a_ticket_has_no_markup_of_its_capture(capture: Path) -> None:
    text = "\n".join(lines("diagnose", "--all", "--markdown", capture))
    outside = re.sub(r"(`+)[^`].*?\1", "", re.sub(r"\\.", "", text))
    assert "<script" not in outside
    assert "](javascript" not in outside
