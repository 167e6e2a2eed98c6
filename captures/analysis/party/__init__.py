"""One party of the conversation, followed over all its connections and brokers: who it is, and what it did.

:mod:`~captures.analysis.party.finding` finds the connections of a party by the columns of the exchange table and a few
fields, :mod:`~captures.analysis.party.log` tells what went on there. Only exchanges of the party are decoded.
"""
