"""Analyses: what many exchanges add up to. They read exchanges and tables, whatever these came from.

Each is an accumulator: ``add(exchange)`` as exchanges come, ``result()`` at any time for what was seen so far, in
dataclasses (:func:`~captures.json_objects.to_json` has them as plain values). None keeps bodies.
"""
