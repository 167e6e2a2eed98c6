"""The soak: an hour of mixed load through ``kproxy proxy`` with failures (:mod:`tests.lanes.soak.__main__`)."""
