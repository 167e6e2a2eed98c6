"""kproxy: the program. Command line, live proxy and terminal UI over :mod:`captures` and :mod:`dissectors`."""
