"""The output of a growing capture, shared by ``kproxy sniff``, ``kproxy proxy`` and ``kproxy attach``.

Exchanges are printed as they complete, as ``kproxy read`` prints them; memory stays bounded over days.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.filters.filter import LiveFilter
from captures.live.capture import GrowingCapture
from captures.live.recorder import Match, Recorder
from captures.live.recording import open_recording
from captures.packets import CaptureError
from captures.packets.spool import DEFAULT_SPOOL
from kproxy.cli.capture_run import report_faults
from kproxy.cli.common import filter_option, names_of
from kproxy.cli.exchange_output import ExchangeOutput
from kproxy.cli.options import LiveOptions
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import discard_output, echo, flush, notice
from kproxy.text.lines import request_text, response_text
from kproxy.text.summary import Tally, notes

if TYPE_CHECKING:
    from captures.filters import Filter
    from kproxy.cli.live_findings import LiveDiagnosis
    from kproxy.cli.spans import LiveSpans
    from kproxy.session import Session

_LOOK = 0.05  # seconds between checks whether a recording exists


def nothing(_: Exchange) -> None:
    """Ignore an exchange."""


class LiveOutput:
    """Shows the exchanges of a capture as it grows.

    :param options: which exchanges are shown, how, and whether to diagnose; the UI has a view for that
    :param quiet: show none, only observe them
    :param count: stop after so many matches
    :param keep: a filter; the flight recorder keeps the traffic around matching exchanges
    :param since: ns since the epoch: exchanges that began before are not shown
    :param look: called with every exchange, shown or not
    :param otlp: URL of a collector that gets spans; None for none
    :param outlives: a sentence that says what continues when the reader of the output closes it (head, less); empty if
        that ends the command
    :param may_be_empty: whether an empty capture is acceptable
    :param clusters: names of the clusters behind ``kproxy proxy``
    :raises click.UsageError: if an option is invalid
    :ivar recorder: the flight recorder; None if there is none, or it has not begun
    """

    recorder: Recorder | None = None

    def __init__(
        self,
        options: LiveOptions,
        *,
        quiet: bool = False,
        count: int | None = None,
        keep: str | None = None,
        since: int | None = None,
        look: Callable[[Exchange], None] = nothing,
        otlp: str | None = None,
        outlives: str = "",
        may_be_empty: bool = False,
        clusters: Sequence[str] = (),
    ) -> None:
        self.showing = ExchangeOutput(options)
        zone = self.showing.zone
        wanted = filter_option(options.wanted, zone, clusters)
        self._quiet = quiet
        self._selecting = ExchangeSelection(wanted, zone=zone, count=None if quiet else count, since=since)
        self._keep = filter_option(keep, zone, clusters)
        self._look = look
        self._otlp = otlp
        self._spans: LiveSpans | None = None
        self._outlives = outlives
        self._may_be_empty = may_be_empty
        self._reader: ExchangeReader | None = None
        self._clusters = clusters
        self._diagnoses = options.diagnose
        self._diagnosis: LiveDiagnosis | None = None

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic ID, as far as it is known by now."""
        return None if self._reader is None else self._reader.knowledge.topic_name(topic_id)

    def watch(self, capture: Capture, pause: Callable[[], None] = flush) -> Tally:
        """Show exchanges until the capture ends or the count is reached; return what was counted.

        Then the source is stopped, because it may not have ended.

        :param pause: called whenever everything available was shown
        """
        reader = self.showing.reader(capture, live=True)
        annotated = self.showing.as_json or self.showing.verbose
        tally, look = Tally(), self._looking(reader, annotated=annotated)
        pause = partial(self._unless_unread, pause)
        if self._diagnoses:
            look, pause = self._diagnosing(reader, look, pause)
        exchanges = tally.counting(self._selecting.follow(capture, reader, pause, look))
        if self._quiet:
            deque(exchanges, maxlen=0)
        else:
            self._unless_unread(partial(self.showing.show_live, exchanges, capture.faults))
            deque(exchanges, maxlen=0)  # the rest, after the reader of the output has closed it
        capture.source.stop()
        flush()
        return tally

    def _unless_unread(self, shown: Callable[[], object]) -> None:
        """Show something; if the reader of the output has closed it and there is more to do, print nothing from now on.

        :raises BrokenPipeError: if the reader has closed it, and printing is all there is to do
        """
        try:
            shown()
        except BrokenPipeError:
            if not self._outlives:
                raise
            discard_output()
            notice(f"the reader of the output has gone: {self._outlives}")

    def observe(self, session: Session) -> None:
        """Observe the exchanges of a session that is shown in the UI."""
        if self._keep is None and self._look is nothing and self._otlp is None:
            return

        session.observe(lambda access: self._looking(access.reader, annotated=True))

    def _looking(self, reader: ExchangeReader, *, annotated: bool) -> Callable[[Exchange], None]:
        """Return a function that observes every exchange, shown or not.

        :param annotated: whether the exchanges are prepared for display
        """
        self._reader = reader
        kept = LiveFilter(self._keep, reader)
        guarded = reader.capture.faults.guarded
        look_at = guarded(self._look, "counting it for metrics")

        def keep(exchange: Exchange) -> None:
            if self._keep is not None and self.recorder is not None and kept.fits(exchange):
                self.recorder.match(match_of(exchange))

        keep_it = guarded(keep, "the flight recorder")

        if self._otlp is not None:
            from kproxy.cli.spans import LiveSpans

            self._spans = LiveSpans(reader, self._otlp, annotated=annotated)

        def look(exchange: Exchange) -> None:
            look_at(exchange)
            keep_it(exchange)
            if self._spans is not None:
                self._spans.look(exchange)

        return look

    def keep_now(self, *_: object) -> None:
        """Make the flight recorder, if there is one, save the traffic around this moment."""
        if self.recorder is not None:
            self.recorder.keep_now("asked", "the request to keep this moment")

    def conclude_spans(self) -> None:
        """Send the rest of the spans, and report their number; the capture has ended."""
        if self._spans is not None:
            self._spans.conclude()

    def _diagnosing(
        self, reader: ExchangeReader, look: Callable[[Exchange], None], pause: Callable[[], None]
    ) -> tuple[Callable[[Exchange], None], Callable[[], None]]:
        """Extend `look` and `pause` with the diagnosis."""
        from kproxy.cli.live_findings import LiveDiagnosis

        beside = self._diagnosis = LiveDiagnosis(
            reader,
            self.showing.zone,
            annotated=self.showing.as_json or self.showing.verbose,
            clusters=self._clusters,
        )

        def look_too(exchange: Exchange) -> None:
            look(exchange)
            beside.look(exchange)

        def pause_too() -> None:
            pause()
            beside.update()

        return look_too, pause_too

    @property
    def wanted(self) -> Filter | None:
        return self._selecting.wanted

    def conclude(self, capture: Capture, tally: Tally, before_closing: Callable[[], None] = flush) -> bool:
        """Print the notes on a capture, and the closing line; return whether everything was read and decoded.

        :param before_closing: called between the two
        """
        is_empty = self._may_be_empty and not capture.statistics.packets
        for note in () if is_empty else notes(capture):
            echo(f"kproxy: {note}", err=True)
        before_closing()
        if self._diagnosis is not None:
            self._diagnosis.conclude()
        self.conclude_spans()
        report_faults(capture)
        if not self._quiet:
            to_terminal = self.showing.terminal and not self.showing.as_json
            echo(tally.sentence(capture, self.wanted), err=not to_terminal)
        return tally.clean(capture) or (is_empty and not capture.faults)


def match_of(exchange: Exchange) -> Match:
    """Return a matching exchange in the form that a flight recorder takes."""
    text = f"{request_text(exchange)}  {exchange.client} > {exchange.broker}  {response_text(exchange)[0]}"
    return Match(exchange.time, exchange.end, exchange.api or "unknown", text)


def open_growing(
    path: str | Path,
    *,
    first: str = "",
    begin: int = 0,
    hosts: tuple[str, ...] = (),
    patience: float = 10.0,
    wanted: Callable[[], bool] = lambda: True,
) -> GrowingCapture | None:
    """Open the recording that a recorder writes, in bounded memory; it ends when the recorder does.

    :param path: file, folder or pattern of the recording
    :param first: name of the first file of several to read, empty for all
    :param begin: offset in it of the section with which this recording began
    :param hosts: files that name addresses
    :param patience: seconds to wait for the recording to begin
    :param wanted: returns whether it is still worth waiting
    :returns: the capture, None if waiting was no longer worth it
    :raises CaptureError: if there is no recording, or it cannot be read
    :raises click.UsageError: if a hosts file cannot be read
    """
    names = names_of(hosts)
    deadline = monotonic() + patience
    while True:
        try:
            source = open_recording(str(path), first=first, begin=begin, spool=DEFAULT_SPOOL)
            break
        except CaptureError:
            if monotonic() >= deadline:
                raise
        if not wanted():
            return None
        sleep(_LOOK)
    capture = GrowingCapture(source)
    capture.names = names
    return capture
