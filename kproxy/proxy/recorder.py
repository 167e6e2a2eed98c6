"""The recorder: a process that takes bytes out of the tee and appends them to a capture.

It is a child of the data plane, which starts it with :func:`start_recorder` and reads its output: JSON events, one per
line.

======================================  ==============================================================================
``{"event": "file", "path", "begin"}``  a file was begun; the first means that recording has begun. ``begin`` is the
                                        offset in the file: not 0 if it is appended to
``{"event": "error", "text"}``          a problem that the user should know; with ``"failing": true`` nothing can be
                                        written now, with ``"fatal": true`` nothing is recorded, and the recorder exits
                                        with 1
``{"event": "recovered", ...}``         writing works again; ``lost_packets`` and ``lost_bytes`` in the meantime
``{"event": "counts", ...}``            ``packets``, ``bytes`` (of payload), ``lost_packets``, ``lost_bytes`` so far
``{"event": "end", ...}``               the same counts, as the last event
======================================  ==============================================================================

When the tee is closed or the data plane has ended, for whatever reason, it writes everything left in the queue and
ends. It ignores termination signals: they reach the data plane, which closes the tee.

If a file cannot be written, the recorder drops and counts packets, and retries every few seconds. If the tee is
lossless it drops nothing: the queue fills up, and the data plane stops reading.
"""

from __future__ import annotations

import glob
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from captures.private import reason_of
from dissectors.units import MIB
from kproxy.proxy.shared_queue import Receiver

if TYPE_CHECKING:
    from kproxy.proxy.blocks import BlockMaker
    from kproxy.proxy.rotation import Begun, Output
    from kproxy.proxy.tee import Tee

_RETRY = 2.0  # seconds between attempts to write again
_COUNTS = 1.0  # seconds between two counts


class RecordingOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether and where traffic is recorded.

    :ivar on: whether it is recorded
    :ivar path: file to append to, or from which the names of a series derive; "" for the spool
    :ivar folder: of the spool
    :ivar limit: bytes that the spool may hold, 0 for 8 GiB; at most half of the file system's free space
    :ivar rotate_size: bytes after which another file is begun, 0 for never
    :ivar rotate_time: seconds after which another file is begun, 0 for never
    :ivar rotate_count: rotated files that are kept, 0 for all
    :ivar queue: bytes of the queue between forwarding and recording
    :ivar lossless: forwarding waits when the queue is full; otherwise recording of some connections is suspended
    """

    on: bool = True
    path: str = ""
    folder: str = ""
    limit: int = 0
    rotate_size: int = 0
    rotate_time: float = 0
    rotate_count: int = 0
    queue: int = 64 * MIB
    lossless: bool = False

    @property
    def rotates(self) -> bool:
        """Whether the recording is a series of files."""
        return bool(self.path and (self.rotate_size or self.rotate_time))

    @property
    def capture(self) -> str:
        """What readers open: the file, a pattern that matches the files of the series, or the folder of the spool.

        See :func:`captures.live.recording.open_recording`.
        """
        if not self.rotates:
            return self.path or self.folder
        path = Path(self.path)
        name = f"{glob.escape(path.stem)}-[0-9]*{glob.escape(path.suffix)}"
        return str(Path(glob.escape(str(path.parent))) / name)


class _StartMessage(msgspec.Struct, frozen=True):
    """The message that starts the recorder."""

    options: RecordingOptions
    memory: int
    bell: int
    salt: int
    locks: int
    held: int
    connections: list[tuple[int, str]]


def start_recorder(
    tee: Tee, options: RecordingOptions, locks: int = -1, held: int = -1
) -> subprocess.Popen[bytes]:
    """Start the recorder of a tee, also to replace one that has ended unexpectedly.

    The new recorder writes what is left in the queue, and continues the connections after a gap.

    :param locks: a Unix socket on which it sends the file descriptor that holds the lock of each file, before it
        reports the file; -1 if not wanted
    :param held: the last such descriptor that an earlier recorder sent, -1 if there was none
    :returns: the process; its events are on ``stdout``. Events that do not fit into the pipe are dropped
    """
    memory, bell = tee.queue.fds
    live = [(number, recording.endpoints) for number, recording in tee.live.items()]
    start = _StartMessage(options, memory, bell, tee.salt, locks, held, live)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "kproxy.proxy.recorder"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[fd for fd in (memory, bell, locks, held) if fd >= 0],
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(msgspec.json.encode(start))
    process.stdin = None
    return process


class Recorder:
    """Moves records from a tee to files.

    :param receiver: the tee's queue
    :param blocks: turns records into packets
    :param output: writes the packets
    :param lossless: drop nothing
    """

    def __init__(self, receiver: Receiver, blocks: BlockMaker, output: Output, *, lossless: bool) -> None:
        self._receiver = receiver
        self._blocks = blocks
        self._output = output
        self._lossless = lossless
        self._counts = dict.fromkeys(("packets", "bytes", "lost_packets", "lost_bytes"), 0)
        self._reported = self._counts.copy()
        self._reported_at = 0.0
        self._failure = ""
        self._retry_at = 0.0
        self._lost = (0, 0)

    def run(self) -> None:
        receiver, blocks, batch = self._receiver, self._blocks, self._output.batch
        while receiver.wait(None if self._counts == self._reported else _COUNTS):
            begin, end = receiver.available()
            position = blocks.read(begin, end, batch)
            self._counts["lost_bytes"] += blocks.take_unknown()
            if blocks.buffers:
                self._write()
            receiver.take(position)
            self._report_counts()
        report("end", **self._counts)

    def _write(self) -> None:
        blocks = self._blocks
        if self._written():
            self._counts["packets"] += blocks.packets
            self._counts["bytes"] += blocks.payload
            blocks.written()
        else:
            self._counts["lost_packets"] += blocks.packets
            self._counts["lost_bytes"] += blocks.payload
            blocks.lost()

    def _written(self) -> bool:
        """Write the blocks made; return whether that succeeded."""
        while self._failure and time.monotonic() < self._retry_at:
            if not self._lossless or self._receiver.ended:
                return False
            time.sleep(_RETRY / 10)
        while True:
            try:
                if self._failure:
                    lost = self._counts["lost_packets"] - self._lost[0]
                    text = f"kproxy: {lost} packets were not recorded: {self._failure}"
                    self._output.note_lost(lost, text)
                self._output.write(self._blocks.buffers)
            except (OSError, ValueError) as error:
                self._failed(error)
                if not self._lossless or self._receiver.ended:
                    return False
                time.sleep(_RETRY)
            else:
                self._recovered()
                return True

    def _failed(self, error: OSError | ValueError) -> None:
        self._retry_at = time.monotonic() + _RETRY
        if not self._failure:
            self._failure = reason_of(error)
            self._lost = self._counts["lost_packets"], self._counts["lost_bytes"]
            what = "forwarding waits" if self._lossless else "packets are dropped"
            text = f"recording failed: {self._failure}; {what} until it can be written again"
            report("error", text=text, failing=True)

    def _recovered(self) -> None:
        if self._failure:
            packets, size = self._lost
            counts = self._counts
            report(
                "recovered",
                lost_packets=counts["lost_packets"] - packets,
                lost_bytes=counts["lost_bytes"] - size,
            )
            self._failure = ""

    def _report_counts(self) -> None:
        now = time.monotonic()
        if now - self._reported_at >= _COUNTS and self._counts != self._reported:
            self._reported_at, self._reported = now, self._counts.copy()
            report("counts", **self._counts)


def report(event: str, **what: object) -> None:
    """Print an event; it is dropped if nothing reads it."""
    with suppress(OSError):
        os.write(1, msgspec.json.encode({"event": event, **what}) + b"\n")


def output_of(options: RecordingOptions, begun: Begun) -> Output:
    """Return the output that the options ask for."""
    from kproxy.proxy.rotation import ChunkFolder, Series, SingleFile

    if not options.path:
        return ChunkFolder(Path(options.folder), begun, limit=options.limit or None)
    path, size, seconds = Path(options.path).absolute(), options.rotate_size, options.rotate_time
    if not options.rotates:
        return SingleFile(path, begun)
    return Series(path, begun, size=size or None, seconds=seconds or None, count=options.rotate_count or None)


def _lower_priority() -> None:
    """Give forwarding precedence on a busy processor: this process has a queue, clients have none."""
    with suppress(OSError, AttributeError):  # Linux
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main() -> int:
    """Run the process; return its exit code."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    _lower_priority()
    os.set_blocking(1, False)
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=_StartMessage)
    receiver = Receiver(start.memory, start.bell)
    from kproxy.proxy.blocks import BlockMaker  # with numpy, which the data plane does not need

    blocks = BlockMaker(receiver.view, start.salt, lambda text: report("error", text=text))
    for number, endpoints in start.connections:
        blocks.resume(number, endpoints)
    locks = socket.socket(fileno=start.locks) if start.locks >= 0 else None

    def begun(path: Path, size: int) -> None:
        if locks is not None:
            with suppress(OSError):  # the data plane has ended
                socket.send_fds(locks, [b"."], [output.lock_fd])
        report("file", path=str(path), begin=size)

    try:
        output = output_of(start.options, begun)
        output.lock_fd = start.held
        output.open()
    except (OSError, ValueError) as error:
        report("error", text=f"nothing can be recorded: {reason_of(error)}", fatal=True)
        return 1
    Recorder(receiver, blocks, output, lossless=start.options.lossless).run()
    output.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
