"""Every message declared in :mod:`dissectors.embedded`, for tests of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from dissectors import wire
from dissectors.embedded import (
    assignors,
    cluster_metadata,
    connect,
    consumer_offsets,
    consumer_protocol,
    control,
    envelope,
    remote_log_metadata,
    share_group_state,
    streams_assignment,
    streams_subscription,
    topics,
    transaction_state,
)
from dissectors.message_version import MessageVersion
from dissectors.schema import Message
from tests.dissectors.values import TEXTS, Values

#: declared after Kafka's message definitions
KAFKAS = (
    cluster_metadata,
    consumer_offsets,
    consumer_protocol,
    control,
    envelope,
    remote_log_metadata,
    share_group_state,
    streams_subscription,
    transaction_state,
)
#: declared after Kafka's code; topics holds one record of 2.8
OURS = (assignors, connect, streams_assignment, topics)


def messages(*modules: ModuleType) -> dict[str, Message]:
    """The public messages of modules, by name."""
    return {
        name: item
        for module in modules
        for name, item in vars(module).items()
        if isinstance(item, Message) and not name.startswith("_")
    }


def layouts() -> Iterator[MessageVersion]:
    """Every layout of every message, including those of earlier releases."""
    for message in messages(*KAFKAS, *OURS).values():
        for version in message.versions:
            yield message[version]
            yield from message[version].older


class EmbeddedValues(Values):
    """Also draws values of Java strings."""

    def draw(self, con: wire.WireType, depth: int = 0) -> Any:
        if isinstance(con, streams_assignment.ModifiedUtf8):
            return self.rng.choice((*TEXTS, "nul \0 inside"))
        if isinstance(con, streams_assignment.Utf16):
            # null is written as an empty name
            return self.rng.choice(TEXTS) or None
        return super().draw(con, depth)
