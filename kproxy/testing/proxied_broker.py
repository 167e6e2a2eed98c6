"""A proxy in front of a test's broker, and assertions about the exchanges that passed through it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from msgspec.structs import replace

from captures.analysis.clusters import Clusters
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.groups.model import Rebalance
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.filters import compile_filter, unknown_cluster
from captures.filters.lexer import quoted
from captures.meaning import words
from kproxy.cli.diagnose import Level
from kproxy.cli.proxy import ProxyOptions, proxy, settings_of
from kproxy.proxy.control import ControlClient
from kproxy.proxy.plane_process import PlaneProcess
from kproxy.proxy.run_folder import RunFolder
from kproxy.text.findings import FindingsText
from kproxy.text.lines import Lines

MOST_NAMED = 10
"""Exchanges that a failure names."""
_CATCH_UP_SECONDS = 30.0
_LOOK = 0.005
_COMMITS = "api in {OffsetCommit, TxnOffsetCommit}"


class ProxiedBroker:
    """A broker behind a proxy that records everything, for the time of a ``with`` statement.

    Assertions concern everything recorded up to their call; they raise AssertionError, with the lines of the exchanges
    that show why.

    :param broker: bootstrap servers, ``HOST:PORT[,HOST:PORT...]``
    :param recording: file for the recording; its folder is created
    :param folder: for the state of the proxy
    :param arguments: more command-line arguments of ``kproxy proxy``
    :raises click.UsageError: if an argument is invalid
    :raises RuntimeError: if the proxy cannot start
    :ivar bootstrap_server: address that clients connect to, ``127.0.0.1:PORT``
    :ivar bootstrap_servers: those of clusters that have names (``-b NAME=HOST:PORT``)
    :ivar control: its control socket, to add faults or ask for its state (docs/ctl.md)
    """

    bootstrap_server: str
    bootstrap_servers: dict[str, str]
    control: ControlClient

    def __init__(self, broker: str, recording: Path, folder: Path, arguments: Sequence[str] = ()) -> None:
        self.recording = recording
        self._folder = folder
        arguments = ["-b", broker, "--listen=127.0.0.1:0", "--drain=1s", "--lossless", *arguments]
        with proxy.make_context("kproxy proxy", [*arguments, "-w", str(recording)]) as context:
            self._settings = settings_of(ProxyOptions(**context.params))
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self.recording.parent.mkdir(parents=True, exist_ok=True)
        self.recording.unlink(missing_ok=True)  # the proxy would append to it
        run = RunFolder.create(0, base=self._folder)
        events: list[dict[str, Any]] = []
        with ExitStack() as stack:
            stack.callback(run.remove)
            plane = PlaneProcess(replace(self._settings, run_folder=str(run.path)), events.append)
            stack.callback(plane.end, self._settings.drain)
            if not plane.wait_until_ready():
                raise RuntimeError(f"the proxy cannot start: {plane.failure}")
            self.bootstrap_server = next(each["address"] for each in events if each["event"] == "listening")
            self.control = stack.enter_context(ControlClient(run.control_socket, control=True))
            clusters = self.control.call("status")["clusters"]
            self.bootstrap_servers = {name: each["listen"] for name, each in clusters.items()}
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # ------------------------------------------------------------ questions
    def exchanges(self, wanted: str = "") -> list[Exchange]:
        """Return the exchanges so far that match a filter (docs/filters.md), in the order of their numbers.

        :raises captures.filters.FilterError: if it is not a filter, or names a cluster that there is not
        """
        reader = self._reader()
        if not wanted:
            return list(reader)
        chosen = compile_filter(wanted)
        if error := unknown_cluster(chosen, self.bootstrap_servers):
            raise error
        found = list(chosen.exchanges(reader))
        if chosen.undecided:
            limits = ", ".join(chosen.undecided)
            raise AssertionError(
                f"{wanted!r} is undecided for {chosen.undecided.total()} exchanges: {limits}"
            )
        return found

    def findings(self, least: Level = "info") -> list[Finding]:
        """Return the findings so far (docs/findings.md) of at least this severity, the most severe first."""
        return [each for each in self._diagnosis().findings() if each.severity >= Severity[least.upper()]]

    def rebalances(self, group: str | None = None) -> list[Rebalance]:
        """Return the rebalances so far (docs/groups.md) of one group, or of all, in the order of time.

        A group that gets its first members, or loses its last one, disturbs no member: both are left out.
        """
        found = []
        for timeline in self._diagnosis().groups.result():
            had_members = False
            for each in timeline.rebalances:
                if had_members and not each.emptied and group in (None, timeline.group):
                    found.append(each)
                had_members = not each.emptied
        return sorted(found, key=lambda each: each.time)

    # ------------------------------------------------------------ assertions
    def assert_at_most(self, most: int, wanted: str) -> None:
        """Assert that at most so many exchanges match a filter."""
        __tracebackhide__ = True
        if len(found := self.exchanges(wanted)) > most:
            self._fail(f"expected at most {most}, but {_matching(found, wanted)}", found, wanted)

    def assert_at_least(self, least: int, wanted: str) -> None:
        """Assert that at least so many exchanges match a filter."""
        __tracebackhide__ = True
        if len(found := self.exchanges(wanted)) < least:
            self._fail(f"expected at least {least}, but {_matching(found, wanted)}", found, wanted)

    def assert_none(self, wanted: str) -> None:
        """Assert that no exchange matches a filter."""
        __tracebackhide__ = True
        self.assert_at_most(0, wanted)

    def assert_no_rebalance(self, group: str | None = None) -> None:
        """Assert that no member of a group, or of any group, had to take part in a rebalance."""
        __tracebackhide__ = True
        if found := self.rebalances(group):
            numbers = {number for each in found for number in each.evidence}
            said = "\n".join(f"  {each.group}: {each.sentence}" for each in found)
            self._fail(f"expected no rebalance, but there was:\n{said}", self._numbered(numbers))

    def assert_commits_acknowledged(self, group: str | None = None) -> None:
        """Assert that offsets were committed, and that every commit was answered without an error."""
        __tracebackhide__ = True
        commits = _COMMITS if group is None else f"{_COMMITS} and group == {quoted(group)}"
        self.assert_at_least(1, commits)
        self.assert_none(f"{commits} and (error.any or unanswered)")

    def assert_no_finding_above(self, severity: Level) -> None:
        """Assert that no finding is more severe than this: ``"low"`` allows findings of low severity and info."""
        __tracebackhide__ = True
        found = [each for each in self.findings(severity) if each.severity > Severity[severity.upper()]]
        if found:
            text = FindingsText(None, files=[str(self.recording)])
            said = "\n".join(f"  {text.notice(each)}" for each in found)
            numbers = {number for each in found for number in each.evidence}
            self._fail(f"expected no finding above {severity}, but found:\n{said}", self._numbered(numbers))

    # ------------------------------------------------------------ the recording
    def _reader(self) -> ExchangeReader:
        self._wait_until_recorded()
        capture = open_capture([str(self.recording)])
        capture.read()
        return ExchangeReader(capture)

    def _diagnosis(self) -> Diagnosis:
        reader = self._reader()
        reader.learn(len(reader))
        clusters = Clusters(reader.capture, reader.knowledge.facts)
        diagnosis = Diagnosis(reader.capture, reader.knowledge.topic_name, clusters=clusters)
        for exchange in reader:
            diagnosis.add(exchange)
        return diagnosis

    def _wait_until_recorded(self) -> None:
        """Wait until everything forwarded so far is in the file.

        :raises AssertionError: if something is missing, so that nothing could be asserted
        """
        deadline = time.monotonic() + _CATCH_UP_SECONDS
        # at first the recorder is not up yet: the proxy listens before
        while not (state := self.control.call("status")["recording"])["up"] or state["waiting_bytes"]:
            if state["restarts"] or time.monotonic() > deadline:
                break
            time.sleep(_LOOK)
        if state["gaps"] or state["restarts"]:
            raise AssertionError(f"the recording has gaps: {self.recording}")
        if not state["up"] or state["waiting_bytes"]:
            raise AssertionError(
                f"the recording is behind: {state['waiting_bytes']} bytes are not in {self.recording} yet"
            )

    def _numbered(self, numbers: Iterable[int]) -> list[Exchange]:
        wanted = set(numbers)
        return [each for each in self._reader() if each.number in wanted]

    def _fail(self, text: str, found: list[Exchange], wanted: str = "") -> NoReturn:
        __tracebackhide__ = True
        option = f" -Y {shlex.quote(wanted)}" if wanted else ""
        command = f"kproxy read{option} {shlex.quote(str(self.recording))}"
        raise AssertionError("\n".join([text, *_lines(found), command]))


def _matching(found: list[Exchange], wanted: str) -> str:
    match = "matches" if len(found) == 1 else "match"
    return f"{words.counted(len(found), 'exchange')} {match} {wanted!r}"


def _lines(found: list[Exchange]) -> Iterator[str]:
    if found:
        lines = Lines(None, None)
        lines.fit(found[:MOST_NAMED])
        yield lines.header(found[0].time)
        yield from map(lines.line, found[:MOST_NAMED])
    if len(found) > MOST_NAMED:
        yield f"... and {len(found) - MOST_NAMED} more"
