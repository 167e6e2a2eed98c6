"""All APIs of the Kafka protocol by key: one file per API beside this one, request and response together.

A file declares two messages, ``<Name>Request`` and ``<Name>Response``, and nothing else. It is imported when the
API is first met; :func:`version_limits` imports them all.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module

import msgspec

from dissectors.api_keys import ApiKey
from dissectors.schema import Message

#: names by API key, the newest where an API was renamed
NAMES: tuple[str, ...] = tuple("".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey)

#: what earlier releases and other tools call an API
FORMER_NAMES: dict[str, str] = {
    "Offsets": "ListOffsets",
    "ListOffset": "ListOffsets",
    "ConsumerMetadata": "FindCoordinator",
    "GroupCoordinator": "FindCoordinator",
    "OffsetsForLeaderEpoch": "OffsetForLeaderEpoch",
    "ElectPreferredLeaders": "ElectLeaders",
    "AlterIsr": "AlterPartition",
    "ListClientMetricsResources": "ListConfigResources",
}


class Api(msgspec.Struct, frozen=True):
    """One API: its key, its name, and its two messages in all versions."""

    key: int
    name: str
    request: Message
    response: Message

    @property
    def doc(self) -> str:
        """What the API is for, and what changed by version: the docstring of its file."""
        return import_module(f"dissectors.apis.{_module_name(self.name)}").__doc__ or ""


def _module_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


@cache
def api(key: int) -> Api | None:
    """Return the API with this key, or None if no release of Kafka has it."""
    if not 0 <= key < len(NAMES):
        return None
    name = NAMES[key]
    module = import_module(f"dissectors.apis.{_module_name(name)}")
    return Api(key, name, getattr(module, f"{name}Request"), getattr(module, f"{name}Response"))


def api_name(key: int) -> str:
    """Return the API's name, ``Api#<key>`` for an unknown key."""
    return NAMES[key] if 0 <= key < len(NAMES) else f"Api#{key}"


@cache
def keys_by_name() -> dict[str, int]:
    """Return API keys by lower-case name, former names included."""
    keys = {name.lower(): key for key, name in enumerate(NAMES)}
    keys.update((old.lower(), keys[new.lower()]) for old, new in FORMER_NAMES.items())
    return keys


@cache
def version_limits() -> dict[int, tuple[int, int]]:
    """Return the lowest and highest request version of every API, by key."""
    limits = {}
    for key in range(len(NAMES)):
        known = api(key)
        assert known is not None
        limits[key] = known.request.versions.first, known.request.versions.last
    return limits
