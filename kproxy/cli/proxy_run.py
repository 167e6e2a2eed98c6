"""A run of ``kproxy proxy``: starts the data plane, prints its reports, and shows the recording.

Forwarding happens in a separate process, which is not slowed down by this one. They end together: Ctrl-C here lets the
data plane drain, and the recording is shown to its end.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from captures.exchanges import Exchange
from captures.live.recorder import Recorder
from captures.packets.spool import DEFAULT_SPOOL
from kproxy.addresses import LOOPBACK, Address, address_text
from kproxy.cli.command import arguments_of
from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, usage_errors
from kproxy.cli.live_output import LiveOutput, open_growing
from kproxy.cli.options import LiveOptions
from kproxy.cli.ui import opens_ui, pages_beside, show_live
from kproxy.output import notice
from kproxy.proxy.control import CommandError, ControlClient
from kproxy.proxy.modes import MODES
from kproxy.proxy.plane_process import PlaneProcess
from kproxy.proxy.run_folder import RunFolder, leftovers
from kproxy.proxy.tls.differences import what_differs
from kproxy.signals import ended_by_signals
from kproxy.text.control import sentence_of

if TYPE_CHECKING:
    from captures.live.capture import GrowingCapture
    from kproxy.cli.background import Background
    from kproxy.cli.proxy import ProxyOptions
    from kproxy.proxy.metrics import Metrics
    from kproxy.proxy.settings import Settings

_STATUS_SECONDS = 2.0
_LOOK = 0.1


class ProxyRun:
    """A run of ``kproxy proxy``.

    :param settings: of the data plane, without its run folder
    :param quiet: print no exchanges
    :param background: this process, if it leaves the terminal after the start
    :raises click.UsageError: if an option is invalid
    """

    def __init__(
        self, settings: Settings, options: ProxyOptions, *, quiet: bool, background: Background | None
    ) -> None:
        self._ui = opens_ui(options, printing=quiet or options.detach)
        self._background = background
        self._options = options
        self._settings = settings
        self._listening: dict[str, Address] = {}
        self._keeping = options.keep is not None
        self._first_file = ""
        self._begin = 0
        self._begun = Event()
        self._left = self._gaps = False
        metrics = options.metrics
        beside = self._keeping or options.diagnose or metrics is not None or options.otlp is not None
        self._watches = not quiet or beside
        self._output = LiveOutput(
            options,
            quiet=quiet,
            keep=options.keep,
            look=self._look,
            otlp=options.otlp,
            outlives="forwarding and recording go on, Ctrl-C ends them",
            may_be_empty=True,
            clusters=[each.name for each in settings.clusters],
        )
        self._metrics: Metrics | None = None
        if metrics is not None:
            from kproxy.proxy.metrics import Metrics, MetricsError

            with usage_errors(MetricsError):
                self._metrics = Metrics(self._output.topic_name, topics=options.metrics_topics)

    def run(self) -> int:
        """Forward until the end; return the exit code.

        :raises OSError: if the state folder, or that of --keep-dir, cannot be written
        """
        if self._keeping:
            _make_writable(Path(self._options.keep_dir))
        for left in leftovers():
            notice(f"an earlier proxy ended uncleanly; what it recorded is in {left.path / 'capture'}")
        folder = RunFolder.create(self._settings.listen[1])
        settings = replace(self._settings, run_folder=str(folder.path))
        leaves_terminal = self._background is not None and self._background.lets_go(2)
        plane = PlaneProcess(settings, self._on_event, discards_errors=leaves_terminal)
        before = signal.signal(signal.SIGUSR1, self._output.keep_now)
        try:
            with ended_by_signals(plane.stop):
                if not plane.wait_until_ready():
                    return self._failed(plane)
                if settings.recorded.on and not self._recording_begins(plane):
                    return EXIT_UNREADABLE
                self._introduce(settings)
                if settings.detached:
                    return self._leave(folder)
                with self._presence(folder, settings), self._pages(folder), self._control(folder):
                    code = self._follow(folder, settings, plane)
                if not self._left:
                    plane.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
            self._close()
            if not self._left:
                plane.end(settings.drain)
                if not plane.failure:
                    folder.remove()
        if plane.failure:
            return self._failed(plane)
        return EXIT_INCOMPLETE if self._gaps and not code else code

    def _leave(self, folder: RunFolder) -> int:
        """Leave the data plane running alone."""
        self._left = True
        self._print_folder(folder)
        return 0

    @staticmethod
    def _print_folder(folder: RunFolder) -> None:
        name = folder.path.name
        notice(
            f"it runs in the background: kproxy attach --run {name} shows it, kproxy ctl --run {name} drain ends it"
        )

    @staticmethod
    def _presence(folder: RunFolder, settings: Settings) -> AbstractContextManager[object]:
        """Act as a controller: held messages are released when the last one leaves."""
        return ControlClient(folder.control_socket, control=True) if settings.hold else nullcontext()

    def _control(self, folder: RunFolder) -> AbstractContextManager[object]:
        """Serve the control commands over HTTP."""
        options = self._options
        if options.control_http is None:
            return nullcontext()
        from kproxy.proxy.control_http import ControlHttp

        host, port = options.control_http[0] or LOOPBACK, options.control_http[1]
        token = folder.control_token if options.control_token is None else Path(options.control_token)
        try:
            certificate = None if options.control_cert is None else Path(options.control_cert)
            server = ControlHttp((host, port), folder.control_socket, token, certificate)
        except OSError as error:
            where = error.filename or address_text(host, port)
            raise click.ClickException(f"--control-http: {where}: {error.strerror or error}") from None
        scheme = "http" if certificate is None else "https"
        notice(
            f"control is at {scheme}://{address_text(host, server.port)}/openapi.json, its token in {token}"
        )
        return server

    def _pages(self, folder: RunFolder) -> AbstractContextManager[object]:
        """Show the traffic in browsers, too."""
        options, web = self._options, self._options.web
        if web is None:
            return nullcontext()
        arguments = (f"--web={address_text(*web)}", *(["--control"] if options.web_control else []))
        shown = arguments_of(LiveOptions, options)
        return pages_beside(["attach", f"--run={folder.path.name}", *arguments, *shown])

    @staticmethod
    def _failed(plane: PlaneProcess) -> int:
        notice(plane.failure)
        return EXIT_UNREADABLE

    def _introduce(self, settings: Settings) -> None:
        """Print what will be different with kproxy in between, and which firewall rules are needed."""
        if not settings.forward:
            return
        for sentence in what_differs(settings):
            notice(sentence)
        for sentence in MODES[settings.mode].notices(settings, self._listening[settings.name]):
            notice(sentence)

    # ------------------------------------------------------------ following
    def _follow(self, folder: RunFolder, settings: Settings, plane: PlaneProcess) -> int:
        """Show, keep and count recorded exchanges, until the recording ends."""
        recorded = settings.recorded
        if not recorded.on or not self._watches:
            self._begin_background(folder)
            plane.join()
            return 0
        if self._keeping:
            given, limit = self._options, recorded.limit or DEFAULT_SPOOL
            keep_dir = Path(given.keep_dir)
            recorder = Recorder(folder.capture, limit, keep_dir, given.before, given.after, notice)
            recorder.start()
            self._output.recorder = recorder
        capture = open_growing(
            settings.recording.capture,
            first=self._first_file,
            begin=self._begin,
            hosts=self._options.hosts,
            wanted=lambda: not plane.join(0),
        )
        if capture is None:
            return 0
        if self._metrics is not None:
            self._serve_metrics(folder)
        self._begin_background(folder)
        if self._ui:
            return self._open(capture, folder, settings, plane)
        tally = self._output.watch(capture)
        return 0 if self._output.conclude(capture, tally) else EXIT_INCOMPLETE

    def _begin_background(self, folder: RunFolder) -> None:
        """Leave the terminal, if this process runs in the background."""
        if self._background is not None:
            self._print_folder(folder)
            self._background.begun()

    def _open(
        self, capture: GrowingCapture, folder: RunFolder, settings: Settings, plane: PlaneProcess
    ) -> int:
        """Show the capture in the UI; how the user leaves it decides whether the data plane continues."""
        title = "; ".join(
            f"{name}{where}{f' > {brokers}' if brokers else ''}"
            for name, where, brokers in self._addresses(settings)
        )
        with capture.source:
            outcome = show_live(
                self._output,
                capture,
                f"proxy {title}",
                control_socket=folder.control_socket,
                run_name=folder.path.name,
                ends_proxy=True,
            )
        if outcome.leaving == "background" and not plane.join(0):
            return self._leave(folder)
        plane.stop()
        notice("requests in flight are answered; Ctrl-C ends at once")
        return 0 if outcome.complete else EXIT_INCOMPLETE

    def _addresses(self, settings: Settings) -> Iterator[tuple[str, str, str]]:
        """Yield the name of each cluster, followed by a blank, its first listener and its bootstrap servers."""
        for cluster in settings.clusters:
            where = self._listening.get(cluster.name, cluster.listen)
            brokers = ", ".join(address_text(*each) for each in cluster.bootstrap)
            yield f"{cluster.name} " if cluster.name else "", address_text(*where), brokers

    def _recording_begins(self, plane: PlaneProcess) -> bool:
        """Wait until the recording begins; return False if it does not, in which case the reason was reported."""
        while not self._begun.wait(_LOOK):
            if plane.join(0):
                return False
        if not self._first_file:
            plane.stop()
        return bool(self._first_file)

    def _serve_metrics(self, folder: RunFolder) -> None:
        from kproxy.proxy.metrics import MetricsError

        assert self._metrics is not None
        assert self._options.metrics is not None
        try:
            host, port = self._metrics.start(*self._options.metrics)
        except MetricsError as error:
            raise click.ClickException(str(error)) from None
        notice(f"metrics are at http://{address_text(host, port)}/metrics")
        Thread(target=self._poll, args=(folder,), name="status", daemon=True).start()

    def _poll(self, folder: RunFolder) -> None:
        """Pass the data plane's status reports to the metrics."""
        with suppress(OSError, CommandError), ControlClient(folder.control_socket) as client:
            while self._metrics is not None:
                self._metrics.update(client.call("status"))
                time.sleep(_STATUS_SECONDS)

    def _look(self, exchange: Exchange) -> None:
        if self._metrics is not None:
            self._metrics.observe(exchange)

    def _close(self) -> None:
        if self._output.recorder is not None:
            self._output.recorder.close()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None

    def _on_event(self, event: dict[str, Any]) -> None:
        name = event["event"]
        if name == "listening":
            host, _, port = event["address"].rpartition(":")
            self._listening[event["cluster"]] = host.strip("[]"), int(port)
        if name == "recorder_file" and not self._first_file:
            self._first_file, self._begin = Path(event["path"]).name, event["begin"]
            self._begun.set()
        elif name == "recorder_failed":
            self._gaps = True
            self._begun.set()
        elif name == "dropped" or (name == "recorder_recovered" and event["lost_packets"]):
            self._gaps = True
        elif name == "keep":
            self._output.keep_now()
        sentence = sentence_of(event)
        if sentence is not None:
            notice(sentence)


def _make_writable(folder: Path) -> None:
    """Create a folder unless it exists.

    :raises OSError: if files cannot be written there
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
