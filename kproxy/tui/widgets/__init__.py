"""Widgets, which show data without knowing where it comes from."""
