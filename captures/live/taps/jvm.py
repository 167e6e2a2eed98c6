"""The key log of a JVM that runs already, which a Java agent writes for the time of a capture.

A JVM has no TLS library to set probes at. The agent ``name.neykov:extract-tls-secrets`` writes the secrets of
connections that begin while it is attached; their packets are captured and decrypted as with every key log.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import BinaryIO

from captures.live.device import DeviceError

_SECONDS = 60.0
_END = "read -r line; {} /dev/null; rm -f {}"
"""Runs until its standard input is closed, as the user who may attach."""


def is_jvm(process: int) -> bool:
    """Return whether a process has loaded Java's virtual machine."""
    try:
        return "/libjvm.so\n" in Path(f"/proc/{process}/maps").read_text(errors="replace")
    except OSError:
        return False


class AgentKeyLog:
    """A key log that the agent writes until :meth:`close`.

    :param process: ID of the JVM
    :param jar: of the agent; the JVM loads it, too
    :raises DeviceError: if it cannot be attached
    :ivar path: of the key log, which only the JVM's user can read
    :ivar file: the key log
    """

    def __init__(self, process: int, jar: str) -> None:
        if not is_jvm(process):
            raise DeviceError(f"process {process} is not a JVM: leave --tls-agent out")
        java = shutil.which("java")
        if java is None:
            raise DeviceError("--tls-agent takes the java of a JDK, which was not found")
        owner = Path(f"/proc/{process}").stat()
        descriptor, path = tempfile.mkstemp(prefix="kproxy-", suffix=".keys")
        os.close(descriptor)
        self.path = path
        self.file: BinaryIO = Path(path).open("rb")  # noqa: SIM115  # before this process becomes another user
        attach = [java, "-jar", str(Path(jar).resolve()), str(process)]
        try:
            if os.geteuid() == 0:
                os.chown(path, owner.st_uid, owner.st_gid)
            done = subprocess.run(  # noqa: S603
                [*attach, path], capture_output=True, text=True, timeout=_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise self._failed(str(error)) from None
        if done.returncode:
            raise self._failed((done.stderr or done.stdout).strip())
        self._end = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _END.format(shlex.join(attach), shlex.quote(path))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process
        )

    def _failed(self, why: str) -> DeviceError:
        self.file.close()
        Path(self.path).unlink()
        return DeviceError(
            f"the agent cannot be attached: {why.splitlines()[-1] if why else 'it did not say why'}"
        )

    def close(self) -> None:
        """Let the agent write no more, and remove the key log."""
        assert self._end.stdin is not None
        self._end.stdin.close()
        self._end.wait()
        self.file.close()
