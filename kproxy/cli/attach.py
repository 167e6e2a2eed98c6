"""``kproxy attach``: shows the exchanges of a proxy that runs elsewhere."""

from __future__ import annotations

import sys
from dataclasses import replace

from kproxy.cli.command import Count, arguments_of, command, option, options
from kproxy.cli.common import reported_endings
from kproxy.cli.options import LiveOptions, ReadOnlyOption, WebOption
from kproxy.cli.runs import RunOption, reported_errors, the_run
from kproxy.cli.ui import serve_ui


@options
class AttachOptions(LiveOptions, ReadOnlyOption, WebOption, RunOption):
    """Options of ``kproxy attach``."""

    control: bool = option(
        "--control", help="Act as a controller: messages stay held while this command runs."
    )
    from_start: bool = option("--from-start", help="Start with the oldest exchange that is still recorded.")
    count: Count | None = option("-c", "--count", help="Stop after N exchanges.")


@command(AttachOptions, short_help="Show the traffic of a running proxy.")
def attach(options: AttachOptions) -> None:
    """Show the traffic of a running proxy: in the terminal UI, or printed as kproxy read does.

    It is read-only unless --control is given; ending this command does not end the proxy. Output starts with the next
    exchange and ends when the proxy does.
    """
    run = the_run(options.run_name)
    if options.web is not None:
        page = replace(options, web=None, run_name=run.name, read_only=not options.control)
        with reported_endings():
            serve_ui(
                ["attach", *arguments_of(AttachOptions, page)],
                title=f"proxy {run.listen}",
                listen=options.web,
            )
        return
    from kproxy.cli.attach_run import AttachRun

    with reported_endings(), reported_errors():
        sys.exit(AttachRun(run, options).run())
