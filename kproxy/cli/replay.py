"""``kproxy replay``: recorded requests sent again, and the responses of then and now beside each other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any

import click

from kproxy.cli.brokers import Brokers, command_config_option, security_of
from kproxy.cli.common import (
    EXIT_UNREADABLE,
    early_ends,
    filter_option,
    keylog_option,
    names_of,
    read_capture,
    with_progress,
)
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import color_option, reading_options, time_options, utc_option
from kproxy.cli.printing import echo, echo_json, flush
from kproxy.cli.selecting import Selecting
from kproxy.cli.times import Duration

if TYPE_CHECKING:
    from captures.exchanges import Capture, Exchange, ExchangeReader
    from dissectors.annotate import Annotator, Side
    from dissectors.frames import Body
    from kproxy.cli.tables import Table
    from kproxy.replay.cluster import LiveCluster
    from kproxy.replay.plan import Plan
    from kproxy.replay.results import Outcome

EXIT_DIFFERENT = 3
EXIT_NOT_RUN = 4

_ROWS = 40
_NANOSECONDS = 1_000_000_000


class Speed(click.ParamType[float]):
    """How many times as fast as recorded; ``max`` is infinite."""

    name = "SPEED"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the factor."""
        try:
            speed = float("inf") if value == "max" else float(value)
        except ValueError:
            speed = 0.0
        if not speed > 0:
            self.fail(f"{value!r} is no speed: write 1, 0.5, 10 or max", param, ctx)
        return speed


@click.command(short_help="Send the requests of a capture again, and compare the responses.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "-b", "--bootstrap-server", "bootstrap", type=Brokers(), required=True, help="The live cluster."
)
@command_config_option
@click.option(
    "--connection",
    "connections",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only requests of this connection; may be given several times.",
)
@click.option("-Y", "--filter", "wanted", type=FILTER, help="Only requests whose exchanges fit.")
@click.option(
    "--allow",
    multiple=True,
    metavar="API[,...]",
    help="Send these too, which change something: Produce,OffsetCommit. Without it, only what reads is sent.",
)
@click.option(
    "--speed",
    type=Speed(),
    default="1",
    show_default=True,
    help="1: as recorded, 2: twice as fast, max: as fast as answers come.",
)
@click.option(
    "--keep-offsets", is_flag=True, help="Send recorded offsets as they are, not where the live log has them."
)
@click.option(
    "--timeout",
    type=Duration(),
    default="30s",
    show_default=True,
    help="Give an answer up after this time beyond what the recorded one took.",
)
@click.option("-y", "--yes", is_flag=True, help="Do what the plan says without asking.")
@click.option(
    "-V", "--verbose", is_flag=True, help="Show each exchange with both responses and what differs."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines (docs/replay.md).")
@click.option("--all", "show_all", is_flag=True, help="Show every row of the tables.")
@time_options
@reading_options
@utc_option
@color_option
def replay(files: tuple[str, ...], **options: Any) -> None:
    """Send the recorded requests in CAPTURE... to a live cluster, and compare what it says with what was said.

    Only requests that read are sent, unless others are allowed by the names of their APIs. Requests of SASL, and those
    of brokers among themselves, are never sent. Metadata requests are forbidden to create topics.

    First a plan is shown: what is sent, to whom, what is left out and why. It is carried out after a question, or with
    --yes.

    \b
    Exit codes: 0 all answered as recorded, 1 the capture or the cluster could not be read,
    2 wrong usage, 3 answers differ or are missing, 4 only the plan was shown.
    """
    run = Replaying(files, **options)
    with early_ends():
        sys.exit(run.run())


class Replaying:
    """One run of ``kproxy replay``."""

    def __init__(
        self,
        files: tuple[str, ...],
        *,
        bootstrap: list[tuple[str, int]],
        command_config: str | None,
        connections: tuple[int, ...],
        wanted: str | None,
        allow: tuple[str, ...],
        speed: float,
        keep_offsets: bool,
        timeout: int,
        yes: bool,
        verbose: bool,
        as_json: bool,
        show_all: bool,
        begin: str | None,
        end: str | None,
        keylog: str | None,
        hosts: tuple[str, ...],
        align_clocks: bool,
        spool: int | None,
        utc: bool,
        color: str,
    ) -> None:
        from kproxy.replay.results import Results

        self.files = files
        self.bootstrap = bootstrap
        self.security, _ = security_of(command_config)
        self.allowed = _allowed(allow)
        self.speed = None if speed == float("inf") else speed
        self.keep_offsets = keep_offsets
        self.timeout = timeout / _NANOSECONDS
        self.yes = yes
        self.verbose = verbose
        self.as_json = as_json
        self.limit = None if show_all else _ROWS
        zone: tzinfo | None = UTC if utc else None
        self.selecting = Selecting(filter_option(wanted, zone), begin, end, zone, connections)
        self.keylog = keylog_option(keylog, growing="-" in files)
        self.names = names_of(hosts)
        self.align_clocks = align_clocks
        self.spool = spool
        self.terminal = sys.stdout.isatty()
        self.color = color == "always" or (
            color == "auto" and self.terminal and not os.environ.get("NO_COLOR")
        )
        self.results = Results()
        self._annotators: tuple[Annotator, Annotator] | None = None

    def run(self) -> int:
        """Plan, ask, send, compare; return the exit code."""
        from captures.exchanges import ExchangeReader
        from kproxy.proxy.own_requests import OwnRequestError

        capture = read_capture(
            self.files, self.keylog, self.names, align_clocks=self.align_clocks, spool=self.spool
        )
        reader = ExchangeReader(capture, annotate=False, gist=False)
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
        return 0 if self.results.same and self.results.sent == len(plan.steps) else EXIT_DIFFERENT

    # ------------------------------------------------------------ the plan
    def _plan(self, capture: Capture, reader: ExchangeReader) -> tuple[LiveCluster, Plan]:
        import asyncio

        from kproxy.replay.asking import live_cluster
        from kproxy.replay.plan import Planner, named_topics, recorded_nodes

        indexes = self.selecting.indexes(capture, reader).tolist()
        nodes = recorded_nodes(_telling_of_nodes(capture, reader))
        selected = self._exchanges(reader, indexes, "looking through")
        topics = named_topics(selected, self.allowed, reader.knowledge)
        cluster = asyncio.run(live_cluster(self.bootstrap, self.security, topics, self.timeout))
        planner = Planner(
            cluster, self.allowed, reader.knowledge, nodes, capture.table.column("response_last").tolist()
        )
        exchanges = self._exchanges(reader, indexes, "planning")
        for index, exchange in zip(indexes, exchanges, strict=True):
            planner.add(index, exchange)
        return cluster, planner.plan

    @staticmethod
    def _exchanges(reader: ExchangeReader, indexes: list[int], label: str) -> Iterator[Exchange]:
        exchanges = reader.several(indexes)
        return with_progress(exchanges, lambda each: each.number, len(reader), label)

    def _show_plan(self, capture: Capture, plan: Plan) -> None:
        from kproxy.cli.replay_tables import plan_json, plan_sentences, plan_table

        if self.as_json:
            _print_json(plan_json(plan, self.speed))
            return
        self._print_table(plan_table(plan, capture.names))
        for sentence in plan_sentences(plan, self.speed):
            echo(sentence, wait=True)
        flush()

    def _confirmed(self) -> bool:
        if self.yes:
            return True
        if not self.terminal or not sys.stdin.isatty() or self.as_json:
            echo("kproxy: nothing was sent: --yes does what the plan says", err=True)
            return False
        return click.confirm("Send these requests?", err=True)

    # ------------------------------------------------------------ sending
    def _send(self, reader: ExchangeReader, plan: Plan, cluster: LiveCluster) -> None:
        import asyncio

        from kproxy.replay.run import Pace, Replay

        with self._progress(len(plan.steps)) as advance:

            def tell(outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
                self.results.add(outcome)
                advance(1)
                self._show(outcome, recorded, new)

            run = Replay(
                reader,
                plan,
                cluster,
                self.security,
                Pace(self.speed, self.timeout),
                tell,
                keep_offsets=self.keep_offsets,
            )
            try:
                asyncio.run(run.run())
            except KeyboardInterrupt:
                echo("", err=True)  # what came until then is summed up

    @contextmanager
    def _progress(self, total: int) -> Iterator[Any]:
        """Show how far it is, on a terminal that shows nothing else meanwhile."""
        if not sys.stderr.isatty() or (self.terminal and (self.verbose or self.as_json)):
            yield lambda _: None
            return
        with click.progressbar(length=total, label="replaying", file=sys.stderr) as bar:
            yield bar.update

    def _show(self, outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
        from kproxy.cli.replay_tables import outcome_json, outcome_lines

        if self.as_json:
            _print_json(outcome_json(outcome, self._shown(recorded, new=False), self._shown(new, new=True)))
        elif self.verbose:
            for line in outcome_lines(outcome, color=self.color):
                echo(line, wait=True)
            flush()

    def _shown(self, body: Body | None, *, new: bool) -> Any:
        """Return a response as ``read --json`` shows it: no secrets, records decoded."""
        from dissectors.annotate import Annotations, Annotator
        from dissectors.knowledge import Knowledge

        if body is None:
            return None
        if self._annotators is None:
            self._annotators = Annotator(Knowledge()), Annotator(Knowledge())
        side: Side = "response"
        self._annotators[new].annotate(body, side, Annotations())
        return body.value

    # ------------------------------------------------------------ afterwards
    def _conclude(self, planned: int) -> None:
        from kproxy.cli.replay_tables import api_table, closing_sentences, difference_table, summary_json

        if self.as_json:
            _print_json(summary_json(self.results, planned))
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
        width = shutil.get_terminal_size().columns if self.terminal else None
        for line in table.lines(width, self.limit, color=self.color):
            echo(line, wait=True)


def _allowed(texts: Iterable[str]) -> frozenset[int]:
    from kproxy.replay.permission import NotAllowedError, allowed_keys

    try:
        return allowed_keys(name for text in texts for name in text.split(",") if name.strip())
    except NotAllowedError as error:
        raise click.UsageError(f"--allow: {error}") from None


def _telling_of_nodes(capture: Capture, reader: ExchangeReader) -> Iterator[Exchange]:
    """Yield the exchanges that tell where recorded brokers were, selected or not."""
    import numpy as np

    from kproxy.replay.plan import NODE_TELLING

    keys = capture.table.column("api_key")[capture.table.order()]
    yield from reader.several(np.isin(keys, list(NODE_TELLING)).nonzero()[0].tolist())


def _print_json(shape: dict[str, Any]) -> None:
    echo_json(shape)
