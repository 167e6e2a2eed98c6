"""Commands on captures with arbitrary messages: lines, tables, groups, findings, journeys, exports.

The first byte of an input selects the command. The rest are exchanges, in the format of :mod:`fuzz.targets.exchanges`.

* No command raises, whether or not users would see the error; each exits with a documented code.
* Printed JSON can be parsed.
* An export, scrubbed or not, contains the exchanges of its capture: as packets, lines or rows.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import click
from click.testing import CliRunner
from msgspec import json

from captures.exchanges import ExchangeReader, open_capture
from fuzz.target import Input, check
from fuzz.targets import exchanges, packets
from kproxy.cli import main, program_context

LONGEST = 16384
SECONDS = 30

_CAPTURE, _OUT = "CAPTURE", "OUT"
"""What stands for the capture and for what a command writes, in :data:`COMMANDS`."""
COMMANDS: tuple[tuple[str, ...], ...] = tuple(
    tuple(text.split())
    for text in (
        "read -V CAPTURE",
        "read --json CAPTURE",
        "read CAPTURE",
        "stats CAPTURE",
        "stats --json CAPTURE",
        "groups CAPTURE",
        "groups --json CAPTURE",
        "groups --html OUT.html --force CAPTURE",
        "groups --mermaid CAPTURE",
        "diagnose CAPTURE",
        "diagnose --json CAPTURE",
        "diagnose --markdown CAPTURE",
        "lag CAPTURE",
        "lag --json CAPTURE",
        "clients --settings CAPTURE",
        "clients --settings --json CAPTURE",
        "compat --broker-version 4.3 CAPTURE",
        "compat --broker-version 2.0 --json CAPTURE",
        "compat --client-version 4.0 CAPTURE",
        "api-versions CAPTURE",
        "api-versions --json CAPTURE",
        "journey --topic orders CAPTURE",
        "journey --contains a --json CAPTURE",
        "follow app CAPTURE",
        "follow app --json CAPTURE",
        "follow app --mermaid CAPTURE",
        "diff CAPTURE CAPTURE",
        "diff --window 10ms..1s --against ..10ms --json CAPTURE",
        "tables --engine single --overwrite -o OUT.tables CAPTURE",
        "tables --engine single --overwrite --table records --table exchanges -o OUT.tables CAPTURE",
        "export --scrub -o OUT.pcapng CAPTURE",
        "export --scrub --synthetic -o OUT.pcapng CAPTURE",
        "export -o OUT.pcapng CAPTURE",
        "export -o OUT.csv --columns all CAPTURE",
        "export -o OUT.parquet CAPTURE",
        "export -o OUT.jsonl CAPTURE",
        "export -o OUT.mmd CAPTURE",
        "records -V CAPTURE",
        "records --once --json CAPTURE",
    )
)
_EXIT_CODES = (0, 1, 2, 3, 4)


def run(data: bytes) -> None:
    """Make the capture and run a command on it."""
    several((data,))


def several(inputs: Sequence[bytes]) -> None:
    """Run the command of the first input on the exchanges of all inputs, as one capture."""
    command = COMMANDS[inputs[0][0] % len(COMMANDS) if inputs[0] else 0]
    capture = exchanges.capture_of([list(exchanges.said_of(Input(data[1:]))) for data in inputs])
    packets.on_disk(capture, lambda path: told(command, path, partial(quick, command)))


def every(data: bytes) -> None:
    """Run the command as from a shell."""
    given = Input(data)
    command = COMMANDS[given.number() % len(COMMANDS)]
    capture = exchanges.capture_of([list(exchanges.said_of(given))])
    packets.on_disk(capture, lambda path: told(command, path, partial(as_typed, command)))


def alike(inputs: Sequence[bytes]) -> list[bytes]:
    """Return the inputs changed to select the command of the first one."""
    return [inputs[0][:1] + data[1:] for data in inputs]


def mutate(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return an input with changed exchanges or another command."""
    return exchanges.mutate(data, other, rng, len(COMMANDS))


# ---------------------------------------------------------------- running a command
def told(command: Sequence[str], path: Path, runs: Any) -> None:
    """Run a command in this process, and check its output and files."""
    written = [path.with_name(part) for part in command if part.startswith(_OUT)]
    try:
        code, said = runs(path)
        check(code in _EXIT_CODES, "exit code", code)
        if "--json" in command:
            for line in said.splitlines():
                json.decode(line)
        for file in written:
            if file.exists() and command[0] == "export":
                check(code in (0, 3), "a file, and exit code", code)
                exported(file, path, synthetic="--synthetic" in command)
    finally:
        for file in written:
            remove(file)


def remove(path: Path) -> None:
    """Remove a file or folder if it exists."""
    if path.is_dir():
        rmtree(path)
    else:
        path.unlink(missing_ok=True)


def arguments(command: Sequence[str], path: Path) -> list[str]:
    """Return a command's arguments with the names of files filled in."""
    return [
        str(path) if part == _CAPTURE else str(path.with_name(part)) if part.startswith(_OUT) else part
        for part in command
    ]


def as_typed(command: Sequence[str], path: Path) -> tuple[int, str]:
    """Run a command through the complete command line; return exit code and standard output."""
    result = CliRunner().invoke(main, arguments(command, path), standalone_mode=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@cache
def _parsed(command: tuple[str, ...], path: Path) -> tuple[Any, dict[str, Any]]:
    """Return a command's function and options, which are the same for all inputs, like the file name."""
    name, *rest = arguments(command, path)
    parent = program_context()
    found = main.get_command(parent, name)
    context = found.make_context(name, rest, parent=parent)
    return found.callback, context.params


def quick(command: tuple[str, ...], path: Path) -> tuple[int, str]:
    """Run a command with arguments parsed for an earlier capture; return exit code and standard output."""
    function, options = _parsed(command, path)
    with _captured() as out:
        code = 0
        try:
            function(**options)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except click.ClickException as error:
            code = error.exit_code
        sys.stdout.flush()
        return code, out.getvalue().decode("utf-8")


@contextmanager
def _captured() -> Iterator[io.BytesIO]:
    before, out = (sys.stdout, sys.stderr), io.BytesIO()
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="backslashreplace")
    sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    try:
        yield out
    finally:
        sys.stdout, sys.stderr = before


# ---------------------------------------------------------------- what was written
def exported(file: Path, path: Path, *, synthetic: bool) -> None:
    """Check that an export has the exchanges of the capture; synthetic packets have only the decoded ones."""
    found = brief(path)
    match file.suffix:
        case ".pcapng" if synthetic:
            asked, kept = ([each for each in all_ if each[0] is not None] for all_ in (found, brief(file)))
            check(kept == asked, "the synthetic export has other exchanges")
        case ".pcapng":
            check(brief(file) == found, "the export has other exchanges")
        case ".csv":
            with file.open(encoding="utf-8", newline="") as text:
                check(len(list(csv.reader(text))) == len(found) + 1, "CSV has other rows")
        case ".jsonl":
            lines = [json.decode(line) for line in file.read_bytes().splitlines()]
            got = [(line["api_key"], line["version"], line["correlation_id"]) for line in lines]
            check(got == [each[:3] for each in found], "JSON lines have other exchanges")
        case ".parquet":
            from pyarrow import parquet

            columns = ["api_key", "version", "correlation_id"]
            rows = parquet.read_table(file, columns=columns, use_threads=False).to_pylist()
            got = [tuple(row[name] for name in columns) for row in rows]
            check(got == [each[:3] for each in found], "Parquet has other exchanges")
        case _:
            check(file.read_bytes().startswith(b"sequenceDiagram"), "no diagram")


def brief(path: Path) -> list[tuple[object, ...]]:
    """Return the properties that an exported capture shares with the original."""
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    return [
        (each.api_key, each.version, each.correlation_id, each.request_size, each.response_size)
        for each in reader
    ]


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield seeds for each command: conversations of the sample, and all APIs with arbitrary values."""
    yield from exchanges.seeds([command[0] for command in COMMANDS])
