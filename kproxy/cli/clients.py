"""``kproxy clients``: who the clients are, what they run, and how they are configured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.capture_run import CaptureRun, conclude_unread
from kproxy.cli.command import option, options
from kproxy.cli.common import with_progress
from kproxy.cli.options import ClientOption, ReadingOptions, ReportOptions
from kproxy.cli.selection import chosen

if TYPE_CHECKING:
    from captures.analysis.clients.inventory import Client
    from captures.exchanges import Capture
    from kproxy.text.blocks import Block

_ROWS = 40


@options
class ClientsOptions(ReportOptions, ReadingOptions, ClientOption):
    """Options of ``kproxy clients``."""

    settings: bool = option(
        "--settings", former=("--config",), help="Reconstruct the settings of each client."
    )
    changed: bool = option(
        "--changed", help="With --settings: omit settings that were not seen, and defaults of the release."
    )
    show_all: bool = option("--all", help="Show every client.")
    as_json: bool = option("--json", help="Print one JSON object (docs/clients.md).")


class ClientsRun(
    CaptureRun[ClientsOptions], short_help="Show the clients, their libraries and their settings."
):
    """Show the clients in CAPTURE...: their library and release, addresses, principals and connections.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Clients report their library in ApiVersions (KIP-511). If a client does not, kproxy guesses the library from the
    versions that it uses and from its behaviour, and marks it as a guess.

    --settings shows settings in the notation of the library. Each is read from a field, estimated from the rhythm of
    requests, or not seen. The output names the exchanges that show it and points out risky values. docs/clients.md
    explains where each setting comes from.
    """

    def __init__(self, options: ClientsOptions) -> None:
        if options.changed and not options.settings:
            raise click.UsageError("--changed needs --settings")
        super().__init__(options)

    def run(self) -> None:
        from kproxy.text.blocks import spaced

        capture = self.reading.capture()
        found = self._clients(capture)
        wanted = chosen([each.name for each in found], self.options.clients, "client")
        found = [each for each in found if each.name in wanted]
        self.clean = conclude_unread(capture)
        result = None if not self.as_json else self._result(found)
        self.answer(result, blocks=spaced(self._blocks(found)))

    def _clients(self, capture: Capture) -> list[Client]:
        from captures.analysis.clients import inventory
        from captures.analysis.clients.client_reader import read_clients

        reader = self.reading.reader(capture)
        clients = inventory.Clients(capture)
        looked_into = read_clients(reader, clients)
        for _ in with_progress(looked_into, lambda number: number, len(reader), "getting to know clients"):
            pass
        return clients.result()

    # ------------------------------------------------------------ output
    def _result(self, found: list[Client]) -> dict[str, Any]:
        from captures.json_objects import to_json
        from kproxy.text.clients import shown_settings

        shapes = []
        for client in found:
            shape = to_json(client)
            if self.options.settings:
                shape["settings"] = to_json(shown_settings(client, changed=self.options.changed))
            else:
                del shape["settings"]
            shapes.append(shape)
        return {"captures": self.reading.files, "clients": shapes}

    def _blocks(self, found: list[Client]) -> Iterator[Block]:
        from kproxy.text.blocks import Code, Paragraph
        from kproxy.text.clients import client_table, properties

        most = None if self.options.show_all else _ROWS
        if not found:
            yield Paragraph("No requests were seen, so nothing is known of clients.")
        elif not self.options.settings:
            table = client_table(found, self.reading.names)
            table.most = most
            yield table
        else:
            for client in found[:most]:
                yield Code(list(properties(client, self.reading.names, changed=self.options.changed)))
            if most is not None and len(found) > most:
                yield Paragraph(f"… {len(found) - most:,} more clients, --all shows them")
