"""Decoding of keys, values and headers: text, JSON, Avro, Protobuf, numbers, or raw bytes.

:mod:`.payload` has the decoded payload, :mod:`.plain` the formats without a schema, :mod:`.avro` and :mod:`.protobuf`
those with one (extra ``schema``), :mod:`.registry` queries a schema registry that the user named, and :mod:`.decoding`
chooses for each topic. Nothing here raises because of a record's bytes: undecodable ones are returned as bytes, with
the reason.
"""
