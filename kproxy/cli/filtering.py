"""The parameter type of filters: text on the command line, completed in the shell as it is in the terminal UI.

What a filter means is found out when the capture is there (:func:`kproxy.cli.common.filter_option`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from captures.filters import Filter


class FilterText(click.ParamType[str]):
    """A filter, as text."""

    name = "filter"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return what the filter may become, each with one line about the last word."""
        from captures.filters.complete import complete

        return [
            CompletionItem(f"{incomplete[: each.start]}{each.text}", help=each.doc or None)
            for each in complete(incomplete)
        ]


FILTER = FilterText()


def undecided_notes(wanted: Filter | None) -> list[str]:
    """Return which limits left undecided whether exchanges fit a filter, in words."""
    from dissectors.budget import shown

    return [
        f"whether the filter fits is undecided of {count:,} exchange{'s' if count > 1 else ''}:"
        f" more to read than the limit {shown(name)}"
        for name, count in sorted(wanted.undecided.items() if wanted is not None else ())
    ]
