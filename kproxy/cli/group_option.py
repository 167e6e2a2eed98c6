"""``--group``: the groups that a command is to tell of, by name or pattern."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

_MOST_NAMED = 20

group_option = click.option(
    "-g",
    "--group",
    "wanted",
    multiple=True,
    metavar="GROUP",
    help="Tell only of this group, or of those that fit 'orders-*'; may be given several times.",
)


def chosen_groups(names: Sequence[str], wanted: Sequence[str]) -> set[str]:
    """Return those of some groups that were asked for; all of them if none was.

    :raises click.UsageError: if there is none that fits a name or pattern
    """
    found: set[str] = set() if wanted else set(names)
    for each in wanted:
        # a group may be called orders-[1], which is no pattern then
        fits = {each} & set(names) or {name for name in names if fnmatchcase(name, each)}
        if not fits:
            raise click.UsageError(f"no group {each!r} in the capture; {there_are(names)}")
        found |= fits
    return found


def fits(name: str, wanted: Sequence[str]) -> bool:
    """Tell whether a group of a capture that grows is asked for: what others there will be is not known yet."""
    return not wanted or any(name == each or fnmatchcase(name, each) for each in wanted)


def there_are(names: Sequence[str]) -> str:
    """Return what there is, for one who asked for something else."""
    if not names:
        return "there is none at all"
    rest = len(names) - _MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(map(repr, names[:_MOST_NAMED]))}{more}"
