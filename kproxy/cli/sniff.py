"""``kproxy sniff``: live capture with tcpdump's switches, shown as ``kproxy read`` shows captures.

What is here opens the interface and gives privileges up; it imports nothing that looks inside packets, and nothing
that starts threads. What does (:mod:`kproxy.cli.sniffing`) is imported after that.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from captures import private
from kproxy.cli.common import EXIT_UNREADABLE, early_ends
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import diagnose_option, hosts_option, showing_options, surroundings_options
from kproxy.cli.output import refuse_to_overwrite
from kproxy.cli.printing import echo
from kproxy.cli.ui import config_option, no_ui_option

if TYPE_CHECKING:
    from captures.live.device import Device, Settings
    from captures.live.privileges import User
    from captures.live.process_finder import ProcessFinder

_MAX_SNAPSHOT = 262_144
_LATE = ("concurrent.futures.thread",)
"""Of the standard library, what is imported when it is first used."""
_PROGRAMS = ("textual.demo", "textual.__main__", "textual._sleep", "rich.__main__")
"""Modules that do something when they are imported."""

EPILOG = """\b
Examples:
  sudo kproxy sniff                                    all that this machine says and hears
  sudo kproxy sniff -i eth0 tcp port 9092              one interface, one port
  sudo kproxy sniff -Y 'error or latency > 1s'         what fits a filter (docs/filters.md)
  sudo kproxy sniff -i lo -w kafka.pcap                shown, and all packets kept
  sudo kproxy sniff --keylog keys.log                  TLS (docs/tls.md)
  sudo kproxy sniff -q --ring 5GB --keep error         the flight recorder (docs/sniff.md)
"""


@click.command(short_help="Capture live and show the exchanges.", epilog=EPILOG)
@click.argument("expression", nargs=-1, metavar="[EXPRESSION]...")
@click.option(
    "-i", "--interface", metavar="IFACE", help="Interface, or its number in -D. Default: any, all of them."
)
@click.option("-D", "--list-interfaces", "listing", is_flag=True, help="List the interfaces.")
@click.option(
    "-f", "--capture-filter", metavar="BPF", help="Capture what fits a pcap-filter(7): 'tcp port 9092'."
)
@click.option(
    "-w",
    "--write",
    type=click.Path(dir_okay=False, allow_dash=True),
    metavar="FILE",
    help="Write all captured packets to a pcap file too; - is standard output, and implies -q.",
)
@click.option("--force", is_flag=True, help="With -w: overwrite FILE if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Show no exchanges: only record (-w, --ring).")
@click.option(
    "-c",
    "--count",
    type=click.IntRange(1),
    metavar="N",
    help="Stop after N exchanges; with -q after N packets.",
)
@click.option(
    "-s",
    "--snapshot-length",
    type=click.IntRange(0, _MAX_SNAPSHOT),
    default=0,
    metavar="N",
    help="Capture N bytes of each packet; 0, the default, captures all.",
)
@click.option(
    "-p", "--no-promiscuous-mode", "own_frames", is_flag=True, help="Leave out other machines' frames."
)
@click.option(
    "-B",
    "--buffer-size",
    type=click.IntRange(1),
    default=32_768,
    metavar="KIB",
    help="Kernel buffer in KiB; more of it survives longer bursts. Default: 32768.",
)
@click.option(
    "-Z",
    "--relinquish-privileges",
    "user",
    metavar="USER",
    help="As root: become USER when the interface is open. Default: who called sudo, else nobody.",
)
@click.option(
    "-n", is_flag=True, hidden=True, expose_value=False
)  # tcpdump's: kproxy never asks a name server
@click.option("-U", is_flag=True, hidden=True, expose_value=False)  # tcpdump's: kproxy always writes at once
@showing_options
@click.option("-Y", "--filter", "wanted", type=FILTER, help="Show what fits: 'error and topic ~ orders'.")
@click.option(
    "--keylog",
    type=click.Path(),
    metavar="FILE",
    help="Decrypt TLS with the secrets in this NSS key log, which may still grow.",
)
@hosts_option
@click.option("--spool", metavar="SIZE", help="Disk for packets that are not written with -w. Default: 8GiB.")
@click.option("--ring", metavar="SIZE", help="Keep the latest packets in a ring of this size on disk: 5GB.")
@click.option("--keep", type=FILTER, help="With --ring: save what surrounds the exchanges that fit.")
@surroundings_options
@diagnose_option
@no_ui_option
@config_option
def sniff(
    expression: tuple[str, ...],
    interface: str | None,
    listing: bool,
    capture_filter: str | None,
    snapshot_length: int,
    own_frames: bool,
    buffer_size: int,
    user: str | None,
    write: str | None,
    force: bool,
    **options: Any,
) -> None:
    """Capture packets and show the Kafka exchanges in them as they complete, on a terminal in the UI (docs/ui.md).

    Without EXPRESSION or -f all packets are looked at: Kafka is found on any port by its content. On a busy machine
    name the ports (tcp port 9092), so that the rest never leaves the kernel.

    Ctrl-C ends it: what was captured is shown, and how much was captured and dropped. Again, it ends at once.

    Capturing needs a privilege (root, or CAP_NET_RAW), which is given up as soon as the interface is open. With
    --ring it is a flight recorder: it keeps the latest packets, and saves what surrounds the exchanges that fit --keep;
    also on SIGUSR1, and when it ends. docs/sniff.md has recipes.
    """
    from captures.live.device import CaptureFilterError, DeviceError
    from captures.live.privileges import PrivilegeError

    if capture_filter is not None and expression:
        raise click.UsageError("give the capture filter as -f BPF or as arguments, not both")
    if write == "-":
        if sys.stdout.isatty():
            raise click.UsageError("-w - writes packets to standard output, which is a terminal")
        options["quiet"] = True
    elif write is not None:
        refuse_to_overwrite(write, (), force=force)
    _refuse_contradictions(write=write, **options)
    try:
        if listing:
            _list_interfaces()
            return
        settings = _settings(
            interface,
            capture_filter or " ".join(expression),
            snapshot_length,
            buffer_size,
            own_frames=own_frames,
        )
        opened = _open(settings, user, write, options["keylog"])
    except CaptureFilterError as error:
        raise click.UsageError(str(error)) from None
    except (DeviceError, PrivilegeError) as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)

    from kproxy.cli.sniffing import Sniffing

    with early_ends(lambda error: error.filename or settings.interface):
        sys.exit(Sniffing(opened, **options).run())


def _refuse_contradictions(
    *,
    write: str | None,
    quiet: bool,
    ring: str | None,
    keep: str | None,
    diagnose: bool,
    as_json: bool,
    verbose: bool,
    **_: Any,
) -> None:
    if ring is not None and write is not None:
        raise click.UsageError("--ring keeps the latest packets, -w all of them: give one of them")
    if keep is not None and ring is None:
        raise click.UsageError("--keep needs --ring SIZE: where the packets are until something fits")
    if quiet and write is None and ring is None and not diagnose:
        raise click.UsageError(
            "-q shows nothing: say with -w or --ring what is to be recorded, or --diagnose"
        )
    if quiet and (as_json or verbose):
        raise click.UsageError("-q shows nothing, --json and -V do: give one of them")


def _list_interfaces() -> None:
    from captures.live.device import interfaces

    for number, interface in enumerate(interfaces(), 1):
        about = f"  ({interface.about})" if interface.about else ""
        echo(f"{number}. {interface.name}{about}")


def _settings(
    interface: str | None, expression: str, snapshot_length: int, buffer_size: int, *, own_frames: bool
) -> Settings:
    from captures.live.device import ANY, DeviceError, Settings, interfaces

    if interface is None:
        interface = ANY if sys.platform == "linux" else interfaces()[0].name
    elif interface.isdecimal():
        found = interfaces()
        if not 0 < int(interface) <= len(found):
            raise DeviceError(f"there is no interface number {interface}: -D lists {len(found)}")
        interface = found[int(interface) - 1].name
    return Settings(
        interface,
        snapshot_length or _MAX_SNAPSHOT,
        promiscuous=not own_frames,
        buffer_size=buffer_size << 10,
        expression=expression,
    )


@dataclass(frozen=True, slots=True)
class Opened:
    """What took privileges, or has to do with who the process is now.

    :ivar settings: how the device was opened
    :ivar output: the file of ``-w``, and its path
    :ivar keylog: the key log, if this process may not be able to open it any more
    :ivar find: finds the processes behind local ends, None if this process can do so as well as any
    """

    device: Device
    settings: Settings
    output: tuple[BinaryIO, Path] | None
    keylog: BinaryIO | None
    find: ProcessFinder | None


def _open(settings: Settings, user: str | None, write: str | None, keylog: str | None) -> Opened:
    """Open the interface, the file to write and the key log, and give up the privileges that took.

    A user that was chosen, by ``-Z`` or ``sudo``, is who may or may not write and read the files, and owns what is
    written. Without one the files are opened before the process becomes nobody, who might not be able to.
    """
    from captures.live.privileges import become, give_up_capabilities, successor
    from captures.live.process_finder import ProcessFinder

    heir = successor(user)
    # begun before there is a device, which is none of its business
    find = ProcessFinder(heir) if heir is not None and sys.platform == "linux" else None
    try:
        device = _device(settings)
        chosen = heir is not None and heir.chosen
        output = None if chosen else _output(write, None)
        secrets = None if chosen or heir is None else _opened(keylog)
        if heir is not None:
            _load_what_cannot_be_read_by(heir)
            become(heir)
        elif os.geteuid() != 0:
            give_up_capabilities()
        return Opened(device, settings, output or _output(write, heir), secrets, find)
    except BaseException:
        if find is not None:
            find.close()
        raise


def _opened(keylog: str | None) -> BinaryIO | None:
    """Open a key log; None if that cannot be done now."""
    if keylog is None:
        return None
    try:
        return Path(keylog).open("rb")
    except OSError:
        return None


def _device(settings: Settings) -> Device:
    from captures.live.device import NotPermittedError, open_device
    from captures.live.privileges import advice

    try:
        device = open_device(settings)
    except NotPermittedError as error:
        echo(f"kproxy: {error}", err=True)
        for line in advice(settings.interface, settings.expression, _command()).splitlines():
            echo(line, err=True)
        sys.exit(EXIT_UNREADABLE)
    if device.warning:
        echo(f"kproxy: {settings.interface}: {device.warning}", err=True)
    return device


def _command() -> list[str]:
    """Return the command line of this process, as it can be given to sudo."""
    program = Path(sys.argv[0]).absolute()
    if os.access(program, os.X_OK):
        return [str(program), *sys.argv[1:]]
    return [sys.executable, *sys.orig_argv[1:]]  # python -m kproxy


def _output(write: str | None, user: User | None) -> tuple[BinaryIO, Path] | None:
    if write is None:
        return None
    if write == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0), Path("standard output")
    path = Path(write)
    try:
        return os.fdopen(private.opened(path, os.O_RDWR | os.O_TRUNC), "w+b", buffering=0), path
    except OSError as error:
        who = (
            f" for {user.name}, whom kproxy became once the interface was open; -Z chooses another user"
            if user
            else ""
        )
        raise click.UsageError(f"{write} cannot be written{who}: {error.strerror}") from None


def _load_what_cannot_be_read_by(user: User) -> None:
    """Import everything that may be needed, if the user cannot read it later: as under /root."""
    from captures.live.privileges import may_read

    if all(may_read(user, Path(path)) for path in (__file__, click.__file__, os.__file__)):
        return
    from contextlib import suppress
    from importlib import import_module
    from pkgutil import walk_packages

    for package in ("dissectors", "captures", "kproxy.cli", "kproxy.tui", "textual", "rich"):
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            # what needs an optional package that is not installed, or another system
            with suppress(ImportError):
                if not module.name.startswith(_PROGRAMS):
                    import_module(module.name)
    from captures.packets.rare import find_ip

    find_ip(b"", -1)  # imports scapy
    for name in _LATE:
        import_module(name)
