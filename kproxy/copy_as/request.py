"""A request prepared for conversion to a command line, and the common parts of such lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from captures.exchanges import Exchange
from kproxy.copy_as.shell import Command, comment


class CannotCopyError(Exception):
    """Exchanges cannot be copied in a format; the message says why, and what to do."""


_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_MOST_COMMANDS = 50
"""Beyond this, pasting is impractical."""


@dataclass(frozen=True, slots=True)
class RequestToCopy:
    """A decoded request.

    :ivar exchange: its exchange, annotated
    :ivar value: its fields
    """

    exchange: Exchange
    value: dict[str, Any]

    @property
    def broker(self) -> str:
        """``host:port`` of the broker that the request was sent to."""
        return self.exchange.broker

    def topics(self, field: str = "topics") -> Iterator[tuple[str | None, dict[str, Any], str]]:
        """Yield the topics of an array: name, None if only an ID is known; the fields; the path."""
        for index, topic in enumerate(self.value.get(field) or ()):
            path = f"request.{field}[{index}]"
            yield self._topic(topic, path), topic, path

    def _topic(self, topic: dict[str, Any], path: str) -> str | None:
        name = topic.get("topic") or topic.get("name") or topic.get("topic_name")
        if not name:
            name = self.exchange.annotations.decoded.get(f"{path}.topic_id")
        return name if isinstance(name, str) and name else None

    def is_masked(self, path: str) -> bool:
        """Return whether a value is masked because it is secret."""
        return path in self.exchange.annotations.masked


def asked(exchange: Exchange) -> RequestToCopy | None:
    """Return the request of an exchange, None if there is none that was decoded to its end."""
    body = exchange.request
    if body is None or body.value is None or body.problems or exchange.api_key is None:
        return None
    return RequestToCopy(exchange, body.value)


def has_id(topic: dict[str, Any]) -> bool:
    """Return whether a request identifies a topic by its ID."""
    return topic.get("topic_id") not in (None, _NO_ID)


def unnamed(topic: dict[str, Any]) -> str:
    """Return the note on a topic without a known name."""
    return f"left out: the topic with ID {topic.get('topic_id')}, whose name was not seen"


def with_value(option: str, value: object) -> list[str]:
    """Return an option with its value, as one word if the value could be mistaken for an option."""
    text = str(value)
    return [f"{option}={text}"] if text.startswith("-") else [option, text]


def rendered(exchanges: Iterable[tuple[Exchange, Sequence[Command]]], *, tls: str) -> str:
    """Return the command lines of several exchanges, each below a comment that names its exchange.

    :param tls: comment for connections with TLS, empty if there are none
    """
    lines: list[str] = []
    for exchange, commands in exchanges:
        text = f"{exchange.api} v{exchange.version} of exchange {exchange.number}"
        client = f", client ID {exchange.client_id}" if exchange.client_id else ""
        lines.append(comment(f"{text}{client}"))
        if tls:
            lines.append(comment(tls))
        for command in commands[:_MOST_COMMANDS]:
            lines += command.lines()
        if len(commands) > _MOST_COMMANDS:
            lines.append(comment(f"left out: {len(commands) - _MOST_COMMANDS:,} more commands"))
    return "".join(f"{line}\n" for line in lines)


Maker = Callable[[RequestToCopy], Iterator[Command]]
Makers = Mapping[int, Maker]


def commands_of(exchange: Exchange, makers: Makers) -> list[Command]:
    """Return the commands that send the same request, none if there is no maker for its API."""
    request = asked(exchange)
    make = None if request is None or exchange.api_key is None else makers.get(exchange.api_key)
    return [] if make is None or request is None else list(make(request))


def tool(request: RequestToCopy, name: str, *words: str) -> list[str]:
    """Return the words of a tool: its name, the broker, and arguments."""
    return [f"{name}.sh", "--bootstrap-server", request.broker, *words]


def exactly(topic: str) -> str:
    """Return a regular expression that matches only `topic`: an unescaped dot would match any character."""
    return topic.replace(".", r"\.")
