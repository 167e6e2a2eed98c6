"""Scripts that rules give frames to, each in a process of its own (:mod:`kproxy.proxy.rules.script_process`).

A script handles one frame at a time, in order of arrival, and its frame waits meanwhile, like a held one. Both ends of
the pipe write a length of four bytes, then MessagePack: a :class:`~kproxy.proxy.verdicts.Frame` is answered with a
:class:`ScriptReply`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from captures.interventions import Change
from kproxy.proxy.verdicts import Ending, Frame

TIME_LIMIT = 5.0
"""Seconds that a frame waits for its script; then it is forwarded unchanged."""
LENGTH_BYTES = 4
_CLOSING_SECONDS = 1.0


class ScriptReply(msgspec.Struct, omit_defaults=True):
    """What a script decided about a frame, see :class:`~kproxy.proxy.verdicts.Verdict`.

    :ivar words: what was done to the frame
    :ivar delay: seconds to wait first
    :ivar failure: why the frame is forwarded unchanged, empty if the script did its work
    :ivar printed: what the script printed meanwhile
    """

    words: str = ""
    data: bytes | None = None
    answer: bytes | None = None
    delay: float = 0.0
    ending: Ending = Ending.NONE
    changed: tuple[Change, ...] = ()
    failure: str = ""
    printed: str = ""


class ScriptProcess:
    """A script and its process, which starts with the first frame, or with :meth:`refresh` before that."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._process: Process | None = None
        self._version: int | None = None
        self._lock = asyncio.Lock()  # held while the process starts, works or ends

    async def ask(self, frame: Frame) -> ScriptReply:
        """Return what the script decides about a frame, or why it did not."""
        name = self._path.name
        try:
            async with asyncio.timeout(TIME_LIMIT), self._lock:
                try:
                    return await self._answer(await self._started(), frame)
                except BaseException:
                    await self._kill()  # a late reply would be read as that to the next frame
                    raise
        except TimeoutError:
            return ScriptReply(failure=f"{name} took longer than {TIME_LIMIT:g} s")
        except (asyncio.IncompleteReadError, OSError):
            return ScriptReply(failure=f"the process of {name} ended unexpectedly")
        except msgspec.MsgspecError as error:
            return ScriptReply(failure=f"the process of {name} gave no valid reply: {error}")

    async def _answer(self, process: Process, frame: Frame) -> ScriptReply:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = frame.request and replace(frame.request, charge=None)
        message = msgspec.msgpack.encode(replace(frame, charge=None, request=asked))
        process.stdin.write(len(message).to_bytes(LENGTH_BYTES) + message)
        await process.stdin.drain()
        length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
        return msgspec.msgpack.decode(await process.stdout.readexactly(length), type=ScriptReply)

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._version = self._file_version()
            command = (sys.executable, "-P", "-m", "kproxy.proxy.rules.script_process", str(self._path))
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        return self._process

    async def refresh(self) -> None:
        """Start the process before the first frame, and anew if the file has changed."""
        async with self._lock:
            if self._version == self._file_version():
                return
            await self._kill()
            with suppress(OSError):  # the next frame reports it
                await self._started()

    async def close(self) -> None:
        """End the process after the frames that wait for it."""
        async with self._lock:
            await self._kill()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:  # otherwise its ID may belong to another process
                with suppress(ProcessLookupError, PermissionError):  # it is a zombie; macOS forbids it
                    os.killpg(process.pid, signal.SIGKILL)  # with the script's own children
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING_SECONDS):  # children that it left may keep its pipes open
                    await process.communicate()

    def _file_version(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None


class Scripts:
    """The scripts of the rules in force, by file."""

    def __init__(self) -> None:
        self._processes: dict[Path, ScriptProcess] = {}
        self._asking: set[asyncio.Task[None]] = set()
        self._managing: set[asyncio.Task[None]] = set()

    def keep(self, paths: Collection[Path]) -> None:
        """End the processes of all other scripts."""
        for path in self._processes.keys() - set(paths):
            _run(self._processes.pop(path).close(), self._managing)
        for path in set(paths) - self._processes.keys():
            self._processes[path] = ScriptProcess(path)

    def ask(self, path: Path, frame: Frame, decided: Callable[[ScriptReply], None]) -> None:
        """Call `decided` with what a script decides about a frame, when the frame is to continue."""
        _run(_ask(self._processes[path], frame, decided), self._asking)

    def refresh(self) -> None:
        """Start new scripts, and those anew whose files have changed. Call this about once a second."""
        for process in self._processes.values():
            _run(process.refresh(), self._managing)

    async def close(self) -> None:
        """End all processes at once."""
        for task in self._asking:
            task.cancel()
        self.keep(())
        while tasks := self._asking | self._managing:
            await asyncio.wait(tasks)


def _run(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Run a coroutine as one of `tasks`, which asyncio itself would not keep alive."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


async def _ask(process: ScriptProcess, frame: Frame, decided: Callable[[ScriptReply], None]) -> None:
    reply = await process.ask(frame)
    if reply.delay:
        await asyncio.sleep(reply.delay)
    decided(reply)
