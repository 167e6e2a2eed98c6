"""``kproxy mcp``: captures for assistants."""

from __future__ import annotations

from functools import partial

import click

from dissectors.units import SECOND
from kproxy.cli.command import arguments_of, command, option, options
from kproxy.cli.common import reported_endings
from kproxy.cli.mcp_tools import Tool
from kproxy.cli.options import ReadingOptions, Time

EPILOG = """\b
Example, the entry of an assistant's configuration:
  {"mcpServers": {"kproxy": {"command": "kproxy", "args": ["mcp", "/var/tmp/ring"]}}}
"""


@options
class McpOptions(ReadingOptions):
    """Options of ``kproxy mcp``."""

    timeout: Time = option(
        "--timeout", default="5m", show_default=True, help="End an answer that takes longer than this."
    )


@command(
    McpOptions, short_help="Let an assistant ask about captures (Model Context Protocol).", epilog=EPILOG
)
def mcp(options: McpOptions) -> None:
    """Answer an assistant's questions about CAPTURE..., by the Model Context Protocol on standard input and output.

    An assistant can ask the questions of kproxy diagnose, incidents, read, stats, groups, lag, journey, follow,
    clients, api-versions, compat and records about these captures and no others. It is read-only, secrets stay masked,
    and answers are bounded. Each question reads the captures anew, so they may grow. Needs kproxy[mcp].
    """
    from captures.packets.files import is_readable_once  # not needed to show help

    if any(map(is_readable_once, options.files)):
        raise click.UsageError("each question reads the capture anew: write it to a file, and name that")
    try:
        from kproxy.cli.mcp_server import serve
    except ImportError:
        raise click.ClickException("this needs more packages: pip install 'kproxy[mcp]'") from None

    reading = arguments_of(ReadingOptions, options)
    reading = reading[: reading.index("--")] if "--" in reading else reading
    with reported_endings():
        serve(partial(Tool.arguments, reading=reading, files=options.files), seconds=options.timeout / SECOND)
