"""``kproxy open``: captures in the terminal UI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kproxy.cli.common import (
    EXIT_INCOMPLETE,
    early_ends,
    filter_option,
    keylog_option,
    names_of,
    opened_capture,
)
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import color_option, reading_options, utc_option
from kproxy.cli.ui import config_option, opens_ui, run_ui


@click.command("open", short_help="Open captures in the terminal UI.")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True), metavar="CAPTURE...")
@click.option(
    "-F", "--follow", is_flag=True, help="Show what is still being written to CAPTURE, like tail -f."
)
@click.option(
    "-Y", "--filter", "wanted", type=FILTER, help="Show what fits: 'api == Fetch and latency > 100ms'."
)
@reading_options
@utc_option
@click.option("--show-secrets", is_flag=True, help="Show passwords, tokens and keys instead of masking them.")
@click.option(
    "--payload",
    type=click.Choice(["full", "preview", "none"]),
    default="full",
    show_default=True,
    help="How much of record keys and values to show.",
)
@color_option
@config_option
def open_(files: tuple[str, ...], **options: Any) -> None:
    """Open CAPTURE... in the terminal UI: exchanges, their fields and bytes, and what they add up to.

    CAPTURE is a file, a folder, or - for standard input, as in: ssh b1 tcpdump -U -w - port 9092 | kproxy open -

    Several are one capture in the order of time. ? in the UI shows its keys, docs/ui.md tells more. Without a terminal
    the exchanges are printed, as kproxy read does.
    """
    with early_ends():
        sys.exit(_show(files, **options) if opens_ui() else _print(files, **options))


def _show(
    files: tuple[str, ...],
    *,
    follow: bool,
    wanted: str | None,
    keylog: str | None,
    hosts: tuple[str, ...],
    align_clocks: bool,
    spool: int | None,
    utc: bool,
    show_secrets: bool,
    payload: Any,
    color: str,
    config: Path | None,
) -> int:
    from datetime import UTC

    from kproxy.tui.session import Session

    zone = UTC if utc else None
    first = filter_option(wanted, zone)
    secrets = keylog_option(keylog, growing=follow or "-" in files)
    capture = opened_capture(
        files, secrets, names_of(hosts), align_clocks=align_clocks, follow=follow, spool=spool
    )
    with capture.source:
        session = Session(
            capture,
            title=_title(files),
            live=capture.source.live,
            zone=zone,
            show_secrets=show_secrets,
            payload=payload,
        )
        outcome = run_ui(session, wanted=first, config=config, color=color)
    return 0 if outcome.complete else EXIT_INCOMPLETE


def _title(files: tuple[str, ...]) -> str:
    first = "standard input" if files[0] == "-" else Path(files[0]).name or files[0]
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _print(files: tuple[str, ...], *, config: Path | None, **options: Any) -> int:
    from kproxy.cli.read import Reading

    reading = Reading(
        files,
        number=None,
        count=None,
        begin=None,
        end=None,
        write=None,
        force=False,
        verbose=False,
        as_json=False,
        text=False,
        **options,
    )
    reading.run()
    return 0 if reading.clean else EXIT_INCOMPLETE
