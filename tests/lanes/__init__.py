"""Lanes: test programs that need real brokers and clients. The test suite leaves them out; run them by hand or by the
gate.

A lane is a module that runs as a program, ``python -m tests.lanes.tls``. It downloads what it needs (jars with Maven,
clients with pip, npm and go) to ``$XDG_CACHE_HOME/kproxy-lanes``, and reports what it cannot run and what is missing.
Recordings made with ``--record`` go to ``tests/data``, where the suite tests them.
"""
