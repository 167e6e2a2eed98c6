"""Why something cannot be copied."""

from __future__ import annotations


class CannotCopyError(Exception):
    """Exchanges cannot be copied in a format; the text says why, and what to do."""
