"""Values of control records: transaction markers and KRaft's own (``ControlRecordType.java``).

:mod:`dissectors.records` reads their keys. KRaft's values (``ControlRecordUtils.java``) start with a version field of
    their own. LeaderChange is written in the layout of version 0 whatever that field says, and had no such field before
    3.0.
"""

from __future__ import annotations

from dissectors.domains import LEADER_ID, TIMESTAMP_MS
from dissectors.embedded.layout import Layout, embedded, exact
from dissectors.embedded.model import EmbeddedValue
from dissectors.entities import BrokerId
from dissectors.schema import Array, EarlierLayout, Int16, Int32, Int64, Message, Struct, Uuid
from dissectors.structs import QuorumListener

# fmt: off
EndTxnMarker = Message(
    "EndTxnMarker", None, "data", "0", "none",
    "coordinator_epoch" / Int32 * "epoch of the transaction coordinator that wrote the marker",
)

_EarlyVoter = Struct("voter_id" / BrokerId * "node id of the voter")
_Voter = Struct(
    "voter_id" / BrokerId * "node id of the voter",
    "voter_directory_id" / Uuid @ "1+" * "directory id of the voter's metadata log",
)

_LeaderChangeMessageUntil28 = Message(
    "LeaderChangeMessage", None, "data", "0", "0+",
    "leader_id" / BrokerId.of(LEADER_ID) * "node id of the new leader",
    "voters" / Array(_EarlyVoter) * "voters of the quorum",
    "granting_voters" / Array(_EarlyVoter) * "voters that voted for the leader",
    older=(EarlierLayout("0", "0+", without=("granting_voters",)),),
)

LeaderChangeMessage = Message(
    "LeaderChangeMessage", None, "data", "0-1", "0+",
    "version" / Int16 * "version of this record",
    "leader_id" / BrokerId.of(LEADER_ID) * "node id of the new leader",
    "voters" / Array(_Voter) * "voters of the quorum",
    "granting_voters" / Array(_Voter) * "voters that voted for the leader",
    older=(_LeaderChangeMessageUntil28, *_LeaderChangeMessageUntil28.older),
)

SnapshotHeaderRecord = Message(
    "SnapshotHeaderRecord", None, "data", "0", "0+",
    "version" / Int16 * "version of this record",
    "last_contained_log_timestamp" / Int64.of(TIMESTAMP_MS) * "time of the last log record in the snapshot, ms since 1970",
)

SnapshotFooterRecord = Message(
    "SnapshotFooterRecord", None, "data", "0", "0+",
    "version" / Int16 * "version of this record",
)

KRaftVersionRecord = Message(
    "KRaftVersionRecord", None, "data", "0", "0+",
    "version" / Int16 * "version of this record",
    "kraft_version" / Int16 * "0 = fixed voters (controller.quorum.voters), 1 = voters can change",
)

VotersRecord = Message(
    "VotersRecord", None, "data", "0", "0+",
    "version" / Int16 * "version of this record",
    "voters" / Array(
        "voter_id" / BrokerId * "node id of the voter",
        "voter_directory_id" / Uuid * "directory id of the voter's metadata log",
        "endpoints" / Array(QuorumListener) * "listeners of the voter",
        "kraft_version_feature" / Struct(
            "min_supported_version" / Int16 * "lowest kraft.version supported",
            "max_supported_version" / Int16 * "highest kraft.version supported",
        ) * "range of kraft.version that the voter supports",
    ) * "all voters of the quorum",
)
# fmt: on

_MESSAGES: dict[str, Message] = {
    "LEADER_CHANGE": LeaderChangeMessage,
    "SNAPSHOT_HEADER": SnapshotHeaderRecord,
    "SNAPSHOT_FOOTER": SnapshotFooterRecord,
    "KRAFT_VERSION": KRaftVersionRecord,
    "KRAFT_VOTERS": VotersRecord,
}


def control_value(type_name: str, value: bytes | None) -> EmbeddedValue | None:
    """Decode the value of a KRaft control record; None for other types, and if there is no value.

    Transaction markers are excluded: :func:`dissectors.records.control_record` reads them whole.

    :param type_name: name of its :class:`~dissectors.records.ControlType`
    """
    message = _MESSAGES.get(type_name)
    if not value or message is None:
        return None
    layouts = [Layout(message, version, version, prefixed=False) for version in message.versions]
    layout = next((layout for layout in layouts if exact(layout, value)), layouts[0])
    return embedded(layout, value)
