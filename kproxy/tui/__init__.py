"""The terminal UI: one Textual application for captures, live traffic and the proxy.

Only modules in here import textual, and nothing outside imports these but the commands that open the UI, when they do.

* :mod:`~kproxy.session` reads, decodes, filters and counts, in threads of its own. It knows nothing of Textual.
* :mod:`~kproxy.tui.widgets`, :mod:`~kproxy.tui.views` and :mod:`~kproxy.tui.dialogs` show what it has made, and never
  decode.
* :mod:`~kproxy.tui.commands` is the table of everything that can be done; keys, footer, palette, help and the command
  line are made from it.
* Text from the wire reaches the screen through :mod:`~kproxy.tui.safe` only.
"""
