"""The common parts of the command lines of Kafka's tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kproxy.copy_as.request import RequestToCopy
from kproxy.copy_as.shell import Command

Maker = Callable[[RequestToCopy], Iterator[Command]]
Makers = Mapping[int, Maker]


def tool(request: RequestToCopy, name: str, *words: str) -> list[str]:
    """Return the words of a tool: its name, the broker, and arguments."""
    return [f"{name}.sh", "--bootstrap-server", request.broker, *words]


def exactly(topic: str) -> str:
    """Return a regular expression that matches only `topic`: an unescaped dot would match any character."""
    return topic.replace(".", r"\.")
