"""Faults and holds in Kafka terms: what happens to frames that match a filter.

Importing this package costs nothing that the data plane does not need anyway. The code for filters
(:mod:`kproxy.proxy.rules.parser`, :mod:`kproxy.proxy.rules.matcher`) is imported with the first rule, which takes some
tenths of a second; :func:`prepare` does it beforehand.
"""

from __future__ import annotations

from importlib import import_module

from kproxy.proxy.rules.engine import Rules
from kproxy.proxy.rules.inspection import Inspection


def prepare() -> None:
    """Import what the first rule needs. Call this in a thread, so that the forwarding loop does not wait for it."""
    import_module("kproxy.proxy.rules.parser")
    import_module("kproxy.proxy.rules.views")
    import_module("kproxy.proxy.rules.edits")


__all__ = ["Inspection", "Rules", "prepare"]
