"""``kproxy replay``: recorded requests sent again, and old and new responses compared."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dissectors.units import SECOND
from kproxy.addresses import LOOPBACK, Address
from kproxy.cli.capture_run import CaptureInput, report_faults
from kproxy.cli.command import Number, TextParam, command, option, options
from kproxy.cli.common import EXIT_UNREADABLE, filter_option, reported_endings, usage_errors, with_progress
from kproxy.cli.options import (
    BROKERS,
    LISTEN,
    ColorOption,
    CommandConfigOption,
    FilterString,
    ReadingOptions,
    Time,
    TimeOptions,
    UtcOption,
    security_of,
)
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import echo, echo_json, flush, notice, terminal_width
from kproxy.replay.pace import speed_of

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from dissectors.annotate import Annotator
    from dissectors.frames import Body
    from dissectors.sides import Side
    from kproxy.replay.cluster import LiveCluster
    from kproxy.replay.plan import Plan
    from kproxy.replay.results import Outcome
    from kproxy.text.tables import Table

EXIT_DIFFERENT = 3
EXIT_NOT_RUN = 4

_ROWS = 40


@options
class ReplayOptions(UtcOption, ColorOption, ReadingOptions, TimeOptions, CommandConfigOption):
    """Options of ``kproxy replay``."""

    bootstrap: tuple[Address, ...] = option(
        "-b", "--bootstrap-server", multiple=False, type=BROKERS, help="The live cluster."
    )
    serve: Address | None = option(
        "--serve",
        multiple=False,
        type=LISTEN,
        is_flag=False,
        flag_value="127.0.0.1:9092",
        metavar="[HOST:PORT]",
        help="Send nothing: answer clients that connect to this address, 127.0.0.1:9092 if none is given.",
    )
    connections: tuple[Number, ...] = option(
        "--connection", help="Send only requests of this connection; may be given several times."
    )
    wanted: FilterString | None = option("-Y", "--filter", help="Send only requests whose exchanges match.")
    allow: tuple[str, ...] = option(
        "--allow",
        metavar="API[,...]",
        help="Also send these APIs, which change something: Produce,OffsetCommit. Default: only requests that read.",
    )
    speed: float | None = option(
        "--speed",
        type=TextParam("SPEED", speed_of),
        default="1",
        show_default=True,
        help="1: as recorded, 2: twice as fast, max: as fast as answers come.",
    )
    keep_offsets: bool = option(
        "--keep-offsets", help="Send recorded offsets as they are, not where the live log has them."
    )
    timeout: Time = option(
        "--timeout",
        default="30s",
        show_default=True,
        help="Stop waiting for a response this long after the recorded one would have arrived.",
    )
    yes: bool = option("-y", "--yes", help="Do what the plan says without asking.")
    verbose: bool = option("-V", "--verbose", help="Show each exchange with both responses and what differs.")
    as_json: bool = option("--json", help="Print JSON lines (docs/replay.md).")
    show_all: bool = option("--all", help="Show every row of the tables.")


@command(ReplayOptions, short_help="Send the requests of a capture again, and compare the responses.")
def replay(options: ReplayOptions) -> None:
    """Send the recorded requests in CAPTURE... to a live cluster, and compare its responses with the recorded ones.

    kproxy sends only requests that read, unless you allow others by the names of their APIs. It never sends SASL
    requests or those of brokers among themselves, and does not let Metadata requests create topics.

    First it shows a plan: what it sends, to which broker, what it leaves out and why. It carries the plan out after you
    confirm, or with --yes.

    With --serve it does the opposite: it stands in for the cluster in tests without a broker, and answers the requests
    of clients with the recorded responses.

    \b
    Exit codes: 0 all answered as recorded, 1 the capture or the cluster could not be read,
    2 wrong usage, 3 answers differ or are missing, or --serve got requests that were not recorded,
    4 only the plan was shown, or there is nothing to serve.
    """
    _check_usage(options)
    run = ReplayRun(options)
    addresses = "-b" if options.serve is None else "--serve"
    with reported_endings(lambda error: error.filename or addresses):
        sys.exit(run.run() if options.serve is None else run.serve(options.serve))


def _check_usage(options: ReplayOptions) -> None:
    """Check that options for sending and for serving are not mixed.

    :raises click.UsageError: if they are, or if there are none
    """
    if options.serve is None:
        if not options.bootstrap:
            raise click.UsageError("choose the cluster to send to with -b, or --serve to answer clients")
        return
    sending = ("bootstrap", "command_config", "allow", "keep_offsets", "yes", "verbose", "as_json")
    if any(getattr(options, name) for name in sending):
        raise click.UsageError("--serve sends nothing: leave out the options for sending")


class ReplayRun:
    """One run of ``kproxy replay``."""

    def __init__(self, options: ReplayOptions) -> None:
        from kproxy.replay.permission import NotAllowedError, allowed_keys
        from kproxy.replay.results import Results

        self.options = options
        self.security, _ = security_of(options.command_config)
        with usage_errors(NotAllowedError, before="--allow: "):
            names = (name for text in options.allow for name in text.split(",") if name.strip())
            self.allowed = allowed_keys(names)
        self.speed = options.speed
        self.timeout = options.timeout / SECOND
        self.limit = None if options.show_all else _ROWS
        self.reading = CaptureInput(options, utc=options.utc)
        zone = self.reading.zone
        wanted = filter_option(options.wanted, zone)
        self.selecting = ExchangeSelection(wanted, options.begin, options.end, zone, options.connections)
        self.terminal = sys.stdout.isatty()
        self.results = Results()
        self._annotators: tuple[Annotator, Annotator] | None = None

    def run(self) -> int:
        """Plan, ask, send, compare; return the exit code."""
        from captures.exchanges import ExchangeReader
        from kproxy.proxy.own_requests import OwnRequestError

        capture = self.reading.capture()
        reader = ExchangeReader(capture, annotate=False, summary=False)
        try:
            cluster, plan = self._plan(capture, reader)
            self._show_plan(capture, plan)
            if not plan.steps or not self._confirmed():
                return EXIT_NOT_RUN
            self._send(reader, plan, cluster)
        except OwnRequestError as error:
            flush()
            echo(f"kproxy: {error}", err=True)
            return EXIT_UNREADABLE
        self._conclude(len(plan.steps))
        report_faults(capture)
        as_recorded = self.results.same and self.results.sent == len(plan.steps) and not capture.faults
        return 0 if as_recorded else EXIT_DIFFERENT

    # ------------------------------------------------------------ serving
    def serve(self, listen: Address) -> int:
        """Answer clients until SIGINT or SIGTERM; return the exit code."""
        import asyncio

        from captures.exchanges import ExchangeReader
        from captures.meaning.words import counted
        from kproxy.replay.plan import recorded_nodes
        from kproxy.replay.recorded_answers import RecordedAnswers
        from kproxy.replay.server import RecordedCluster

        capture = self.reading.capture()
        reader = ExchangeReader(capture, annotate=False, summary=False)
        answers = RecordedAnswers(reader, recorded_nodes(_telling_of_nodes(capture, reader)))
        indexes = self.selecting.indexes(capture, reader).tolist()
        self._add_all(reader, indexes, answers.add, "reading")
        if not answers:
            notice(
                "no response can be served: the capture has none that is complete; encrypted ones need --keylog"
            )
            return EXIT_NOT_RUN
        address = listen[0] or LOOPBACK, listen[1]
        cluster = RecordedCluster(answers, reader.knowledge.topic_name, address, notice, capture.faults)

        async def run() -> None:
            ended = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, ended.set)
            await cluster.run(ended)

        asyncio.run(run())
        report_faults(capture)
        recorded = counted(cluster.answered, "request")
        notice(f"{recorded} answered as recorded, {cluster.missing:,} not recorded")
        return EXIT_DIFFERENT if cluster.missing or capture.faults else 0

    # ------------------------------------------------------------ the plan
    def _plan(self, capture: Capture, reader: ExchangeReader) -> tuple[LiveCluster, Plan]:
        import asyncio

        from kproxy.replay.cluster_queries import live_cluster
        from kproxy.replay.plan import Planner, named_topics, recorded_nodes

        indexes = self.selecting.indexes(capture, reader).tolist()
        nodes = recorded_nodes(_telling_of_nodes(capture, reader))
        selected = self._exchanges(reader, indexes, "looking through")
        topics = named_topics(selected, self.allowed, reader.knowledge)
        cluster = asyncio.run(live_cluster(list(self.options.bootstrap), self.security, topics, self.timeout))
        planner = Planner(
            cluster, self.allowed, reader.knowledge, nodes, capture.table.column("response_last").tolist()
        )
        self._add_all(reader, indexes, planner.add, "planning")
        return cluster, planner.plan

    def _add_all(
        self, reader: ExchangeReader, indexes: list[int], add: Callable[[int, Exchange], None], label: str
    ) -> None:
        """Add exchanges; internal errors with single ones are reported at the end."""
        for index, exchange in zip(indexes, self._exchanges(reader, indexes, label), strict=True):
            try:
                add(index, exchange)
            except Exception as error:
                reader.capture.faults.note(error, label, exchange.number)

    @staticmethod
    def _exchanges(reader: ExchangeReader, indexes: list[int], label: str) -> Iterator[Exchange]:
        exchanges = reader.several(indexes)
        return with_progress(exchanges, lambda each: each.number, len(reader), label)

    def _show_plan(self, capture: Capture, plan: Plan) -> None:
        from kproxy.text.replay import plan_sentences, plan_table

        if self.options.as_json:
            from kproxy.cli.results import PlanResult

            duration = None if self.speed is None else round(plan.duration / self.speed)
            echo_json(PlanResult(len(plan.steps), plan.left_out, duration, list(plan.rows.values())))
            return
        self._print_table(plan_table(plan, capture.names))
        for sentence in plan_sentences(plan, self.speed):
            echo(sentence, wait=True)
        flush()

    def _confirmed(self) -> bool:
        if self.options.yes:
            return True
        if not self.terminal or not sys.stdin.isatty() or self.options.as_json:
            echo("kproxy: nothing was sent: use --yes to carry out the plan", err=True)
            return False
        return click.confirm("Send these requests?", err=True)

    # ------------------------------------------------------------ sending
    def _send(self, reader: ExchangeReader, plan: Plan, cluster: LiveCluster) -> None:
        import asyncio

        from kproxy.replay.pace import Pace
        from kproxy.replay.run import Replay

        with self._progress(len(plan.steps)) as advance:

            def report(outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
                self.results.add(outcome)
                advance(1)
                self._show(outcome, recorded, new)

            run = Replay(
                reader,
                plan,
                cluster,
                self.security,
                Pace(self.speed, self.timeout),
                report,
                reader.capture.faults,
                keep_offsets=self.options.keep_offsets,
            )
            try:
                asyncio.run(run.run())
            except KeyboardInterrupt:
                echo("", err=True)  # outcomes so far are summed up

    @contextmanager
    def _progress(self, total: int) -> Iterator[Any]:
        """Show the progress, on a terminal that shows nothing else meanwhile."""
        if not sys.stderr.isatty() or (self.terminal and (self.options.verbose or self.options.as_json)):
            yield lambda _: None
            return
        with click.progressbar(length=total, label="replaying", file=sys.stderr) as bar:
            yield bar.update

    def _show(self, outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
        from kproxy.text.replay import outcome_lines

        if self.options.as_json:
            from kproxy.cli.results import OutcomeResult

            echo_json(OutcomeResult(outcome, self._shown(recorded, new=False), self._shown(new, new=True)))
        elif self.options.verbose:
            for line in outcome_lines(outcome):
                echo(line, wait=True)
            flush()

    def _shown(self, body: Body | None, *, new: bool) -> Any:
        """Return a response as ``read --json`` shows it: no secrets, records decoded."""
        from dissectors.annotate import Annotations, Annotator
        from dissectors.session_context import SessionContext

        if body is None:
            return None
        if self._annotators is None:
            self._annotators = Annotator(SessionContext()), Annotator(SessionContext())
        side: Side = "response"
        self._annotators[new].annotate(body, side, Annotations())
        return body.value

    # ------------------------------------------------------------ afterwards
    def _print_summary(self, planned: int) -> None:
        from kproxy.cli.results import ExpectedDifference, ReplaySummary
        from kproxy.replay.response_comparison import EXPECTED_TO_DIFFER

        results = self.results
        expected = {
            name: ExpectedDifference(count, EXPECTED_TO_DIFFER.get(name, "times"))
            for name, count in sorted(results.expected.items())
        }
        apis = list(results.apis.values())
        echo_json(
            ReplaySummary(
                planned, results.sent, results.differing, results.failed, apis, expected, results.failures
            )
        )

    def _conclude(self, planned: int) -> None:
        from kproxy.text.replay import api_table, closing_sentences, difference_table

        if self.options.as_json:
            self._print_summary(planned)
            return
        if self.results.apis:
            echo("", wait=True)
            self._print_table(api_table(self.results))
        if self.results.groups:
            echo("", wait=True)
            self._print_table(difference_table(self.results))
        echo("", wait=True)
        for sentence in closing_sentences(self.results, planned):
            echo(sentence, wait=True)
        flush()

    def _print_table(self, table: Table) -> None:
        table.most = self.limit
        for line in table.lines(terminal_width()):
            echo(line, wait=True)


def _telling_of_nodes(capture: Capture, reader: ExchangeReader) -> Iterator[Exchange]:
    """Yield the exchanges that show where recorded brokers were, selected or not."""
    import numpy as np

    from kproxy.replay.plan import NODE_APIS

    keys = capture.table.column("api_key")[capture.table.order()]
    yield from reader.several(np.isin(keys, list(NODE_APIS)).nonzero()[0].tolist())
