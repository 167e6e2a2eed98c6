"""The filter language shared by views, dumps, intercepts, exports and Spark: ``-Y/--filter``.

::

    wanted = compile_filter('api == Fetch and latency > 100ms and topic ~ "orders.*"')
    matches, undecided = wanted.mask(TableColumns.of(capture))      # numpy, a million rows at a time
    columns = TableColumns.of(capture, ExchangeColumns(capture))    # these decide on errors, topics ... too
    wanted.match(exchange, context)                                 # one decoded exchange
    for exchange in wanted.exchanges(ExchangeReader(capture)): ...  # both, as needed

The grammar is in :mod:`~captures.filters.grammar`, the fields in :mod:`~captures.filters.fields`, the short forms in
:mod:`~captures.filters.shortforms`. These rules hold everywhere:

* A condition holds only if its field has a value. ``a != x`` is ``not (a == x)``, and holds if there is none.
* If a field has several values (``topic``, ``error``, any path through an array), one match is enough.
* ``==`` and ``contains`` are case-sensitive, ``~`` is not (``(?-i:...)`` is); names of APIs, errors and other
  named values may be written in either case.
* A field alone holds if its value is not empty: non-empty text, a set flag, any number.
"""

from captures.filters.complete import Candidate, complete
from captures.filters.context import Context
from captures.filters.describe import reference
from captures.filters.errors import FilterError
from captures.filters.filter import Filter, compile_filter, context_of, unknown_cluster
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
    "unknown_cluster",
]
