"""The location of the tree, and the type of its builder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
Build = Callable[..., Path]
"""Builds ``wheel`` or ``sdist`` from a tree."""
