"""GetTelemetrySubscriptions (key 71): a client asks which of its metrics the broker wants (KIP-714)

Sent soon after connecting and again when PushTelemetry fails with error 117.
"""

from dissectors.domains import COMPRESSION, DURATION_MS, ERROR_CODE
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid

GetTelemetrySubscriptionsRequest = Message(
    "GetTelemetrySubscriptionsRequest", 71, "request", "0", "0+",
    "client_instance_id" / Uuid * "id of this client instance; all zero = give me one",
)

GetTelemetrySubscriptionsResponse = Message(
    "GetTelemetrySubscriptionsResponse", 71, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why there is no subscription",
    "client_instance_id" / Uuid * "id given to the client; all zero if it had one already",
    "subscription_id" / Int32 * "number of this set of metrics; PushTelemetry must repeat it",
    "accepted_compression_types" / Array(Int8.of(COMPRESSION)) * "codecs that the broker takes, best first",
    "push_interval_ms" / Int32.of(DURATION_MS) * "ms between two pushes",
    "telemetry_max_bytes" / Int32 * "most bytes of metrics the broker takes in one push",
    "delta_temporality" / Bool * "true = counters as change since the last push, false = running totals",
    "requested_metrics" / Array(String) * "name prefixes of the metrics wanted; empty list = none, one empty string = all",
)
