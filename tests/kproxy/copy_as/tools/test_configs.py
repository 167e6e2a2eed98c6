"""kafka-configs. Each command line was tried against Kafka 4.3.0."""

from __future__ import annotations

from typing import Any

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import asked, lines, words

PROGRAM = "kafka-configs.sh"


def altered(*configs: tuple[str, int, str | None], **resource: Any) -> list[str]:
    changed = [{"name": name, "config_operation": how, "value": value} for name, how, value in configs]
    body = {
        "resources": [{"resource_type": 2, "resource_name": "t", **resource, "configs": changed}],
        "validate_only": False,
    }
    return lines(commands(asked(44, 1, body)))


def test_settings_are_described() -> None:
    resources = [
        {"resource_type": 2, "resource_name": "t", "configuration_keys": None},
        {"resource_type": 4, "resource_name": "", "configuration_keys": ["a", "b"]},
        {"resource_type": 99, "resource_name": "x", "configuration_keys": None},
    ]
    body = {"resources": resources, "include_synonyms": True, "include_documentation": False}
    made = commands(asked(32, 3, body))
    assert list(words(made)) == [
        [PROGRAM, "--describe", "--entity-type", "topics", "--entity-name", "t", "--all"],
        [PROGRAM, "--describe", "--entity-type", "brokers", "--entity-default", "--all"],
    ]
    assert lines(made)[1] == "# shows all settings; the request asked for a, b"


def test_settings_are_set_and_deleted() -> None:
    (line,) = altered(("retention.ms", 0, "1000"), ("segment.ms", 1, None))
    assert line.endswith("--entity-name t --delete-config segment.ms --add-config retention.ms=1000")


def test_values_that_the_option_would_take_apart_stand_in_a_file() -> None:
    (line,) = altered(("cleanup.policy", 0, "compact,delete"), ("x", 0, "a=b\\"))
    assert line.endswith(r"--add-config-file <(printf %s $'cleanup.policy=compact,delete\nx=a\\=b\\\\\n')")


def test_what_cannot_be_said_is_said() -> None:
    assert altered(("cleanup.policy", 2, "compact")) == [
        "# left out: a change of the list cleanup.policy; the tool only sets whole lists"
    ]
    lined = altered(("ssl.key.password", 0, "hunter2"), resource_type=4, resource_name="1")
    assert lined == ["# left out: ssl.key.password, whose value is secret and masked"]


def test_the_older_request_reset_everything_else() -> None:
    configs = [{"name": "retention.ms", "value": "5"}]
    body = {
        "resources": [{"resource_type": 2, "resource_name": "t", "configs": configs}],
        "validate_only": False,
    }
    note, line = lines(commands(asked(33, 1, body)))
    assert note == "# settings that are not named keep their values; the request reset them"
    assert line.endswith("--add-config retention.ms=5")
    assert commands(asked(33, 1, body | {"validate_only": True})) == []


def test_quotas() -> None:
    entity = [{"entity_type": "user", "entity_name": None}, {"entity_type": "client-id", "entity_name": "x"}]
    ops = [
        {"key": "producer_byte_rate", "value": 1024.0, "remove": False},
        {"key": "consumer_byte_rate", "value": 0.0, "remove": True},
    ]
    of = ["--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "x"]
    (found,) = words(
        commands(asked(49, 1, {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}))
    )
    added = ["--add-config", "producer_byte_rate=1024", "--delete-config", "consumer_byte_rate"]
    assert found == [PROGRAM, "--alter", *of, *added]
    parts = [
        {"entity_type": "user", "match_type": 1, "match": None},
        {"entity_type": "client-id", "match_type": 0, "match": "x"},
    ]
    (found,) = words(commands(asked(48, 1, {"components": parts, "strict": False})))
    assert found == [PROGRAM, "--describe", *of]
    everything = commands(asked(48, 1, {"components": [], "strict": False}))
    assert [each[-1] for each in words(everything)] == ["users", "clients", "ips"]


def test_scram_users() -> None:
    of_users = [PROGRAM, "--describe", "--entity-type", "users"]
    assert list(words(commands(asked(50, 0, {"users": None})))) == [of_users]
    assert list(words(commands(asked(50, 0, {"users": [{"name": "al"}]})))) == [
        [*of_users, "--entity-name", "al"]
    ]
