"""The clients of recordings, read as the command reads them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from captures.analysis.clients.client_reader import read_clients
from captures.analysis.clients.inventory import Client, Clients
from captures.analysis.clients.setting_display import DisplayedSetting
from captures.exchanges import ExchangeReader, open_capture

DATA = Path(__file__).parents[3] / "data"
RANGE = "groups/27_k391_java_eager_range.pcap.zst"


@cache
def clients_of(name: str) -> dict[str, Client]:
    """Return the clients of a recording under ``tests/data``, by name."""
    capture = open_capture(str(DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    clients = Clients(capture)
    for _ in read_clients(reader, clients):
        pass
    return {client.name: client for client in clients.result()}


def told(client: Client) -> dict[str, DisplayedSetting]:
    """Return the settings of a client by key."""
    return {each.setting.key: each for each in client.settings}
