from __future__ import annotations

import pytest

from dissectors.embedded import sensitive_config
from dissectors.embedded.cluster_metadata import ConfigRecord, UserScramCredentialRecord
from dissectors.embedded.secrets import api_may_hold_secrets, describe, secret_config

# PASSWORD-type configurations of Kafka 4.3 (SslConfigs, SaslConfigs, BrokerSecurityConfigs), with prefixes in use,
# and those of librdkafka, Connect and cloud plug-ins
SECRET = [
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "sasl.jaas.config",
    "listener.name.internal.scram-sha-512.sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "delegation.token.secret.key",
    "delegation.token.master.key",
    "password.encoder.secret",
    "password.encoder.old.secret",
    "sasl.password",
    "ssl.key.pem",
    "basic.auth.user.info",
    "bearer.auth.token",
    "connection.password",
    "database.password",
    "aws.secret.access.key",
    "aws.access.key",
    "s3.proxy.password",
    "azure.account.key",
    "SSL.KEYSTORE.PASSWORD",
    "keystorePassword",
    "clientSecret",
    "api.key",
    "gcs.credentials.json",
    "access_token",
    "secretAccessKey",
    "SECRET_ACCESS_KEY",
    "apiKey",
    "APIKey",
    "authToken",
    "accessToken",
    "privateKey",
    "ssl.keystore.pass",
    "signing.key",
    "my.apikey",
    "confluent.license",
    "license.key",
    "storage.connectionString",
]

OPEN = [
    "key.serializer",
    "key.converter",
    "max.poll.records",
    "sasl.oauthbearer.token.endpoint.url",
    "tokenEndpointUrl",
    "group.id",
    "groupId",
    "aws.access.key.id",
    "partition.key",
    "compass.direction",
    "confluent.license.topic",
    "bypass",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.key.alias",
    "key.serializer",
    "key.converter",
    "sasl.mechanism",
    "sasl.login.class",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.client.credentials.scope",
    "delegation.token.max.lifetime.ms",
    "delegation.token.expiry.time.ms",
    "password.encoder.iterations",
    "password.encoder.key.length",
    "password.encoder.cipher.algorithm",
    "password.encoder.keyfactory.algorithm",
    "retention.ms",
    "min.insync.replicas",
    "listener.security.protocol.map",
    "authorizer.class.name",
    "message.key.field",
    "cleanup.policy",
]


@pytest.mark.parametrize("name", SECRET)
def test_secret(name: str) -> None:
    assert sensitive_config(name)


@pytest.mark.parametrize("name", [*OPEN, "", "."])
def test_open(name: str) -> None:
    assert not sensitive_config(name)


def test_fields_declared_secret_are_masked_in_place() -> None:
    value = {
        "name": "alice",
        "mechanism": 1,
        "salt": b"s",
        "stored_key": b"k",
        "server_key": b"k",
        "iterations": 1,
    }
    masked, names = describe(UserScramCredentialRecord[0].struct, value, show_secrets=False)
    assert masked == ["salt", "stored_key", "server_key"]
    assert value["salt"] is None
    assert names == {"mechanism": "SCRAM-SHA-256"}


def test_configurations_are_masked_by_name() -> None:
    value = {"resource_type": 4, "resource_name": "1", "name": "ssl.key.password", "value": "x"}
    assert describe(ConfigRecord[0].struct, value, show_secrets=False)[0] == ["value"]
    assert value["value"] is None
    value = {"resource_type": 4, "resource_name": "1", "name": "ssl.key.password", "value": "x"}
    assert describe(ConfigRecord[0].struct, value, show_secrets=True)[0] == []
    assert value["value"] == "x"


def test_partial_values() -> None:
    assert describe(UserScramCredentialRecord[0].struct, {"name": None}, show_secrets=False) == ([], {})


@pytest.mark.parametrize(
    ("entry", "flagged", "secret"),
    [
        ({"name": "a", "value": "x", "is_sensitive": True}, True, True),
        ({"name": "a", "value": "x", "is_sensitive": False}, True, False),
        ({"name": "a", "value": "x", "is_sensitive": False, "config_type": 9}, True, True),
        ({"name": "a", "value": "x", "is_sensitive": None}, True, True),  # cut off behind the value
        ({"name": "a", "value": "x"}, True, True),
        ({"name": "a", "value": "x"}, False, False),
        ({"name": "apiKey", "value": "x", "is_sensitive": False}, True, True),
    ],
)
def test_what_the_broker_says_of_a_configuration(
    entry: dict[str, object], flagged: bool, secret: bool
) -> None:
    assert secret_config(entry, flagged=flagged) is secret


@pytest.mark.parametrize(
    ("key", "response", "may"),
    [
        (36, False, True),
        (38, False, False),
        (38, True, True),
        (32, True, True),
        (58, False, True),
        (3, True, False),
        (999, False, True),
    ],
)
def test_which_apis_may_hold_secrets(key: int, response: bool, may: bool) -> None:
    assert api_may_hold_secrets(key, response=response) is may


def test_unknown_tags_beside_secrets_are_masked() -> None:
    value = {"name": "alice", "_tags": {7: b"secret"}, "undecoded": b"rest"}
    masked, _ = describe(UserScramCredentialRecord[0].struct, value, show_secrets=False)
    assert masked == ["_tags[7]", "undecoded"]
    assert value == {"name": "alice", "_tags": {7: None}, "undecoded": None}
