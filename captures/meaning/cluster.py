"""Summaries of the cluster's members and capabilities: versions, brokers, controllers, features, telemetry."""

from __future__ import annotations

from captures.meaning import words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, items, number, ok, rows, text
from captures.meaning.topics import only_check
from captures.meaning.words import join, listed
from dissectors.api_keys import ApiKey
from dissectors.domains import COMPRESSION, UPGRADE_TYPE, feature_level_name
from dissectors.error_codes import ErrorCode

_CONTROLLERS = 2
_UPGRADE = 1

_SOFTWARE = {
    "apache-kafka-java": "java",
    "confluent-kafka-python": "confluent-python",
}


# ---------------------------------------------------------------- ApiVersions
def _versions_request(x: Bodies) -> str:
    name = text(x.request, "client_software_name")
    version = text(x.request, "client_software_version")
    return words.clipped(f"{_SOFTWARE.get(name, name)} {version}".strip(), 60)


def _versions_errors(x: Bodies) -> str:
    if x.response.get("error_code") != ErrorCode.UNSUPPORTED_VERSION:
        return ""
    for row in rows(x.response, "api_keys"):
        if row.get("api_key") == ApiKey.API_VERSIONS:
            return f"{number(row, 'min_version')}-{number(row, 'max_version')} offered"
    return ""


# ---------------------------------------------------------------- cluster
def _cluster_response(x: Bodies) -> str:
    kind = "controller" if x.response.get("endpoint_type") == _CONTROLLERS else "broker"
    active = number(x.response, "controller_id")
    return listed(
        (words.counted(len(rows(x.response, "brokers")), kind), f"controller {active}" if active >= 0 else "")
    )


def node(x: Bodies) -> str:
    """Return the broker or controller that a request is about."""
    for field, kind in (("broker_id", "broker"), ("controller_id", "controller")):
        if x.request.get(field) is not None:
            return f"{kind} {x.request[field]}"
    return ""


def _endpoint(row: Body) -> str:
    return f"{text(row, 'host', '?')}:{row.get('port', '?')}"


def _registration_request(x: Bodies) -> str:
    listeners = rows(x.request, "listeners")
    rack = text(x.request, "rack")
    return join(
        node(x),
        words.some(f"{text(row, 'name', '?')}={_endpoint(row)}" for row in listeners),
        f"rack {rack}" if rack else "",
    )


def _registration_response(x: Bodies) -> str:
    epoch = number(x.response, "broker_epoch")
    return f"broker epoch {epoch}" if epoch >= 0 else "ok"


def _broker_heartbeat_request(x: Bodies) -> str:
    request = x.request
    offset = number(request, "current_metadata_offset")
    offline = len(items(request, "offline_log_dirs"))
    return join(
        node(x),
        f"metadata at {offset}" if offset >= 0 else "",
        "wants to stay fenced" if request.get("want_fence") else "",
        "wants to shut down" if request.get("want_shut_down") else "",
        f"{words.counted(offline, 'directory', 'directories')} offline" if offline else "",
    )


def _broker_heartbeat_response(x: Bodies) -> str:
    response = x.response
    return listed(
        (
            "caught up" if response.get("is_caught_up") else "behind",
            "fenced" if response.get("is_fenced") else "",
            "may shut down" if response.get("should_shut_down") else "",
        )
    )


# ---------------------------------------------------------------- features
def _features_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "feature_updates"):
        feature, level = text(row, "feature", "?"), number(row, "max_version_level")
        known = feature_level_name(feature, level)
        kind = number(row, "upgrade_type", _UPGRADE)
        parts.append(
            f"{feature} to {level}"
            + (f" ({known})" if known else "")
            + ("" if kind == _UPGRADE else f" {words.value_name(UPGRADE_TYPE, kind)}")
        )
    return join(listed(parts[: words.SHOWN]), only_check(x))


# ---------------------------------------------------------------- telemetry (KIP-714)
def _subscriptions_request(x: Bodies) -> str:
    client = text(x.request, "client_instance_id")
    return "new client" if not client.strip("A") else f"client {words.topic_id(client)}"


def _subscriptions_response(x: Bodies) -> str:
    metrics = items(x.response, "requested_metrics")
    if not metrics:
        return "no metrics wanted"
    # a single empty prefix matches every metric
    wanted = "all metrics" if metrics == [""] else words.some(metrics)
    interval = number(x.response, "push_interval_ms", 0)
    return listed((wanted, f"every {words.duration(interval)}"))


def _push_request(x: Bodies) -> str:
    data = x.request.get("metrics")
    codec = number(x.request, "compression_type", 0)
    return join(
        f"client {words.topic_id(text(x.request, 'client_instance_id'))}",
        " ".join(
            (
                words.size(len(data)) if isinstance(data, bytes) else "",
                (COMPRESSION.name_of(codec) or f"codec {codec}") if codec else "",
            )
        ).strip(),
        "last one" if x.request.get("terminating") else "",
    )


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.API_VERSIONS: SummaryWriter(
        _versions_request, lambda x: words.counted(len(rows(x.response, "api_keys")), "API"), _versions_errors
    ),
    ApiKey.UPDATE_FEATURES: SummaryWriter(_features_request, ok),
    ApiKey.DESCRIBE_CLUSTER: SummaryWriter(
        lambda x: "controllers" if x.request.get("endpoint_type") == _CONTROLLERS else "brokers",
        _cluster_response,
    ),
    ApiKey.BROKER_REGISTRATION: SummaryWriter(_registration_request, _registration_response),
    ApiKey.BROKER_HEARTBEAT: SummaryWriter(_broker_heartbeat_request, _broker_heartbeat_response),
    ApiKey.UNREGISTER_BROKER: SummaryWriter(node, ok),
    ApiKey.CONTROLLER_REGISTRATION: SummaryWriter(_registration_request, ok),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: SummaryWriter(_subscriptions_request, _subscriptions_response),
    ApiKey.PUSH_TELEMETRY: SummaryWriter(_push_request, ok),
    ApiKey.UNREGISTER_CONTROLLER: SummaryWriter(node, ok),
}
