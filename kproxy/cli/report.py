"""``kproxy report``: the tables of captures as one page of charts, with the SQL behind each."""

from __future__ import annotations

import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.command import argument, command, option, options
from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, refuse_to_overwrite, reported_endings
from kproxy.cli.options import UtcOption
from kproxy.export_files import replacing
from kproxy.output import echo

if TYPE_CHECKING:
    from captures.faults import Faults

_NAME = "report.html"
_BEGINNING = 4096
"""Bytes at the beginning of a page that contain its generator."""


@options
class ReportOptions(UtcOption):
    """Options of ``kproxy report``."""

    folder: Path = argument("OUT", nargs=1, type=click.Path(path_type=Path))
    output: str | None = option(
        "-o",
        "--output",
        type=click.Path(allow_dash=True, dir_okay=False),
        help=f"Write the page to FILE; - for standard output. Default: OUT/{_NAME}.",
    )
    name: str | None = option("--title", help="Title of the page.")
    opened: bool = option("--open", help="Show it in the browser.")
    force: bool = option("--force", help="Overwrite FILE even if it is not a report.")


@command(ReportOptions, short_help="Make a page of charts from tables.")
def report(options: ReportOptions) -> None:
    """Make one page of charts from OUT, a folder of tables that kproxy tables wrote.

    It shows traffic over time by API, latency, errors, rebalances, top talkers, versions in use, findings, and the
    health of TCP, in charts and tables. Below each is the SQL behind it, which works unchanged in DuckDB and Spark SQL.
    The page needs no network and can be mailed, archived and printed. docs/report.md describes it.
    """
    folder, output = options.folder, options.output
    if output == "-" and options.opened:
        raise click.UsageError("--open needs a file, but the page goes to standard output")
    wanted = str(folder / _NAME) if output is None else output
    refuse_to_overwrite(wanted, (), force=options.force or _is_report(wanted))
    with reported_endings(lambda _: f"{wanted} could not be written"):
        from captures.faults import Faults

        faults = Faults()
        text = _page(folder, options.name, faults, utc=options.utc)
        with replacing(wanted) as file:
            file.write(text.encode())
        if wanted != "-":
            echo(f"The report is in {wanted}.", err=True)
            if options.opened:
                click.launch(Path(wanted).resolve().as_uri())
    for line in faults.lines():
        echo(f"kproxy: {line}", err=True)
    if faults:
        sys.exit(EXIT_INCOMPLETE)


def _page(folder: Path, title: str | None, faults: Faults, *, utc: bool) -> str:
    """Return the page; if it cannot be made, print why and exit."""
    from captures.export.report import DuckdbMissing, ReportError, report

    try:
        return report(folder, title=title, zone=UTC if utc else None, faults=faults)
    except (DuckdbMissing, ReportError) as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)


def _is_report(name: str) -> bool:
    """Return whether a file is a page that this command made and may recreate."""
    from captures.export.report import GENERATOR

    path = Path(name)
    if name == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'name="generator" content="{GENERATOR}"'.encode() in file.read(_BEGINNING)
