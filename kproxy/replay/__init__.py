"""Replay: the recorded requests of a capture sent again, to a live cluster, and what it says now beside what was said.

    permission     which APIs only read, and which are sent only if allowed by name
    encoding       requests in the versions that the live brokers offer
    plan           which requests are sent, when, after what, and why others are not
    cluster        the live cluster: brokers, leaders, coordinators, topic IDs; what routes a request
    mapping        values that only the live cluster can give: topic IDs, members, producers, offsets, epochs
    offsets        recorded offsets to live ones
    fetch_sessions the state of fetch sessions, recorded and live
    producers      producer IDs inside record batches
    differences    two decoded values compared by path
    comparing      two responses compared: what has to differ is left out
    results        what came of it, added up
    asking         what kproxy asks the live cluster itself
    run            sending, with asyncio; but for these two nothing here does input or output

SASL is never replayed: it holds secrets. kproxy authenticates itself, as ``--command-config`` says.
"""
