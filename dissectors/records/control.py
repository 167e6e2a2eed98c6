"""Control records, which brokers and KRaft controllers write between the data (batch attribute bit 5).

Keys are int16 version, int16 type (``ControlRecordType.java``). The values of types 2 to 6 are messages of
their own and are returned as bytes.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from dissectors.errors import DecodeError


class ControlType(IntEnum):
    """Types of control records."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    """A parsed control record.

    :ivar type_name: name of the :class:`ControlType`, or ``UNKNOWN(n)``
    :ivar version: version of the key
    :ivar value: bytes of the value
    :ivar coordinator_epoch: epoch of the transaction coordinator that wrote an ABORT or COMMIT, else None
    :ivar type_id: the number behind ``type_name``
    """

    type_name: str
    version: int
    value: bytes | None
    coordinator_epoch: int | None
    type_id: int


_KEY = struct.Struct(">hh")
_END_TXN_MARKER = struct.Struct(">hi")


def control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Parse key and value of a record of a control batch.

    Bytes after the known fields belong to later versions and are ignored, as by Kafka.

    :raises DecodeError: if the key, or the value of an ABORT or COMMIT (``EndTxnMarker.json``: int16 version,
        int32 coordinator epoch), is too short; offsets count in key or value, as the path says
    """
    if key is None or len(key) < _KEY.size:
        raise DecodeError("control record key is shorter than 4 bytes", 0, "key", truncated=True)
    version, type_id = _KEY.unpack_from(key)
    try:
        name = ControlType(type_id).name
    except ValueError:
        return ControlRecord(f"UNKNOWN({type_id})", version, value, None, type_id)
    if type_id > ControlType.COMMIT:
        return ControlRecord(name, version, value, None, type_id)
    if value is None or len(value) < _END_TXN_MARKER.size:
        raise DecodeError(f"{name} marker is shorter than 6 bytes", 0, "value", truncated=True)
    _, epoch = _END_TXN_MARKER.unpack_from(value)
    return ControlRecord(name, version, value, epoch, type_id)
