"""One client (the party), followed over all its connections and brokers: its identity, and its actions.

:mod:`~captures.analysis.client_trace.connections` finds the connections of a client by columns of the exchange table
and a few fields, :mod:`~captures.analysis.client_trace.log` describes what happened on them. Only the client's
exchanges are decoded.
"""
