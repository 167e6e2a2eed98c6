"""The broker's request log as a capture: each line becomes the packets of the exchange that it describes.

``kafka.request.logger`` of a broker writes a line for each request that it has answered: in JSON since Kafka 2.8
(KIP-673, ``core/.../network/RequestConvertToJson.scala``), as text before. :class:`~.feed.RequestLogFeed` turns the
lines into pcapng while they are read, as a compressed file is decompressed: request and response are encoded again, and
put on a connection between the endpoints of the line, at its times. So pairing, columns, filters and analyses are those
of every capture.

What a log omits is not made up. Each request carries a comment with the broker's measurements
(:class:`captures.interventions.BrokerLog`); it marks exchanges whose sizes, records and packets are unknown.

::

    lines.py          layouts: which line is an entry, when it was written
    entries.py        an entry: header, bodies, times, connection
    bodies.py         a body in JSON as the values of its layout
    text_bodies.py    the same for a body as text
    frames.py         an entry as the two frames that were sent
    packets.py        frames as packets of connections, ordered by time
    captured.py       exchanges that were captured, too: of them the log only adds what the broker measured
    feed.py           all of it, as bytes are read
"""
