"""The configuration file: whether its settings of the UI are valid; commands check the settings of their options."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.doctor.examination import Check, check_of


def checks() -> Iterator[Check]:
    """Check the configuration file."""
    from kproxy.tui.config import load_settings

    loaded = load_settings()
    none = "" if loaded.path.exists() else " (none, the defaults hold)"
    yield check_of("configuration", f"{loaded.path}{none}", loaded.problems)
