"""The configuration file: whether what it says of the UI is understood; what it says of options, commands know."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.doctor.examination import Check, check_of


def checks() -> Iterator[Check]:
    """Look at the configuration file."""
    from kproxy.tui.config import load_settings

    loaded = load_settings()
    none = "" if loaded.path.exists() else " (none, the defaults hold)"
    yield check_of("configuration", f"{loaded.path}{none}", loaded.problems)
