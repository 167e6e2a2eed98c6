"""Summaries of classic and KIP-848 consumer groups: membership, assignments, committed offsets, administration."""

from __future__ import annotations

from collections import Counter
from typing import Any

from captures.meaning import topic_partitions, words
from captures.meaning.exchange import (
    Bodies,
    Body,
    SummaryWriter,
    fields,
    inner,
    items,
    number,
    ok,
    rows,
    text,
)
from captures.meaning.words import join, listed, member
from dissectors.api_keys import ApiKey
from dissectors.embedded.consumer_protocol import ConsumerProtocolAssignment
from dissectors.embedded.layout import prefixed
from dissectors.error_codes import ErrorCode
from dissectors.left_out import original_size

CONSUMER = "consumer"
JOIN, LEAVE, LEAVE_STATIC = 0, -1, -2
_COORDINATOR_TYPES = {0: "group", 1: "transaction", 2: "share state"}
_REASON_LENGTH = 60
_SECOND_STEP = "need to re-join with the given member-id"


def group(x: Bodies) -> str:
    """Return the group that a request is about."""
    return text(x.request, "group_id")


def membership(x: Bodies) -> str:
    """Return group, generation and member, as named in most group requests."""
    generation = number(x.request, "generation_id", -2)
    parts = [group(x), f"gen {generation}" if generation != -2 else "", member(x.request.get("member_id"))]
    return " ".join(part for part in parts if part)


def instance(body: Body) -> str:
    """Return the name of a static member (KIP-345)."""
    name = body.get("group_instance_id") or body.get("instance_id")
    return f"static {name}" if name else ""


def reason(body: Body) -> str:
    """Return the member's own reason to join or leave (KIP-800)."""
    given = body.get("reason")
    # every new member's second JoinGroup has this reason (KIP-394), so it is no information
    if not given or given.startswith(_SECOND_STEP):
        return ""
    return f"({words.clipped(given, _REASON_LENGTH)})"


# ---------------------------------------------------------------- membership
def _join_request(x: Bodies) -> str:
    protocols = [text(row, "name", "?") for row in rows(x.request, "protocols")]
    kind = text(x.request, "protocol_type", CONSUMER)
    return join(
        group(x),
        "" if kind == CONSUMER else kind,
        ",".join(protocols),
        member(x.request.get("member_id")),
        instance(x.request),
        reason(x.request),
    )


def _join_response(x: Bodies) -> str:
    response = x.response
    members = rows(response, "members")
    leads = bool(members) or (
        bool(response.get("leader")) and response.get("leader") == response.get("member_id")
    )
    return listed(
        (
            f"gen {number(response, 'generation_id')}",
            "leader" if leads else "member",
            words.counted(len(members), "member") if members else "",
            text(response, "protocol_name") if len(rows(x.request, "protocols")) > 1 else "",
            "assignment stays" if response.get("skip_assignment") else "",
        )
    )


def _join_errors(x: Bodies) -> str:
    if x.response.get("error_code") == ErrorCode.MEMBER_ID_REQUIRED and x.response.get("member_id"):
        return f"join again as {member(x.response['member_id'])}"
    return ""


def _sync_request(x: Bodies) -> str:
    count = len(rows(x.request, "assignments"))
    return join(membership(x), words.counted(count, "assignment") if count else "", instance(x.request))


def _sync_response(x: Bodies) -> str:
    data = x.response.get("assignment")
    if not isinstance(data, bytes):
        return "ok"
    if not data:
        return "nothing assigned"
    kind = x.response.get("protocol_type") or x.request.get("protocol_type") or CONSUMER
    assigned = assignment(data) if kind == CONSUMER else None
    return (
        f"{kind if kind != CONSUMER else 'assignment'} {words.size(original_size(data))}"
        if assigned is None
        else assigned
    )


def assignment(data: bytes) -> str | None:
    """Return the partitions of a classic consumer's assignment; None if the bytes are something else, as in Connect."""
    layout = prefixed(ConsumerProtocolAssignment, data)
    value = layout.con.exactly(data, layout.start) if layout is not None else None
    if value is None:
        return None
    topics: list[dict[str, Any]] = value["assigned_partitions"]
    return topic_partitions.topics_text(topics, lambda _: None) or "nothing assigned"


def _leave_request(x: Bodies) -> str:
    members = rows(x.request, "members") or [x.request]
    first = members[0]
    return join(
        group(x),
        member(first.get("member_id")) or instance(first),
        f"+{len(members) - 1} members" if len(members) > 1 else "",
        reason(first),
    )


def _heartbeat_request(x: Bodies) -> str:
    return join(membership(x), instance(x.request))


# ---------------------------------------------------------------- KIP-848, also used by share groups
def epoch_words(x: Bodies) -> str:
    """Return the meaning of a request's member epoch: an ordinary heartbeat, a join, a leave."""
    epoch = x.request.get("member_epoch")
    if epoch is None:
        return ""
    return {JOIN: "join", LEAVE: "leave", LEAVE_STATIC: "leave for a while"}.get(epoch, f"epoch {epoch}")


def modern_request(x: Bodies) -> str:
    """Return the text of a consumer or share group's heartbeat: epoch, subscription, owned partitions."""
    request = x.request
    topics = items(request, "subscribed_topic_names")
    pattern = request.get("subscribed_topic_regex")
    owned = request.get("topic_partitions")
    return join(
        " ".join(part for part in (group(x), epoch_words(x), member(request.get("member_id"))) if part),
        words.some(topics),
        f"/{words.clipped(pattern, 40)}/" if pattern else "",
        ""
        if owned is None
        else f"owns {topic_partitions.topics_text(rows(request, 'topic_partitions'), x.names) or 'nothing'}",
        instance(request),
    )


def modern_response(x: Bodies) -> str:
    """Return the epoch reached, and the new assignment if there is one."""
    assigned = x.response.get("assignment")
    topics = rows(inner(x.response, "assignment"), "topic_partitions")
    return listed(
        (
            reached(x.response),
            ""
            if assigned is None
            else f"assigned {topic_partitions.topics_text(topics, x.names) or 'nothing'}",
        )
    )


def reached(response: Body) -> str:
    """Return the member epoch stated by the coordinator."""
    epoch = response.get("member_epoch")
    if epoch is None:
        return ""
    return {LEAVE: "left", LEAVE_STATIC: "left for a while"}.get(epoch, f"epoch {epoch}")


# ---------------------------------------------------------------- offsets
def _commit_request(x: Bodies) -> str:
    pairs = topic_partitions.each(rows(x.request, "topics"), x.names)
    return join(group(x), topic_partitions.at(pairs, "committed_offset"), instance(x.request))


def _offset_fetch_request(x: Bodies) -> str:
    many = rows(x.request, "groups")
    asked = many or [x.request]
    parts = []
    for row in asked[: words.SHOWN]:
        # null requests everything that the group has committed; a missing field was cut off
        everything = "topics" in row and row["topics"] is None
        wanted = (
            "all partitions" if everything else topic_partitions.topics_text(rows(row, "topics"), x.names)
        )
        parts.append(join(text(row, "group_id"), wanted))
    rest = len(asked) - words.SHOWN
    return join(
        ", ".join(parts),
        f"+{rest} groups" if rest > 0 else "",
        "stable" if x.request.get("require_stable") else "",
    )


def _offset_fetch_response(x: Bodies) -> str:
    holders = rows(x.response, "groups") or [x.response]
    pairs = [pair for holder in holders for pair in topic_partitions.each(rows(holder, "topics"), x.names)]
    known = [pair for pair in pairs if number(pair[1], "committed_offset") >= 0]
    without = len(pairs) - len(known)
    if not known:
        return "none committed"
    return listed((topic_partitions.at(known, "committed_offset"), f"{without} without" if without else ""))


# ---------------------------------------------------------------- coordinators and administration
def _coordinator_request(x: Bodies) -> str:
    kind = _COORDINATOR_TYPES.get(number(x.request, "key_type", 0), "key")
    keys = items(x.request, "coordinator_keys") or [text(x.request, "key")]
    named = words.some(keys)
    return f"{kind} {named}" if named else kind


def _coordinator_response(x: Bodies) -> str:
    found = rows(x.response, "coordinators") or [x.response]
    nodes = {row.get("node_id"): row for row in found}
    return ", ".join(
        f"broker {node} {text(row, 'host', '?')}:{row.get('port', '?')}"
        for node, row in list(nodes.items())[: words.SHOWN]
        if node is not None
    )


def groups_request(x: Bodies) -> str:
    """Return the groups to be described or deleted."""
    return words.some(
        items(x.request, "groups") or items(x.request, "group_ids") or items(x.request, "groups_names")
    )


def describe_response(x: Bodies) -> str:
    """Return state and size of one group, or the number of groups in each state."""
    found = rows(x.response, "groups")
    if len(found) == 1:
        return listed(
            (text(found[0], "group_state", "?"), words.counted(len(rows(found[0], "members")), "member"))
        )
    states = Counter(text(row, "group_state", "?") for row in found)
    return listed(f"{count} {state}" for state, count in states.most_common())


def _list_groups_request(x: Bodies) -> str:
    return (
        join(words.some(items(x.request, "states_filter")), words.some(items(x.request, "types_filter")))
        or "all groups"
    )


def _fetched(*names: str) -> frozenset[str]:
    """Return fields of the partitions of an OffsetFetch response, for one group or several."""
    holders = ("topics.partitions", "groups.topics.partitions")
    return frozenset().union(*(fields("response", holder, *names) for holder in holders))


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.OFFSET_COMMIT: SummaryWriter(
        _commit_request,
        ok,
        unread=fields(
            "request", "topics.partitions", "committed_leader_epoch", "committed_metadata", "commit_timestamp"
        ),
        inserted=fields("request", "topics.partitions", "committed_offset"),
    ),
    ApiKey.OFFSET_FETCH: SummaryWriter(
        _offset_fetch_request,
        _offset_fetch_response,
        unread=_fetched("committed_leader_epoch", "metadata"),
        inserted=_fetched("committed_offset"),
    ),
    ApiKey.FIND_COORDINATOR: SummaryWriter(_coordinator_request, _coordinator_response),
    ApiKey.JOIN_GROUP: SummaryWriter(_join_request, _join_response, _join_errors),
    ApiKey.HEARTBEAT: SummaryWriter(_heartbeat_request, ok),
    ApiKey.LEAVE_GROUP: SummaryWriter(_leave_request, ok),
    ApiKey.SYNC_GROUP: SummaryWriter(_sync_request, _sync_response),
    ApiKey.DESCRIBE_GROUPS: SummaryWriter(groups_request, describe_response),
    ApiKey.LIST_GROUPS: SummaryWriter(
        _list_groups_request, lambda x: words.counted(len(rows(x.response, "groups")), "group")
    ),
    ApiKey.DELETE_GROUPS: SummaryWriter(
        groups_request, lambda x: f"{words.counted(len(rows(x.response, 'results')), 'group')} deleted"
    ),
    ApiKey.OFFSET_DELETE: SummaryWriter(lambda x: join(group(x), topic_partitions.requested(x)), ok),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: SummaryWriter(modern_request, modern_response),
    ApiKey.CONSUMER_GROUP_DESCRIBE: SummaryWriter(groups_request, describe_response),
}
