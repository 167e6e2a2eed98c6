"""What the command lines of Kafka's tools have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kproxy.copying.asked import Asked
from kproxy.copying.shell import Command

Maker = Callable[[Asked], Iterator[Command]]
Makers = Mapping[int, Maker]


def tool(request: Asked, name: str, *words: str) -> list[str]:
    """Return a tool with the broker that was asked, and arguments."""
    return [f"{name}.sh", "--bootstrap-server", request.broker, *words]


def exactly(topic: str) -> str:
    """Return the regular expression of one topic, for options that take one: in it a dot means any character."""
    return topic.replace(".", r"\.")
