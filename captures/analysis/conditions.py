"""Filters for the subjects of tables and findings, in the filter language (``docs/filters.md``)."""

from __future__ import annotations

from ipaddress import ip_address

from captures.filters.lexer import quoted


def of_client(name: str) -> str:
    """Return a filter for a client by its name in tables: its ID, or its address if it has none."""
    by_id = f"client_id == {quoted(name)}"
    try:
        address = ip_address(name.strip("[]"))
    except ValueError:
        return by_id
    return f"({by_id} or not client_id and client.host == {quoted(str(address))})"


def of_group(group: str, cluster: str = "") -> str:
    """Return a filter for the exchanges that name a group; exchanges with an inferred group are left out.

    :param cluster: name of its cluster, as kproxy's proxy has recorded it; empty for any
    """
    of = f"cluster == {quoted(cluster)} and " if cluster else ""
    return f"{of}group == {quoted(group)} and not group.inferred"


def of_topic(topic: str) -> str:
    """Return a filter for the exchanges that name a topic."""
    return f"topic == {quoted(topic)}"


def of_connection(connection: int) -> str:
    """Return a filter for the exchanges of a connection."""
    return f"connection == {connection}"
