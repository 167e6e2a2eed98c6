"""What the bytes of keys, values and headers mean: text, JSON, Avro, Protobuf, numbers, or just bytes.

:mod:`.payload` has what a payload is once it was read, :mod:`.plain` the formats that need no schema, :mod:`.avro` and
:mod:`.protobuf` those that do (extra ``schema``), :mod:`.registry` asks a schema registry that the user named, and
:mod:`.decoding` chooses for each topic. Nothing here raises for the bytes of a record: what cannot be read comes as
bytes, with the reason.
"""
