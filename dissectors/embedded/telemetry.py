"""Client metrics in PushTelemetry (KIP-714): OpenTelemetry ``MetricsData``, usually compressed.

The value is the message in readable shape: attributes as dicts, enumerations by name, each metric with
its type and its points. Compression follows magic-2 batches (``ClientTelemetryUtils.java``).

Source of the schema: opentelemetry-proto, ``metrics/v1/metrics.proto``, ``common/v1/common.proto`` and
``resource/v1/resource.proto``.
"""

from __future__ import annotations

from typing import Any

from dissectors.budget import limit_of
from dissectors.codec import KNOWN_CODECS, Codec
from dissectors.embedded.model import EmbeddedProblem, EmbeddedValue, Hints, problem_of
from dissectors.embedded.protobuf import (
    BOOL,
    BYTES,
    DOUBLE,
    FIXED_INT64,
    FIXED_UINT64,
    INT,
    SINT,
    STRING,
    UINT,
    ProtobufField,
    Schema,
    read,
)
from dissectors.errors import DecodeError
from dissectors.records import inflate

LABEL = "OpenTelemetry metrics"

# ---------------------------------------------------------------- schema
_ANY_VALUE: Schema = {
    1: ProtobufField("string_value", STRING),
    2: ProtobufField("bool_value", BOOL),
    3: ProtobufField("int_value", INT),
    4: ProtobufField("double_value", DOUBLE),
    5: ProtobufField("array_value", lambda: {1: ProtobufField("values", lambda: _ANY_VALUE, repeated=True)}),
    6: ProtobufField("kvlist_value", lambda: {1: ProtobufField("values", lambda: _KEY_VALUE, repeated=True)}),
    7: ProtobufField("bytes_value", BYTES),
}
_KEY_VALUE: Schema = {1: ProtobufField("key", STRING), 2: ProtobufField("value", lambda: _ANY_VALUE)}


def _attributes_field(name: str = "attributes") -> ProtobufField:
    return ProtobufField(name, lambda: _KEY_VALUE, repeated=True)


_EXEMPLAR: Schema = {
    2: ProtobufField("time_unix_nano", FIXED_UINT64),
    3: ProtobufField("as_double", DOUBLE),
    4: ProtobufField("span_id", BYTES),
    5: ProtobufField("trace_id", BYTES),
    6: ProtobufField("as_int", FIXED_INT64),
    7: _attributes_field("filtered_attributes"),
}
_TIMES: Schema = {
    2: ProtobufField("start_time_unix_nano", FIXED_UINT64),
    3: ProtobufField("time_unix_nano", FIXED_UINT64),
}
_NUMBER_POINT: Schema = {
    **_TIMES,
    4: ProtobufField("as_double", DOUBLE),
    5: ProtobufField("exemplars", lambda: _EXEMPLAR, repeated=True),
    6: ProtobufField("as_int", FIXED_INT64),
    7: _attributes_field(),
    8: ProtobufField("flags", UINT),
}
_HISTOGRAM_POINT: Schema = {
    **_TIMES,
    4: ProtobufField("count", FIXED_UINT64),
    5: ProtobufField("sum", DOUBLE),
    6: ProtobufField("bucket_counts", FIXED_UINT64, repeated=True),
    7: ProtobufField("explicit_bounds", DOUBLE, repeated=True),
    8: ProtobufField("exemplars", lambda: _EXEMPLAR, repeated=True),
    9: _attributes_field(),
    10: ProtobufField("flags", UINT),
    11: ProtobufField("min", DOUBLE),
    12: ProtobufField("max", DOUBLE),
}
_BUCKETS: Schema = {1: ProtobufField("offset", SINT), 2: ProtobufField("bucket_counts", UINT, repeated=True)}
_EXPONENTIAL_POINT: Schema = {
    **_TIMES,
    1: _attributes_field(),
    4: ProtobufField("count", FIXED_UINT64),
    5: ProtobufField("sum", DOUBLE),
    6: ProtobufField("scale", SINT),
    7: ProtobufField("zero_count", FIXED_UINT64),
    8: ProtobufField("positive", lambda: _BUCKETS),
    9: ProtobufField("negative", lambda: _BUCKETS),
    10: ProtobufField("flags", UINT),
    11: ProtobufField("exemplars", lambda: _EXEMPLAR, repeated=True),
    12: ProtobufField("min", DOUBLE),
    13: ProtobufField("max", DOUBLE),
    14: ProtobufField("zero_threshold", DOUBLE),
}
_QUANTILE: Schema = {1: ProtobufField("quantile", DOUBLE), 2: ProtobufField("value", DOUBLE)}
_SUMMARY_POINT: Schema = {
    **_TIMES,
    4: ProtobufField("count", FIXED_UINT64),
    5: ProtobufField("sum", DOUBLE),
    6: ProtobufField("quantile_values", lambda: _QUANTILE, repeated=True),
    7: _attributes_field(),
    8: ProtobufField("flags", UINT),
}


def _points(point: Schema) -> Schema:
    return {
        1: ProtobufField("data_points", lambda: point, repeated=True),
        2: ProtobufField("aggregation_temporality", UINT),
        3: ProtobufField("is_monotonic", BOOL),
    }


_METRIC: Schema = {
    1: ProtobufField("name", STRING),
    2: ProtobufField("description", STRING),
    3: ProtobufField("unit", STRING),
    5: ProtobufField("gauge", lambda: _points(_NUMBER_POINT)),
    7: ProtobufField("sum", lambda: _points(_NUMBER_POINT)),
    9: ProtobufField("histogram", lambda: _points(_HISTOGRAM_POINT)),
    10: ProtobufField("exponential_histogram", lambda: _points(_EXPONENTIAL_POINT)),
    11: ProtobufField("summary", lambda: _points(_SUMMARY_POINT)),
    12: _attributes_field("metadata"),
}
_SCOPE: Schema = {
    1: ProtobufField("name", STRING),
    2: ProtobufField("version", STRING),
    3: _attributes_field(),
    4: ProtobufField("dropped_attributes_count", UINT),
}
_SCOPE_METRICS: Schema = {
    1: ProtobufField("scope", lambda: _SCOPE),
    2: ProtobufField("metrics", lambda: _METRIC, repeated=True),
    3: ProtobufField("schema_url", STRING),
}
_RESOURCE: Schema = {1: _attributes_field(), 2: ProtobufField("dropped_attributes_count", UINT)}
_RESOURCE_METRICS: Schema = {
    1: ProtobufField("resource", lambda: _RESOURCE),
    2: ProtobufField("scope_metrics", lambda: _SCOPE_METRICS, repeated=True),
    3: ProtobufField("schema_url", STRING),
}
METRICS_DATA: Schema = {1: ProtobufField("resource_metrics", lambda: _RESOURCE_METRICS, repeated=True)}

_TYPES = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
_TEMPORALITIES = ("unspecified", "delta", "cumulative")


# ---------------------------------------------------------------- decoding
def decode(data: bytes, hints: Hints) -> EmbeddedValue:
    """Decode pushed metrics; the offsets of problems count in the decompressed bytes."""
    if not data:
        return EmbeddedValue(None, LABEL)
    codec, guess = hints.compression, ""
    if codec is None:
        signed = (known for known in KNOWN_CODECS if known.signature and data.startswith(known.signature))
        codec = next(signed, Codec.NONE)
        guess = f"compression not announced, looks like {codec.label}"
    inflated = inflate(codec, data, hints.budget, within="telemetry_bytes")
    problems: list[EmbeddedProblem] = []
    limit = ""
    if inflated.problem is not None:
        problems.append(problem_of(inflated.problem))
        limit = limit_of(inflated.problem)
        if not inflated.data:
            return EmbeddedValue(None, LABEL, None, tuple(problems), guess=guess, limit=limit)
    raw: dict[str, Any] = {}
    try:
        read(METRICS_DATA, inflated.data, raw)
    except DecodeError as error:
        problems.append(problem_of(error))
        limit = limit or limit_of(error)
    resources = [_resource(item) for item in raw.get("resource_metrics", ())]
    return EmbeddedValue({"resources": resources}, LABEL, None, tuple(problems), guess=guess, limit=limit)


# ---------------------------------------------------------------- for people
def _resource(raw: dict[str, Any]) -> dict[str, Any]:
    return {
        "attributes": _attributes(raw.get("resource", {}).get("attributes")),
        "scopes": [_scope(item) for item in raw.get("scope_metrics", ())],
    }


def _scope(raw: dict[str, Any]) -> dict[str, Any]:
    scope = raw.get("scope", {})
    shown = {"name": scope.get("name", ""), "version": scope.get("version", "")}
    if "attributes" in scope:
        shown["attributes"] = _attributes(scope["attributes"])
    return {**shown, "metrics": [_metric(item) for item in raw.get("metrics", ())]}


def _metric(raw: dict[str, Any]) -> dict[str, Any]:
    kind = next((name for name in _TYPES if name in raw), None)
    shown: dict[str, Any] = {
        "name": raw.get("name", ""),
        "description": raw.get("description", ""),
        "unit": raw.get("unit", ""),
        "type": kind,
    }
    if kind is None:
        return shown
    data = raw[kind]
    if kind not in ("gauge", "summary"):
        number = data.get("aggregation_temporality", 0)
        shown["temporality"] = _TEMPORALITIES[number] if number < len(_TEMPORALITIES) else number
    if kind == "sum":
        shown["monotonic"] = data.get("is_monotonic", False)
    shown["points"] = [_point(point) for point in data.get("data_points", ())]
    return shown


def _point(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a data point with its attributes first and its number as ``value``, whatever its type."""
    shown: dict[str, Any] = {"attributes": _attributes(raw.get("attributes"))}
    for name, item in raw.items():
        if name in ("as_double", "as_int"):
            shown["value"] = item
        elif name == "exemplars":
            shown[name] = [_exemplar(exemplar) for exemplar in item]
        elif name != "attributes":
            shown[name] = item
    return shown


def _exemplar(raw: dict[str, Any]) -> dict[str, Any]:
    shown = _point({name: item for name, item in raw.items() if name != "filtered_attributes"})
    return {**shown, "attributes": _attributes(raw.get("filtered_attributes"))}


def _attributes(raw: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {item.get("key", ""): _any(item.get("value", {})) for item in raw or ()}


def _any(raw: dict[str, Any]) -> Any:
    for name, item in raw.items():
        if name == "array_value":
            return [_any(element) for element in item.get("values", ())]
        if name == "kvlist_value":
            return _attributes(item.get("values"))
        return item
    return None
