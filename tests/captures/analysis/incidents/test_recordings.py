"""Incidents of recordings, against the notes beside them (``tests/lanes/groups.py``)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.exchanges import ExchangeReader, open_capture
from tests.captures.analysis.groups.test_at_hosts import AT_HOSTS, UNINFORMED
from tests.captures.analysis.groups.truth import FOLDER, SECOND, read

CLEAN, FINDINGS = FOLDER.parent / "clean", FOLDER.parent / "findings"
HALF_A_SECOND = SECOND // 2


@cache
def diagnosed(path: Path) -> Diagnosis:
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    for exchange in reader:
        diagnosis.add(exchange)
    diagnosis.findings()
    assert not capture.faults
    return diagnosis


def incidents(name: str) -> list[Incident]:
    return diagnosed(FOLDER / f"{name}.pcap.zst").incidents


def moment(name: str, who: str, what: str, place: int = 0) -> int:
    """Return when something was done, in ns since the epoch."""
    times = [event["t"] for event in read(name).events if event["who"] == who and event["what"] == what]
    return round(times[place] * SECOND)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "how"), [("broker_stopped", "SIGTERM"), ("broker_killed", "SIGKILL")])
def test_a_broker_that_is_restarted_is_one_incident(name: str, how: str) -> None:
    (outage,) = incidents(f"46_k430_{name}")
    assert (outage.kind, outage.certainty) == (IncidentKind.BROKER_OUTAGE, Certainty.INFERRED)
    ended = moment(f"46_k430_{name}", "node", "ended")
    assert moment(f"46_k430_{name}", "node", how) - HALF_A_SECOND <= outage.begin <= ended + HALF_A_SECOND
    assert outage.end is not None
    assert outage.end - ended > 12 * SECOND
    kinds = {each.kind for each in outage.consequences}
    assert {"rebalance", "stop", "finding"} <= kinds
    # all rebalances except those of joining at the beginning and leaving at the end
    assert all(each.time > outage.begin for each in outage.rebalances)


def test_what_a_restart_of_a_broker_causes_is_no_finding_of_its_own() -> None:
    diagnosis = diagnosed(FOLDER / "46_k430_broker_killed.pcap.zst")
    found = diagnosis.findings()
    own = {each.rule for each in found if not each.because_of}
    assert own == {"coordinator_unavailable", "positions_reset"}
    assert {each.because_of for each in found if each.because_of} == {"broker_outage-1"}


def test_a_coordinator_that_is_killed_moves_the_group_and_back() -> None:
    (outage,) = incidents("46_k430_coordinator_back")
    away, back = (each for each in outage.consequences if each.kind == "coordinator_move")
    assert away.sentence.endswith(f"moved from coordinator {outage.who[0]} to {back.sentence.split()[5]}.")
    assert back.sentence.endswith(f" to {outage.who[0]}.")


def test_a_controller_that_is_killed_is_one_outage_of_both_its_listeners() -> None:
    name = "50_k430_controller_killed"
    (outage,) = incidents(name)
    assert (outage.kind, len(outage.brokers)) == (IncidentKind.BROKER_OUTAGE, 2)
    killed = next(event for event in read(name).events if event["what"] == "SIGKILL")
    assert abs(outage.begin - round(killed["t"] * SECOND)) < HALF_A_SECOND
    (moved,) = (each for each in outage.consequences if each.kind == "controller_move")
    assert f"from node {killed['who'].split()[1]} to node" in moved.sentence


def test_a_controller_that_stands_still_explains_slow_answers_and_the_election() -> None:
    name = "50_k430_controller_paused"
    diagnosis = diagnosed(FOLDER / f"{name}.pcap.zst")
    (pause,) = diagnosis.incidents
    assert (pause.kind, pause.certainty) == (IncidentKind.PROCESS_PAUSE, Certainty.INFERRED)
    stopped, went_on, active = (each for each in read(name).events if each["who"].startswith("controller"))
    assert abs(pause.begin - round(stopped["t"] * SECOND)) < HALF_A_SECOND
    assert pause.end is not None
    assert abs(pause.end - round(went_on["t"] * SECOND)) < HALF_A_SECOND
    by_kind = {each.kind: each.sentence for each in pause.consequences}
    former, latest = (each["who"].split()[1] for each in (stopped, active))
    assert f"from node {former} to node {latest}" in by_kind["controller_move"]
    assert by_kind["slow_answers"].startswith("18 responses were up to 3.9 s late: 6 OffsetCommit from ")
    because = {each.rule: each.because_of for each in diagnosis.findings()}
    assert because["slow_broker"] == because["controller_moves"] == pause.id


@pytest.mark.parametrize(
    ("listener", "length", "certainty"),
    [
        ("clients", 11, Certainty.POSSIBLE),
        ("controller", 13, Certainty.POSSIBLE),
        ("interbroker", 12, Certainty.INFERRED),
    ],
)
def test_a_broker_stands_still_as_surely_as_its_connections_show_it(
    listener: str, length: int, certainty: Certainty
) -> None:
    found = diagnosed(FINDINGS / f"26_k430_broker_sigstop_{listener}.pcap.zst").incidents
    pauses = [each for each in found if each.kind is IncidentKind.PROCESS_PAUSE]
    assert [(round(each.lasts(0) / SECOND), each.certainty) for each in pauses] == [(length, certainty)]
    assert bool(pauses[0].alternatives) == (certainty is Certainty.POSSIBLE)


def test_brokers_that_waited_for_the_one_that_may_have_paused_are_its_consequence() -> None:
    """One producer with a connection to each of three brokers; writes to the others waited for their follower."""
    (pause,) = diagnosed(FINDINGS / "26_k430_broker_sigstop_clients.pcap.zst").incidents
    (slow,) = (each for each in pause.consequences if each.kind == "slow_answers")
    assert pause.who == ("127.0.0.1:11292",)
    assert set(slow.subject.split(", ")) == {f"127.0.0.1:1129{node}" for node in (1, 2, 3)}


@pytest.mark.parametrize(
    "path",
    ["captures/35_k282_sasl_plain", "findings/24_k430_java_oauth_expired", "findings/25_k430_quota_java"],
)
def test_refused_clients_and_quotas_are_no_incident_of_the_broker(path: str) -> None:
    """A broker that closes connections of refused clients is up, and one that throttles a producer is not paused."""
    assert diagnosed(FOLDER.parent / f"{path}.pcap.zst").incidents == []


def test_connections_that_a_broker_closed_together_show_an_outage_without_a_failed_attempt() -> None:
    found = diagnosed(FINDINGS / "35_k282_cluster.pcap.zst").incidents
    asked, closed = (each for each in found if each.id in ("broker_outage-4", "broker_outage-5"))
    assert (asked.certainty, asked.alternatives) == (Certainty.INFERRED, ())
    assert " was down for 17.9 s: " in asked.sentence
    assert (closed.certainty, len(closed.alternatives)) == (Certainty.POSSIBLE, 1)
    assert " may have been down for 14.6 s: " in closed.sentence


def test_a_rebalance_is_a_sentence_without_the_reason_that_its_incident_has() -> None:
    (outage,) = incidents("46_k430_broker_killed")
    first, second, *_ = (each.sentence for each in outage.consequences if each.kind == "rebalance")
    assert first.endswith("(generation 3 → 4): sessions timed out (m3 m-8981, m1 m-8902, m2 m-fd71).")
    assert (
        second
        == "Group g-broker_killed rebalanced for 19 ms (generation 4 → 5): a new member joined (m1 m-598e)."
    )


def test_partitions_stand_still_and_lag_because_of_a_broker_without_a_rebalance() -> None:
    """m2 had 2 and 5, led by that broker; nobody consumed them until another broker led them."""
    (outage,) = incidents("46_k430_coordinator_back")
    assert not outage.rebalances
    by_kind = {each.kind: each.sentence for each in outage.consequences}
    assert "consumed t-coordinator_back 2,5 for up to 7.1 s" in by_kind["stop"]
    assert by_kind["lag"] == (
        "3 records of t-coordinator_back-2 were waiting when group g-coordinator_back continued."
    )


def test_controllers_of_zookeeper_move() -> None:
    told = diagnosed(FINDINGS / "35_k282_cluster.pcap.zst").incidents
    moves = [(each.who, effect.sentence) for each in told for effect in each.moves]
    assert moves == [
        (("127.0.0.1:20611",), "The controller moved from node 1 to node 2."),
        (("127.0.0.1:20612",), "The controller moved from node 2 to node 3."),
    ]


def test_brokers_that_asked_to_shut_down_were_not_killed() -> None:
    told = diagnosed(FINDINGS / "35_k282_cluster.pcap.zst").incidents
    asked = {each.id: each.evidence for each in told if each.in_order}
    assert asked == {
        "broker_outage-4": (283,), "broker_outage-6": (480,), "broker_outage-7": (508,), "broker_outage-8": (524,),
    }  # fmt: skip
    assert all("meant to stop" in each.advice for each in told if each.in_order)


def test_a_planned_restart_of_a_static_member_is_no_reason_to_act() -> None:
    advice = [each.advice for each in incidents("41_k430_rare_reasons") if each.in_order]
    assert (
        advice == ["Nothing to do if the restart was planned; otherwise check the log for why it ended."] * 2
    )


def test_a_new_process_of_a_broker_registers() -> None:
    (outage,) = incidents("50_k430_controller_killed")
    assert (outage.in_order, outage.evidence) == (False, (958,))
    assert outage.sentence.endswith("; its new process registered (#958).")


def test_a_rolling_restart_is_one_incident() -> None:
    (restart,) = incidents("46_k430_rolling_restart")
    assert (restart.kind, restart.who) == (IncidentKind.ROLLING_RESTART, ("m1", "m2", "m3"))
    assert [each.generation for each in restart.rebalances] == [4, 5, 6, 7, 8, 9]
    assert abs(restart.begin - moment("46_k430_rolling_restart", "m1", "clean close")) < 2 * SECOND


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["", "_to_broker", "_from_broker"])
def test_a_network_that_is_cut_is_an_outage_in_either_direction(direction: str) -> None:
    name = f"48_k430_network_cut{direction}"
    (outage,) = incidents(name)
    assert (outage.kind, outage.certainty) == (IncidentKind.NETWORK_OUTAGE, Certainty.INFERRED)
    assert abs(outage.begin - moment(name, "m2", "network gone")) < 2 * SECOND
    assert outage.end is not None
    assert 0 <= outage.end - moment(name, "m2", "network back") < 5 * SECOND
    assert ("one direction was lost" in outage.sentence) == (direction == "_from_broker")


@pytest.mark.slow
def test_a_member_that_dies_again_and_again_is_one_incident() -> None:
    (loop,) = incidents("48_k430_crash_loop")
    assert (loop.kind, loop.who) == (IncidentKind.CRASH_LOOP, ("m2",))
    assert "died 4 times" in loop.sentence


@pytest.mark.slow
def test_tasks_that_connect_starts_anew_are_no_deployment() -> None:
    """The truth files of both recordings have what was done to connectors and workers."""
    changed = incidents("47_k430_connect_changes")
    assert {each.kind for each in changed} == {IncidentKind.CONNECTOR_RESTART}
    because = ["connector sink1 was reconfigured", "w2 joined", "w2 left"]
    assert all(text in each.sentence for text, each in zip(because, changed, strict=True))
    lost, _ = incidents("47_k430_connect_workers_lost")
    assert (lost.kind, len(lost.groups)) == (IncidentKind.MEMBER_ABSENCE, 2)


@pytest.mark.slow
def test_a_finding_stands_with_the_incident_that_it_was_seen_in() -> None:
    """The internal topics of Streams are created half a minute before a member is closed."""
    topics, away, *_ = incidents("21_k430_streams_classic")
    assert (topics.kind, away.kind) == (IncidentKind.TOPIC_CHANGE, IncidentKind.MEMBER_ABSENCE)
    assert not [each for each in topics.consequences if each.rule]
    assert {each.rule for each in away.consequences} >= {"session_timeouts", "records_doubled"}


def test_restarts_of_static_members_are_told_without_rebalances() -> None:
    (restart,) = incidents("46_k430_rolling_restart_static")
    assert restart.kind is IncidentKind.ROLLING_RESTART
    assert restart.who == ("inst-m1", "inst-m2", "inst-m3")
    assert [each.generation for each in restart.rebalances] == [4, 5]
    absent = [each.sentence for each in restart.consequences if "had no consumer" in each.sentence]
    assert [text.split(" while ")[1] for text in absent] == ["inst-m1 was away.", "inst-m2 was away."]
    assert "longer than its session of 6 s" in restart.sentence


@pytest.mark.parametrize(
    ("name", "kind", "who"),
    [
        ("46_k430_quick_return", IncidentKind.QUICK_RESTART, "m1"),
        ("46_k430_shared_group", IncidentKind.SHARED_GROUP_ID, "orders-1"),
        ("21_k430_ck_crashloop", IncidentKind.CRASH_LOOP, "crash"),
        ("21_k430_java_sigstop", IncidentKind.PROCESS_PAUSE, "m2"),
        ("41_k430_host_gone", IncidentKind.NETWORK_OUTAGE, "m2"),
        ("41_k430_coordinator_away", IncidentKind.BROKER_OUTAGE, ""),
        ("21_k430_java_eager_range", IncidentKind.MEMBER_ABSENCE, "m3"),
    ],
)
def test_one_thing_that_happened_is_one_incident(name: str, kind: IncidentKind, who: str) -> None:
    (found,) = incidents(name)
    assert found.kind is kind
    assert not who or found.who[0] == who
    assert found.rebalances
    assert {each.because_of.id for each in found.rebalances if each.because_of} == {found.id}


@pytest.mark.parametrize(
    "name", ["21_k430_ck_maxpoll", "21_k430_ck_fenced_instance", "41_k430_instance_fenced", "41_k430_stuck"]
)
def test_what_has_other_reasons_is_no_incident(name: str) -> None:
    """Slow polls and duplicate instance IDs are findings."""
    assert incidents(name) == []


@pytest.mark.sample(6)
@pytest.mark.parametrize("path", sorted(CLEAN.glob("*.zst")), ids=lambda path: path.name)
def test_of_healthy_clusters_nothing_is_told(path: Path) -> None:
    assert diagnosed(path).incidents == []


def test_every_kind_is_shown_by_a_recording() -> None:
    names = [
        "46_k430_coordinator_back", "46_k430_rolling_restart", "46_k430_quick_return", "46_k430_shared_group",
        "21_k430_ck_crashloop", "21_k430_java_sigstop", "41_k430_host_gone", "21_k430_java_eager_range",
        "41_k430_rare_reasons", "47_k430_connect_changes",
    ]  # fmt: skip
    shown = {each.kind for name in names for each in incidents(name)}
    assert shown | {IncidentKind.CONTROLLER_MOVE, IncidentKind.COORDINATOR_MOVE} == set(
        IncidentKind
    )  # see above, below


def test_findings_stand_with_their_incident_once_however_often_they_are_asked_for() -> None:
    diagnosis = diagnosed(FOLDER / "46_k430_broker_killed.pcap.zst")
    (before,) = [
        list(each.consequences) for each in diagnosis.incidents if each.kind is IncidentKind.BROKER_OUTAGE
    ]
    diagnosis.findings()
    (after,) = [each.consequences for each in diagnosis.incidents if each.kind is IncidentKind.BROKER_OUTAGE]
    assert after == before
    assert {each.rule for each in after if each.kind == "finding"} >= {"session_timeouts", "closed_by_broker"}


def test_nothing_is_told_after_the_end_of_the_capture() -> None:
    for name in ("46_k430_broker_killed", "46_k430_rolling_restart_static"):
        diagnosis = diagnosed(FOLDER / f"{name}.pcap.zst")
        latest = diagnosis.groups.incidents[0].begin
        latest = max(latest, *(each.last for each in diagnosis.groups.result()))
        assert all(each.last <= latest + SECOND for each in diagnosis.findings())


def test_an_outage_of_the_network_is_not_told_of_the_broker_too() -> None:
    """At the member's host, the broker's responses are late and the member is silent: one outage."""
    path = AT_HOSTS / "48_k430_network_cut_to_broker-at-m2.pcap.zst"
    (outage,) = diagnosed(path).incidents
    assert outage.kind is IncidentKind.NETWORK_OUTAGE
    (slow,) = (each for each in outage.consequences if each.kind == "slow_answers")
    assert slow.sentence.startswith("3 responses were up to 13.3 s late: ")


@pytest.mark.parametrize("name", UNINFORMED)
def test_a_member_that_does_not_learn_of_its_removal_shows_a_network_outage(name: str) -> None:
    cut, back = (
        next(event["t"] for event in read(name, AT_HOSTS).events if event["what"] == what)
        for what in ("network gone", "network back")
    )
    (outage,) = diagnosed(AT_HOSTS / f"{name}-at-m2.pcap.zst").incidents
    assert (outage.kind, outage.certainty) == (IncidentKind.NETWORK_OUTAGE, Certainty.INFERRED)
    assert outage.end is not None
    # it begins with the first request after the cut, and ends with the first acknowledged retransmission
    assert outage.begin / SECOND == pytest.approx(cut, abs=1.5)
    assert back < outage.end / SECOND < back + 6


def test_a_suspended_host_is_no_cut_network() -> None:
    """Its TCP timestamps stood still; those of a host whose network is cut continue."""
    (pause,) = incidents("51_k430_host_suspended")
    assert (pause.kind, pause.certainty) == (IncidentKind.PROCESS_PAUSE, Certainty.INFERRED)
    assert "the TCP clock of its host stood still for 12.5 s" in pause.sentence
    (cut,) = incidents("48_k430_network_cut")
    assert (cut.kind, cut.certainty) == (IncidentKind.NETWORK_OUTAGE, Certainty.INFERRED)
    assert "requests that its process had sent meanwhile arrived together" in cut.sentence


def test_a_host_that_stands_still_while_its_clock_continues_may_be_a_cut_network() -> None:
    """With a Java client and librdkafka: neither had queued requests when it resumed."""
    for outage in incidents("52_k430_host_frozen"):
        assert (outage.kind, outage.certainty) == (IncidentKind.NETWORK_OUTAGE, Certainty.POSSIBLE)
        assert outage.alternatives == ("its host was suspended while its clock went on",)


def test_tasks_end_with_their_worker_although_their_heartbeats_are_rarer() -> None:
    lost, later = incidents("52_k430_connect_workers_lost")
    assert [each.kind for each in (lost, later)] == [IncidentKind.MEMBER_ABSENCE] * 2
    assert "connect-sink1" in lost.groups
    assert all(each.time > lost.begin for each in lost.rebalances)


def test_a_broker_that_closes_late_leaves_no_doubt_that_the_client_died() -> None:
    absence, pause = incidents("51_k430_killed_while_broker_paused")
    assert (absence.kind, absence.certainty) == (IncidentKind.MEMBER_ABSENCE, Certainty.INFERRED)
    assert (pause.kind, pause.certainty) == (IncidentKind.PROCESS_PAUSE, Certainty.INFERRED)


def test_rebalances_because_of_a_topic_follow_from_its_change() -> None:
    told = incidents("21_k430_kip848_regex_topicchange")
    grown = next(each for each in told if each.who == ("ry-a",))
    assert grown.sentence == "Topic ry-a got more partitions: 9 instead of 6."
    assert [each.trigger.value for each in grown.rebalances] == ["partitions_changed"]
