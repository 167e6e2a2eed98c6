"""Summaries of the KRaft quorum: elections, voters, snapshots, and requests forwarded in envelopes."""

from __future__ import annotations

from ipaddress import ip_address

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, inner, items, number, ok, rows, text
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey


def first(body: Body) -> Body:
    """Return the single partition in a quorum message."""
    for topic in rows(body, "topics"):
        for row in rows(topic, "partitions"):
            return row
    return {}


def leadership(row: Body) -> str:
    """Return leader and epoch from a struct."""
    epoch = number(row, "leader_epoch")
    leader = number(row, "leader_id")
    return listed(
        (f"leader {leader}" if leader >= 0 else "no leader", f"epoch {epoch}" if epoch >= 0 else "")
    )


# ---------------------------------------------------------------- elections
def _vote_request(x: Bodies) -> str:
    row = first(x.request)
    if not row:
        return ""
    kind = "pre-vote" if row.get("pre_vote") else "vote"
    return join(
        f"{kind} for {number(row, 'replica_id')} in epoch {number(row, 'replica_epoch')}",
        f"log ends at {number(row, 'last_offset')} of epoch {number(row, 'last_offset_epoch')}",
    )


def _vote_response(x: Bodies) -> str:
    row = first(x.response)
    if "vote_granted" not in row:
        return ""
    return "granted" if row["vote_granted"] else listed(("refused", leadership(row)))


def _leader_request(x: Bodies) -> str:
    row = first(x.request)
    return leadership(row) if row else ""


def _end_request(x: Bodies) -> str:
    row = first(x.request)
    if not row:
        return ""
    after = items(row, "preferred_successors") or [
        number(candidate, "candidate_id") for candidate in rows(row, "preferred_candidates")
    ]
    return listed((f"{leadership(row)} resigns", f"prefers {words.plain(after)}" if after else ""))


def _quorum_errors(x: Bodies) -> str:
    row = first(x.response)
    return leadership(row) if number(row, "leader_id") >= 0 else ""


# ---------------------------------------------------------------- state and voters
def _describe_response(x: Bodies) -> str:
    row = first(x.response)
    voters = rows(row, "current_voters")
    return listed(
        (
            leadership(row),
            words.counted(len(voters), "voter"),
            words.counted(len(rows(row, "observers")), "observer"),
            f"high watermark {number(row, 'high_watermark')}",
        )
    )


def _voter_request(x: Bodies) -> str:
    listeners = rows(x.request, "listeners")
    return join(
        f"voter {number(x.request, 'voter_id')}",
        words.some(f"{text(row, 'host', '?')}:{row.get('port', '?')}" for row in listeners),
    )


def _update_voter_errors(x: Bodies) -> str:
    leader = number(inner(x.response, "current_leader"), "leader_id")
    return f"leader is {leader}" if leader >= 0 else ""


# ---------------------------------------------------------------- snapshots
def _snapshot_request(x: Bodies) -> str:
    row = first(x.request)
    replica = number(x.request, "replica_id")
    return join(
        f"replica {replica}" if replica >= 0 else "",
        topic_partitions.requested(x),
        f"snapshot {snapshot(row)} from byte {number(row, 'position', 0):,}" if row else "",
    )


def snapshot(row: Body) -> str:
    """Return end offset and epoch of a snapshot."""
    found = inner(row, "snapshot_id")
    return f"{number(found, 'end_offset')}/{number(found, 'epoch')}"


def _snapshot_response(x: Bodies) -> str:
    row = first(x.response)
    data = row.get("unaligned_records")
    got = len(data) if isinstance(data, bytes) else 0
    return f"{words.size(got)} of {words.size(max(number(row, 'size', 0), 0))}" if row else ""


# ---------------------------------------------------------------- Envelope
def host(address: object) -> str:
    """Return the address of the client whose request is forwarded."""
    if isinstance(address, bytes) and len(address) in (4, 16):
        return f"for {ip_address(address)}"
    return ""


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.VOTE: SummaryWriter(_vote_request, _vote_response, _quorum_errors),
    ApiKey.BEGIN_QUORUM_EPOCH: SummaryWriter(_leader_request, ok, _quorum_errors),
    ApiKey.END_QUORUM_EPOCH: SummaryWriter(_end_request, ok, _quorum_errors),
    ApiKey.DESCRIBE_QUORUM: SummaryWriter(topic_partitions.requested, _describe_response),
    ApiKey.FETCH_SNAPSHOT: SummaryWriter(_snapshot_request, _snapshot_response),
    ApiKey.ADD_RAFT_VOTER: SummaryWriter(_voter_request, ok),
    ApiKey.REMOVE_RAFT_VOTER: SummaryWriter(_voter_request, ok),
    ApiKey.UPDATE_RAFT_VOTER: SummaryWriter(_voter_request, ok, _update_voter_errors),
}
