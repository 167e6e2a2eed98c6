"""Widgets, which know how to show something and not where it came from."""
