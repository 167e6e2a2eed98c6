"""Showing a capture that grows: what ``kproxy sniff``, ``kproxy proxy`` and ``kproxy attach`` have in common.

The exchanges come as they complete and are printed as ``kproxy read`` prints them; memory stays bounded over days.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from captures.exchanges import Capture, Exchange, ExchangeReader
from captures.filters.live import LiveFilter
from captures.live.capture import GrowingCapture
from captures.live.recorder import Match
from captures.live.recording import open_recording
from captures.packets import CaptureError
from captures.packets.spool import DEFAULT_SPOOL
from kproxy.cli.common import filter_option, keylog_option, names_of
from kproxy.cli.lines import request_text, response_text
from kproxy.cli.printing import echo, flush
from kproxy.cli.reading import tell_faults
from kproxy.cli.selecting import Selecting
from kproxy.cli.showing import Showing
from kproxy.cli.summary import Tally, notes

if TYPE_CHECKING:
    from captures.filters import Filter
    from kproxy.cli.diagnosing import DiagnosisBeside
    from kproxy.tui.session import Session

_LOOK = 0.05  # seconds between two looks whether a recording is there


def nothing(_: Exchange) -> None:
    """Do not look at an exchange."""


class Watching:
    """Shows the exchanges of a capture as it grows.

    :param quiet: show none, only look at them
    :param count: stop after so many that fit
    :param wanted: the filter of what is shown
    :param keep: a filter; what fits is handed to ``match``
    :param since: ns since the epoch: what began before is not shown
    :param match: called with what is to be kept by a flight recorder
    :param look: called with every exchange, shown or not
    :param diagnose: tell what is wrong as it comes up, and all of it at the end; the UI has a view for that
    :param showing: options of :class:`~kproxy.cli.showing.Showing`
    :raises click.UsageError: for an option that makes no sense
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        count: int | None = None,
        wanted: str | None = None,
        keep: str | None = None,
        since: int | None = None,
        match: Callable[[Match], None] | None = None,
        look: Callable[[Exchange], None] = nothing,
        diagnose: bool = False,
        **showing: Any,
    ) -> None:
        self.showing = Showing(**showing)
        zone = self.showing.zone
        self._quiet = quiet
        self._selecting = Selecting(
            filter_option(wanted, zone), zone=zone, count=None if quiet else count, since=since
        )
        self._keep = filter_option(keep, zone)
        self._match = match
        self._look = look
        self._reader: ExchangeReader | None = None
        self._diagnoses = diagnose
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
        if self._diagnoses:
            look, pause = self._diagnosing(reader, look, pause)
        exchanges = tally.counting(self._selecting.as_they_come(capture, reader, pause, look))
        if self._quiet:
            deque(exchanges, maxlen=0)
        else:
            self.showing.show(exchanges, capture.faults, live=True)
        capture.source.stop()
        flush()
        return tally

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
        from kproxy.cli.diagnosing import DiagnosisBeside

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
        for note in notes(capture):
            echo(f"kproxy: {note}", err=True)
        before_closing()
        if self._diagnosis is not None:
            self._diagnosis.conclude()
        tell_faults(capture)
        if not self._quiet:
            to_terminal = self.showing.terminal and not self.showing.as_json
            echo(tally.sentence(capture), err=not to_terminal)
        return tally.clean(capture)


def match_of(exchange: Exchange) -> Match:
    """Return what a flight recorder is told of an exchange that fits."""
    text = f"{request_text(exchange)}  {exchange.client} > {exchange.broker}  {response_text(exchange)[0]}"
    return Match(exchange.time, exchange.time + (exchange.latency or 0), exchange.api or "unknown", text)


def open_growing(
    path: str | Path,
    *,
    first: str = "",
    begin: int = 0,
    spool: int = DEFAULT_SPOOL,
    keylog: str | None = None,
    hosts: tuple[str, ...] = (),
    patience: float = 10.0,
    wanted: Callable[[], bool] = lambda: True,
) -> GrowingCapture | None:
    """Open what a recorder is writing, in bounded memory; it ends when the recorder does.

    :param path: file, folder or pattern of the recording
    :param first: name of the first file of several to read, empty for all
    :param begin: offset in it, of the section that this recording began with
    :param keylog: file with secrets of TLS connections
    :param hosts: files that name addresses
    :param patience: seconds to wait for the recording to begin
    :param wanted: whether it is still worth waiting
    :returns: the capture, None if it is not worth waiting any more
    :raises CaptureError: if there is no recording, or it cannot be read
    :raises click.UsageError: for a key log or hosts file that cannot be read
    """
    keys, names = keylog_option(keylog, growing=True), names_of(hosts)
    deadline = monotonic() + patience
    while True:
        try:
            source = open_recording(str(path), first=first, begin=begin, spool=spool)
            break
        except CaptureError:
            if monotonic() >= deadline:
                raise
        if not wanted():
            return None
        sleep(_LOOK)
    capture = GrowingCapture(source, keylog=keys)
    capture.names = names
    return capture
