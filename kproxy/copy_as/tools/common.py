"""What the command lines of Kafka's tools have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kproxy.copy_as.request import RequestToCopy
from kproxy.copy_as.shell import Command

Maker = Callable[[RequestToCopy], Iterator[Command]]
Makers = Mapping[int, Maker]


def tool(request: RequestToCopy, name: str, *words: str) -> list[str]:
    """Return a tool with the broker that was asked, and arguments."""
    return [f"{name}.sh", "--bootstrap-server", request.broker, *words]


def exactly(topic: str) -> str:
    """Return the regular expression of one topic, for options that take one: in it a dot means any character."""
    return topic.replace(".", r"\.")
