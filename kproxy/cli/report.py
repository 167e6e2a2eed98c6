"""``kproxy report``: the tables of captures as one page of pictures, with the SQL behind each."""

from __future__ import annotations

import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kproxy.cli.common import EXIT_INCOMPLETE, EXIT_UNREADABLE, early_ends
from kproxy.cli.options import utc_option
from kproxy.cli.output import refuse_to_overwrite, replacing
from kproxy.cli.printing import echo

if TYPE_CHECKING:
    from captures.faults import Faults

_NAME = "report.html"
_BEGINNING = 4096
"""Bytes in which a page tells what made it."""


@click.command(short_help="Make a page of pictures from tables.")
@click.argument("folder", type=click.Path(path_type=Path), metavar="OUT")
@click.option(
    "-o",
    "--output",
    type=click.Path(allow_dash=True, dir_okay=False),
    metavar="FILE",
    help=f"Write the page there; - for standard output. Default: OUT/{_NAME}.",
)
@click.option("--title", metavar="TEXT", help="Title of the page.")
@click.option("--open", "opened", is_flag=True, help="Show it in the browser.")
@click.option("--force", is_flag=True, help="Overwrite FILE even if it is something else than a report.")
@utc_option
def report(folder: Path, output: str | None, title: str | None, opened: bool, force: bool, utc: bool) -> None:
    """Make one page from OUT, a folder of tables that kproxy tables wrote.

    Traffic over time by API, latency, errors, rebalances, who talks most, versions in use, findings, and how TCP
    fared, in pictures and tables. Below each is the SQL that made it, which DuckDB and Spark SQL take unchanged. The
    page needs no network and can be mailed, archived and printed. docs/report.md tells more.
    """
    if output == "-" and opened:
        raise click.UsageError("--open needs a file: the page goes to standard output")
    wanted = str(folder / _NAME) if output is None else output
    refuse_to_overwrite(wanted, (), force=force or _is_report(wanted))
    with early_ends(lambda _: f"{wanted} could not be written"):
        from captures.faults import Faults

        faults = Faults()
        text = _page(folder, title, faults, utc=utc)
        with replacing(wanted) as file:
            file.write(text.encode())
        if wanted != "-":
            echo(f"The report is in {wanted}.", err=True)
            if opened:
                click.launch(Path(wanted).resolve().as_uri())
    for line in faults.lines():
        echo(f"kproxy: {line}", err=True)
    if faults:
        sys.exit(EXIT_INCOMPLETE)


def _page(folder: Path, title: str | None, faults: Faults, *, utc: bool) -> str:
    """Return the page; says what is wrong, and ends, if there is none."""
    from captures.export.report import DuckdbMissing, ReportError, report

    try:
        return report(folder, title=title, zone=UTC if utc else None, faults=faults)
    except (DuckdbMissing, ReportError) as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)


def _is_report(name: str) -> bool:
    """Tell whether a file is a page that this command made: that may be made anew."""
    from captures.export.report import GENERATOR

    path = Path(name)
    if name == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'name="generator" content="{GENERATOR}"'.encode() in file.read(_BEGINNING)
