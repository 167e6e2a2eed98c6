"""The command line. One file per command; heavy packages are imported when a command runs, not before."""

from __future__ import annotations

import gc
import os
from typing import Any

import click

from kproxy.cli.api_versions import api_versions
from kproxy.cli.attach import attach
from kproxy.cli.clients import clients
from kproxy.cli.compat import compat
from kproxy.cli.completion import completion
from kproxy.cli.ctl import ctl
from kproxy.cli.diagnose import diagnose
from kproxy.cli.diff import diff
from kproxy.cli.doctor import doctor
from kproxy.cli.export import export
from kproxy.cli.follow import follow
from kproxy.cli.groups import groups
from kproxy.cli.journey import journey
from kproxy.cli.lag import lag
from kproxy.cli.open import open_
from kproxy.cli.options import limit_option
from kproxy.cli.printing import gate_tracebacks, gated_errors
from kproxy.cli.proxy import proxy
from kproxy.cli.read import read
from kproxy.cli.replay import replay
from kproxy.cli.report import report
from kproxy.cli.sniff import sniff
from kproxy.cli.stats import stats
from kproxy.cli.write_tables import write_tables

# numpy's linear algebra, which nothing here uses, starts a thread for each processor; these spin for a while
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

EPILOG = """\b
Examples:
  kproxy open kafka.pcap                     the terminal UI
  kproxy read kafka.pcap                     one line per exchange
  kproxy read -V -c 3 kafka.pcap             the first three, every field
  kproxy read --exchange 17 kafka.pcap       one of them, byte by byte
  kproxy read --json kafka.pcap | jq .api    for programs
  sudo kproxy sniff -i eth0 tcp port 9092    live, as tcpdump would capture it
  kproxy diagnose kafka.pcap                 what is wrong, and what to do about it
  kproxy stats kafka.pcap                    what it adds up to: APIs, clients, topics ...
  kproxy groups kafka.pcap                   why groups rebalanced, and what it cost
  kproxy export kafka.pcap -o group.mmd      a picture; also .pcapng .jsonl .csv .parquet
  kproxy tables /var/tmp/ring -o tables      all of it as Parquet tables, for SQL
  kproxy report tables                       one page of pictures of these tables
  kproxy read /var/tmp/ring                  rotated files are one capture
  tcpdump -w - port 9092 | kproxy read -     from a pipe
  kproxy proxy -b kafka1:9092                the live proxy, on 127.0.0.1:9092
  kproxy replay kafka.pcap -b kafka1:9092    the same requests again, the answers compared

\b
Exit codes: 0 all decoded, 1 nothing could be read, 2 wrong usage, 3 something was
lost, undecodable, or one of several files unreadable, or there was no Kafka in it,
4 kproxy diagnose --fail-on found something.
"""


class _PrintingGroup(click.Group):
    """Has what click prints, and what the interpreter does at the end, go through the gate too."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with gated_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        gate_tracebacks()
        with gated_errors():
            return super().invoke(ctx)


@click.group(
    cls=_PrintingGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="kproxy", message="kproxy %(version)s")
@limit_option
def main() -> None:
    """Show what Kafka clients and brokers say to each other.

    kproxy decodes every Kafka API in every version from 0.8 to 4.x, pairs each request with its response, and
    explains the conversation.
    """
    # decoding makes and drops containers by the million, and none of them is part of a cycle
    gc.set_threshold(50_000, 20, 100)


main.add_command(open_)
main.add_command(read)
main.add_command(sniff)
main.add_command(proxy)
main.add_command(attach)
main.add_command(ctl)
main.add_command(replay)
main.add_command(diagnose)
main.add_command(stats)
main.add_command(groups)
main.add_command(lag)
main.add_command(journey)
main.add_command(clients)
main.add_command(follow)
main.add_command(api_versions)
main.add_command(compat)
main.add_command(diff)
main.add_command(export)
main.add_command(report)
main.add_command(write_tables)
main.add_command(doctor)
main.add_command(completion)
