"""Exchanges as text that leaves the program: to be pasted into a shell, an editor, an issue, another tool.

One module per format; :mod:`~kproxy.copy_as.formats` has the table of all formats. Nothing here knows the UI.

* Exchanges must be annotated, as an :class:`~captures.exchanges.ExchangeReader` makes them by default: only then is it
  known which values are secret. Values masked there are masked in every format; formats whose point is the bytes, such
  as raw hex or a script, refuse to copy them instead (:mod:`~kproxy.copy_as.frames`).
* The sender of a message chose the text in a shell command or script, so it is always quoted, and no control character
  ever reaches the terminal that it is pasted into (:mod:`~kproxy.copy_as.shell`).
* A command says in a comment what it cannot express of the request.
"""

from kproxy.copy_as.formats import FORMATS, Context, Format, by_name, formats_of
from kproxy.copy_as.request import CannotCopyError

__all__ = ["FORMATS", "CannotCopyError", "Context", "Format", "by_name", "formats_of"]
