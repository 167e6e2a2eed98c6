"""Assertions about recorded exchanges. The truth about the recordings is in tests/data/groups/truth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kproxy.testing import proxied_broker
from kproxy.testing.proxied_broker import ProxiedBroker

GROUPS = Path(__file__).parents[2] / "data" / "groups"
ONE_MEMBER = "25_k430_group_max_size"  # one member joins and leaves; others are refused
REBALANCES = "21_k430_java_sigstop"  # one of two members is stopped, and rejoins


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedBroker]:
    """A proxy without traffic: tests pass other recordings to it."""
    folder = tmp_path_factory.mktemp("idle")
    with ProxiedBroker("127.0.0.1:9", folder / "own.pcapng", folder) as proxied:
        yield proxied


@pytest.fixture
def proxied(idle: ProxiedBroker) -> Iterator[ProxiedBroker]:
    own = idle.recording
    yield idle
    idle.recording = own


def failure(proxied: ProxiedBroker, name: str, *arguments: str) -> str:
    with pytest.raises(AssertionError) as caught:
        getattr(proxied, name)(*arguments)
    return str(caught.value)


def test_a_recorder_that_is_not_up_yet_is_waited_for(
    proxied: ProxiedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {"waiting_bytes": 0, "gaps": 0, "restarts": 0}
    states = iter([known | {"up": False}, known | {"up": False}, known | {"up": True}])
    monkeypatch.setattr(proxied.control, "call", lambda _: {"recording": next(states)})
    proxied.recording = GROUPS / f"{ONE_MEMBER}.pcap.zst"
    proxied.assert_no_rebalance()
    assert not list(states)


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ({"up": True, "gaps": 1, "restarts": 0, "waiting_bytes": 0}, "has gaps"),
        ({"up": False, "gaps": 0, "restarts": 1, "waiting_bytes": 9}, "has gaps"),
        ({"up": False, "gaps": 0, "restarts": 0, "waiting_bytes": 0}, "is behind"),
        ({"up": True, "gaps": 0, "restarts": 0, "waiting_bytes": 7}, "is behind: 7 bytes"),
    ],
)
def test_nothing_is_asserted_of_what_is_not_recorded(
    proxied: ProxiedBroker, monkeypatch: pytest.MonkeyPatch, state: dict[str, object], text: str
) -> None:
    monkeypatch.setattr(proxied_broker, "_CATCH_UP_SECONDS", 0.01)
    monkeypatch.setattr(proxied.control, "call", lambda _: {"recording": state})
    assert text in failure(proxied, "assert_no_rebalance")


def test_the_first_and_the_last_member_are_no_rebalance(proxied: ProxiedBroker) -> None:
    proxied.recording = GROUPS / f"{ONE_MEMBER}.pcap.zst"
    proxied.assert_no_rebalance()


def test_rebalances_are_named_with_their_exchanges(proxied: ProxiedBroker) -> None:
    proxied.recording = GROUPS / f"{REBALANCES}.pcap.zst"
    (group,) = {each.group for each in proxied.rebalances()}
    text = failure(proxied, "assert_no_rebalance", group)
    assert f"  {group}: " in text
    first = proxied.rebalances()[0].evidence[0]
    assert f"\n{first:>6}  " in text
    assert text.endswith(f"kproxy read {proxied.recording}")
    proxied.assert_no_rebalance("another group")


def test_commits(proxied: ProxiedBroker) -> None:
    assert "at least 1, but 0 exchanges match" in failure(proxied, "assert_commits_acknowledged")
    proxied.recording = GROUPS / "21_k430_kp_range.pcap.zst"
    proxied.assert_commits_acknowledged()
    proxied.recording = GROUPS / "21_k430_java_sigstop.pcap.zst"
    assert "UNKNOWN_MEMBER_ID" in failure(proxied, "assert_commits_acknowledged")


def test_findings(proxied: ProxiedBroker) -> None:
    proxied.recording = GROUPS / f"{REBALANCES}.pcap.zst"
    assert "\n  MEDIUM: " in failure(proxied, "assert_no_finding_above", "low")
    proxied.assert_no_finding_above("medium")
    assert proxied.findings("medium") == [
        each for each in proxied.findings() if each.severity.word == "medium"
    ]


def test_more_exchanges_than_a_failure_names_are_counted(proxied: ProxiedBroker) -> None:
    proxied.recording = GROUPS / f"{REBALANCES}.pcap.zst"
    count = len(proxied.exchanges())
    text = failure(proxied, "assert_none", "number >= 1")
    assert f"but {count} exchanges match" in text
    assert f"... and {count - 10} more" in text


def test_a_gap_in_the_recording_fails_every_assertion(
    proxied: ProxiedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = proxied.control.call("status")
    state["recording"]["gaps"] = 1
    monkeypatch.setattr(proxied.control, "call", lambda _: state)
    assert "the recording has gaps" in failure(proxied, "assert_none", "error")


def test_invalid_arguments(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="No such option"):
        ProxiedBroker("127.0.0.1:9", tmp_path / "own.pcapng", tmp_path, ["--frob"])


def test_a_proxy_that_cannot_start_says_why(tmp_path: Path) -> None:
    proxied = ProxiedBroker("127.0.0.1:9", tmp_path / "own.pcapng", tmp_path, ["--listen=192.0.2.1:9092"])
    with pytest.raises(RuntimeError, match=r"cannot start: .*192\.0\.2\.1"), proxied:
        pass
    assert not list(tmp_path.iterdir())
