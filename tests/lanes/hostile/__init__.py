"""Hostile files and their cost: the collection, the gate that runs all commands on it, and tshark for comparison."""

import os

# as in kproxy.cli, before numpy is imported: its threads would not survive a fork
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
