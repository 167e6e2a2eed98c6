"""Dangerous settings, with their possible consequences in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from captures.analysis.clients.settings import Setting, ValueSource

_BROKER_LEAST_SESSION = 6000
"""ms: default of the brokers' ``group.min.session.timeout.ms``."""
_BROKER_MOST_TRANSACTION = 900_000
"""ms: default of the brokers' ``transaction.max.timeout.ms``."""
_HEARTBEATS_A_SESSION = 3
_SHORT_POLL_INTERVAL = 30_000
_SHORT_REQUEST_TIMEOUT = 5000
_SHORT_METADATA_AGE = 10_000
_LONG_TRANSACTION = 600_000

Known = Mapping[str, Setting]
"""The settings of a client by key."""


def danger_of(setting: Setting, known: Known) -> str:
    """Return the possible consequences of a setting; empty if none are known.

    :param known: all settings of the client, since some are dangerous only in combination
    """
    rule = _RULES.get(setting.key)
    if rule is None or setting.how is ValueSource.NOT_SEEN or setting.value is None:
        return ""
    return rule(setting, known)


def _number(known: Known, key: str) -> int | None:
    found = known.get(key)
    return found.value if found is not None and isinstance(found.value, int) else None


def _acks(setting: Setting, known: Known) -> str:
    if setting.value == "0":
        return "the producer learns of no error: records are lost without a trace"
    if setting.value == "1":
        return "records that the leader acknowledged are lost if it fails before its followers have them"
    return ""


def _idempotence(setting: Setting, known: Known) -> str:
    if setting.value != "false":
        return ""
    acks = known.get("acks")
    if acks is not None and acks.value == "0":
        return ""
    return "what is sent again after a lost answer is written twice, and may change its order"


def _session(setting: Setting, known: Known) -> str:
    value, beat = _number(known, setting.key), _number(known, "heartbeat.interval.ms")
    if value is None:
        return ""
    if beat is not None and value < _HEARTBEATS_A_SESSION * beat:
        return (
            f"fewer than {_HEARTBEATS_A_SESSION} heartbeats fit into it: one that is late costs a rebalance"
        )
    if value < _BROKER_LEAST_SESSION:
        return f"brokers refuse less than {_BROKER_LEAST_SESSION} ms by default"
    return ""


def _less_than(least: int, what: str) -> Callable[[Setting, Known], str]:
    def rule(setting: Setting, known: Known) -> str:
        value = _number(known, setting.key)
        return what if value is not None and value < least else ""

    return rule


def _transaction(setting: Setting, known: Known) -> str:
    value = _number(known, setting.key) or 0
    if value > _BROKER_MOST_TRANSACTION:
        return f"brokers refuse more than {_BROKER_MOST_TRANSACTION} ms by default"
    if value > _LONG_TRANSACTION:
        return "a producer that dies in a transaction holds up readers of committed data for so long"
    return ""


def _security(setting: Setting, known: Known) -> str:
    mechanism = known.get("sasl.mechanism")
    if setting.value == "SASL_PLAINTEXT" and mechanism is not None and mechanism.value == "PLAIN":
        return "user and password go over the network in the clear"
    return ""


def _both_kinds(setting: Setting, known: Known) -> str:
    names = str(setting.value).split(",")
    if names[0] == "cooperative-sticky" and len(names) > 1:
        return "with an eager assignor beside it, members still give up all partitions in each rebalance (KIP-429)"
    return ""


_RULES: dict[str, Callable[[Setting, Known], str]] = {
    "acks": _acks,
    "enable.idempotence": _idempotence,
    "session.timeout.ms": _session,
    "max.poll.interval.ms": _less_than(
        _SHORT_POLL_INTERVAL, "an application that is slow over one poll is put out of its group"
    ),
    "request.timeout.ms": _less_than(
        _SHORT_REQUEST_TIMEOUT, "requests are given up while a slow broker still works on them"
    ),
    "fetch.max.wait.ms": _less_than(1, "brokers answer at once, so that an idle consumer asks without pause"),
    "fetch.min.bytes": _less_than(1, "brokers answer at once, so that an idle consumer asks without pause"),
    "metadata.max.age.ms": _less_than(_SHORT_METADATA_AGE, "brokers are asked for metadata all the time"),
    "transaction.timeout.ms": _transaction,
    "security.protocol": _security,
    "partition.assignment.strategy": _both_kinds,
}
