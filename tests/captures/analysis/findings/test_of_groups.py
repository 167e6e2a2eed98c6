"""The findings of group rules in the recordings of rebalances: what was done there, and nothing else.

The expectations are written from the truth files in ``tests/data/groups/truth``: who was killed, stopped, slow, or
refused. They cover findings above ``low``; ``long_stops`` is expected where partitions stopped for longer than 10 s,
as after a session timeout of 10 s.
"""

from __future__ import annotations

import re

import pytest

from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Severity
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.findings.group_kit import FOLDER

OF_GROUPS = {
    "blocked_rebalance",
    "commit_failures",
    "differing_subscriptions",
    "group_full",
    "heartbeat_gaps",
    "inconsistent_protocols",
    "instance_conflicts",
    "long_stops",
    "members_without_partitions",
    "rebalance_storm",
    "records_doubled",
    "session_timeouts",
    "skewed_assignment",
    "slow_polls",
}

_GROUP = re.compile(r"^group [^,]+")

M3_KILLED = {"session_timeouts, process_died": "m3"}
JAVA_KILLED = {"session_timeouts, process_died": "java"}
STOOD = {"long_stops": ""}

EXPECTED: dict[str, dict[str, str]] = {
    "21_k411_kip848_ck": M3_KILLED,
    "21_k411_share_group": M3_KILLED | STOOD,
    "21_k430_aio_roundrobin": M3_KILLED,
    "21_k430_ck_crashloop": {
        "rebalance_storm, member_joined of crash": "crash",
        "session_timeouts, process_died": "crash",
    },
    "21_k430_ck_fenced_instance": {
        "instance_conflicts, FENCED_INSTANCE_ID": "m1",
        "commit_failures, FENCED_INSTANCE_ID": "m1",
    },
    "21_k430_ck_maxpoll": {"slow_polls, max.poll.interval.ms": "m2"},
    # killed twice; the first time it returned in time
    "21_k430_ck_static": {
        "session_timeouts, process_died": "inst-3 was removed from group gr2-ck_static after"
    },
    "21_k430_connect_eager": {},  # the other worker was killed, whose connections were not captured
    "21_k430_franz_coop": M3_KILLED,
    "21_k430_java_blocked_rebalance": {"slow_polls, did not join": "m2"} | STOOD,
    "21_k430_java_eager_range": M3_KILLED,
    "21_k430_java_inconsistent": {"inconsistent_protocols, INCONSISTENT_GROUP_PROTOCOL": "m3, m4, m5"},
    "21_k430_java_range_to_coop": {},
    "21_k430_java_sigstop": {
        "session_timeouts, process_paused": "m2",
        "commit_failures, UNKNOWN_MEMBER_ID": "m2",
    },
    "21_k430_java_sticky": M3_KILLED,
    "21_k430_kafkajs": M3_KILLED,
    "21_k430_kip848_ck_static": {"session_timeouts, process_died": "i3"},
    "21_k430_kip848_java": M3_KILLED | STOOD,
    "21_k430_kip848_regex_topicchange": {  # topic created, expanded, deleted: then nothing can be committed
        "rebalance_storm, partitions_changed": "",
        "commit_failures, UNKNOWN_TOPIC_ID": "m1, m2",
        "slow_polls, did not give up": "m1, m2",
    },
    "21_k430_kip848_static_java": {
        "instance_conflicts, UNRELEASED_INSTANCE_ID": "m3, m4",
        "session_timeouts, process_died": "inst-3",
    }
    | STOOD,
    "21_k430_kp_range": M3_KILLED,
    "21_k430_sarama_range": M3_KILLED,
    "21_k430_share_group": M3_KILLED,
    # Kafka Streams does not leave its group when it closes, as s2 did
    "21_k430_streams_classic": {
        "session_timeouts, closed_in_order": "s2-StreamThread-1-consumer",
        "session_timeouts, process_died": "s3-StreamThread-1-consumer",
    }
    | STOOD,
    "21_k430_streams_kip1071": {"session_timeouts, process_died": "s3-StreamThread-1-consumer"} | STOOD,
    "25_k430_group_max_size": {"group_full, GROUP_MAX_SIZE_REACHED": "m1"},
    "27_k391_java_eager_range": M3_KILLED,
    "27_k391_java_maxpoll": {"slow_polls, max.poll.interval.ms": "m2"},
    # consumers of 0.9 send heartbeats only when they poll; according to its log, m1 was removed twice
    "31_k0901_rebalance_range": M3_KILLED
    | {
        "session_timeouts, process_lived": "m1 was removed from group grp-range twice",
        "commit_failures, UNKNOWN_MEMBER_ID": "m1",
        "commit_failures, ILLEGAL_GENERATION": "m1",
    },
    "32_k0102_rebalance_mixed": JAVA_KILLED,
    "32_k0102_rebalance_roundrobin": M3_KILLED,
    "33_k0110_rebalance_mixed": JAVA_KILLED,
    "33_k0110_rebalance_roundrobin": M3_KILLED,
    "34_k111_rebalance_range": M3_KILLED,
    "34_k111_rebalance_sticky": M3_KILLED,
    "35_k282_rebalance_mixed": JAVA_KILLED,
    "35_k282_rebalance_roundrobin": M3_KILLED,
    "35_k282_rebalance_sticky": M3_KILLED,
    "36_k01011_rebalance_roundrobin": M3_KILLED,
    "36_k102_rebalance_sticky": M3_KILLED,
    "36_k231_rebalance_static": {"session_timeouts, process_died": "inst-m3"},
    "36_k263_rebalance_coop": M3_KILLED,
    "36_k362_rebalance_coop": {"session_timeouts, process_died": "inst-m3"},
    # while m2 joins as a new member, its old session expires at the new coordinator; before, it commits with the old
    # one
    "41_k430_coordinator_away": {
        "commit_failures, UNKNOWN_MEMBER_ID": "m2",
        "session_timeouts, broker_gone": "m2",
    }
    | STOOD,
    "41_k430_coordinator_killed": {"slow_polls, did not join": "m2"},
    "41_k430_coordinator_killed_in_peace": {},
    "41_k430_host_gone": {"session_timeouts, unreachable": "m2"},
    "41_k430_instance_fenced": {"instance_conflicts, FENCED_INSTANCE_ID": "m2"},
    # slow, then stuck in revoking, for 14 s each; the rebalance timeout is 7 s
    "41_k430_kip848_slow": {
        "slow_polls, max.poll.interval.ms": "m2",
        "slow_polls, did not give up": "m2",
        "slow_polls, left out": "m2",
        "commit_failures, UNKNOWN_MEMBER_ID": "m2",
    },
    "41_k430_kip848_stopped_and_gone": {
        "session_timeouts, process_paused": "m2",
        "session_timeouts, unreachable": "m3",
        "commit_failures, UNKNOWN_MEMBER_ID": "m2",
    },
    "41_k430_rare_reasons": {},
    "41_k430_several_stopped": {
        "session_timeouts, process_paused": "m2, m3",
        "commit_failures, UNKNOWN_MEMBER_ID": "m2",
    },
    "41_k430_stuck": {"slow_polls, left out": "m2", "slow_polls, did not join": "m2"},
    "41_k430_subscription_while_slow": {"slow_polls, did not join": "m2", "differing_subscriptions": ""},
    "41_k430_upgraded": {},
}
"""Recording -> rule and subject (other than the group) -> clients named."""


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_done_is_found_and_nothing_else(name: str) -> None:
    capture = open_capture(str(FOLDER / f"{name}.pcap.zst"))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    rules = [rule for rule in RULES if rule.name in OF_GROUPS]
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name, rules=rules)
    for exchange in reader:
        diagnosis.add(exchange)
    found = [finding for finding in diagnosis.findings() if finding.severity > Severity.LOW]
    said = {_GROUP.sub(finding.rule, finding.subject, count=1): finding for finding in found}
    assert said.keys() == EXPECTED[name].keys(), "\n".join(finding.sentence for finding in found)
    for about, who in EXPECTED[name].items():
        assert who in said[about].sentence
