"""The meaning of one exchange, in the words of a Kafka expert.

Pure functions over decoded bodies, without I/O and without memory of other exchanges::

    request_summary(0, 13, body, names)                        # "orders-3  35 records 3.2k lz4"
    response_summary(0, 13, request, response, names, 4_100_000)   # "at offset 120"
    errors_in(1, 18, response)                              # [ErrorFound("responses[0]...error_code", 6, None, ...)]
    expected_errors(11, 9, request, response, errors)       # the errors that are part of a normal conversation
    designed_wait_ns(1, 18, request, response, latency)     # (500_000_000, "long poll: nothing new to read")
    topics_in(1, 18, request, names)                        # {"orders": [0, 1, 2]}
    groups_in(12, 4, request)                               # ["audit"]

Bodies are as decoded by :mod:`dissectors`, with record sets as bytes; partial ones (truncated messages) contribute what
they hold. Nothing here raises for missing fields, nothing decompresses records, and no text contains secrets.
``names`` returns topic names by ID, such as :meth:`dissectors.session_context.SessionContext.topic_name`.
"""

from captures.meaning.errors import ResponseError, errors_in, errors_text
from captures.meaning.exchange import Names
from captures.meaning.expected_errors import EXPECTED, expected_errors
from captures.meaning.mentions import (
    Producer,
    groups_in,
    members_in,
    producers_in,
    topics_in,
    transactional_ids_in,
)
from captures.meaning.summaries import request_summary, response_summary
from captures.meaning.waits import designed_wait_ns
