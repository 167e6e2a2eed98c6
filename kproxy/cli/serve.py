"""``kproxy serve``: captures in the terminal UI, in browsers."""

from __future__ import annotations

import click

from kproxy.cli.command import arguments_of, command, option, options
from kproxy.cli.common import reported_endings
from kproxy.cli.open import ViewOptions
from kproxy.cli.options import ListenAddress
from kproxy.cli.ui import serve_ui

EPILOG = """\b
Examples:
  kproxy serve kafka.pcap                              prints the URL to open
  kproxy serve -F /var/tmp/ring                        a capture that grows
  ssh -L 8000:127.0.0.1:8000 b1 kproxy serve ring      on another host, through SSH
"""


@options
class ServeOptions(ViewOptions):
    """Options of ``kproxy serve``."""

    listen: ListenAddress = option(
        "--listen",
        default="127.0.0.1:8000",
        show_default=True,
        help="Address to serve at; port 0 is any free one. Beyond this machine, put a proxy with TLS in front.",
    )
    no_token: bool = option(
        "--no-token",
        help="Do not require the token in the URL: every client that reaches the address gets in.",
    )
    control: bool = option(
        "--control", help="Let browsers write files on this machine, send requests and read other captures."
    )


@command(ServeOptions, short_help="Show captures in the terminal UI, in browsers.", epilog=EPILOG)
def serve(options: ServeOptions) -> None:
    """Show CAPTURE... in the terminal UI, in browsers: several people can look at one incident.

    Each page has a filter, a view and marks of its own, and reads the capture in a process of its own. It is read-only
    unless --control is given. Needs kproxy[web].
    """
    from captures.packets.files import is_readable_once  # not needed to show help

    if any(map(is_readable_once, options.files)):
        raise click.UsageError("each page reads the capture anew: write it to a file, and serve that with -F")
    with reported_endings():
        serve_ui(
            ["open", *([] if options.control else ["--read-only"]), *arguments_of(ViewOptions, options)],
            title=", ".join(options.files),
            listen=options.listen,
            guarded=not options.no_token,
        )
