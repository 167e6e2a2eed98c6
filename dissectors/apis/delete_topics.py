"""DeleteTopics (key 20): delete topics.

v3 error 73 when deletion is switched off, v5 error texts and quota error 89 (KIP-599), v6 topics by
name or id (KIP-516).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import TopicName
from dissectors.schema import Array, Int16, Int32, Message, String, Uuid

DeleteTopicsRequest = Message(
    "DeleteTopicsRequest", 20, "request", "0-6", "4+",
    "topic_names" / Array(TopicName) @ "0-5" * "names of the topics to delete (v0-5)",
    "topics" / Array(
        "name" / TopicName.null().default(None) * "topic name; null when the id is used",
        "topic_id" / Uuid.holds("topic_id") * "topic id; all-zero when the name is used",
    ) @ "6+" * "topics to delete, by name or id (v6+)",
    "timeout_ms" / Int32.of(DURATION_MS) * "longest time in ms to wait until the topics are deleted",
)

DeleteTopicsResponse = Message(
    "DeleteTopicsResponse", 20, "response", "0-6", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "responses" / Array(
        "name" / TopicName.null("6+") * "topic name; null when asked by an id that is unknown or not authorized",
        "topic_id" / Uuid.holds("topic_id") @ "6+" * "topic id; all-zero = not known",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the topic was not deleted, e.g. 73 = deletion switched off",
        "error_message" / String.null().default(None) @ "5+" * "text of the error; null = none",
    ) * "result by topic",
)
