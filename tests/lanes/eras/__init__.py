"""Real brokers of every era, and the APIs and versions seen with them: see :mod:`tests.lanes.eras.__main__`."""
