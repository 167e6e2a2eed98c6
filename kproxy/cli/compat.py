"""``kproxy compat``: which clients a broker of another release would refuse, and which brokers another client."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.common import early_ends
from kproxy.cli.options import color_option, reading_options
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.reading import Reading, colored, conclude, terminal_width

if TYPE_CHECKING:
    from captures.analysis.client_compat import BrokerFit
    from captures.analysis.compat_model import Report, Target
    from captures.analysis.releases import Line
    from captures.exchanges import Capture, Exchange
    from kproxy.cli.summary import Tally
    from kproxy.cli.tables import Table

_ROWS = 40


@click.command(short_help="Tell which clients a broker of another release would refuse.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "--broker-version",
    metavar="RELEASE|FILE",
    help="The brokers to be: a release of Apache Kafka such as 4.3, or what 'kproxy api-versions --json' printed.",
)
@click.option(
    "--client-version",
    metavar="CLIENT",
    help="The client to be: apache-kafka-java-4.0, or 4.0 for short. Tells which recorded brokers are too old for it.",
)
@click.option(
    "--zookeeper",
    is_flag=True,
    help="The brokers to be keep their metadata in ZooKeeper; assumed before 3.3, which is the first for KRaft.",
)
@click.option("--all", "show_all", is_flag=True, help="Show also what is served as it was.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object (docs/compat.md).")
@reading_options
@color_option
def compat(files: tuple[str, ...], **options: Any) -> None:
    """Tell which clients in CAPTURE... a broker of another release would refuse, or serve with older versions.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Clients that ask which versions the broker has (ApiVersions) would adapt: what they would do is inferred. Others
    would send what they sent. Kafka 4.0 removed what was older than 2.1 (KIP-896). docs/compat.md explains the words.
    """
    run = Compat(files, **options)
    with early_ends():
        run.run()
    sys.exit(run.reading.exit_code(clean=run.clean))


class Compat:
    """One run of ``kproxy compat``.

    :raises click.UsageError: if it is not said what is to be compared, or a release is not known
    """

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        broker_version: str | None,
        client_version: str | None,
        zookeeper: bool,
        show_all: bool,
        as_json: bool,
        color: str,
        **reading: Any,
    ) -> None:
        if (broker_version is None) == (client_version is None):
            raise click.UsageError("give either --broker-version or --client-version")
        self.target = None if broker_version is None else _target(broker_version, zookeeper=zookeeper)
        self.client = None if client_version is None else _client(client_version)
        self.show_all = show_all
        self.as_json = as_json
        self.reading = Reading(files, utc=True, **reading)
        self.color = colored(color)
        self.clean = True

    def run(self) -> None:
        """Read the capture, and show what would come of it."""
        from kproxy.cli.summary import Tally

        capture = self.reading.capture()
        tally = Tally()
        if self.target is not None:
            self._judge_clients(self.target, capture, tally)
        else:
            assert self.client is not None
            self._judge_brokers(self.client, capture, tally)
        flush()

    def _judge_clients(self, target: Target, capture: Capture, tally: Tally) -> None:
        from captures.analysis.compat import Compatibility

        compatibility = Compatibility(target, capture)
        self._learn(compatibility.add, capture, tally)
        report = compatibility.result()
        if self.as_json:
            shape = {
                "captures": list(self.reading.files),
                "target": _target_json(target),
                "clients": [each.to_json() for each in report.clients],
                "brokers_left_out": report.brokers_left_out,
            }
            _print_json(shape)
        else:
            self._print_clients(report)

    def _judge_brokers(self, line: Line, capture: Capture, tally: Tally) -> None:
        from captures.analysis.client_compat import ClientCompatibility

        compatibility = ClientCompatibility(line, capture)
        self._learn(compatibility.add, capture, tally)
        brokers = compatibility.result()
        if self.as_json:
            shown = [
                each.to_json() | {"name": next(iter(self.reading.names.of(each.broker)), None)}
                for each in brokers
            ]
            _print_json(
                {"captures": list(self.reading.files), "client": compatibility.name, "brokers": shown}
            )
        else:
            self._print_brokers(compatibility.name, brokers)

    def _learn(self, add: Callable[[Exchange], None], capture: Capture, tally: Tally) -> None:
        """Show all exchanges, of which only the fields that tell versions are read."""
        learn = capture.faults.guarded(add, "learning versions")
        for exchange in self._exchanges(capture):
            tally.add(exchange)
            learn(exchange)
        self.clean = conclude(capture, tally)

    @staticmethod
    def _exchanges(capture: Capture) -> Iterator[Exchange]:
        import numpy as np

        from captures.analysis.compat import NEEDS
        from captures.exchanges import ExchangeReader
        from captures.exchanges.projected import ProjectedExchanges
        from kproxy.cli.common import with_progress

        reader = ExchangeReader(capture, annotate=False, gist=False)
        read = ProjectedExchanges(reader, NEEDS).read(np.arange(len(reader), dtype=np.int64))
        exchanges = (exchange for _, exchange in read)
        return with_progress(exchanges, lambda each: each.number, len(reader), "reading versions")

    # ------------------------------------------------------------ what is shown
    def _print_clients(self, report: Report) -> None:
        from kproxy.cli import compat_tables as tables

        echo(tables.clients_sentence(report))
        names = self.reading.names
        self._print_tables(
            [tables.client_table(report, names), tables.verdict_table(report, names, served=self.show_all)]
        )

    def _print_brokers(self, client: str, brokers: list[BrokerFit]) -> None:
        from kproxy.cli import compat_tables as tables

        echo(tables.brokers_sentence(client, brokers))
        names = self.reading.names
        self._print_tables(
            [tables.broker_table(brokers, names), tables.fit_table(brokers, names, everything=self.show_all)]
        )

    def _print_tables(self, tables: list[Table]) -> None:
        width = terminal_width()
        for table in tables:
            if table.rows:
                echo()
                for line in table.lines(width, None if self.show_all else _ROWS, color=self.color):
                    echo(line)


def _target(text: str, *, zookeeper: bool) -> Target:
    """Return the broker of ``--broker-version``.

    :raises click.UsageError: if it is neither a release nor a file of ranges
    """
    from captures.analysis.compat_model import Target
    from captures.analysis.releases import BrokerRelease, line_of

    try:
        line_of(text)
    except ValueError as error:
        if not Path(text).exists():
            raise click.UsageError(f"{error}, and no file") from None
        return _target_of_file(text)
    try:
        return Target.of_release(BrokerRelease.of(text, zookeeper=True if zookeeper else None))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _target_of_file(path: str) -> Target:
    """Return what all brokers in an output of ``kproxy api-versions --json`` serve.

    :raises click.UsageError: if it is none
    """
    import msgspec

    from captures.analysis.compat_model import Target
    from captures.meaning.exchange import number, rows

    try:
        told = msgspec.json.decode(Path(path).read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise click.UsageError(f"{path} is no output of 'kproxy api-versions --json': {error}") from None
    brokers = rows(told, "brokers") if isinstance(told, dict) else []
    ranges = [
        {number(row, "api_key"): (number(row, "min"), number(row, "max")) for row in rows(broker, "apis")}
        for broker in brokers
    ]
    offers = [each for each in ranges if each]
    if not offers:
        raise click.UsageError(
            f"{path} tells of no broker what it offers: 'kproxy api-versions --json' prints such"
        )
    return Target.of_ranges(f"the broker of {path}" if len(offers) == 1 else f"all brokers of {path}", offers)


def _client(text: str) -> Line:
    """Return the release of ``--client-version``.

    :raises click.UsageError: if its versions are not known
    """
    from captures.analysis.clients.libraries import JAVA
    from captures.analysis.releases import line_of

    library, release = "", text.strip()
    if not release[:1].isdigit():
        library, _, release = release.replace(" ", "-").rpartition("-")
    if library not in ("", JAVA):
        raise click.UsageError(
            f"the versions of {library} are not known; of {JAVA} they are, such as {JAVA}-4.0. What a recorded client "
            "of any library would do with a broker, --broker-version tells"
        )
    try:
        return line_of(release)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _target_json(target: Target) -> dict[str, Any]:
    from dissectors.apis import api_name

    return {
        "name": target.name,
        "answers_api_versions": target.negotiates,
        "apis": [
            {
                "api": api_name(key),
                "api_key": key,
                "min": served.versions[0],
                "max": served.versions[1],
                "announced_min": served.announced[0],
                "only_if_configured": served.optional,
            }
            for key, served in sorted(target.apis.items())
        ],
    }


def _print_json(shape: dict[str, Any]) -> None:

    echo_json(shape, wait=True)
