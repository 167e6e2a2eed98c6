"""Hostile files, and what they cost: the collection, the gate that runs all commands on it, and tshark beside them."""

import os

# as kproxy.cli does, before numpy is imported: threads that it would start are not in what is forked
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
