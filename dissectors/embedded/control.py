"""Values of KRaft's control records (``ControlRecordUtils.java``); the keys are read by :mod:`dissectors.records`.

All begin with a version field of their own. LeaderChange is written in the layout of version 0 whatever that
field says, and had no such field before 3.0.
"""

from __future__ import annotations

from dissectors.embedded.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from dissectors.embedded.layout import Layout, embedded, exact
from dissectors.embedded.model import EmbeddedValue
from dissectors.schema import Message

_MESSAGES: dict[str, Message] = {
    "LEADER_CHANGE": LeaderChangeMessage,
    "SNAPSHOT_HEADER": SnapshotHeaderRecord,
    "SNAPSHOT_FOOTER": SnapshotFooterRecord,
    "KRAFT_VERSION": KRaftVersionRecord,
    "KRAFT_VOTERS": VotersRecord,
}


def control_value(type_name: str, value: bytes | None) -> EmbeddedValue | None:
    """Decode the value of one of KRaft's control records; None for other types, and if there is no value.

    Transaction markers are not among them: :func:`dissectors.records.control_record` reads these whole.

    :param type_name: name of its :class:`~dissectors.records.ControlType`
    """
    message = _MESSAGES.get(type_name)
    if not value or message is None:
        return None
    layouts = [Layout(message, version, version, prefixed=False) for version in message.versions]
    layout = next((layout for layout in layouts if exact(layout, value)), layouts[0])
    return embedded(layout, value)
