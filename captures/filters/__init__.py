"""The one filter language of views, dumps, intercepts, exports and Spark: ``-Y/--filter``.

::

    wanted = compile_filter('api == Fetch and latency > 100ms and topic ~ "orders.*"')
    matches, undecided = wanted.mask(TableColumns.of(capture))      # numpy, a million rows at a time
    columns = TableColumns.of(capture, ExchangeColumns(capture))    # these decide on errors, topics ... too
    wanted.match(exchange, context)                                 # one decoded exchange
    for exchange in wanted.exchanges(ExchangeReader(capture)): ...  # both, as needed

The grammar is in :mod:`~captures.filters.grammar`, the fields in :mod:`~captures.filters.fields`, the short forms in
:mod:`~captures.filters.shortforms`. These rules hold everywhere:

* A condition holds only where its field has a value. ``a != x`` is ``not (a == x)``, and holds where there is none.
* Where a field has several values (``topic``, ``error``, any path through an array), one that fits is enough.
* ``==`` and ``contains`` heed the case of letters, ``~`` does not (``(?-i:...)`` does); names of APIs, errors and other
  named values may be written in either case.
* A field alone holds if there is something in it: text that is not empty, a flag that is set, any number.
"""

from captures.filters.complete import Candidate, complete
from captures.filters.context import Context
from captures.filters.describe import reference
from captures.filters.errors import FilterError
from captures.filters.filter import Filter, compile_filter, context_of
from captures.filters.groups import GroupInference
from captures.filters.table_columns import TableColumns

__all__ = [
    "Candidate",
    "Context",
    "Filter",
    "FilterError",
    "GroupInference",
    "TableColumns",
    "compile_filter",
    "complete",
    "context_of",
    "reference",
]
