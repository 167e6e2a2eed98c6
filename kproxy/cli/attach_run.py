"""A run of ``kproxy attach``: reads the recording of a running proxy as it grows, and prints the proxy's reports."""

from __future__ import annotations

from pathlib import Path
from threading import Event, Thread
from time import time_ns
from typing import TYPE_CHECKING

from captures.live.capture import GrowingCapture
from captures.live.recording import newest_first
from captures.packets.files import is_one_file
from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE
from kproxy.cli.live_output import LiveOutput, open_growing
from kproxy.cli.ui import opens_ui, show_live
from kproxy.output import notice
from kproxy.proxy.control import ClosedError, CommandError, ControlClient
from kproxy.proxy.run_folder import Run
from kproxy.signals import ended_by_signals
from kproxy.text.control import sentence_of

if TYPE_CHECKING:
    from kproxy.cli.attach import AttachOptions

_LOOK = 1.0  # seconds between checks whether this has ended
_MOST_BEFORE = 512 << 20
"""Bytes of the recording that are read for context, without being shown."""


class AttachRun:
    """A run of ``kproxy attach``.

    :raises OSError: if the proxy cannot be reached
    :raises click.UsageError: if an option is invalid
    """

    def __init__(self, run: Run, options: AttachOptions) -> None:
        self._run = run
        self._options = options
        self._ui = opens_ui(options, printing=bool(options.count))
        since = None if options.from_start else time_ns()
        self._client = ControlClient(run.control_socket, options.control and not self._ui)
        told = self._client.call("status").get(
            "clusters"
        )  # a proxy of an earlier release tells nothing of them
        clusters = () if told is None else [*told] or [""]
        self._output = LiveOutput(options, count=options.count, since=since, clusters=clusters)
        self._gone = Event()
        self._stopped = Event()
        self._capture: GrowingCapture | None = None

    def run(self) -> int:
        """Show traffic until the proxy or the user ends it; return the exit code.

        :raises CaptureError: if the recording cannot be read
        """
        if self._ui and self._run.capture:
            return self._open()
        with self._client, ended_by_signals(self._stop):
            if not self._run.capture:
                notice("this proxy records nothing, so there is nothing to show")
                return EXIT_UNREADABLE
            self._client.call("subscribe")
            listener = Thread(target=self._listen, name="control events", daemon=True)
            listener.start()
            try:
                return self._show()
            finally:
                self._client.close()
                listener.join()

    def _open(self) -> int:
        self._client.close()
        capture = self._opened()
        if capture is None:
            return 0
        with capture.source:
            show_live(
                self._output,
                capture,
                f"proxy {self._run.listen}",
                control_socket=self._run.control_socket,
                controls=self._options.control,
                run_name=self._run.name,
                read_only=self._options.read_only,
            )
        return 0

    def _opened(self) -> GrowingCapture | None:
        return open_growing(
            self._run.capture,
            first="" if self._options.from_start else first_to_read(self._run.capture),
            hosts=self._options.hosts,
            wanted=lambda: not self._gone.is_set() and not self._stopped.is_set(),
        )

    def _stop(self) -> None:
        self._stopped.set()
        if self._capture is not None:
            self._capture.source.stop()

    def _show(self) -> int:
        self._capture = capture = self._opened()
        if capture is None:
            notice("nothing was recorded")
            return 0
        with capture.source:
            if self._stopped.is_set():  # stopped before the capture was open
                capture.source.stop()
            tally = self._output.watch(capture)
            clean = self._output.conclude(capture, tally)
        return EXIT_INCOMPLETE if tally.exchanges and not clean else 0

    def _listen(self) -> None:
        """Print the proxy's reports; runs in a thread."""
        try:
            while True:
                for event in self._client.events(_LOOK):
                    sentence = sentence_of(event)
                    if sentence is not None:
                        notice(sentence)
        except (ClosedError, CommandError, TimeoutError):
            self._gone.set()


def first_to_read(path: str) -> str:
    """Return the name of the first file of a recording that is needed to understand current traffic; empty for all.

    Earlier traffic explains later traffic: names of topic IDs, requests of responses, where frames begin.
    """
    if is_one_file(path):
        return ""
    size, first = 0, ""
    for name in newest_first(path):
        try:
            size += Path(name).stat().st_size
        except OSError:  # the oldest files are being deleted
            break
        if first and size > _MOST_BEFORE:
            return first
        first = Path(name).name
    return ""
