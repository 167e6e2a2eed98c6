"""Real brokers of every era, and what was said to them: see :mod:`tests.lanes.eras.__main__`."""
