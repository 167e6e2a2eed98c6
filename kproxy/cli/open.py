"""``kproxy open``: captures in the terminal UI."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from kproxy.cli.capture_run import CaptureInput
from kproxy.cli.command import command, option, options
from kproxy.cli.common import EXIT_INCOMPLETE, filter_option, reported_endings
from kproxy.cli.options import ContentOptions, FilterString, NoUiOption, ReadingOptions, ReadOnlyOption
from kproxy.cli.ui import opens_ui, run_ui


@options
class ViewOptions(ContentOptions, ReadingOptions):
    """Which captures the UI shows, and how."""

    follow: bool = option(
        "-F", "--follow", help="Follow a CAPTURE that is still being written, like tail -f."
    )
    wanted: FilterString | None = option(
        "-Y", "--filter", help="Show only exchanges that match: 'api == Fetch and latency > 100ms'."
    )


@options
class OpenOptions(ViewOptions, ReadOnlyOption, NoUiOption):
    """Options of ``kproxy open``."""


@command(OpenOptions, "open", short_help="Open captures in the terminal UI.")
def open_(options: OpenOptions) -> None:
    """Open CAPTURE... in the terminal UI: exchanges, their fields and bytes, and statistics.

    CAPTURE is a file, a folder, or - for standard input, as in: ssh b1 tcpdump -U -w - port 9092 | kproxy open -

    Several are one capture in the order of time. Press ? in the UI for its keys; docs/ui.md describes the UI. Without a
    terminal, or with --no-ui, the exchanges are printed, as kproxy read does.
    """
    with reported_endings():
        sys.exit(_show(options) if opens_ui(printing=options.no_ui) else _print(options))


def _show(options: OpenOptions) -> int:
    from kproxy.session import Session

    reading = CaptureInput(options, utc=options.utc, follow=options.follow)
    first = filter_option(options.wanted, reading.zone)
    capture = reading.opened()
    with capture.source:
        session = Session(
            capture,
            title=_title(options.files),
            live=capture.source.live,
            zone=reading.zone,
            show_secrets=options.show_secrets,
            payload=options.payload,
        )
        outcome = run_ui(session, wanted=first, color=options.color, read_only=options.read_only)
    return 0 if outcome.complete else EXIT_INCOMPLETE


def _title(files: tuple[str, ...]) -> str:
    first = "standard input" if files[0] == "-" else Path(files[0]).name or files[0]
    return first if len(files) == 1 else f"{first} and {len(files) - 1} more"


def _print(options: OpenOptions) -> int:
    from kproxy.cli.read import ReadOptions, ReadRun

    same = {each.name: getattr(options, each.name) for each in dataclasses.fields(ViewOptions)}
    run = ReadRun(ReadOptions(**same))
    run.run()
    return 0 if run.clean else EXIT_INCOMPLETE
