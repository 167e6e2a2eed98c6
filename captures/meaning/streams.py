"""Summaries of streams groups (KIP-1071), with tasks of subtopologies instead of partitions."""

from __future__ import annotations

from captures.meaning import words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, inner, items, number, ok, rows, text
from captures.meaning.groups import describe_response, epoch_words, group, groups_request, instance, reached
from captures.meaning.words import join, listed, member
from dissectors.api_keys import ApiKey
from dissectors.domains import STREAMS_STATUS

_TASKS = ("active", "standby", "warmup")


def tasks(body: Body) -> str:
    """Return tasks by kind: ``active 0_0-2 1_0, standby 0_3``; empty if the message leaves them unchanged."""
    parts = []
    for kind in _TASKS:
        found = rows(body, f"{kind}_tasks")
        if found:
            named = [
                f"{text(row, 'subtopology_id', '?')}_{words.ranges(items(row, 'partitions'))}"
                for row in found
            ]
            parts.append(f"{kind} {words.some(named)}")
    if not parts and body.get("active_tasks") is not None:
        return "no tasks"
    return listed(parts)


def _heartbeat_request(x: Bodies) -> str:
    request = x.request
    topology = inner(request, "topology")
    owned = tasks(request)
    described = words.counted(len(rows(topology, "subtopologies")), "subtopology", "subtopologies")
    return join(
        " ".join(part for part in (group(x), epoch_words(x), member(request.get("member_id"))) if part),
        f"topology epoch {number(topology, 'epoch')}, {described}" if topology else "",
        f"owns {owned}" if owned else "",
        "shut down the application" if request.get("shutdown_application") else "",
        instance(request),
    )


def _heartbeat_response(x: Bodies) -> str:
    statuses = [
        (STREAMS_STATUS.name_of(number(row, "status_code")) or f"status {number(row, 'status_code')}")
        for row in rows(x.response, "status")
    ]
    return listed((reached(x.response), tasks(x.response), *statuses))


def _topology_request(x: Bodies) -> str:
    count = len(rows(inner(x.request, "topology_description"), "subtopologies"))
    return join(
        " ".join(part for part in (group(x), member(x.request.get("member_id"))) if part),
        f"topology epoch {number(x.request, 'topology_epoch')}",
        words.counted(count, "subtopology", "subtopologies"),
    )


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.STREAMS_GROUP_HEARTBEAT: SummaryWriter(_heartbeat_request, _heartbeat_response),
    ApiKey.STREAMS_GROUP_DESCRIBE: SummaryWriter(groups_request, describe_response),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: SummaryWriter(_topology_request, ok),
}
