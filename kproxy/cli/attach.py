"""``kproxy attach``: the exchanges of a proxy that runs elsewhere, shown here."""

from __future__ import annotations

import sys
from typing import Any

import click

from kproxy.cli.common import early_ends
from kproxy.cli.filtering import FILTER
from kproxy.cli.options import diagnose_option, hosts_option, showing_options
from kproxy.cli.runs import run_option, the_run, told_errors
from kproxy.cli.ui import config_option, no_ui_option


@click.command(short_help="Show what goes through a running proxy.")
@run_option
@click.option(
    "--control", is_flag=True, help="Be somebody who is there: what is held stays so as long as this runs."
)
@click.option("--from-start", is_flag=True, help="Begin with the oldest exchange that is still recorded.")
@click.option("-c", "--count", type=click.IntRange(1), metavar="N", help="Stop after N exchanges.")
@click.option("-Y", "--filter", "wanted", type=FILTER, help="Show what fits: 'error and topic ~ orders'.")
@hosts_option
@showing_options
@diagnose_option
@no_ui_option
@config_option
def attach(run_name: str | None, **options: Any) -> None:
    """Show what goes through a running proxy: in the terminal UI, or printed as kproxy read does.

    It only looks, unless --control is given; ending this command does not end the proxy. What is printed begins now,
    and ends when the proxy does.
    """
    run = the_run(run_name)
    from kproxy.cli.attaching import Attaching

    with early_ends(), told_errors():
        sys.exit(Attaching(run, **options).run())
