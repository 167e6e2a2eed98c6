"""The terminal UI: one Textual application for captures, live traffic and the proxy.

Only modules in this package import textual, and only the commands that open the UI import this package, when they run.

* :mod:`~kproxy.session` reads, decodes, filters and counts, in its own threads. It does not depend on Textual.
* :mod:`~kproxy.tui.widgets`, :mod:`~kproxy.tui.views` and :mod:`~kproxy.tui.dialogs` show the session's results, and
  never decode.
* :mod:`~kproxy.tui.commands` is the table of all commands; keys, footer, palette, help and the command line are
  generated from it.
* Text from the wire reaches the screen only through :mod:`~kproxy.tui.safe`.
"""
