"""Explains mix-ups of TLS and plaintext to users: what was seen, what it means, what to do.

Everything here is a function of bytes or of an error; nothing is logged, nothing raised. Bytes from peers are shown
only if they are printable, and cut if they are long.

The numbers: a TLS record begins with its type (22 handshake, 21 alert) and version 3.x (RFC 8446, section 5.1). Read as
a Kafka frame, its first four bytes are a size of 369,295,616 or more (352,518,400 for an alert), its next two the API
key in the log line "Invalid api key -19711" and the like.
"""

from __future__ import annotations

import asyncio
import ssl
import struct

from dissectors.apis import NAMES, api_name
from kproxy.proxy.tls.certificates import names_of

_ALERT = 21
_HANDSHAKE = 22
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"PATC", b"DELE", b"CONN", b"TRAC", b"PRI ")
_MOST_NAMES = 8
_LONGEST = 120

_REQUEST_START = struct.Struct(">ihhih")

# OpenSSL's ssl_reason names of alerts (RFC 8446, section 6) -> what an alert from a broker means
_BROKER_ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants a client certificate: set ssl.keystore.location in --command-config",
    "UNKNOWN_CA": "it does not trust the authority that signed kproxy's client certificate",
    "BAD_CERTIFICATE": "it refuses kproxy's client certificate, or wants one: see ssl.keystore.location",
    "CERTIFICATE_UNKNOWN": "it refuses kproxy's client certificate",
    "CERTIFICATE_EXPIRED": "kproxy's client certificate has expired",
    "CERTIFICATE_REVOKED": "kproxy's client certificate has been revoked",
    "UNSUPPORTED_CERTIFICATE": "it cannot use kproxy's client certificate",
    "ACCESS_DENIED": "it does not let kproxy's client certificate in",
    "PROTOCOL_VERSION": "it has no TLS version in common with kproxy: see ssl.enabled.protocols",
    "INSUFFICIENT_SECURITY": "it finds the cipher suites that kproxy offers too weak",
    "HANDSHAKE_FAILURE": "it has no cipher suite in common with kproxy, or wants a client certificate "
    "(ssl.keystore.location in --command-config)",
    "UNRECOGNIZED_NAME": "it knows no host of the name that was asked for",
}

# the same for alerts from a client
_CLIENT_ALERTS = {
    "UNKNOWN_CA": "it does not trust the authority that signed it: give it kproxy's authority as trusted certificate "
    "(docs/proxy-tls.md)",
    "CERTIFICATE_UNKNOWN": "its authority is not trusted there, or it is not for the host name that the client asked "
    "for: give the client kproxy's authority as trusted certificate, and compare the names",
    "BAD_CERTIFICATE": "its authority is not trusted there, or it is not for the host name that the client asked for",
    "CERTIFICATE_EXPIRED": "it has expired, or the clocks differ",
    "UNSUPPORTED_CERTIFICATE": "the client cannot use this kind of certificate",
    "PROTOCOL_VERSION": "the TLS versions of the two have nothing in common",
    "HANDSHAKE_FAILURE": "the two have no cipher suite in common",
    "DECRYPT_ERROR": "its signature does not match the authority of that name that the client trusts: the client has "
    "the certificate of another authority of kproxy, perhaps an older one",
}

# https://www.openssl.org/docs/man3.0/man3/X509_STORE_CTX_get_error.html
_X509_EXPIRED = 10
_X509_NOT_YET_VALID = 9
_X509_NAMES = (62, 64)  # host name, IP address
_X509_SELF_SIGNED = (18, 19)


def broker_unreachable(error: BaseException, where: str) -> str:
    """Explain why a broker cannot be connected to.

    :param where: ``host:port``
    """
    if isinstance(error, ConnectionRefusedError):
        return f"{where} refuses connections: is the broker up, and is this its listener's port?"
    return f"{where} cannot be reached: {_words(error)}"


def broker_handshake(error: BaseException, where: str, name: str, certificate: bytes | None = None) -> str:
    """Explain why the TLS handshake with a broker failed.

    :param error: raised by the connection attempt
    :param where: ``host:port``
    :param name: the host name that the certificate must match
    :param certificate: the broker's (DER), if it was fetched afterwards
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, where, name, certificate)
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        reason = error.reason or ""
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            return f"{where} does not answer in TLS: it is a plaintext port, use security.protocol=PLAINTEXT"
        alert = _alert(reason)
        if alert in _BROKER_ALERTS:
            return f"{where} broke off the TLS handshake: {_BROKER_ALERTS[alert]}"
        return f"the TLS handshake with {where} failed: {_words(error)}"
    if isinstance(error, ConnectionRefusedError):
        return broker_unreachable(error, where)
    if isinstance(error, ConnectionError | EOFError | ssl.SSLError):
        return (
            f"{where} closed the connection during the TLS handshake: it may be a plaintext port "
            "(Kafka closes what does not look like a request; then use security.protocol=PLAINTEXT)"
        )
    return broker_unreachable(error, where)


def broker_ended(error: BaseException | None, where: str) -> str:
    """Explain how a broker ended an open connection.

    :param error: raised by reading or writing, None for an ordinary end
    """
    if isinstance(error, ssl.SSLError):
        alert = _alert(error.reason or "")
        if alert in _BROKER_ALERTS:
            return f"{where} ended the TLS connection: {_BROKER_ALERTS[alert]}"
    if error is None or isinstance(error, asyncio.IncompleteReadError):
        return f"{where} closed the connection"
    return f"the connection to {where} broke: {_words(error)}"


def broker_answer(start: bytes, where: str) -> str:
    """Name the protocol of the first bytes from a plaintext connection to a broker, if it is not Kafka.

    :param start: four bytes or more
    :returns: empty if they may be Kafka
    """
    if start[:1] == bytes([_ALERT]) and start[1:2] == b"\x03":
        return f"{where} answers with a TLS alert: it is a TLS port, use security.protocol=SSL or SASL_SSL"
    if start[:5] in (b"HTTP", b"HTTP/"):
        return f"{where} answers in HTTP: it is not a Kafka broker"
    if start[:4] == b"SSH-":
        return f"{where} answers as an SSH server: it is not a Kafka broker"
    return ""


def _unverified(error: ssl.SSLCertVerificationError, where: str, name: str, certificate: bytes | None) -> str:
    names = _names(certificate)
    code = error.verify_code
    if code in _X509_NAMES:
        has = f", it is for {names}" if names else ""
        return (
            f"the certificate of {where} is not for the name that was asked for, {name}{has}: reach the broker by a "
            "name of its certificate, or give up the check with ssl.endpoint.identification.algorithm= in "
            "--command-config"
        )
    whose = f"the certificate of {where}" + (f" (for {names})" if names else "")
    if code == _X509_EXPIRED:
        return f"{whose} has expired, or this machine's clock is wrong"
    if code == _X509_NOT_YET_VALID:
        return f"{whose} is not valid yet, or this machine's clock is wrong"
    what = (
        "is self-signed or signed by an unknown authority"
        if code in _X509_SELF_SIGNED
        else "is signed by an unknown authority"
    )
    return (
        f"{whose} {what} ({error.verify_message}): give the certificate of the authority that signed it, with "
        "ssl.truststore.location in --command-config"
    )


# -- clients ---------------------------------------------------------------------------------------------------


def client_start(data: bytes, *, tls: bool) -> str:
    """Name the protocol of a client's first bytes, if it does not match the port.

    :param data: eight bytes or more, unless the client ended before
    :param tls: whether the port is for TLS, otherwise it is for plaintext Kafka
    :returns: empty if the protocol is the expected one, or unknown
    """
    hello = data[:1] == bytes([_HANDSHAKE]) and data[1:2] == b"\x03"
    if hello and not tls:
        size = int.from_bytes(data[:4], "big")
        return (
            f"the client speaks TLS, and this port is plaintext (a broker would complain of a request of {size:,} "
            "bytes): use security.protocol=PLAINTEXT in the client, or give kproxy --client-tls"
        )
    if data[:4] in _HTTP:
        return "the client speaks HTTP, and this is a Kafka port"
    if hello or not tls:
        return ""
    asked = _request(data)
    if asked:
        return (
            f"the client speaks plaintext Kafka ({asked}), and this port is for TLS: use security.protocol=SSL or "
            "SASL_SSL in the client, or connect to a plaintext port"
        )
    return "the client does not speak TLS, and this port is for TLS"


def client_handshake(error: BaseException, server_name: str | None = None) -> str:
    """Explain why the TLS handshake with a client failed.

    :param server_name: the name that the client asked for (SNI), None if it sent none
    """
    shown = f" for {_printable(server_name.encode())}" if server_name else ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        reason = error.reason or ""
        alert = _alert(reason)
        if alert in _CLIENT_ALERTS:
            return f"the client refuses the certificate{shown} that kproxy showed: {_CLIENT_ALERTS[alert]}"
        if reason == "HTTP_REQUEST":
            return "the client speaks HTTP, and this is a Kafka port"
        if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"):
            return "the client does not speak TLS, and this port is for TLS: use security.protocol=SSL in the client"
        if reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
            return "the client showed no certificate, and one is required: see ssl.keystore.location in the client"
        if reason in ("UNSUPPORTED_PROTOCOL", "VERSION_TOO_LOW", "NO_SHARED_CIPHER"):
            return f"the client offers no TLS version or cipher suite that kproxy accepts ({_words(error)})"
        return f"the TLS handshake of the client failed: {_words(error)}"
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return "the client did not finish the TLS handshake in time"
    return (
        f"the client closed the connection during the TLS handshake: it may refuse the certificate{shown} "
        "that kproxy showed without saying so"
    )


def _request(data: bytes) -> str:
    """Return API and client ID of the request that `data` begins with, empty if it is not a request."""
    if len(data) < 8:
        return ""
    size, key, version = struct.unpack_from(">ihh", data)
    if not (8 <= size <= 1 << 30 and 0 <= key < len(NAMES) and 0 <= version < 64):
        return ""
    asked = f"{api_name(key)} v{version}"
    if len(data) < _REQUEST_START.size:
        return asked
    length = _REQUEST_START.unpack_from(data)[4]
    client_id = data[14 : 14 + max(length, 0)]
    return f"{asked}, client ID {_printable(client_id)}" if client_id else asked


# -- words -----------------------------------------------------------------------------------------------------


def _alert(reason: str) -> str:
    """Return the name of an alert from OpenSSL's name of an error: ``TLSV1_ALERT_UNKNOWN_CA``."""
    return reason.partition("_ALERT_")[2]


def _words(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not error.strerror:
        return "it did not answer in time"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _printable(data: bytes) -> str:
    return data[:_LONGEST].decode("ascii", "backslashreplace").encode("unicode_escape").decode()


def _names(certificate: bytes | None) -> str:
    if not certificate:
        return ""
    names = names_of(certificate)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(_printable(name.encode()) for name in names[:_MOST_NAMES]) + more
