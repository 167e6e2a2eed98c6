"""Benchmarks. ``python -m benchmarks.<name>`` runs one and prints a table, or JSON with ``--json``."""
