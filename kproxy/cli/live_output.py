"""Showing a capture that grows: what ``kproxy sniff``, ``kproxy proxy`` and ``kproxy attach`` have in common.

The exchanges come as they complete and are printed as ``kproxy read`` prints them; memory stays bounded over days.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.filters.filter import LiveFilter
from captures.live.capture import GrowingCapture
from captures.live.recorder import Match
from captures.live.recording import open_recording
from captures.packets import CaptureError
from captures.packets.spool import DEFAULT_SPOOL
from kproxy.cli.capture_run import tell_faults
from kproxy.cli.common import filter_option, names_of
from kproxy.cli.exchange_output import ExchangeOutput
from kproxy.cli.options import LiveOptions
from kproxy.cli.selection import ExchangeSelection
from kproxy.output import echo, flush, notice, print_nothing_more
from kproxy.text.lines import request_text, response_text
from kproxy.text.summary import Tally, notes

if TYPE_CHECKING:
    from captures.filters import Filter
    from kproxy.cli.live_findings import DiagnosisBeside
    from kproxy.session import Session

_LOOK = 0.05  # seconds between two looks whether a recording is there


def nothing(_: Exchange) -> None:
    """Do not look at an exchange."""


class LiveOutput:
    """Shows the exchanges of a capture as it grows.

    :param options: which exchanges are shown, how, and whether to diagnose; the UI has a view for that
    :param quiet: show none, only look at them
    :param count: stop after so many that fit
    :param keep: a filter; what fits is handed to ``match``
    :param since: ns since the epoch: what began before is not shown
    :param match: called with what is to be kept by a flight recorder
    :param look: called with every exchange, shown or not
    :param outlives: says what goes on when the reader of what is printed has seen enough (head, less), in a sentence;
        empty if that ends it
    :param may_be_empty: whether it is all right if nothing comes at all
    :raises click.UsageError: for an option that makes no sense
    """

    def __init__(
        self,
        options: LiveOptions,
        *,
        quiet: bool = False,
        count: int | None = None,
        keep: str | None = None,
        since: int | None = None,
        match: Callable[[Match], None] | None = None,
        look: Callable[[Exchange], None] = nothing,
        outlives: str = "",
        may_be_empty: bool = False,
    ) -> None:
        self.showing = ExchangeOutput(options)
        zone = self.showing.zone
        wanted = filter_option(options.wanted, zone)
        self._quiet = quiet
        self._selecting = ExchangeSelection(wanted, zone=zone, count=None if quiet else count, since=since)
        self._keep = filter_option(keep, zone)
        self._match = match
        self._look = look
        self._outlives = outlives
        self._may_be_empty = may_be_empty
        self._reader: ExchangeReader | None = None
        self._diagnoses = options.diagnose
        self._diagnosis: DiagnosisBeside | None = None

    def topic_name(self, topic_id: str) -> str | None:
        """Return the name of a topic as it is known from what was seen so far."""
        return None if self._reader is None else self._reader.knowledge.topic_name(topic_id)

    def watch(self, capture: Capture, pause: Callable[[], None] = flush) -> Tally:
        """Show what comes until the capture ends or so many were shown; returns what was counted.

        The source is stopped then: there may be more than was asked for.

        :param pause: called whenever all was shown that has come
        """
        reader = self.showing.reader(capture, live=True)
        tally, look = Tally(), self._looking(reader)
        pause = partial(self._unless_unread, pause)
        if self._diagnoses:
            look, pause = self._diagnosing(reader, look, pause)
        exchanges = tally.counting(self._selecting.as_they_come(capture, reader, pause, look))
        if self._quiet:
            deque(exchanges, maxlen=0)
        else:
            self._unless_unread(partial(self.showing.show_live, exchanges, capture.faults))
            deque(exchanges, maxlen=0)  # the rest, once the reader of the output has gone
        capture.source.stop()
        flush()
        return tally

    def _unless_unread(self, shown: Callable[[], object]) -> None:
        """Show something; if the reader of the output has gone and there is more to do, print nothing from now on.

        :raises BrokenPipeError: if the reader has gone, and printing is all there is to do
        """
        try:
            shown()
        except BrokenPipeError:
            if not self._outlives:
                raise
            print_nothing_more()
            notice(f"the reader of the output has gone: {self._outlives}")

    def observe(self, session: Session) -> None:
        """Look at the exchanges of a session that is shown in the UI."""
        if self._keep is None and self._look is nothing:
            return

        session.observe(lambda access: self._looking(access.reader))

    def _looking(self, reader: ExchangeReader) -> Callable[[Exchange], None]:
        """Return what looks at every exchange, shown or not."""
        self._reader = reader
        kept = LiveFilter(self._keep, reader)
        guarded = reader.capture.faults.guarded
        look_at = guarded(self._look, "counting it for metrics")

        def keep(exchange: Exchange) -> None:
            if self._keep is not None and self._match is not None and kept.fits(exchange):
                self._match(match_of(exchange))

        keep_it = guarded(keep, "the flight recorder")

        def look(exchange: Exchange) -> None:
            look_at(exchange)
            keep_it(exchange)

        return look

    def _diagnosing(
        self, reader: ExchangeReader, look: Callable[[Exchange], None], pause: Callable[[], None]
    ) -> tuple[Callable[[Exchange], None], Callable[[], None]]:
        """Return what looks at exchanges and pauses as given, and diagnoses."""
        from kproxy.cli.live_findings import DiagnosisBeside

        beside = self._diagnosis = DiagnosisBeside(
            reader, self.showing.zone, annotated=self.showing.as_json or self.showing.verbose
        )

        def look_too(exchange: Exchange) -> None:
            look(exchange)
            beside.look(exchange)

        def pause_too() -> None:
            pause()
            beside.tell()

        return look_too, pause_too

    @property
    def wanted(self) -> Filter | None:
        """The filter of what is shown."""
        return self._selecting.wanted

    def conclude(self, capture: Capture, tally: Tally, before_closing: Callable[[], None] = flush) -> bool:
        """Say what there is to say of a capture, and the closing line; returns whether all of it was read and decoded.

        :param before_closing: called between the two
        """
        is_empty = self._may_be_empty and not capture.statistics.packets
        for note in () if is_empty else notes(capture):
            echo(f"kproxy: {note}", err=True)
        before_closing()
        if self._diagnosis is not None:
            self._diagnosis.conclude()
        tell_faults(capture)
        if not self._quiet:
            to_terminal = self.showing.terminal and not self.showing.as_json
            echo(tally.sentence(capture, self.wanted), err=not to_terminal)
        return tally.clean(capture) or (is_empty and not capture.faults)


def match_of(exchange: Exchange) -> Match:
    """Return what a flight recorder gets about a matching exchange."""
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
    """Open what a recorder is writing, in bounded memory; it ends when the recorder does.

    :param path: file, folder or pattern of the recording
    :param first: name of the first file of several to read, empty for all
    :param begin: offset in it, of the section that this recording began with
    :param hosts: files that name addresses
    :param patience: seconds to wait for the recording to begin
    :param wanted: whether it is still worth waiting
    :returns: the capture, None if it is not worth waiting any more
    :raises CaptureError: if there is no recording, or it cannot be read
    :raises click.UsageError: for a hosts file that cannot be read
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
