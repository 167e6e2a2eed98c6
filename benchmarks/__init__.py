"""Measurements, each run with ``python -m benchmarks.<name>``: a table for people, ``--json`` for programs."""
