"""The proxy: its event loop, a port to listen on, and the number of connections it can hold."""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Iterator

from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import install_command, requirements, version_of
from kproxy.proxy.settings import Settings

_LOOPBACK = "127.0.0.1"
_PER_CONNECTION = 2  # the client's and the broker's


def checks() -> Iterator[Check]:
    """Check what ``kproxy proxy`` needs."""
    yield loop()
    yield descriptors()


def loop() -> Check:
    """Start the event loop of the proxy, and listen for a moment."""
    name = "event loop"
    try:
        import uvloop

        port = uvloop.run(_listened())
    except ImportError as error:
        asked = [f"{each.name}{each.bounds}" for each in requirements() if each.name == "uvloop"]
        return Check(name, State.BROKEN, str(error), "kproxy proxy cannot run", install_command(*asked))
    except OSError as error:
        about = "kproxy proxy cannot listen on this machine"
        return Check(name, State.LIMITED, f"{_LOOPBACK}: {error.strerror or error}", about)
    return Check(name, State.OK, f"uvloop {version_of('uvloop')}, listened on {_LOOPBACK}:{port}")


async def _listened() -> int:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, _LOOPBACK, 0)
    async with server:
        port: int = server.sockets[0].getsockname()[1]
        return port


def descriptors() -> Check:
    """Check how many files may be open; the proxy itself raises the soft limit to the hard one."""
    name = "open files"
    most = Settings(run_folder="").most_connections
    need = _PER_CONNECTION * most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= need:
        limit = "no limit" if hard == resource.RLIM_INFINITY else f"{hard:,}"
        return Check(name, State.OK, f"{limit}: enough for the limit of {most:,} connections")
    about = f"The proxy can hold about {hard // _PER_CONNECTION:,} connections"
    command = f"sudo prlimit --pid $$ --nofile={need}" if sys.platform == "linux" else f"ulimit -n {need}"
    return Check(name, State.LIMITED, f"{hard:,} (now {soft:,})", about, command)
