"""PushTelemetry (key 72): a client sends its metrics to the broker (KIP-714)

The metrics are an OpenTelemetry (OTLP) MetricsData protobuf message, compressed as stated.
"""

from dissectors.domains import COMPRESSION, DURATION_MS, ERROR_CODE
from dissectors.schema import Bool, Bytes, Int8, Int16, Int32, Message, Uuid

PushTelemetryRequest = Message(
    "PushTelemetryRequest", 72, "request", "0", "0+",
    "client_instance_id" / Uuid * "id of this client instance, from GetTelemetrySubscriptions",
    "subscription_id" / Int32 * "set of metrics this push answers, from GetTelemetrySubscriptions",
    "terminating" / Bool * "true = client is closing, this is its last push",
    "compression_type" / Int8.of(COMPRESSION) * "codec of the metrics",
    "metrics" / Bytes.holds("telemetry") * "metrics as OTLP protobuf, compressed with compression_type",
)

PushTelemetryResponse = Message(
    "PushTelemetryResponse", 72, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why refused (117 = subscription changed, 118 = too large, 76 = compression)",
)
