"""The privilege to capture: advice if it is missing, and dropping it once the interface is open.

Data from the network is parsed as an ordinary user. As root the process becomes another user, as ``tcpdump -Z`` does;
if its executable has capabilities, it drops them. Both must happen before packages that start threads of their own are
imported: on Linux each thread has its own capabilities (capabilities(7)).
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_NO_NEW_PRIVILEGES = 38  # PR_SET_NO_NEW_PRIVS
_KEEP_CAPABILITIES = 8  # PR_SET_KEEPCAPS: they stay permitted when the user changes
_READ_ALL, _SEE_PROCESSES = 2, 19  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE
_NOBODY = "nobody"


class PrivilegeError(Exception):
    """Privileges cannot be dropped as requested; the message says why, and what to do."""


class User(msgspec.Struct, frozen=True):
    """A user that the process becomes.

    :ivar chosen: whether the user chose it, with ``-Z`` or by calling ``sudo``
    """

    name: str
    uid: int
    gid: int
    chosen: bool


def successor(name: str | None) -> User | None:
    """Return the user that a root process is to become, None if it does not run as root or is to stay root.

    That is the user named, else the one who called sudo, else the user ``nobody``.

    :raises PrivilegeError: if there is no such user, or the process cannot switch users
    """
    if os.geteuid() != 0:
        if name is not None:
            raise PrivilegeError("only root can become another user (-Z)")
        return None
    try:
        if name is not None:
            user = _named(name, chosen=True)
        elif int(os.environ.get("SUDO_UID", "0")):
            uid = int(os.environ["SUDO_UID"])
            gid = int(os.environ.get("SUDO_GID", uid))
            user = User(os.environ.get("SUDO_USER", str(uid)), uid, gid, chosen=True)
        else:
            user = _named(_NOBODY, chosen=False)
    except (KeyError, ValueError):
        raise PrivilegeError(
            f"there is no user {name or _NOBODY} to become once the interface is open: name one with -Z USER, "
            "or stay root with -Z root"
        ) from None
    return user if user.uid else None


def _named(name: str, *, chosen: bool) -> User:
    entry = pwd.getpwnam(name)
    return User(name, entry.pw_uid, entry.pw_gid, chosen)


def become(user: User) -> None:
    """Become another user, in all threads and for good; set ``HOME`` accordingly.

    :raises PrivilegeError: if the system refuses
    """
    try:
        _take_identity(user)
    except OSError as error:
        raise PrivilegeError(
            f"cannot become {user.name} ({error.strerror}): name another user with -Z USER, or stay root with -Z root"
        ) from error
    with suppress(KeyError):  # a user without an entry in the system's database
        os.environ["HOME"] = pwd.getpwuid(user.uid).pw_dir


def _take_identity(user: User) -> None:
    try:
        os.initgroups(user.name, user.gid)
    except OSError:
        os.setgroups([user.gid])
    os.setgid(user.gid)
    os.setuid(user.uid)


def may_read(user: User, path: Path) -> bool:
    """Return whether `user` may read a file, as tested by a child process that becomes that user."""
    child = os.fork()
    if child == 0:
        try:
            _take_identity(user)
            os._exit(0 if os.access(path, os.R_OK) else 1)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def give_up_capabilities(besides: int = 0) -> None:
    """Drop the capabilities of the calling thread and of threads that it starts, and the right to gain new ones.

    :param besides: bit mask of those to keep
    :raises PrivilegeError: if the system refuses
    """
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    # effective, permitted and inheritable sets: of the first 32 capabilities, then of the others
    kept = (ctypes.c_uint32 * 6)(besides, besides, 0, 0, 0, 0)
    if libc.capset(header, kept) or libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise PrivilegeError(f"capabilities cannot be given up: {os.strerror(ctypes.get_errno())}")


def become_observer(user: User) -> None:
    """Become another user who may see all processes and read every file, but change none.

    :raises PrivilegeError: if the system refuses
    """
    ctypes.CDLL(None).prctl(_KEEP_CAPABILITIES, 1, 0, 0, 0)
    become(user)
    give_up_capabilities(besides=1 << _READ_ALL | 1 << _SEE_PROCESSES)


def advice(interface: str, expression: str, command: Sequence[str]) -> str:
    """Return what a user without the privilege to capture can do, with lines to copy.

    :param command: the command line of this process
    """
    device, filtered = shlex.quote(interface), shlex.quote(expression) if expression else ""
    command_line = shlex.join(command)
    tcpdump = f"tcpdump -i {device} -U -w - {filtered}".rstrip() + " | kproxy read -"
    if sys.platform != "linux":
        return f"Capturing needs root. Either of these will do:\n  sudo {command_line}\n  sudo {tcpdump}"
    lines = ["Capturing needs the capability CAP_NET_RAW, which this process does not have."]
    if os.geteuid() != 0:
        python = shlex.quote(str(Path(sys.executable).resolve()))
        dumpcap = f"dumpcap -i {device} -q -w -{f' -f {filtered}' if filtered else ''} | kproxy read -"
        lines += [
            "Any of these will do:",
            f"  sudo {command_line}",
            "      (kproxy becomes your own user again once the interface is open)",
            f"  sudo setcap cap_net_raw=ep {python}",
            "      (from then on, every user who may run this Python may capture)",
            f"  sudo {tcpdump}",
            f"  {dumpcap}",
            "      (where members of your group may run dumpcap, often the group wireshark)",
        ]
    lines.append(
        "In a container: docker run --cap-add NET_RAW; in Kubernetes securityContext.capabilities.add: [NET_RAW]"
    )
    return "\n".join(lines)
