"""All rules. A new one is a file of its own, and one line here."""

from __future__ import annotations

from captures.analysis.findings.rule import Rule

RULES: tuple[type[Rule], ...] = ()
"""In the order in which the documentation describes them."""
