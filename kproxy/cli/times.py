"""Parameter types of times: durations, and moments of a capture."""

from __future__ import annotations

from datetime import UTC

import click

from kproxy.text.times import duration_ns, resolve

__all__ = ["Duration", "Moment"]


class Duration(click.ParamType[int]):
    """A stretch of time, in nanoseconds."""

    name = "TIME"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return it in nanoseconds."""
        found = value if isinstance(value, int) else duration_ns(value)
        if found is None:
            self.fail(f"{value!r} is not a duration: write 90s, 2m or 1m30s", param, ctx)
        return found


class Moment(click.ParamType[str]):
    """A time given absolutely, or relative to the first packet: a function of that packet's time and the zone."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Check the form; the moment itself is known when the capture is."""
        if resolve(value, 0, UTC) is None:
            self.fail(
                f"{value!r} is not a time: write 5s or 1m30s after the first packet, 09:14:03, "
                "or 2026-11-21T09:14:03Z",
                param,
                ctx,
            )
        return value
