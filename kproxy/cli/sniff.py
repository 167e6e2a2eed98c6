"""``kproxy sniff``: live capture with tcpdump's switches, shown as ``kproxy read`` shows captures.

This module opens the interface and drops privileges; it imports no code that inspects packets or starts threads. Such
code (:mod:`kproxy.cli.sniff_run`) is imported after that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from captures import private
from kproxy.cli.command import AnyFile, Count, argument, command, option, options
from kproxy.cli.common import EXIT_UNREADABLE, refuse_contradictions, refuse_to_overwrite, reported_endings
from kproxy.cli.options import FilterString, LiveOptions, OtlpOption, RecorderOptions, SpoolSize, WebOption
from kproxy.output import echo

if TYPE_CHECKING:
    from captures.live.device import Device, Settings
    from captures.live.privileges import User
    from captures.live.process_finder import ProcessFinder
    from captures.live.taps.jvm import AgentKeyLog

_MAX_SNAPSHOT = 262_144
_LATE = ("concurrent.futures.thread",)
"""Modules of the standard library that are imported on first use."""
_PROGRAMS = ("kproxy.__main__", "textual.demo", "textual.__main__", "textual._sleep", "rich.__main__")
"""Modules that run something when they are imported."""

EPILOG = """\b
Examples:
  sudo kproxy sniff                                    all traffic of this machine
  sudo kproxy sniff -i eth0 tcp port 9092              one interface, one port
  sudo kproxy sniff -Y 'error or latency > 1s'         matches of a filter (docs/filters.md)
  sudo kproxy sniff -i lo -w kafka.pcap                show exchanges, write all packets
  sudo kproxy sniff --keylog keys.log                  TLS (docs/tls.md)
  sudo kproxy sniff --tls-of 4711                      TLS without keys, at the calls of the TLS library
  sudo kproxy sniff -q --ring 5GB --keep error         the flight recorder (docs/sniff.md)
"""


@options
class CaptureOptions:
    """What is captured, and how."""

    title = "Capturing"
    expression: tuple[str, ...] = argument("[EXPRESSION]...", required=False)
    interface: str | None = option(
        "-i",
        "--interface",
        metavar="IFACE",
        help="Interface, or its number in -D. Default: any, all of them.",
    )
    listing: bool = option("-D", "--list-interfaces", help="List the interfaces.")
    capture_filter: str | None = option(
        "-f",
        "--capture-filter",
        metavar="BPF",
        help="Capture only packets that match a pcap-filter(7): 'tcp port 9092'.",
    )
    snapshot_length: int = option(
        "-s",
        "--snapshot-length",
        type=click.IntRange(0, _MAX_SNAPSHOT),
        default=0,
        metavar="N",
        help="Capture N bytes of each packet; 0, the default, captures all.",
    )
    own_frames: bool = option("-p", "--no-promiscuous-mode", help="Leave out other machines' frames.")
    buffer_size: int = option(
        "-B",
        "--buffer-size",
        type=click.IntRange(1),
        default=32_768,
        metavar="KIB",
        help="Kernel buffer in KiB; more of it survives longer bursts. Default: 32768.",
    )
    user: str | None = option(
        "-Z",
        "--relinquish-privileges",
        metavar="USER",
        help="As root: switch to USER once the interface is open. Default: the user who called sudo, else nobody.",
    )
    tls_of: tuple[int, ...] = option(
        "--tls-of",
        metavar="PID",
        multiple=True,
        type=click.IntRange(1),
        help="Linux: instead of packets, read what this process says over TLS, at the calls of its TLS library. "
        "Repeatable.",
    )
    tls_all: bool = option("--tls-all", help="The same for all processes.")
    tls_agent: AnyFile | None = option(
        "--tls-agent",
        metavar="JAR",
        help="With --tls-of a JVM: attach the agent extract-tls-secrets to it while packets are captured "
        "(docs/tls.md).",
    )
    no_names: bool = option("-n", hidden=True)  # for tcpdump's users: kproxy never asks a name server
    unbuffered: bool = option("-U", hidden=True)  # for tcpdump's users: kproxy always writes at once


@options
class SniffOptions(LiveOptions, WebOption, OtlpOption, RecorderOptions, CaptureOptions):
    """Options of ``kproxy sniff``."""

    title = "Showing"
    write: str | None = option(
        "-w",
        "--write",
        heading="Recording",
        type=click.Path(dir_okay=False, allow_dash=True),
        help="Write all captured packets to a pcap file too; - is standard output, and implies -q.",
    )
    force: bool = option("--force", heading="Recording", help="With -w: overwrite FILE if it exists.")
    quiet: bool = option("-q", "--quiet", help="Only record (-w, --ring); show no exchanges.")
    count: Count | None = option("-c", "--count", help="Stop after N exchanges; with -q after N packets.")
    keylog: AnyFile | None = option(
        "--keylog",
        heading="Reading",
        help="Decrypt TLS with the secrets in this NSS key log, which may still grow.",
    )
    spool: SpoolSize | None = option(
        "--spool", heading="Recording", help="Disk for packets that are not written with -w. Default: 8GiB."
    )
    ring: SpoolSize | None = option(
        "--ring",
        heading="Flight recorder",
        help="Keep the latest packets in a ring of this size on disk: 5GB.",
    )
    keep: FilterString | None = option(
        "--keep", heading="Flight recorder", help="With --ring: save the traffic around exchanges that match."
    )


@command(SniffOptions, short_help="Capture live and show the exchanges.", epilog=EPILOG)
def sniff(options: SniffOptions) -> None:
    """Capture packets and show the Kafka exchanges in them as they complete, on a terminal in the UI (docs/ui.md).

    Without EXPRESSION or -f kproxy looks at all packets and recognises Kafka on any port by its content. On a busy
    machine name the ports (tcp port 9092), so that other packets never leave the kernel.

    Ctrl-C ends the capture, shows the remaining exchanges, and counts captured and dropped packets. A second Ctrl-C
    ends at once.

    Capturing needs a privilege (root, or CAP_NET_RAW), which kproxy gives up as soon as the interface is open. With
    --ring it is a flight recorder: it keeps the latest packets, and saves the traffic around exchanges that match
    --keep; also on SIGUSR1, and when it ends. docs/sniff.md has recipes.
    """
    from captures.live.device import CaptureFilterError, DeviceError
    from captures.live.privileges import PrivilegeError

    if options.capture_filter is not None and options.expression:
        raise click.UsageError("give the capture filter as -f BPF or as arguments, not both")
    if options.write == "-":
        if sys.stdout.isatty():
            raise click.UsageError("-w - writes packets to standard output, which is a terminal")
        options = replace(options, quiet=True)
    elif options.write is not None:
        refuse_to_overwrite(options.write, (), force=options.force)
    _refuse_contradictions(options)
    try:
        if options.listing:
            _list_interfaces()
            return
        settings = _settings(options)
        opened = _open(settings, options)
    except CaptureFilterError as error:
        raise click.UsageError(str(error)) from None
    except (DeviceError, PrivilegeError) as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)

    from kproxy.cli.sniff_run import SniffRun

    with reported_endings(lambda error: error.filename or settings.interface):
        sys.exit(SniffRun(opened, options).run())


def _refuse_contradictions(options: SniffOptions) -> None:
    written, ring, quiet = options.write is not None, options.ring is not None, options.quiet
    kept_on_disk = ring or (written and options.write != "-")
    taps, agent = _taps(options), options.tls_agent is not None
    packets = (
        options.interface,
        options.capture_filter,
        options.own_frames,
        options.keylog,
        *options.expression,
    )
    wrong = {
        "--tls-agent needs --tls-of PID, once: the JVM to attach it to": agent and len(options.tls_of) != 1,
        "--tls-agent makes a key log: leave --keylog out": agent and options.keylog is not None,
        "the key log of --tls-agent ends with the capture, and packets of -w and --ring could not be read later: "
        "attach the agent yourself (docs/tls.md)": agent and (written or ring),
        "--tls-of and --tls-all read calls, not packets: without -i, -f, EXPRESSION, -p and --keylog": taps
        and any(packets),
        "--tls-all includes every process of --tls-of: use one or the other": options.tls_all
        and bool(options.tls_of),
        "--ring keeps the latest packets, -w all of them: use one or the other": ring and written,
        "--keep needs --ring SIZE: the space for packets until an exchange matches": options.keep is not None
        and not ring,
        "-q shows nothing: say with -w or --ring what is to be recorded, or --diagnose": quiet
        and not (written or ring or options.diagnose or options.otlp),
        "--web shows what is recorded: say where with --ring SIZE or -w FILE": options.web is not None
        and not kept_on_disk,
        "-q shows nothing, but --json and -V do: use one or the other": quiet
        and (options.as_json or options.verbose),
    }
    refuse_contradictions(wrong)


def _list_interfaces() -> None:
    from captures.live.devices import interfaces

    for number, interface in enumerate(interfaces(), 1):
        about = f"  ({interface.about})" if interface.about else ""
        echo(f"{number}. {interface.name}{about}")


def _settings(options: SniffOptions) -> Settings:
    from captures.live.device import ANY, DeviceError, Settings
    from captures.live.devices import interfaces

    interface = options.interface
    if _taps(options):
        one = "process" if len(options.tls_of) == 1 else "processes"
        interface = "all processes" if options.tls_all else f"{one} {', '.join(map(str, options.tls_of))}"
    elif interface is None:
        interface = ANY if sys.platform == "linux" else interfaces()[0].name
    elif interface.isdecimal():
        found = interfaces()
        if not 0 < int(interface) <= len(found):
            raise DeviceError(f"there is no interface number {interface}: -D lists {len(found)}")
        interface = found[int(interface) - 1].name
    return Settings(
        interface,
        options.snapshot_length or _MAX_SNAPSHOT,
        promiscuous=not options.own_frames,
        buffer_size=options.buffer_size << 10,
        expression=options.capture_filter or " ".join(options.expression),
    )


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Resources that required privileges, or depend on the user of the process.

    :ivar settings: of the device
    :ivar output: the file of ``-w``, and its path
    :ivar keylog: the key log, if this process may not be able to open it later
    :ivar agent: the key log that an agent writes
    :ivar find: finds the processes behind local ends; None if this process needs no help with that
    """

    device: Device
    settings: Settings
    output: tuple[BinaryIO, Path] | None
    keylog: BinaryIO | None
    find: ProcessFinder | None
    agent: AgentKeyLog | None = None


def _open(settings: Settings, options: SniffOptions) -> OpenFiles:
    """Open the interface, the file to write and the key log, and drop the privileges that required.

    A user chosen by ``-Z`` or ``sudo`` needs the permission to write and read the files, and owns the files written.
    Otherwise the files are opened before the process becomes the user nobody, who may lack that permission.
    """
    from captures.live.privileges import become, give_up_capabilities, successor
    from captures.live.process_finder import ProcessFinder

    heir, write = successor(options.user), options.write
    # started before the device is open, so that it does not inherit it
    find = ProcessFinder(heir) if heir is not None and sys.platform == "linux" else None
    agent = None
    try:
        device = _tap(settings, options.tls_of) if _taps(options) else _device(settings)
        if options.tls_agent is not None:  # the device is open: connections from now on are captured whole
            from captures.live.taps.jvm import AgentKeyLog

            agent = AgentKeyLog(options.tls_of[0], options.tls_agent)
        chosen = heir is not None and heir.chosen
        output = None if chosen else _output(write, None)
        secrets = None if chosen or heir is None else _opened(options.keylog)
        if heir is not None:
            _load_what_cannot_be_read_by(heir)
            become(heir)
        elif os.geteuid() != 0:
            give_up_capabilities()
        return OpenFiles(device, settings, output or _output(write, heir), secrets, find, agent)
    except BaseException:
        for helper in (find, agent):
            if helper is not None:
                helper.close()
        raise


def _opened(keylog: str | None) -> BinaryIO | None:
    """Open a key log; None if that is not possible now."""
    if keylog is None:
        return None
    try:
        return Path(keylog).open("rb")
    except OSError:
        return None


def _taps(options: SniffOptions) -> bool:
    """Return whether calls are captured, not packets."""
    return (bool(options.tls_of) or options.tls_all) and options.tls_agent is None


def _tap(settings: Settings, processes: Sequence[int]) -> Device:
    """Return the TLS calls of processes, or of all."""
    from captures.live.device import DeviceError
    from captures.live.taps.device import TlsTap

    say = "says" if len(processes) == 1 else "say"
    what = f"what {settings.interface} {say} over TLS, decrypted, secrets included"
    echo(f"kproxy: reads {what}; bpftrace sets probes ...", err=True)
    try:
        return TlsTap(settings, processes)
    except DeviceError as error:
        raise DeviceError(f"{error}. kproxy doctor and docs/tls.md tell what else works") from None


def _device(settings: Settings) -> Device:
    from captures.live.device import NotPermittedError
    from captures.live.devices import open_device
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
    """Return the command line of this process, to be passed to sudo."""
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
    """Import everything that may be needed if `user` cannot read it later, as with a Python under /root."""
    from captures.live.privileges import may_read

    if all(may_read(user, Path(path)) for path in (__file__, click.__file__, os.__file__)):
        return
    from pkgutil import walk_packages

    for package in ("dissectors", "captures", "kproxy", "textual", "rich"):
        for module in walk_packages(import_module(package).__path__, f"{package}."):
            # a module may need a missing optional package, or another system
            with suppress(ImportError):
                if not module.name.startswith(_PROGRAMS):
                    import_module(module.name)
    from captures.packets.rare import find_ip

    find_ip(b"", -1)  # imports scapy
    for name in _LATE:
        import_module(name)
