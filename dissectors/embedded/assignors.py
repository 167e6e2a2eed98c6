"""User data that assignors of classic consumer groups put into a subscription.

Kafka's range and round-robin assignors send none. The sticky assignor sends the member's last assignment
(``clients/.../consumer/StickyAssignor.java``). The cooperative one needs only its generation, because the partitions
are in the subscription (``CooperativeStickyAssignor.java``); librdkafka and franz-go nevertheless send the same data as
the sticky assignor. None of these formats starts with a version, except in kafka-python: the version is found by
trying.
"""

from __future__ import annotations

from dissectors import wire
from dissectors.domains import GENERATION_ID
from dissectors.embedded.layout import Layout, exact, prefixed
from dissectors.embedded.streams_assignment import streams_assignment, streams_subscription
from dissectors.entities import TopicName
from dissectors.schema import Array, Int32, Message

StickyAssignorUserData = Message(
    "StickyAssignorUserData", None, "data", "0-1", "none",
    "previous_assignment" / Array(
        "topic" / TopicName * "topic name",
        "partitions" / Array(Int32) * "partitions of it that the member owned",
    ) * "what the member was assigned last, which the assignor tries to leave to it",
    "generation" / Int32.of(GENERATION_ID).default(-1) @ "1+" * "in which generation it was assigned; the newest claim wins",
)  # fmt: skip

CooperativeStickyUserData = Message(
    "CooperativeStickyUserData", None, "data", "0", "none",
    "generation" / Int32.of(GENERATION_ID).default(-1) * "generation in which the member got its owned partitions",
)  # fmt: skip


_KAFKA_PYTHON = "with a version prefix, which only kafka-python writes"


def subscription_user_data(assignor: str | None, data: bytes) -> Layout | None:
    """Return the layout of a subscription's user data, None for unknown assignors.

    :param assignor: its name; None tries the known ones, each accepted only if it accounts for all bytes
    """
    match assignor:
        case "sticky":
            return _sticky(data)
        case "cooperative-sticky":
            return _cooperative(data)
        case "stream":
            return streams_subscription(data)
        case None:
            tried = (streams_subscription(data), _cooperative(data), _sticky(data))
            return next((layout for layout in tried if layout is not None and exact(layout, data)), None)
        case _:
            return None


def assignment_user_data(assignor: str | None, data: bytes) -> Layout | None:
    """Return the layout of an assignment's user data: among Kafka's assignors only that of Streams sends any."""
    if assignor == "stream":
        return streams_assignment(data)
    if assignor is None:
        layout = streams_assignment(data)
        return layout if layout is not None and exact(layout, data) else None
    return None


def _sticky(data: bytes) -> Layout:
    newest = Layout(StickyAssignorUserData, 1, 1, prefixed=False)
    if exact(newest, data):
        return newest
    oldest = Layout(StickyAssignorUserData, 0, 0, prefixed=False)
    if exact(oldest, data):
        return oldest
    versioned = prefixed(StickyAssignorUserData, data, note=_KAFKA_PYTHON)
    return versioned if versioned is not None and exact(versioned, data) else newest


def _cooperative(data: bytes) -> Layout:
    generation = Layout(CooperativeStickyUserData, 0, 0, prefixed=False)
    return generation if len(data) <= wire.INT32.size else _sticky(data)
