"""Lanes: what takes real brokers and real clients, run by hand or by the gate, and not by the test suite.

A lane is a module that runs as a program, ``python -m tests.lanes.tls``. It fetches what it needs (jars with Maven,
clients with pip, npm and go), says what it cannot run and what is missing for it, and keeps everything it fetched
under ``$XDG_CACHE_HOME/kproxy-lanes``. What a lane records with ``--record`` goes to ``tests/data``; the suite
tests those recordings.
"""
