"""Exchanges as text that leaves the program: to be pasted into a shell, an editor, an issue, another tool.

One module per format; :mod:`~kproxy.copy_as.formats` has the table of them all. Nothing here knows the UI.

* Exchanges come annotated, as an :class:`~captures.exchanges.ExchangeReader` makes them by default: only then it is
  known what of them is secret. What was masked there is masked in every format: where bytes are the point, as in raw
  hex or in a script, copying is refused instead (:mod:`~kproxy.copy_as.frames`).
* The sender of a message chose what stands in a shell command or in a script, so it is always quoted, and never lets a
  control character reach the terminal that it is pasted into (:mod:`~kproxy.copy_as.shell`).
* A command says in a comment what it cannot express of the request.
"""

from kproxy.copy_as.formats import FORMATS, Context, Format, by_name, formats_of
from kproxy.copy_as.request import CannotCopyError

__all__ = ["FORMATS", "CannotCopyError", "Context", "Format", "by_name", "formats_of"]
