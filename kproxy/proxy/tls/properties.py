"""Kafka's own client properties (``--command-config``), as far as they concern security.

Names, defaults and their meaning are those of ``clients/.../CommonClientConfigs.java``, ``SslConfigs.java``,
``SaslConfigs.java``; the file has the format of ``java.util.Properties``, in ISO-8859-1. As in Kafka, unknown keys are
ignored and reported once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from kproxy.proxy.sasl import MECHANISMS, OAUTHBEARER
from kproxy.proxy.tls.jaas import JaasError, LoginModule, parse_jaas
from kproxy.proxy.tls.security import Identity, Sasl, Security, Tls, TokenEndpoint
from kproxy.proxy.tls.stores import (
    pem_identity,
    stored_identity,
    trusted_certificates,
    trusted_pem,
)

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
VERSIONS = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_DEFAULT_MECHANISM = "GSSAPI"

T = TypeVar("T")

_USED = frozenset(
    (
        "bootstrap.servers",
        "security.protocol",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.protocol",
        "ssl.cipher.suites",
        "sasl.mechanism",
        "sasl.jaas.config",
        "sasl.oauthbearer.token.endpoint.url",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.header.urlencode",
    )
)


class PropertiesError(Exception):
    """Client properties cannot be used; the message says which, and why. It contains no secret."""


class ClientConfig(NamedTuple):
    """The parsed client properties.

    :ivar bootstrap: the value of ``bootstrap.servers``, empty if there is none
    :ivar warnings: sentences to be shown once
    """

    security: Security
    bootstrap: str
    warnings: list[str]


def read_properties(path: str) -> dict[str, str]:
    """Return the keys and values of a properties file.

    :raises PropertiesError: if it cannot be read
    """
    import javaproperties

    try:
        with open(path, "rb") as file:  # noqa: PTH123  # javaproperties decodes files opened as bytes
            return dict(javaproperties.load(file))
    except OSError as error:
        raise PropertiesError(f"{path} cannot be read: {error.strerror}") from None
    except javaproperties.InvalidUEscapeError:
        raise PropertiesError(f"{path} has a \\u that four hexadecimal digits do not follow") from None


_TLS12 = re.compile(
    r"TLS_(?P<exchange>RSA|(?:ECDHE|DHE)_(?:RSA|ECDSA|DSS))_WITH_"
    r"(?:AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA(?:256|384)?)|CHACHA20_POLY1305_SHA256)"
)
_TLS13 = re.compile(r"TLS_(?:AES|CHACHA20)_\w+")


class Suites(NamedTuple):
    """Cipher suites of a configuration.

    :ivar openssl: OpenSSL's names of those up to TLS 1.2
    :ivar tls13: those of TLS 1.3
    :ivar unknown: suites that are not recognised
    """

    openssl: list[str]
    tls13: list[str]
    unknown: list[str]


def sorted_out(suites: Iterable[str]) -> Suites:
    """Group cipher suites by how they can be selected. Kafka configures suites by Java's names, which are IANA's.

    OpenSSL's names consist of the same parts, but omit ``TLS_``, ``WITH``, the key exchange if it is RSA, CBC, and the
    hash of ChaCha20. Suites of TLS 1.3 cannot be selected by that interface: OpenSSL offers all that it has.
    """
    sorted_ = Suites([], [], [])
    for suite in suites:
        if match := _TLS12.fullmatch(suite):
            sorted_.openssl.append(_openssl_name(match))
        elif _TLS13.fullmatch(suite):
            sorted_.tls13.append(suite)
        else:
            sorted_.unknown.append(suite)
    return sorted_


def _openssl_name(suite: re.Match[str]) -> str:
    parts = [] if suite["exchange"] == "RSA" else suite["exchange"].split("_")
    if suite["bits"] is None:
        return "-".join([*parts, "CHACHA20", "POLY1305"])
    mode = ["GCM"] if suite["mode"] == "GCM" else []
    return "-".join([*parts, f"AES{suite['bits']}", *mode, suite["hash"]])


def client_config(properties: Mapping[str, str]) -> ClientConfig:
    """Parse the properties for security, and read the stores that they name.

    :raises PropertiesError: if Kafka would not accept a value, or a store cannot be read
    """
    warnings: list[str] = []
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        raise PropertiesError(f"security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    try:
        tls = _tls(properties, warnings) if protocol.endswith("SSL") else None
        sasl = _sasl(properties, warnings) if protocol.startswith("SASL_") else None
    except ValueError as error:
        raise PropertiesError(str(error)) from None
    ignored = sorted(set(properties) - _USED)
    if ignored:
        warnings.append(f"client properties that kproxy does not use are ignored: {', '.join(ignored)}")
    return ClientConfig(Security(tls, sasl), properties.get("bootstrap.servers", "").strip(), warnings)


# -- TLS -------------------------------------------------------------------------------------------------------


def _tls(properties: Mapping[str, str], warnings: list[str]) -> Tls:
    algorithm = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if algorithm not in ("https", ""):
        raise ValueError(f"ssl.endpoint.identification.algorithm={algorithm} is neither https nor empty")
    if not algorithm:
        warnings.append(
            "ssl.endpoint.identification.algorithm is empty: whether a broker's certificate is for its host name is "
            "not checked, so anyone with a certificate of the same authority can impersonate a broker"
        )
    suites = sorted_out(_listed(properties, "ssl.cipher.suites"))
    if suites.unknown:
        warnings.append(
            f"ssl.cipher.suites that cannot be chosen here are left out: {', '.join(suites.unknown)}"
        )
    return Tls(
        authorities=_authorities(properties),
        identity=_identity(properties),
        verify_host=bool(algorithm),
        versions=_bounded(_versions(properties), suites),
        ciphers=":".join(suites.openssl),
    )


def _authorities(properties: Mapping[str, str]) -> str | None:
    text, location = properties.get("ssl.truststore.certificates"), properties.get("ssl.truststore.location")
    if text and location:
        raise ValueError("ssl.truststore.certificates and ssl.truststore.location cannot both be set")
    if text:
        return _of("ssl.truststore.certificates", trusted_pem, text)
    return trusted_certificates(location, properties.get("ssl.truststore.password")) if location else None


def _identity(properties: Mapping[str, str]) -> Identity | None:
    key, chain = properties.get("ssl.keystore.key"), properties.get("ssl.keystore.certificate.chain")
    location, key_password = properties.get("ssl.keystore.location"), properties.get("ssl.key.password")
    if location and (key or chain):
        raise ValueError(
            "ssl.keystore.location cannot be set together with ssl.keystore.key and .certificate.chain"
        )
    if location:
        return stored_identity(location, properties.get("ssl.keystore.password"), key_password)
    if bool(key) != bool(chain):
        raise ValueError("ssl.keystore.key and ssl.keystore.certificate.chain can only be set together")
    if key and chain:
        return _of("ssl.keystore.key", lambda text: pem_identity(text, key_password), f"{key}\n{chain}")
    return None


def _of(name: str, read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _versions(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the lowest and highest version; without enabled versions, ``ssl.protocol`` is the upper bound."""
    enabled = _listed(properties, "ssl.enabled.protocols")
    if not enabled:
        only = properties.get("ssl.protocol", "").strip()
        enabled = [each for each in ("TLSv1.2", "TLSv1.3") if each <= only] if only in VERSIONS else []
    if not enabled:
        return None
    unknown = [each for each in enabled if each not in VERSIONS]
    if unknown:
        raise ValueError(f"ssl.enabled.protocols={','.join(unknown)} is none of {', '.join(VERSIONS)}")
    ordered = sorted(enabled, key=VERSIONS.index)
    return ordered[0], ordered[-1]


def _bounded(versions: tuple[str, str] | None, suites: Suites) -> tuple[str, str] | None:
    """Return the versions without those that the configured cipher suites exclude."""
    lowest, highest = versions or ("TLSv1.2", "TLSv1.3")
    if suites.openssl and not suites.tls13:
        return lowest, min(highest, "TLSv1.2")
    if suites.tls13 and not suites.openssl:
        return max(lowest, "TLSv1.3"), highest
    return versions


# -- SASL ------------------------------------------------------------------------------------------------------


def _sasl(properties: Mapping[str, str], warnings: list[str]) -> Sasl:
    mechanism = properties.get("sasl.mechanism", _DEFAULT_MECHANISM).strip()
    if mechanism not in MECHANISMS:
        warnings.append(
            f"sasl.mechanism={mechanism} is not among those of kproxy's own requests ({', '.join(MECHANISMS)}): "
            "clients pass through with it, but kproxy cannot ask the brokers itself"
        )
        return Sasl(mechanism)
    if mechanism == OAUTHBEARER:
        return _bearer(properties, warnings)
    module = _login_module(properties)
    if module is None:
        raise ValueError(f"sasl.mechanism={mechanism} needs sasl.jaas.config with username and password")
    missing = [name for name in ("username", "password") if name not in module.options]
    if missing:
        raise ValueError(f"sasl.jaas.config: {module.name} has no {' and no '.join(missing)}")
    return Sasl(mechanism, module.options["username"], module.options["password"])


def _login_module(properties: Mapping[str, str]) -> LoginModule | None:
    text = properties.get("sasl.jaas.config")
    try:
        return parse_jaas(text) if text else None
    except JaasError as error:
        raise ValueError(f"sasl.jaas.config: {error}") from None


def _bearer(properties: Mapping[str, str], warnings: list[str]) -> Sasl:
    """Return where tokens come from: a file, an authorization server, or claims of unsecured tokens among the options
    of the login module.

    Source: ``OAuthBearerUnsecuredLoginCallbackHandler.java``; the first character of a list separates its elements.
    """
    url = urlsplit(properties.get("sasl.oauthbearer.token.endpoint.url", "").strip())
    if url.scheme == "file":
        return Sasl(OAUTHBEARER, token_file=unquote(url.path))
    module = _login_module(properties)
    options = module.options if module is not None else {}
    if url.scheme in ("http", "https"):
        return Sasl(OAUTHBEARER, token_endpoint=_token_endpoint(url.geturl(), properties, options))
    claims: dict[str, str | float | list[str]] = {}
    for option, value in options.items():
        kind, _, name = option.removeprefix("unsecuredLogin").partition("Claim_")
        if kind == "String":
            claims[name] = value
        elif kind == "Number":
            claims[name] = float(value)
        elif kind == "List":
            claims[name] = value[1:].split(value[:1]) if value else []
    if claims:
        seconds = int(options.get("unsecuredLoginLifetimeSeconds", "3600"))
        return Sasl(OAUTHBEARER, claims=claims, token_seconds=seconds)
    warnings.append(
        "kproxy has no token for OAUTHBEARER, it gets one from the file or the server that "
        "sasl.oauthbearer.token.endpoint.url names (file:///..., https://...): clients pass through, but kproxy cannot "
        "ask the brokers itself"
    )
    return Sasl(OAUTHBEARER)


def _token_endpoint(url: str, properties: Mapping[str, str], options: Mapping[str, str]) -> TokenEndpoint:
    """Return an authorization server with the credentials for it.

    They are client properties since 4.1 (KIP-1139), before that options of the login module (KIP-768), as are those of
    TLS to the server.

    :raises ValueError: if there are none, or the URL contains others
    """
    if "@" in urlsplit(url).netloc:
        raise ValueError("sasl.oauthbearer.token.endpoint.url must not contain a user name or a password")
    before = "sasl.oauthbearer.client.credentials."
    client_id = properties.get(f"{before}client.id", options.get("clientId"))
    secret = properties.get(f"{before}client.secret", options.get("clientSecret"))
    if client_id is None or secret is None:
        raise ValueError(
            f"sasl.oauthbearer.token.endpoint.url={url} needs clientId and clientSecret in sasl.jaas.config, or "
            f"{before}client.id and {before}client.secret"
        )
    scope = properties.get("sasl.oauthbearer.scope", options.get("scope", ""))
    encoded = properties.get("sasl.oauthbearer.header.urlencode", "false").strip().lower() == "true"
    return TokenEndpoint(url, client_id, secret, scope, urlencode=encoded, authorities=_authorities(options))


def _listed(properties: Mapping[str, str], name: str) -> list[str]:
    return [each.strip() for each in properties.get(name, "").split(",") if each.strip()]
