"""Protocols inside bytes fields: groups, SASL, telemetry, forwarded requests, records of internal topics.

:func:`decode` returns the value of such a field for display, :func:`trace` its tree if it has a declaration. The
modules of the protocols are imported on demand: most conversations need one of them, or none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Any

from dissectors.embedded.model import NO_HINTS, EmbeddedValue, Hints
from dissectors.embedded.secrets import sensitive_config
from dissectors.left_out import is_placeholder, original_size
from dissectors.trace import Node

#: topics whose records :func:`internal_topic_record` decodes
INTERNAL_TOPICS = frozenset(
    {
        "__consumer_offsets",
        "__transaction_state",
        "__share_group_state",
        "__cluster_metadata",
        "__remote_log_metadata",
    }
)


def decode(content: str, data: bytes, hints: Hints = NO_HINTS) -> EmbeddedValue:
    """Decode the bytes of a field.

    :param content: the content that the field declares, one of :data:`CONTENTS`
    :param data: the field's bytes; empty bytes are valid and have no value
    :param hints: facts from the field's surroundings
    :raises KeyError: for a content that no field declares; never for malformed bytes
    """
    if is_placeholder(data):
        return EmbeddedValue(f"{original_size(data):,} bytes, which are left out", "left out")
    return _decoder(content)(data, hints)


def trace(content: str, data: bytes, hints: Hints = NO_HINTS) -> Node | None:
    """Return the tree of the bytes that :func:`decode` reads, None if the content has no declaration.

    Byte ranges count from the first byte of ``data``. The tree contains secrets unmasked.
    """
    if content in ("group_metadata", "group_assignment"):
        from dissectors.embedded import groups

        return groups.trace(data, hints, assignment=content == "group_assignment")
    if content in ("envelope_request", "envelope_response", "principal"):
        from dissectors.embedded import envelope

        if content == "principal":
            return envelope.trace_principal(data)
        return envelope.trace(data, hints, "request" if content == "envelope_request" else "response")
    return None


def internal_topic_record(
    topic: str, key: bytes | None, value: bytes | None, *, show_secrets: bool = False
) -> EmbeddedValue | None:
    """Decode a record of an internal topic; see :func:`dissectors.embedded.topics.internal_topic_record`."""
    if topic not in INTERNAL_TOPICS:
        return None
    from dissectors.embedded import topics

    return topics.internal_topic_record(topic, key, value, show_secrets=show_secrets)


def topic_may_hold_secrets(topic: str | None) -> bool:
    """Return whether records of a topic may hold secrets; see :func:`dissectors.embedded.topics`."""
    if topic is None or topic not in INTERNAL_TOPICS:
        return False
    from dissectors.embedded import topics

    return topics.topic_may_hold_secrets(topic)


def control_value(type_name: str, value: bytes | None) -> EmbeddedValue | None:
    """Decode the value of a control record; see :func:`dissectors.embedded.control.control_value`."""
    from dissectors.embedded import control

    return control.control_value(type_name, value)


def identity(token: Any) -> str | None:
    """Return the identity that a decoded SASL token authenticates; see :func:`dissectors.embedded.sasl.identity`."""
    from dissectors.embedded import sasl

    return sasl.identity(token)


#: name of a content, as in ``Bytes.holds(...)`` -> module of this package, its decoding function, extra arguments
CONTENTS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "group_metadata": ("groups", "decode", {"assignment": False}),
    "group_assignment": ("groups", "decode", {"assignment": True}),
    "sasl_token": ("sasl", "decode", {}),
    "principal": ("envelope", "principal", {}),
    "telemetry": ("telemetry", "decode", {}),
    "envelope_request": ("envelope", "request", {}),
    "envelope_response": ("envelope", "response", {}),
    "ip_address": ("envelope", "address", {}),
}


@cache
def _decoder(content: str) -> Callable[[bytes, Hints], EmbeddedValue]:
    module, name, more = CONTENTS[content]
    return partial(getattr(import_module(f"{__name__}.{module}"), name), **more)
