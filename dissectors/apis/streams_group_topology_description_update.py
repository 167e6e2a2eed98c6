"""StreamsGroupTopologyDescriptionUpdate (key 93): a Streams member sends its full processing graph.

KIP-1331 (4.4, not released when this was written). Sent when a StreamsGroupHeartbeat response has
topology_description_required; the broker hands it to a plugin for tools that show it.
It plays no part in the assignment of tasks.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Int16, Int32, Message, String
from dissectors.structs import TopologyDescription

StreamsGroupTopologyDescriptionUpdateRequest = Message(
    "StreamsGroupTopologyDescriptionUpdateRequest", 93, "request", "0", "0+",
    "group_id" / GroupId * "streams group (application.id)",
    "member_id" / String * "member that sends the description",
    "topology_epoch" / Int32 * "version of the topology described",
    "topology_description" / TopologyDescription * "full topology with all nodes",
)

StreamsGroupTopologyDescriptionUpdateResponse = Message(
    "StreamsGroupTopologyDescriptionUpdateResponse", 93, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the description was not stored",
    "error_message" / String.null().default(None) * "text for the error; null = none",
)
