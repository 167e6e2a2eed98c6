"""Requests as command lines of the tools in Kafka release 4; most work since 2.6.

One module per subject; each has a table from API keys to functions that yield the commands for a request.
"""

from __future__ import annotations

from captures.exchanges import Exchange
from kproxy.copy_as.request import commands_of
from kproxy.copy_as.shell import Command
from kproxy.copy_as.tools import acls, configs, groups, records, topics

TLS = "the connection was encrypted: add --command-config FILE, with security.protocol and what belongs to it"

_MAKERS = {
    **topics.MAKERS,
    **records.MAKERS,
    **groups.MAKERS,
    **configs.MAKERS,
    **acls.MAKERS,
}


def commands(exchange: Exchange) -> list[Command]:
    """Return commands of Kafka's tools that send the same request, none if no tool has such a command."""
    return commands_of(exchange, _MAKERS)
