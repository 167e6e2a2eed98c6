"""Analyses: aggregates over many exchanges. They read exchanges and tables, wherever these come from.

Each is an accumulator: ``add(exchange)`` for each exchange, ``result()`` at any time for the exchanges so far, as
dataclasses (:func:`~captures.json_objects.to_json` converts them to plain values). None keeps bodies.
"""
