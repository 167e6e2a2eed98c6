"""Recordings at the host of one member: its own fate is reported correctly, and nothing about others is invented."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.groups.activity import ConnectionActivity
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause, Trigger
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.groups.compare import listing, read_groups
from tests.captures.analysis.groups.exceptions import by_truth
from tests.captures.analysis.groups.test_cut import matched, untrue
from tests.captures.analysis.groups.truth import FOLDER, read

AT_HOSTS = FOLDER / "at_hosts"
UNINFORMED = ["48_k430_network_cut_from_broker", "49_k430_network_cut_and_closed"]
"""Nothing from the broker reaches the member, which then rejoins without having learned of its removal."""


@pytest.mark.parametrize(
    "path", sorted(AT_HOSTS.glob("*.pcap.zst")), ids=lambda path: path.name.partition(".")[0]
)
def test_what_befell_the_member_is_told_and_nothing_is_invented(path: Path) -> None:
    name, _, who = path.name.removesuffix(".pcap.zst").rpartition("-at-")
    truth = read(name, AT_HOSTS)
    happened, told = by_truth(truth), read_groups(str(path))[truth.group].rebalances
    both, said = matched(truth, happened, who, told), listing(happened, told)
    assert len(both) == len(told), said
    for expected, story in both:
        assert not untrue(truth, expected, story), said
    why = {happening.why for each in happened for happening in each.causes if who in happening.who} - {None}
    silences = [
        cause
        for story in told
        for cause in story.causes
        if cause.trigger is Trigger.SESSION_TIMEOUT and cause.client == who
    ]
    assert TimeoutCause.UNKNOWN not in why
    assert {cause.timeout_cause for cause in silences} == (why if name not in UNINFORMED else set()), said
    assert all(
        cause.session_end and cause.session_end.certainty is not Certainty.POSSIBLE for cause in silences
    )


def test_exchanges_are_named_by_their_numbers() -> None:
    """The order of table rows may differ from the numbering of exchanges."""
    capture = open_capture(str(AT_HOSTS / "41_k430_kip848_stopped_and_gone-at-m2.pcap.zst"))
    capture.read()
    exchanges = list(ExchangeReader(capture))
    assert any(exchange.number != exchange.row + 1 for exchange in exchanges)
    activity = ConnectionActivity(capture)
    for connection in range(len(capture.connections)):
        numbers = activity.requests(connection, "m2").numbers
        assert set(numbers.tolist()) == {each.number for each in exchanges if each.connection == connection}
