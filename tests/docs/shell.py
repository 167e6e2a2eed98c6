"""The commands in the documentation: finding them, parsing them like kproxy, and running them on samples."""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from gzip import compress
from pathlib import Path

import click
from click.testing import CliRunner

from docs.build import DOCS, sources
from docs.tools.markdown import Page
from kproxy.cli import COMMANDS, main, program_context

ROOT = DOCS.parent
PAGES = sources()
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
TLS = ROOT / "tests" / "data" / "captures" / "tls_java_13.pcap"
OTHER = ROOT / "tests" / "data" / "groups" / "21_k430_java_sigstop.pcap.zst"
"""A recording that differs from the sample."""

_BETWEEN = {"|", "||", "&&", "&", ";", ">", "2>"}
_PODS = """\
NAMESPACE   NAME       READY   STATUS    RESTARTS   AGE   IP          NODE    NOMINATED NODE   READINESS GATES
kafka       orders-0   1/1     Running   0          1d    127.0.0.1   node1   <none>           <none>
"""


_INSTEAD = {"duckdb": "import duckdb, sys; duckdb.sql(sys.argv[-1]).show()"}
"""Replacements for programs that are not installed, based on an installed package."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a block of shell commands, with continued lines joined.

    :ivar output: content of the ``text`` block that follows directly; empty if there is none
    """

    page: str
    text: str
    output: str = ""


@cache
def page(name: str) -> Page:
    """Return a page by its path from ``docs``."""
    return Page((DOCS / name).read_text())


@cache
def lines(name: str) -> tuple[Line, ...]:
    """Return the commands in the ``sh`` blocks of a page."""
    blocks = list(page(name).blocks())
    made: list[Line] = []
    for place, block in enumerate(blocks):
        if block.language != "sh":
            continue
        found = list(_commands(block.text))
        behind = block.line + block.text.count("\n") + 3  # the closing fence, an empty line
        outputs = [
            each.text
            for each in blocks[place + 1 : place + 2]
            if each.language == "text" and each.line == behind
        ]
        assert not outputs or len(found) == 1, f"{name}:{block.line}: whose output is it?"
        made += (Line(name, each, "".join(outputs)) for each in found)
    return tuple(made)


def _commands(text: str) -> Iterator[str]:
    ending = ""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        if ending:
            ending = "" if line == ending else ending
        elif line.strip() and not line.startswith("#"):
            yield line.strip()
            here = re.search(r"<<'?(\w+)'?", line)
            ending = here[1] if here else ""


def all_code(name: str) -> Iterator[str]:
    """Yield every line of code on a page that may be a command, in blocks of any language."""
    read = page(name)
    for block in read.blocks():
        joined = re.sub(r"\\\n\s*", " ", block.text).splitlines()
        if name == "commands.md":  # in the epilogs of --help, the explanation follows the example
            yield from (re.split(r"\s{2,}|$", line.strip())[0] for line in joined)
        elif block.language not in ("text", "python", "json", "go", "yaml", "toml"):
            yield from joined
    for code in read.inline_code():
        # prose also mentions commands and options alone
        if re.search(r" (\||--) kproxy |^kproxy .*\.pcap", code):
            yield code.replace("\n", " ")


def arguments(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each kproxy command in a line: in a pipe, after sudo, in a container."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # output, not a command
        return
    for command in _parts(words):
        called = [place for place, word in enumerate(command[:-1]) if word.rpartition("/")[2] == "kproxy"]
        if called and command[: called[0]] in ([], ["sudo"]):
            yield command[called[0] + 1 :]
        else:  # users, containers and images of that name in other commands
            yield from (command[place + 1 :] for place in called if command[place + 1] in COMMANDS)


def _parts(words: list[str]) -> Iterator[list[str]]:
    ends = [place for place, word in enumerate(words) if word in _BETWEEN]
    for begin, end in zip([-1, *ends], [*ends, len(words)], strict=True):
        yield words[begin + 1 : end]


def taken(command: list[str]) -> None:
    """Parse the arguments like kproxy, without running anything.

    :raises click.UsageError: if kproxy rejects them
    """
    context, found = program_context(), main
    while isinstance(found, click.Group):
        if not command or command[0].startswith("-"):
            break  # kproxy --version
        name, *command = command
        inner = found.get_command(context, name)
        if inner is None:
            raise click.UsageError(f"there is no command {name}")
        found = inner
    try:
        found.make_context("kproxy", list(command), parent=context)
    except click.exceptions.Exit:  # --help and the like
        return


def lay_out(folder: Path) -> None:
    """Copy files to a folder under the names that the documentation uses for captures and related files."""
    packets = SAMPLE.read_bytes()
    for name in ("kafka.pcap", "good.pcap", "client.pcap", "broker.pcap", "new.pcap", "broker2.pcap.zst"):
        (folder / name).write_bytes(packets)
    for name in (
        "broker1.pcap",
        "broker2.pcap",
        "broker3.pcap",
        "broker3.pcapng",
        "captures/samples/rebalance.pcap",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(packets)
    (folder / "old.pcap.gz").write_bytes(compress(packets))
    log = gzip.decompress((ROOT / "tests" / "data" / "request_log" / "kafka_4.3.0.log.gz").read_bytes())
    (folder / "kafka-request.log").write_bytes(log)
    for broker in ("broker-1", "broker-2"):
        (folder / broker).mkdir()
        (folder / broker / "kafka-request.log").write_bytes(log)
    shutil.copy(TLS, folder / "tls.pcap")
    shutil.copy(OTHER, folder / "bad.pcap")
    shutil.copy(TLS.with_suffix(".keylog"), folder / "keys.log")
    (folder / "pods.txt").write_text(_PODS)
    (folder / "brokers.txt").write_text("127.0.0.1:10101 broker-1\n")
    (folder / "bad").mkdir()
    shutil.copy(OTHER, folder / "bad")
    for ring in ("ring", "good"):
        (folder / ring).mkdir()
        for number, part in enumerate(_rotated(packets, 600), 10):
            (folder / ring / f"kafka_0001{number}.pcap").write_bytes(part)
    offered = CliRunner().invoke(main, ["api-versions", "--json", str(SAMPLE)])
    (folder / "ranges.json").write_text(offered.stdout)


def _rotated(packets: bytes, count: int) -> Iterator[bytes]:
    """Split a pcap file (little-endian, like the sample) into files of so many packets."""
    head, place, begin, met = packets[:24], 24, 24, 0
    while place < len(packets):
        place += 16 + int(struct.unpack_from("<I", packets, place + 8)[0])
        met += 1
        if met % count == 0 or place >= len(packets):
            yield head + packets[begin:place]
            begin = place


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a line.

    :ivar code: exit code of the last kproxy in it
    :ivar missing: a program that is not installed, at which the line stopped; or empty
    """

    code: int
    output: str
    errors: str
    missing: str = ""


def run(line: str) -> Done:
    """Run a line in the current folder: kproxy in this process, other programs as processes."""
    words = shlex.split(line, comments=True)
    for place, word in enumerate(words):
        if word == "||":  # the alternative for a failure
            words = words[:place]
            break
    written = None
    if len(words) > 2 and words[-2] == ">":
        written, words = Path(words[-1]), words[:-2]
    data, done = b"", Done(0, "", "")
    for command in _parts(words):
        name, *rest = command
        if name == "kproxy":
            result = CliRunner().invoke(main, rest, input=data, prog_name="kproxy")
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            data, done = result.stdout_bytes, Done(result.exit_code, result.stdout, result.stderr)
        elif shutil.which(name) is None and name not in _INSTEAD:
            return Done(done.code, done.output, done.errors, missing=name)
        else:
            program = [name] if shutil.which(name) else [sys.executable, "-c", _INSTEAD[name]]
            other = subprocess.run([*program, *rest], input=data, capture_output=True, check=False)
            assert other.returncode == 0, (line, other.stderr.decode())
            data, done = other.stdout, Done(done.code, other.stdout.decode(errors="replace"), done.errors)
    if written is not None:
        written.write_bytes(data)
    return done
