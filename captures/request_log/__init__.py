"""The broker's own request log as a capture: each line becomes the packets of the exchange that it describes.

``kafka.request.logger`` of a broker writes a line for each request that it has answered: in JSON since Kafka 2.8
(KIP-673, ``core/.../network/RequestConvertToJson.scala``), as text before. :class:`~.feed.RequestLogFeed` turns
the lines into pcapng while they are read, as a compressed file is decompressed: request and response are encoded
again, and put on a connection between the endpoints that the line names, at the times that it tells. So pairing,
columns, filters and analyses are those of every capture.

What a log leaves out is not made up. Each request carries a comment with what the broker measured
(:class:`captures.interventions.BrokerLog`), which marks the exchange as one of which sizes, records and packets are
unknown.

::

    lines.py      layouts: which line is an entry, when it was written
    entries.py    an entry: header, bodies, times, connection
    bodies.py     a body in JSON as the values of its layout
    frames.py     an entry as the two frames that were sent
    packets.py    frames as packets of connections, in the order of their times
    feed.py       all of it, as bytes are read
"""
