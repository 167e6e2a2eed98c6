"""Where the tree is, and what builds it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
Build = Callable[..., Path]
"""Builds ``wheel`` or ``sdist`` from a tree."""
