"""kproxy's interventions in exchanges, as shown by ``kproxy read``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from captures.exchanges import ExchangeReader
from captures.interventions import Change, Intervention
from kproxy.cli import main
from kproxy.text.interventions import marks
from tests.captures.exchanges.proxied import Recording, metadata, rewritten
from tests.captures.export.files import opened


def read(path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["read", *arguments, str(path)], catch_exceptions=False)
    return result.stdout


@pytest.fixture
def proxied(tmp_path: Path) -> Path:
    return rewritten(tmp_path / "proxied.pcapng")


def made_with(path: Path, asked_told: list[Intervention], answered_told: list[Intervention]) -> Path:
    recording = Recording()
    asked, answered = metadata(1)
    recording.data(0, asked, *asked_told)
    recording.data(1, answered, *answered_told)
    return recording.write(path)


def test_lines_have_short_marks(proxied: Path) -> None:
    first, second, third = read(proxied).splitlines()[1:4]
    assert first.endswith("  [changed]")
    assert "  [request delayed by 200 ms; held 2.5 s, released] 1 broker" in second
    assert "[" not in third


def test_a_field_shows_both_values(proxied: Path) -> None:
    text = read(proxied, "-V", "-c", "1")
    assert '        host "kafka1" -> "127.0.0.1" (changed by kproxy)\n' in text
    assert "        port 9092 -> 9093 (changed by kproxy)\n" in text
    assert text.count("changed by kproxy") == 2


def test_one_exchange_byte_by_byte_too(proxied: Path) -> None:
    text = read(proxied, "--exchange", "1")
    assert 'string "kafka1" -> "127.0.0.1" (changed by kproxy)' in text.lower()
    text = read(proxied, "--exchange", "2")
    assert "~ delayed by 200 ms (rule: api == Metadata => delay 200ms)" in text
    assert "~ held 2.5 s, released" in text
    assert "# look" in text


def test_what_was_done_stands_below_the_body(proxied: Path) -> None:
    text = read(proxied, "-V", "-Y", "held")
    assert "    ~ delayed by 200 ms (rule: api == Metadata => delay 200ms)\n" in text
    assert text.index("~ delayed") < text.index("  response\n") < text.index("~ held 2.5 s, released")


def test_json_has_what_was_sent_and_what_was_got(proxied: Path) -> None:
    first, second, third = map(json.loads, read(proxied, "--json").splitlines())
    assert first["response"]["brokers"][0]["host"] == "kafka1"
    assert first["kproxy"] == {
        "request": None,
        "response": {
            "changed": [
                {"path": "brokers[0].host", "sent": "kafka1", "got": "127.0.0.1"},
                {"path": "brokers[0].port", "sent": 9092, "got": 9093},
            ],
            "unlisted": 0,
            "faults": [],
            "held_ns": 0,
            "released_by": None,
            "answered": False,
            "not_forwarded": False,
            "delayed_ns": 0,
            "altered": False,
            "ended": None,
        },
    }
    assert second["kproxy"]["request"]["faults"] == [
        {"rule": "api == Metadata => delay 200ms", "action": "delayed by 200 ms"}
    ]
    assert (second["kproxy"]["response"]["held_ns"], second["kproxy"]["response"]["released_by"]) == (
        2_500_000_000,
        "user",
    )
    assert (second["marked"], second["comment"]) == (True, "look")
    assert third["kproxy"] is None


def test_changes_of_what_is_not_shown_are_listed(tmp_path: Path) -> None:
    told = [
        Intervention(changed=(Change("node_endpoints", [1], None), Change("", "a", "b")), unlisted=2),
        Intervention(answered=True),
    ]
    text = read(made_with(tmp_path / "made.pcapng", [Intervention(not_forwarded=True)], told), "-V")
    assert "    ~ not forwarded\n" in text
    assert "    ~ node_endpoints [1] -> null (changed by kproxy)\n" in text
    assert '    ~ all "a" -> "b" (changed by kproxy)\n' in text
    assert "    ~ 2 more values changed by kproxy\n" in text
    assert "    ~ answered by kproxy: the broker never saw the request\n" in text


@pytest.mark.parametrize(
    ("done", "mark"),
    [
        (Intervention(), ""),
        (Intervention(unlisted=1), "[changed]"),
        (Intervention(rule="error => reset"), "[error => reset]"),
        (Intervention(held_ns=24_000_000_000, released_by="timeout"),
         "[held 24 s, released by itself before the client's timeout]"),
        (Intervention(held_ns=1_000_000, released_by="later"), "[held 1 ms, later]"),
        (Intervention(answered=True), "[answered by kproxy]"),
    ],
)  # fmt: skip
def test_marks(tmp_path: Path, done: Intervention, mark: str) -> None:
    told = [done] if done else []
    (exchange,) = ExchangeReader(opened(made_with(tmp_path / "made.pcapng", [], told)))
    assert marks(exchange) == mark


def test_what_a_capture_says_cannot_control_the_terminal(tmp_path: Path) -> None:
    told = Intervention(
        changed=(Change("a\x1b[2J", "\x1b[2J", 1),),
        rule="\x1b[2J",
        action="\x1b]0;x\x07",
        released_by="\x1b[2J",
    )
    path = made_with(tmp_path / "made.pcapng", [told], [told])
    for arguments in ([], ["-V"], ["--exchange", "1"]):
        assert "\x1b" not in read(path, *arguments)
