"""Client metrics as PushTelemetry carries them (KIP-714): OpenTelemetry ``MetricsData``, mostly compressed.

The value is the message in the shape a person reads: attributes as dicts, enumerations by name, each metric with
its type and its points. Compression follows magic-2 batches (``ClientTelemetryUtils.java``).

Source of the schema: opentelemetry-proto, ``metrics/v1/metrics.proto``, ``common/v1/common.proto`` and
``resource/v1/resource.proto``.
"""

from __future__ import annotations

from typing import Any

from dissectors.budget import limit_of
from dissectors.codec import KNOWN_CODECS, Codec
from dissectors.embedded.model import EmbeddedValue, Hints, Problem, problem_of
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
    Field,
    Schema,
    read,
)
from dissectors.errors import DecodeError
from dissectors.records import inflate

LABEL = "OpenTelemetry metrics"

# ---------------------------------------------------------------- schema
_ANY_VALUE: Schema = {
    1: Field("string_value", STRING),
    2: Field("bool_value", BOOL),
    3: Field("int_value", INT),
    4: Field("double_value", DOUBLE),
    5: Field("array_value", lambda: {1: Field("values", lambda: _ANY_VALUE, repeated=True)}),
    6: Field("kvlist_value", lambda: {1: Field("values", lambda: _KEY_VALUE, repeated=True)}),
    7: Field("bytes_value", BYTES),
}
_KEY_VALUE: Schema = {1: Field("key", STRING), 2: Field("value", lambda: _ANY_VALUE)}


def _attributes_field(name: str = "attributes") -> Field:
    return Field(name, lambda: _KEY_VALUE, repeated=True)


_EXEMPLAR: Schema = {
    2: Field("time_unix_nano", FIXED_UINT64),
    3: Field("as_double", DOUBLE),
    4: Field("span_id", BYTES),
    5: Field("trace_id", BYTES),
    6: Field("as_int", FIXED_INT64),
    7: _attributes_field("filtered_attributes"),
}
_TIMES: Schema = {2: Field("start_time_unix_nano", FIXED_UINT64), 3: Field("time_unix_nano", FIXED_UINT64)}
_NUMBER_POINT: Schema = {
    **_TIMES,
    4: Field("as_double", DOUBLE),
    5: Field("exemplars", lambda: _EXEMPLAR, repeated=True),
    6: Field("as_int", FIXED_INT64),
    7: _attributes_field(),
    8: Field("flags", UINT),
}
_HISTOGRAM_POINT: Schema = {
    **_TIMES,
    4: Field("count", FIXED_UINT64),
    5: Field("sum", DOUBLE),
    6: Field("bucket_counts", FIXED_UINT64, repeated=True),
    7: Field("explicit_bounds", DOUBLE, repeated=True),
    8: Field("exemplars", lambda: _EXEMPLAR, repeated=True),
    9: _attributes_field(),
    10: Field("flags", UINT),
    11: Field("min", DOUBLE),
    12: Field("max", DOUBLE),
}
_BUCKETS: Schema = {1: Field("offset", SINT), 2: Field("bucket_counts", UINT, repeated=True)}
_EXPONENTIAL_POINT: Schema = {
    **_TIMES,
    1: _attributes_field(),
    4: Field("count", FIXED_UINT64),
    5: Field("sum", DOUBLE),
    6: Field("scale", SINT),
    7: Field("zero_count", FIXED_UINT64),
    8: Field("positive", lambda: _BUCKETS),
    9: Field("negative", lambda: _BUCKETS),
    10: Field("flags", UINT),
    11: Field("exemplars", lambda: _EXEMPLAR, repeated=True),
    12: Field("min", DOUBLE),
    13: Field("max", DOUBLE),
    14: Field("zero_threshold", DOUBLE),
}
_QUANTILE: Schema = {1: Field("quantile", DOUBLE), 2: Field("value", DOUBLE)}
_SUMMARY_POINT: Schema = {
    **_TIMES,
    4: Field("count", FIXED_UINT64),
    5: Field("sum", DOUBLE),
    6: Field("quantile_values", lambda: _QUANTILE, repeated=True),
    7: _attributes_field(),
    8: Field("flags", UINT),
}


def _points(point: Schema) -> Schema:
    return {
        1: Field("data_points", lambda: point, repeated=True),
        2: Field("aggregation_temporality", UINT),
        3: Field("is_monotonic", BOOL),
    }


_METRIC: Schema = {
    1: Field("name", STRING),
    2: Field("description", STRING),
    3: Field("unit", STRING),
    5: Field("gauge", lambda: _points(_NUMBER_POINT)),
    7: Field("sum", lambda: _points(_NUMBER_POINT)),
    9: Field("histogram", lambda: _points(_HISTOGRAM_POINT)),
    10: Field("exponential_histogram", lambda: _points(_EXPONENTIAL_POINT)),
    11: Field("summary", lambda: _points(_SUMMARY_POINT)),
    12: _attributes_field("metadata"),
}
_SCOPE: Schema = {
    1: Field("name", STRING),
    2: Field("version", STRING),
    3: _attributes_field(),
    4: Field("dropped_attributes_count", UINT),
}
_SCOPE_METRICS: Schema = {
    1: Field("scope", lambda: _SCOPE),
    2: Field("metrics", lambda: _METRIC, repeated=True),
    3: Field("schema_url", STRING),
}
_RESOURCE: Schema = {1: _attributes_field(), 2: Field("dropped_attributes_count", UINT)}
_RESOURCE_METRICS: Schema = {
    1: Field("resource", lambda: _RESOURCE),
    2: Field("scope_metrics", lambda: _SCOPE_METRICS, repeated=True),
    3: Field("schema_url", STRING),
}
METRICS_DATA: Schema = {1: Field("resource_metrics", lambda: _RESOURCE_METRICS, repeated=True)}

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
    problems: list[Problem] = []
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
    """Return a data point with its attributes first, a number as ``value`` whatever its type."""
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
