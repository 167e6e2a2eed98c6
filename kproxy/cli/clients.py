"""``kproxy clients``: who the clients are, what they run, and how they are configured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends, with_progress
from kproxy.cli.group_option import there_are
from kproxy.cli.options import color_option, reading_options
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude_unread, terminal_width

if TYPE_CHECKING:
    from captures.analysis.clients.inventory import Client
    from captures.exchanges import Capture

_ROWS = 40


@click.command(short_help="Show who the clients are, what they run, and how they are configured.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "-c",
    "--client",
    "wanted",
    multiple=True,
    metavar="CLIENT",
    help="Tell only of this client, or of those that fit 'orders-*'; may be given several times.",
)
@click.option("--config", is_flag=True, help="Reconstruct the settings of each client.")
@click.option(
    "--changed", is_flag=True, help="With --config: leave out what is not seen, and defaults of the release."
)
@click.option("--all", "show_all", is_flag=True, help="Show every client.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/clients.md).")
@reading_options
@color_option
def clients(files: tuple[str, ...], **options: Any) -> None:
    """Show the clients in CAPTURE...: their library and release, addresses, principals and connections.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    The library is what the client says in ApiVersions (KIP-511). Of one that does not say it, it is guessed from the
    versions that it uses and from what it does, and marked as a guess.

    --config shows settings in the notation of the library. Each is read from a field, estimated from the rhythm of
    requests, or not seen; the exchanges that show it are named, and what has bitten others is pointed at.
    docs/clients.md tells where each comes from.
    """
    run = Clients(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class Clients:
    """One run of ``kproxy clients``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        wanted: tuple[str, ...],
        config: bool,
        changed: bool,
        show_all: bool,
        as_json: bool,
        color: str,
        **reading: Any,
    ) -> None:
        if changed and not config:
            raise click.UsageError("--changed is about settings: it needs --config")
        self.wanted = wanted
        self.config = config
        self.changed = changed
        self.show_all = show_all
        self.as_json = as_json
        self.reading = Reading(files, utc=True, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and show its clients."""
        capture = self.reading.capture()
        found = self._chosen(self._clients(capture))
        self.clean = conclude_unread(capture)
        if self.as_json:
            self._print_json(found)
        elif self.config:
            self._print_settings(found)
        else:
            self._print(found)
        flush()

    def _clients(self, capture: Capture) -> list[Client]:
        from captures.analysis.clients import inventory
        from captures.analysis.clients.reading import read_clients
        from captures.exchanges import ExchangeReader

        reader = ExchangeReader(capture, annotate=False, gist=False)
        clients = inventory.Clients(capture)
        looked_into = read_clients(reader, clients)
        for _ in with_progress(looked_into, lambda each: each.number, len(reader), "getting to know clients"):
            pass
        return clients.result()

    def _chosen(self, found: list[Client]) -> list[Client]:
        """Return the clients that were asked for.

        :raises click.UsageError: if there is none that fits a name or pattern
        """
        from fnmatch import fnmatchcase

        if not self.wanted:
            return found
        names = [client.name for client in found]
        for each in self.wanted:
            if each not in names and not any(fnmatchcase(name, each) for name in names):
                raise click.UsageError(f"no client {each!r} in the capture; {there_are(names)}")
        return [
            client
            for client in found
            if any(client.name == each or fnmatchcase(client.name, each) for each in self.wanted)
        ]

    # ------------------------------------------------------------ what is shown
    def _print_json(self, found: list[Client]) -> None:

        from kproxy.cli.clients_text import shown_settings

        shapes = []
        for client in found:
            shape = client.to_json()
            if self.config:
                told = shown_settings(client, changed=self.changed)
                shape["settings"] = [each.to_json() for each in told]
            else:
                del shape["settings"]
            shapes.append(shape)
        shape = {"captures": list(self.reading.files), "clients": shapes}
        echo_json(shape, wait=True)

    def _print(self, found: list[Client]) -> None:
        from kproxy.cli.clients_text import client_table

        if not found:
            echo("No requests were seen, so nothing is known of clients.")
            return
        table = client_table(found, self.reading.names)
        for line in table.lines(terminal_width(), None if self.show_all else _ROWS, color=self.color):
            echo(line)

    def _print_settings(self, found: list[Client]) -> None:
        from kproxy.cli.clients_text import properties

        if not found:
            echo("No requests were seen, so nothing is known of clients.")
        shown = found if self.show_all else found[:_ROWS]
        for index, client in enumerate(shown):
            if index:
                echo()
            for line in properties(client, self.reading.names, changed=self.changed, color=self.color):
                echo(line)
        if len(found) > len(shown):
            echo()
            echo(f"… {len(found) - len(shown):,} more clients, --all shows them")
