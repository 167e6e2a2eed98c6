"""The recordings, and the events in those where neither the log nor the listeners tell everything."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import Trigger
from tests.captures.analysis.groups import by_epochs, by_events, by_log
from tests.captures.analysis.groups.truth import FOLDER, ExpectedRebalance, Truth, TruthEvent, read

NAMES = sorted(path.name.removesuffix(".json") for path in (FOLDER / "truth").glob("*.json"))
"""Recordings with a truth file."""


def _happened(trigger: Trigger, who: str = "") -> TruthEvent:
    return TruthEvent(trigger=trigger, who=frozenset(who.split("/")) if who else frozenset())


@cache
def rebalances(name: str) -> list[ExpectedRebalance]:
    """Return the rebalances that happened in a recording."""
    return BY_HAND[name] if name in BY_HAND else by_truth(read(name))


def others(name: str) -> dict[str, list[ExpectedRebalance]]:
    """Return the rebalances of groups other than the recording's own."""
    truth = read(name)
    logged = {
        group: by_truth(replace(truth, group=group, log=log, events=[]))
        for group, log in truth.other_logs.items()
    }
    return logged | OTHERS.get(name, {})


def by_truth(truth: Truth) -> list[ExpectedRebalance]:
    """Return the rebalances from the log, or from the events if there is no log."""
    if not truth.log:
        return by_events.rebalances(truth)
    if any("Preparing to rebalance" in line for _, line in truth.log):
        return by_log.rebalances(truth)
    return by_epochs.rebalances(truth)


SINK = 1795255049.754
"""When the first consumer of the sink connector joined, in seconds since the epoch."""

BY_HAND: dict[str, list[ExpectedRebalance]] = {
    # The consumer of 0.9 sent no heartbeats between its polls, so each JoinGroup was its last sign of life for six
    # seconds: m1 was gone when m2's round ended, and m2's LeaveGroup came on a connection that it closed at once (the
    # round ended six seconds after the previous one, not then). When m3 had been killed, both m3 and m1 expired
    # together; the group was dead (0.9 answers commits to it with ILLEGAL_GENERATION), and m1 recreated it.
    "31_k0901_rebalance_range": [
        ExpectedRebalance(
            generation=1,
            causes=[_happened(Trigger.MEMBER_JOINED, "m1")],
            earliest=1795254911.523,
            latest=1795254913.136,
            size=1,
        ),
        ExpectedRebalance(
            generation=2,
            causes=[_happened(Trigger.MEMBER_JOINED, "m2"), _happened(Trigger.SESSION_TIMEOUT, "m1")],
            earliest=1795254915.528,
            latest=1795254917.235,
            size=1,
        ),
        ExpectedRebalance(
            generation=3,
            causes=[_happened(Trigger.MEMBER_JOINED, "m1"), _happened(Trigger.MEMBER_JOINED, "m3")],
            perhaps=[_happened(Trigger.MEMBER_LEFT, "m2"), _happened(Trigger.SESSION_TIMEOUT, "m2")],
            earliest=1795254919.259,
            latest=1795254919.530,
            size=2,
        ),
        ExpectedRebalance(
            generation=4,
            causes=[_happened(Trigger.SESSION_TIMEOUT, "m1/m3")],
            perhaps=[_happened(Trigger.SESSION_TIMEOUT, "m1/m3")],
            earliest=1795254931.164,
            latest=1795254931.166,
            size=0,
            emptied=True,
        ),
        ExpectedRebalance(
            generation=1,
            causes=[_happened(Trigger.MEMBER_JOINED, "m1")],
            earliest=1795254931.166,
            latest=1795254931.305,
            size=1,
        ),
        ExpectedRebalance(
            generation=2,
            causes=[_happened(Trigger.MEMBER_LEFT, "m1")],
            earliest=1795254936.164,
            latest=1795254936.370,
            size=0,
            emptied=True,
        ),
    ],
    # m1 was always refused (GROUP_MAX_SIZE_REACHED) and is no member; m0 and m2 joined within milliseconds.
    "25_k430_group_max_size": [
        ExpectedRebalance(
            generation=1,
            causes=[_happened(Trigger.MEMBER_JOINED, "m0/m2"), _happened(Trigger.MEMBER_JOINED, "m0/m2")],
            earliest=1795254531.847,
            latest=1795254531.975,
            size=2,
            assigned={"m0": frozenset({TopicPartition("flt", 0)})},
        ),
        ExpectedRebalance(
            generation=2,
            causes=[_happened(Trigger.MEMBER_LEFT, "m0"), _happened(Trigger.MEMBER_LEFT, "m2")],
            earliest=1795254540.868,
            latest=1795254540.870,
            size=0,
            emptied=True,
        ),
    ],
}

OTHERS: dict[str, dict[str, list[ExpectedRebalance]]] = {
    # The sink connector's consumers. Others of this group used another listener of the broker, which was not recorded:
    # two of them were earlier members, and were gone by the second rebalance.
    "21_k430_connect_eager": {
        "connect-sink": [
            ExpectedRebalance(
                generation=9,
                causes=[
                    _happened(Trigger.MEMBER_JOINED, "connector-consumer-sink-0"),
                    _happened(Trigger.MEMBER_JOINED, "connector-consumer-sink-1"),
                ],
                earliest=SINK,
                latest=SINK + 0.1,
            ),
            ExpectedRebalance(
                generation=10,
                causes=[_happened(Trigger.UNKNOWN)],
                earliest=SINK + 19.6,
                latest=SINK + 22.6,
                size=2,
            ),
            ExpectedRebalance(
                generation=11,
                causes=[
                    _happened(Trigger.MEMBER_LEFT, "connector-consumer-sink-0"),
                    _happened(Trigger.MEMBER_LEFT, "connector-consumer-sink-1"),
                ],
                earliest=SINK + 37.827,
                latest=SINK + 37.854,
                size=0,
                emptied=True,
            ),
        ]
    },
}
"""Name of a recording -> group -> rebalances, for groups other than the recording's own."""
