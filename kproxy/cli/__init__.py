"""The command line. One file per command; heavy packages are imported when a command runs, not before."""

from __future__ import annotations

import atexit
import gc
import os
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any

import click

from kproxy.cli.command import Group, built
from kproxy.cli.options import ProgramOptions
from kproxy.output import gate_tracebacks, gated_errors, use_color

# numpy's linear algebra, which is not used here, would start a thread per processor, and these spin for a while
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

COMMANDS = {
    "api-versions": "api_versions:ApiVersionsRun.command",
    "attach": "attach",
    "clients": "clients:ClientsRun.command",
    "compat": "compat:CompatRun.command",
    "completion": "completion",
    "config": "config",
    "ctl": "ctl",
    "diagnose": "diagnose:DiagnoseRun.command",
    "diff": "diff:DiffRun.command",
    "doctor": "doctor",
    "export": "export:ExportRun.command",
    "follow": "follow:FollowRun.command",
    "groups": "groups:GroupsRun.command",
    "incidents": "incidents:IncidentsRun.command",
    "journey": "journey:JourneyRun.command",
    "lag": "lag:LagRun.command",
    "mcp": "mcp",
    "open": "open:open_",
    "proxy": "proxy",
    "read": "read:ReadRun.command",
    "records": "records:RecordsRun.command",
    "replay": "replay",
    "report": "report",
    "request-log": "request_log",
    "serve": "serve",
    "sniff": "sniff",
    "stats": "stats:StatsRun.command",
    "tables": "write_tables",
}
"""Command -> its module, with its name there if that differs."""

EPILOG = """\b
Examples:
  kproxy open kafka.pcap                     the terminal UI
  kproxy serve kafka.pcap                    the same in a browser
  kproxy read kafka.pcap                     one line per exchange
  kproxy read -V -c 3 kafka.pcap             every field of the first three
  kproxy read --exchange 17 kafka.pcap       one of them, byte by byte
  kproxy read --json kafka.pcap | jq .api    for programs
  kproxy records kafka.pcap -t orders        the records of a topic: keys, values, headers
  sudo kproxy sniff -i eth0 tcp port 9092    live, as tcpdump would capture it
  kproxy diagnose kafka.pcap                 what is wrong, and what to do about it
  kproxy incidents kafka.pcap                what happened, and what followed from it
  kproxy stats kafka.pcap                    statistics by API, client, topic ...
  kproxy groups kafka.pcap                   why groups rebalanced, and what it cost
  kproxy export kafka.pcap -o group.mmd      a diagram; also .pcapng .jsonl .csv .parquet
  kproxy tables /var/tmp/ring -o tables      all of it as Parquet tables, for SQL
  kproxy report tables                       a page of charts from these tables
  kproxy read /var/tmp/ring                  rotated files are one capture
  tcpdump -w - port 9092 | kproxy read -     from a pipe
  kproxy proxy -b kafka1:9092                the live proxy, on 127.0.0.1:9092
  kproxy replay kafka.pcap -b kafka1:9092    send the requests again, compare the responses

\b
Exit codes: 0 all decoded, 1 nothing could be read, 2 wrong usage, 3 something was
lost, undecodable, or one of several files unreadable, or the capture contains no Kafka,
4 kproxy diagnose --fail-on found something.
"""


class _Program(Group):
    """Imports a command only when it is needed, and sends click's messages and tracebacks through the output gate."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # the end of the process frees all memory: a search for cycles before it takes as long as many an import
        atexit.register(gc.freeze)
        with gated_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        # more than imports make; and what decoding creates and drops by the million is in no cycle
        gc.set_threshold(100_000, 20, 100)
        gate_tracebacks()
        use_color("auto")
        with gated_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found: click.Command = attrgetter(name or module)(import_module(f"kproxy.cli.{module}"))
        return found


@click.version_option(package_name="kproxy", message="kproxy %(version)s")
@partial(
    built,
    _Program,
    ProgramOptions,
    "main",
    None,
    {
        "epilog": EPILOG,
        "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
    },
)
def main(_: ProgramOptions) -> None:
    """Show the traffic between Kafka clients and brokers.

    kproxy decodes every Kafka API in every version from 0.8 to 4.x, pairs each request with its response, and
    explains the conversation.
    """


def program_context() -> click.Context:
    """Return a context of kproxy itself, without arguments, for code that inspects commands without running them.

    A command keeps the help option of its first context: without these settings it would lose ``-h``.
    """
    return click.Context(main, info_name="kproxy", **main.context_settings)
