"""Sizes as people write them: ``512MiB``, ``5GB``, and the option that bounds temporary files."""

from __future__ import annotations

from typing import Any

import click

LEAST_SPOOL = 64 << 20
"""Bytes. What is read must be there until it has been gone through: blocks, and what waits behind holes."""


class Size(click.ParamType[int]):
    """A size, in bytes.

    :param least: what it must be at least
    """

    name = "SIZE"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it in bytes."""
        from captures.filters.values import size

        found = value if isinstance(value, int) else size(value)
        if found is None:
            self.fail(f"{value!r} is no size: write 500MB or 8GiB", param, ctx)
        if found < self._least:
            self.fail(f"{value} is too little: {self._least >> 20}MiB at least", param, ctx)
        return int(found)


spool_option = click.option(
    "--spool",
    type=Size(LEAST_SPOOL),
    metavar="SIZE",
    help="Disk for what cannot be read twice: pipes, compressed files, decrypted TLS. Default: 8GiB, if there is room.",
)
