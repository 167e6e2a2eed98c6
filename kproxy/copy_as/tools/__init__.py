"""Requests as command lines of the tools that come with Kafka, as release 4 has them; most work since 2.6.

One module per subject; each has a table from API keys to makers, which yield the commands that ask the same.
"""

from __future__ import annotations

from captures.exchanges import Exchange
from kproxy.copy_as.request import asked
from kproxy.copy_as.shell import Command
from kproxy.copy_as.tools import acls, cluster, configs, groups, records, topics

TLS = "the connection was encrypted: add --command-config FILE, with security.protocol and what belongs to it"

_MAKERS = {
    **topics.MAKERS,
    **records.MAKERS,
    **groups.MAKERS,
    **configs.MAKERS,
    **acls.MAKERS,
    **cluster.MAKERS,
}


def commands(exchange: Exchange) -> list[Command]:
    """Return what asks the same with Kafka's tools, nothing if none of them asks such things."""
    request = asked(exchange)
    make = None if request is None or exchange.api_key is None else _MAKERS.get(exchange.api_key)
    return [] if make is None or request is None else list(make(request))
