"""StreamsGroupTopologyDescriptionUpdate (key 93): a Streams member sends its full processing graph.

KIP-1331 (4.4, not released when this was written). Sent when a StreamsGroupHeartbeat response has
topology_description_required; the broker hands it to a plugin for tools that show it.
It plays no part in the assignment of tasks.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, STREAMS_NODE_TYPE
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Message, String, Struct

StreamsGroupTopologyDescriptionUpdateRequest = Message(
    "StreamsGroupTopologyDescriptionUpdateRequest", 93, "request", "0", "0+",
    "group_id" / GroupId * "streams group (application.id)",
    "member_id" / String * "member that sends the description",
    "topology_epoch" / Int32 * "version of the topology described",
    "topology_description" / Struct(
        "subtopologies" / Array(
            "subtopology_id" / String * "subtopology id",
            "nodes" / Array(
                "name" / String * "name of the node in the topology",
                "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                "stores" / Array(String) * "state stores that a processor node uses",
                "successors" / Array(String) * "names of the nodes that get this node's output",
            ) * "nodes of the subtopology",
        ) * "subtopologies with their graph of nodes",
        "global_stores" / Array(
            "source" / Struct(
                "name" / String * "name of the node in the topology",
                "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                "stores" / Array(String) * "state stores that a processor node uses",
                "successors" / Array(String) * "names of the nodes that get this node's output",
            ) * "source node that feeds the global store",
            "processor" / Struct(
                "name" / String * "name of the node in the topology",
                "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                "stores" / Array(String) * "state stores that a processor node uses",
                "successors" / Array(String) * "names of the nodes that get this node's output",
            ) * "processor node that fills the global store",
        ) * "global state stores, one source and one processor each",
    ) * "full topology with all nodes",
)

StreamsGroupTopologyDescriptionUpdateResponse = Message(
    "StreamsGroupTopologyDescriptionUpdateResponse", 93, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the description was not stored",
    "error_message" / String.null().default(None) * "text for the error; null = none",
)
