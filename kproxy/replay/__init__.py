"""Replay: the requests of a capture sent again, to a live cluster, and its responses compared with the recorded ones;
or its responses served to clients.

    pace                 how fast requests are sent
    permission           which APIs only read, and which are sent only if allowed by name
    request_encoding     requests in the versions that the live brokers offer
    plan                 which requests are sent, when, after which others, and why the rest are not
    cluster              the live cluster: brokers, leaders, coordinators, topic IDs; routes of requests
    value_mapping        values that only the live cluster knows: topic IDs, members, producers, offsets, epochs
    offsets              recorded offsets to live ones
    fetch_sessions       the state of fetch sessions, recorded and live
    producers            producer IDs inside record batches
    differences          two decoded values compared by path
    response_comparison  two responses compared, without values that always differ
    results              outcomes, added up
    cluster_queries      kproxy's own requests to the live cluster
    run                  sending, with asyncio
    recorded_answers     recorded responses by the content of requests
    server               a server that answers with them, with asyncio

Apart from ``cluster_queries``, ``run`` and ``server``, no module does input or output.

SASL is never replayed: it contains secrets. kproxy authenticates itself, as ``--command-config`` says.
"""
