"""The questions that an assistant may ask about captures: commands of kproxy, and those of their options that it may
set.

Names, types and descriptions of parameters are those of the options. Excluded are options that name files or hosts,
show secrets, write, follow, or only change the look on a terminal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from kproxy.cli import main, program_context
from kproxy.cli.command import Option, options_of

_FIXED = ("utc", "no-show-secrets")
"""Options that override the configuration file, if a command has them."""
_TIMES = ("from", "to")
_SHAPE = ("all", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A command as a tool of the Model Context Protocol.

    :ivar name: for assistants
    :ivar command: of kproxy
    :ivar about: what it answers, and when to use it
    :ivar options: that may be set, by :attr:`~kproxy.cli.command.Option.key`
    :ivar required: those of them that are required
    :ivar subject: name and description of the argument before the captures, if there is one
    :ivar instead: options that replace the subject. With one of them, kproxy takes each argument for a capture
    :ivar patterns: regular expressions of values that could otherwise be the name of a file
    """

    name: str
    command: str
    about: str
    options: tuple[str, ...]
    required: tuple[str, ...] = ()
    subject: tuple[str, str] | None = None
    instead: tuple[str, ...] = ()
    patterns: Mapping[str, str] = field(default_factory=dict)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of its parameters."""
        declared = _options(self.command)
        properties = {_parameter(key): self._property(declared[key]) for key in self.options}
        made: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
        if self.required:
            made["required"] = [_parameter(key) for key in self.required]
        if self.subject is not None:
            name, about = self.subject
            properties[name] = {"type": "string", "description": about, "minLength": 1}
            one_of = [{"required": [_parameter(key)]} for key in self.instead]
            made["oneOf"] = [{"required": [name], "not": {"anyOf": one_of}}, {"anyOf": one_of}]
            made["oneOf"][1]["not"] = {"required": [name]}
        return made

    def arguments(self, values: Mapping[str, Any], reading: Sequence[str], files: Sequence[str]) -> list[str]:
        """Return the arguments of kproxy that answer the question.

        :param values: parameters that are valid by the schema
        :param reading: options that say how the captures are read
        """
        declared = _options(self.command)
        arguments = [self.command, "--color=never", *reading]
        arguments += [f"--{flag}" for flag in _FIXED if flag.removeprefix("no-") in declared]
        for key in self.options:
            value = values.get(_parameter(key))
            if value is True:
                arguments.append(f"--{key}")
            elif value not in (None, False):
                arguments += [f"--{key}={each}" for each in (value if isinstance(value, list) else [value])]
        subject = (
            [] if self.subject is None else [values[name] for name in self.subject[:1] if name in values]
        )
        return [*arguments, "--", *subject, *files]

    def _property(self, option: Option) -> dict[str, Any]:
        kind = option.type
        about: dict[str, Any] = {"type": "string"}
        if option.is_bool_flag:
            about = {"type": "boolean"}
        elif isinstance(kind, click.Choice):
            about["enum"] = list(kind.choices)
        elif isinstance(kind, click.types.IntParamType):
            about = {"type": "integer", "minimum": getattr(kind, "min", None) or 0}
        elif option.key in self.patterns:
            about["pattern"] = self.patterns[option.key]
        if option.multiple:
            about = {"type": "array", "items": about}
        return {**about, "description": option.help or ""}


def _options(command: str) -> dict[str, Option]:
    found = main.get_command(program_context(), command)
    assert found is not None, command
    return {option.key: option for option in options_of(found)}


def _parameter(key: str) -> str:
    return key.replace("-", "_")


TOOLS = (
    Tool(
        name="diagnose",
        command="diagnose",
        about="What is wrong in the capture and what to do about it: incidents and findings, the gravest first, with "
        "the numbers of the exchanges that show it. Ask this first.",
        options=("least", "only", "skip", "filter", *_TIMES, *_SHAPE),
    ),
    Tool(
        name="incidents",
        command="incidents",
        about="What happened, in the order of time: outages of brokers and networks, restarts, crashes, pauses of "
        "processes, and what followed from each.",
        options=(*_TIMES, *_SHAPE),
    ),
    Tool(
        name="exchanges",
        command="read",
        about="Requests with their responses, a line each: number, time, latency in ms, client, broker, and a summary "
        "of both. Set count.",
        options=("filter", *_TIMES, "count", "verbose", "json"),
    ),
    Tool(
        name="exchange",
        command="read",
        about="One exchange by its number: every field with its bytes.",
        options=("exchange",),
        required=("exchange",),
    ),
    Tool(
        name="stats",
        command="stats",
        about="Counts, errors, latencies, bytes and throttling by API, error, client, topic or connection.",
        options=("by", "filter", *_TIMES, *_SHAPE),
    ),
    Tool(
        name="groups",
        command="groups",
        about="Consumer groups: members, assignments, each rebalance with what started it, who was slow, what it cost.",
        options=("group", *_TIMES, *_SHAPE),
    ),
    Tool(
        name="lag",
        command="lag",
        about="How far groups are behind on each partition, over time.",
        options=("group", *_SHAPE),
    ),
    Tool(
        name="journey",
        command="journey",
        about="The way of a record, from its producer to every consumer and the commits behind it. Give the record, or "
        "key, contains or topic.",
        options=("key", "contains", "topic", "partition", "group", *_SHAPE),
        subject=("record", "TOPIC-PARTITION@OFFSET, such as orders-3@120"),
        instead=("key", "contains", "topic"),
    ),
    Tool(
        name="follow",
        command="follow",
        about="What one client did, step by step, and how it went on after each error. Give the client, or one of the "
        "IDs.",
        options=("connection", "member", "transactional-id", "producer-id", *_TIMES, *_SHAPE),
        subject=("client", "a client ID, an instance ID, an address, or a pattern such as 'app-*'"),
        instead=("connection", "member", "transactional-id", "producer-id"),
    ),
    Tool(
        name="clients",
        command="clients",
        about="The clients: software and version, hosts, and with settings how each is configured.",
        options=("client", "settings", "changed", *_SHAPE),
    ),
    Tool(
        name="api_versions",
        command="api-versions",
        about="Which versions of each API clients use and brokers offer.",
        options=("broker", "client", *_SHAPE),
    ),
    Tool(
        name="compat",
        command="compat",
        about="Whether clients would still work after an upgrade of brokers or clients.",
        options=("broker-version", "client-version", "zookeeper", *_SHAPE),
        patterns={"broker-version": r"^\d+(\.\d+)*$"},
    ),
    Tool(
        name="records",
        command="records",
        about="Records with key, value and headers, by topic, partition, offset, time or content. Set count.",
        options=(
            *("topic", "partition", "offset", "timestamp", "key", "contains", "once", "filter", *_TIMES),
            *("count", "format", "key-format", "verbose", "json"),
        ),
    ),
)
"""All tools."""
