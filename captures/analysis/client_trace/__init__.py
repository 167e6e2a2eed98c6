"""One party of the conversation, followed over all its connections and brokers: who it is, and what it did.

:mod:`~captures.analysis.client_trace.connections` finds the connections of a client by the columns of the exchange
table and a few fields, :mod:`~captures.analysis.client_trace.log` says what went on there. Only the client's exchanges
are decoded.
"""
