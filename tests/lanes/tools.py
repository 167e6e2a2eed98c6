"""Common needs of lanes: programs that may be missing, jars from Maven, a download cache, free ports."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

Command = Sequence[str | Path]

#: Debian packages of missing programs
PACKAGES = {
    "cargo": "cargo",
    "gcc": "gcc and libssl-dev",
    "go": "golang-go",
    "java": "openjdk-17-jre-headless",
    "mvn": "maven",
    "node": "nodejs",
    "npm": "npm",
}

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>lane</groupId><artifactId>lane</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
_EXCLUSION = "<exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion>"


class CannotRun(Exception):  # noqa: N818  # says what is wrong, reads well at the raise
    """A lane, or a part of it, cannot run here; the text says what is missing."""


class Wrong(Exception):  # noqa: N818  # likewise
    """A check of a lane has failed; the text says which."""


def need(*programs: str) -> None:
    """Check that programs are on the path.

    :raises CannotRun: with the first missing program and its package
    """
    for program in programs:
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not installed (Debian: {PACKAGES.get(program, program)})")


def cache() -> Path:
    """Return the folder that caches downloads."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kproxy-lanes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def run(
    command: Command,
    *,
    timeout: float = 300,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    cwd: Path | None = None,
) -> str:
    """Run a command to its end; return its output.

    :param env: additional environment variables
    :raises CannotRun: if it fails or takes too long, with the end of its output
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(
            list(map(str, command)),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
            env={**os.environ, **(env or {})},
        )
    except subprocess.TimeoutExpired as late:
        raise CannotRun(f"{name} took longer than {timeout:.0f} s: {_end(late.output)}") from None
    if done.returncode:
        raise CannotRun(f"{name} failed with exit code {done.returncode}: {_end(done.stdout)}")
    return done.stdout


def _end(output: str | bytes | None) -> str:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    return "\n".join(text.strip().splitlines()[-15:])


def wait_for(what: str, ready: Callable[[], bool], timeout: float = 60) -> None:
    """Wait until a condition holds.

    :raises CannotRun: if it takes too long
    """
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise CannotRun(f"{what} took longer than {timeout:.0f} s")
        time.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback interface."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether a port of this machine accepts connections."""
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) == 0


def class_path(artifacts: Sequence[str], exclusions: Sequence[str] = ()) -> str:
    """Return a Java class path with Maven artifacts and their runtime dependencies.

    :param artifacts: ``group:artifact:version``
    :param exclusions: ``group:artifact`` of dependencies to leave out
    :raises CannotRun: without Maven, or if it cannot resolve them
    """
    key = sha256("\n".join([*artifacts, "-", *exclusions]).encode()).hexdigest()[:16]
    folder = cache() / "jars" / key
    if not (folder / "complete").exists():
        need("mvn")
        folder.mkdir(parents=True, exist_ok=True)
        left_out = "".join(_EXCLUSION.format(*each.split(":")) for each in exclusions)
        wanted = [
            _DEPENDENCY.format(*each.split(":"), f"<exclusions>{left_out}</exclusions>" if left_out else "")
            for each in artifacts
        ]
        (folder / "pom.xml").write_text(_POM.format(dependencies="".join(wanted)))
        copy = ("dependency:copy-dependencies", "-DoutputDirectory=libs", "-DincludeScope=runtime")
        run(["mvn", "-q", "-B", "-f", folder / "pom.xml", *copy])
        (folder / "complete").touch()
    return str(folder / "libs" / "*")


def jar(artifact: str) -> Path:
    """Return one jar from Maven Central, without its dependencies.

    :param artifact: ``group:artifact:version``
    :raises CannotRun: without Maven, or if the jar does not exist
    """
    _, name, version = artifact.split(":")
    path = cache() / "jars" / f"{name}-{version}.jar"
    if not path.exists():
        need("mvn")
        copy = ("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={path.parent}")
        run(["mvn", "-q", "-B", *copy])
    return path
