"""Values that must not be shown: secret fields of declared messages, and configurations with secret values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from dissectors import wire
from dissectors.apis import api
from dissectors.masks import UNDECODED
from dissectors.schema import Field, Struct, Type
from dissectors.visitor import Holders, Step, Visitor, compiled, join, naming, plan_of

SENSITIVITY = "is_sensitive"
"""Field beside a configuration's value with which the broker marks it as secret."""

_PASSWORD = 9  # ConfigDef.Type.PASSWORD, as DescribeConfigs numbers it (ConfigEntry.ConfigType)

SECRET_CONTENTS = frozenset({"sasl_token", "config_value", "envelope_request", "envelope_response"})
"""Contents of fields (``Bytes.holds``) that are secret or may contain secrets."""

# Names of Kafka's PASSWORD-type configurations that no rule below covers (SslConfigs.java, SaslConfigs.java,
# BrokerSecurityConfigs.java); PEM certificates count as passwords to Kafka and so they do here.
_KAFKA_PASSWORDS = (
    "sasl.jaas.config",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "delegation.token.master.key",
    "basic.auth.user.info",
)

_WORD = re.compile("[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")

_SECRET_WORDS = frozenset(
    {
        "password", "passwd", "pwd", "pass", "passphrase", "secret", "secrets", "credential", "credentials", "jaas",
        "hmac",
    }
)  # fmt: skip

# ends of compound words: kmspassword, myapikey
_SECRET_TAILS = (
    "password", "passphrase", "secret", "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken",
)  # fmt: skip

# last words of a name that mark a secret key, token or licence
_SECRET_ENDINGS = (
    ("private", "key"),
    ("access", "key"),
    ("secret", "key"),
    ("master", "key"),
    ("account", "key"),
    ("encryption", "key"),
    ("signing", "key"),
    ("sas", "key"),
    ("shared", "key"),
    ("auth", "key"),
    ("api", "key"),
    ("key", "pem"),
    ("token",),
    ("license",),
    ("license", "key"),
    ("connection", "string"),
)

# Attributes of a secret that are not secret: sasl.oauthbearer.client.credentials.client.id,
# ssl.keystore.password.file, password.encoder.iterations (the encoder's secret itself ends in "secret")
_ABOUT = frozenset(
    {
        "algorithm", "class", "enable", "enabled", "file", "id", "interval", "iterations", "length", "location",
        "ms", "path", "provider", "scope", "seconds", "type", "url",
    }
)  # fmt: skip


def sensitive_config(name: str) -> bool:
    """Return whether the value of a configuration of this name must be masked.

    This covers Kafka's own PASSWORD-type configurations, with any prefix (``listener.name.x.plain.sasl.jaas.config``),
    and every name that suggests a secret in any spelling, because connectors and plug-ins have names of their own:
    ``aws.secret.access.key``, ``secretAccessKey``, ``SECRET_ACCESS_KEY``, ``apikey``.
    """
    lower = name.lower()
    if lower.endswith(_KAFKA_PASSWORDS):
        return True
    words: list[str] = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT:
        return False
    if words[:2] == ["password", "encoder"]:
        return words[-1] == "secret"
    if _SECRET_WORDS.intersection(words) or any(word.endswith(_SECRET_TAILS) for word in words):
        return True
    return any(tuple(words[-len(ending) :]) == ending for ending in _SECRET_ENDINGS)


def secret_config(entry: Mapping[str, Any], name: str = "", *, flagged: bool = False) -> bool:
    """Return whether the value of a configuration is secret by its name or by the broker's flags.

    :param entry: the struct that has the value, as far as it was decoded
    :param name: name of the configuration, if the entry lacks it
    :param flagged: whether its declaration has ``is_sensitive``; it follows the value, so it may be cut off
    """
    return bool(
        entry.get(SENSITIVITY)
        or entry.get("config_type") == _PASSWORD
        or (flagged and entry.get(SENSITIVITY) is None)
        or sensitive_config(str(entry.get("name") or name))
    )


def may_hold_secrets(fields: Iterable[Field]) -> bool:
    """Return whether any of the declared fields, or of those inside them, is secret or may contain a secret."""
    return any(_may_be_secret(field.type.value) for field in Struct(*fields).every_field())


def _may_be_secret(type_: Type) -> bool:
    return type_.is_secret or type_.content in SECRET_CONTENTS


@cache
def api_may_hold_secrets(key: int, *, response: bool) -> bool:
    """Return whether messages of an API may hold secrets; an unknown API may."""
    known = api(key)
    return known is None or may_hold_secrets((known.response if response else known.request).fields)


@cache
def _struct_may_hold_secrets(struct: wire.Struct) -> bool:
    return may_hold_secrets(member.field for member in struct.members)


def describe(
    struct: wire.Struct, value: dict[str, Any], *, show_secrets: bool
) -> tuple[list[str], dict[str, str]]:
    """Mask the secret fields of a decoded declaration in place; return their paths, and names by path.

    :param value: the decoded fields, complete or not
    """
    found = _SecretsScope(show_secrets, [], {})
    # in what is not declared, a secret may be anywhere: in unknown tags and in bytes left over
    undeclared = not show_secrets and _struct_may_hold_secrets(struct)
    _visitor(struct, tags=undeclared)(value, found)
    if undeclared and UNDECODED in value:
        value[UNDECODED] = _mask(None, UNDECODED, (value,), found)
    return found.masked, found.decoded


class _SecretsScope(msgspec.Struct):
    """Collects what the visitors of a declaration find."""

    show_secrets: bool
    masked: list[str]
    decoded: dict[str, Any]


@cache
def _visitor(struct: wire.Struct, *, tags: bool) -> Visitor:
    return compiled(plan_of([struct], _choose, _mask_tags if tags else None))


def _choose(member: wire.Member, _: wire.Struct) -> Step | None:
    type_ = member.field.type
    if isinstance(member.con, wire.Array):
        return None
    if type_.is_secret:
        return _mask
    if type_.content == "config_value":
        return _mask_config
    return naming(member)


def _mask_tags(path: str, holders: Holders, found: _SecretsScope) -> None:
    tags = holders[-1][wire.UNKNOWN_TAGS]
    found.masked.extend(f"{join(path, wire.UNKNOWN_TAGS)}[{tag}]" for tag in tags)
    holders[-1][wire.UNKNOWN_TAGS] = dict.fromkeys(tags)


def _mask(item: Any, path: str, holders: Holders, found: _SecretsScope) -> Any:
    if found.show_secrets:
        return item
    found.masked.append(path)
    return None


def _mask_config(item: Any, path: str, holders: Holders, found: _SecretsScope) -> Any:
    return _mask(item, path, holders, found) if secret_config(holders[-1]) else item
