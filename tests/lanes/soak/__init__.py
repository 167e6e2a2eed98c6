"""The soak: an hour of mixed load through ``kproxy proxy`` while things go wrong (:mod:`tests.lanes.soak.__main__`)."""
