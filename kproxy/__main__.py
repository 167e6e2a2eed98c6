"""``python -m kproxy``."""

from kproxy.cli import main

main(prog_name="kproxy")
