"""Finds the processes of all users after the privilege to do so was dropped.

Linux reveals which process holds a connection only to those who may inspect that process. So a child process, started
beforehand, answers the question: it may see processes and read files, but change nothing, and gets no captured bytes,
only addresses as text. It ends with its parent.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from captures.live.privileges import PrivilegeError, User, become_observer

if TYPE_CHECKING:
    from captures.live.processes import Process


class ProcessFinder:
    """A child process that runs :func:`~captures.live.processes.processes_behind`.

    :param user: the user that the child becomes
    :ivar pid: of the child
    """

    def __init__(self, user: User) -> None:
        questions, ask = os.pipe()
        answers, answer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ask)
            os.close(answers)
            _child(user, questions, answer)
        os.close(questions)
        os.close(answer)
        self._ask = os.fdopen(ask, "wb")
        self._answers = os.fdopen(answers, "rb")
        self._lock = Lock()

    def __call__(self, endpoints: Iterable[str]) -> dict[str, Process]:
        """Return the processes behind `endpoints`, given as ``host:port``. Thread-safe.

        :raises OSError: if the child has ended
        """
        from captures.live.processes import Process

        with self._lock:
            if self._ask.closed:
                return {}
            _send(self._ask, sorted(endpoints))
            line = self._answers.readline()
        if not line:
            raise BrokenPipeError("the process that looks for processes has ended")
        return {endpoint: Process(*found) for endpoint, found in json.loads(line).items()}

    def close(self) -> None:
        """End the child, and wait for it."""
        with self._lock:
            with suppress(OSError):  # the child has ended
                self._ask.close()
            self._answers.close()
        os.waitpid(self.pid, 0)


def _send(file: BinaryIO, value: object) -> None:
    file.write(json.dumps(value).encode() + b"\n")
    file.flush()


def _child(user: User, questions: int, answer: int) -> None:
    """Answer until the parent closes the pipe; never return."""
    try:
        for ending in (signal.SIGINT, signal.SIGHUP):  # Ctrl-C is for the parent
            signal.signal(ending, signal.SIG_IGN)
        become_observer(user)
        _serve(os.fdopen(questions, "rb"), os.fdopen(answer, "wb"))
    except (OSError, PrivilegeError, KeyboardInterrupt):
        pass  # the parent has ended, or does without names
    finally:
        os._exit(0)


def _serve(questions: BinaryIO, answers: BinaryIO) -> None:
    import psutil

    from captures.live.processes import processes_behind

    for line in questions:
        try:
            found = processes_behind(json.loads(line))
        except psutil.Error:
            found = {}
        _send(answers, found)
