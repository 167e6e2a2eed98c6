"""The part of ``kproxy sniff`` that runs after the interface was opened and privileges were dropped.

A run has up to three threads: the sniffer moves packets to disk, this one reads and shows them from there, and the
recorder saves the surroundings of matches. They end in that order, so that all captured packets are shown and saved.
"""

from __future__ import annotations

import os
import pwd
import signal
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from captures.live.capture import LiveCapture
from captures.live.processes import processes_behind
from captures.live.recorder import Recorder
from captures.live.ring import Ring, ring_source
from captures.live.sniffer import CaptureCounts, Sniffer
from captures.packets.spool import DEFAULT_SPOOL, Quota
from captures.private import make_folder
from kproxy.addresses import address_text
from kproxy.cli.command import arguments_of
from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, keylog_option, names_of
from kproxy.cli.live_output import LiveOutput
from kproxy.cli.options import ContentOptions, HostsOption
from kproxy.cli.ui import opens_ui, pages_beside, show_live
from kproxy.output import echo, echo_counter, flush, notice
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from kproxy.cli.sniff import OpenFiles, SniffOptions

_COUNTER_SECONDS = 0.5
_WORTH_A_WORD = 16 << 20  # bytes: some seconds of reading


class SniffRun:
    """One run of ``kproxy sniff``.

    :param opened: is owned by the run
    :raises click.UsageError: if an option is invalid
    """

    def __init__(self, opened: OpenFiles, options: SniffOptions) -> None:
        self._options = options
        quiet, count, keep = options.quiet, options.count, options.keep
        self._ui = opens_ui(options, printing=quiet or count is not None)
        self._interface = opened.settings.interface
        self._find = opened.find
        self._output = LiveOutput(options, quiet=quiet, count=count, keep=keep, otlp=options.otlp)
        self._agent = opened.agent
        if opened.agent is None:
            self._keylog = keylog_option(options.keylog, growing=True, file=opened.keylog)
        else:
            self._keylog = keylog_option(opened.agent.path, growing=True, file=opened.agent.file)
        self._names = names_of(options.hosts)
        self._limit = DEFAULT_SPOOL if options.spool is None else options.spool
        self._reported = False
        self._folder: Path | None = None
        if options.ring is None:
            self._ring = Ring(self._limit, first=opened.output)
        else:
            size, keep_dir = options.ring, Path(options.keep_dir)
            self._folder = _ring_folder(keep_dir)
            self._ring = Ring(size, folder=self._folder)
            self._output.recorder = Recorder(
                self._folder, size, keep_dir, options.before, options.after, notice
            )
        reads = self._reads = not quiet or keep is not None or options.diagnose or options.otlp is not None
        self._sniffer = Sniffer(
            opened.device,
            self._ring,
            notice,
            most=None if reads else count,
            last_resort=reads or options.ring is not None,
        )

    def run(self) -> int:
        """Capture until the end; return the exit code.

        :raises OSError: if nothing can be written
        """
        before = signal.signal(signal.SIGUSR1, self._asked)
        try:
            self._sniffer.start()
            if self._output.recorder is not None:
                self._output.recorder.start()
            notice(f"capturing on {self._interface} as {_me()}; Ctrl-C ends it")
            with ended_by_signals(self._sniffer.stop), self._pages():
                clean = self._read() if self._reads else self._wait()
            return EXIT_UNREADABLE if self._sniffer.failure else 0 if clean else EXIT_INCOMPLETE
        finally:
            signal.signal(signal.SIGUSR1, before)
            if self._sniffer.running:
                self._sniffer.stop()
                self._sniffer.join()
            self._ring.close()
            if self._find is not None:
                self._find.close()
            if self._agent is not None:
                self._agent.close()
            if self._folder is not None:
                with suppress(OSError):  # it contains unknown files
                    self._folder.rmdir()

    def _pages(self) -> AbstractContextManager[object]:
        """Show the traffic in browsers, too."""
        options, web = self._options, self._options.web
        if web is None:
            return nullcontext()
        arguments = [f"--listen={address_text(*web)}", *arguments_of(ContentOptions, options)]
        given = {"keylog": options.keylog, "filter": options.wanted}
        arguments += [f"--{name}={value}" for name, value in given.items() if value is not None]
        arguments += arguments_of(HostsOption, options)
        return pages_beside(["serve", "--follow", *arguments, "--", str(self._folder or options.write)])

    def _asked(self, *_: object) -> None:
        if self._output.recorder is not None:
            self._output.keep_now()
        else:  # as tcpdump does; not through sys.stderr, which is not reentrant in a signal handler
            os.write(2, f"{counts_line(self._sniffer.taken)}\n".encode())

    def _wait(self) -> bool:
        """Wait for the end, with a counter on a terminal."""
        terminal = sys.stderr.isatty()
        while self._sniffer.running:
            self._sniffer.join(_COUNTER_SECONDS)
            if terminal:
                echo_counter(f"{self._sniffer.taken.captured:,} packets")
        if terminal:
            echo_counter("")
        self._end()
        return True

    def _read(self) -> bool:
        """Show, or only observe, captured exchanges; return whether everything could be read and decoded."""
        source = ring_source(self._ring, self._sniffer.stop, Quota(self._limit))
        capture = LiveCapture(
            source, self._sniffer, self._names, self._find or processes_behind, keylog=self._keylog
        )
        if self._ui:
            return self._open(capture)
        tally = self._output.watch(capture, self._pause)
        return self._output.conclude(capture, tally, self._end)

    def _open(self, capture: LiveCapture) -> bool:
        outcome = show_live(self._output, capture, f"sniffing {self._interface}")
        self._sniffer.stop()
        self._end()
        return outcome.complete

    def _pause(self) -> None:
        """Flush the output; report the backlog if stopping takes long."""
        flush()
        waiting = self._ring.waiting
        if self._sniffer.stopping and waiting > _WORTH_A_WORD and not self._reported:
            self._reported = True
            notice(f"{waiting >> 20} MiB are still to be read; Ctrl-C again ends at once")

    def _end(self) -> None:
        """Wait until everything is saved, and print the counts of packets."""
        self._sniffer.join()
        if self._output.recorder is not None:
            self._output.recorder.close()
        if self._sniffer.failure:
            notice(self._sniffer.failure)
        echo(counts_line(self._sniffer.taken), err=True)


def _ring_folder(folder: Path) -> Path:
    """Create the folder for the chunks of a ring.

    :raises click.UsageError: if it cannot be created
    """
    path = folder / f"ring-{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}-{os.getpid()}"
    try:
        make_folder(path)
    except OSError as error:
        raise click.UsageError(
            f"--keep-dir: {path} cannot be made by {_me()}: {error.strerror}; -Z chooses another user"
        ) from None
    return path


def _me() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def counts_line(taken: CaptureCounts) -> str:
    """Return the counts of packets, in the words of tcpdump."""
    parts = [
        f"{taken.captured:,} packets captured",
        f"{taken.received:,} received by the capture filter",
        f"{taken.dropped:,} dropped by the kernel",
        f"{taken.interface_dropped:,} dropped by the interface",
    ]
    if taken.not_written:
        parts.append(f"{taken.not_written:,} not recorded")
    if taken.unread:
        parts.append(f"{taken.unread:,} dropped from disk before they were read")
    return ", ".join(parts)
