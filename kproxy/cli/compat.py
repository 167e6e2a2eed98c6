"""``kproxy compat``: which clients brokers of another release would refuse, and which brokers a new client would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.capture_run import CaptureRun, conclude_unread
from kproxy.cli.command import option, options
from kproxy.cli.common import usage_errors
from kproxy.cli.options import JobsOption, ReadingOptions, ReportOptions

if TYPE_CHECKING:
    from captures.analysis.compat import Target
    from captures.analysis.releases import Line
    from captures.exchanges import Capture
    from kproxy.text.tables import Table

_ROWS = 40


@options
class CompatOptions(ReportOptions, ReadingOptions, JobsOption):
    """Options of ``kproxy compat``."""

    broker_version: str | None = option(
        "--broker-version",
        metavar="RELEASE|FILE",
        help="The new brokers: a release of Apache Kafka such as 4.3, or a file with the output of 'kproxy "
        "api-versions --json'.",
    )
    client_version: str | None = option(
        "--client-version",
        metavar="CLIENT",
        help="The new client: apache-kafka-java-4.0, or 4.0 for short. Shows which recorded brokers are too old for "
        "it.",
    )
    zookeeper: bool = option(
        "--zookeeper",
        help="The new brokers keep their metadata in ZooKeeper; assumed before 3.3, the first release for KRaft.",
    )
    show_all: bool = option("--all", help="Show unchanged clients too.")
    as_json: bool = option("--json", help="Print one JSON object (docs/compat.md).")


class CompatRun(
    CaptureRun[CompatOptions], short_help="Show which clients a broker of another release would refuse."
):
    """Show which clients in CAPTURE... a broker of another release would refuse, or serve with older versions.

    CAPTURE is a file, a folder, or - for standard input; several are one capture in the order of time.

    Clients that ask for the broker's versions (ApiVersions) would adapt; their behaviour is inferred. Others would send
    the same requests as before. Kafka 4.0 removed versions older than those of 2.1 (KIP-896). docs/compat.md explains
    the terms.
    """

    def __init__(self, options: CompatOptions) -> None:
        brokers, client = options.broker_version, options.client_version
        if (brokers is None) == (client is None):
            raise click.UsageError("use either --broker-version or --client-version")
        self.target = None if brokers is None else _target(brokers, zookeeper=options.zookeeper)
        self.client = None if client is None else _client(client)
        super().__init__(options)

    def run(self) -> None:
        capture = self.reading.capture()
        if self.target is not None:
            self._judge_clients(self.target, capture)
        else:
            assert self.client is not None
            self._judge_brokers(self.client, capture)

    def _judge_clients(self, target: Target, capture: Capture) -> None:
        from captures.analysis.compat import Compatibility
        from kproxy.cli.results import TargetResult
        from kproxy.text import compat as text

        compatibility = Compatibility(target, capture)
        self.reading.learn_versions(compatibility, capture)
        self.clean = conclude_unread(capture)
        report = compatibility.result()
        names, show_all = self.reading.names, self.options.show_all
        self._answer(
            TargetResult(self.reading.files, target, report.clients, report.brokers_left_out),
            text.clients_sentence(report),
            text.client_table(report, names),
            text.verdict_table(report, names, served=show_all),
        )

    def _judge_brokers(self, line: Line, capture: Capture) -> None:
        from captures.analysis.compat import ClientCompatibility
        from kproxy.cli.results import BrokersResult
        from kproxy.text import compat as text

        compatibility = ClientCompatibility(line, capture)
        self.reading.learn_versions(compatibility.negotiation, capture)
        self.clean = conclude_unread(capture)
        brokers = compatibility.result()
        names, show_all = self.reading.names, self.options.show_all
        named = [replace(each, name=next(iter(names.of(each.broker)), None)) for each in brokers]
        self._answer(
            BrokersResult(self.reading.files, compatibility.name, named),
            text.brokers_sentence(compatibility.name, brokers),
            text.broker_table(brokers, names),
            text.fit_table(brokers, names, everything=show_all),
        )

    def _answer(self, result: object, sentence: str, *tables: Table) -> None:
        from kproxy.text.blocks import Paragraph, spaced

        shown = [each for each in tables if each.rows]
        for each in shown:
            each.most = None if self.options.show_all else _ROWS
        self.answer(result, blocks=spaced([Paragraph(sentence), *shown]))


def _target(text: str, *, zookeeper: bool) -> Target:
    """Return the broker of ``--broker-version``.

    :raises click.UsageError: if it is neither a release nor a file of version ranges
    """
    from captures.analysis.compat import Target
    from captures.analysis.releases import BrokerRelease, line_of

    try:
        line_of(text)
    except ValueError as error:
        if not Path(text).exists():
            raise click.UsageError(f"{error}, and no file") from None
        return _target_of_file(text)
    with usage_errors(ValueError):
        return Target.of_release(BrokerRelease.of(text, zookeeper=True if zookeeper else None))


def _target_of_file(path: str) -> Target:
    """Return the versions that all brokers serve, from the output of ``kproxy api-versions --json``.

    :raises click.UsageError: if the file is not such output
    """
    import msgspec

    from captures.analysis.compat import Target
    from captures.meaning.exchange import number, rows

    wrong = f"{path} is not output of 'kproxy api-versions --json': "
    with usage_errors(OSError, msgspec.DecodeError, before=wrong):
        parsed = msgspec.json.decode(Path(path).read_bytes())
    brokers = rows(parsed, "brokers") if isinstance(parsed, dict) else []
    ranges = [
        {number(row, "api_key"): (number(row, "min"), number(row, "max")) for row in rows(broker, "apis")}
        for broker in brokers
    ]
    offers = [each for each in ranges if each]
    if not offers:
        raise click.UsageError(
            f"{path} has no broker with its versions: use the output of 'kproxy api-versions --json'"
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
            "of any library would do with a broker, use --broker-version"
        )
    with usage_errors(ValueError):
        return line_of(release)
