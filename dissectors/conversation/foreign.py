"""Identification of other protocols by the first bytes of a connection.

A detector gets all bytes so far and returns a :class:`Guess`, None ("not mine"), or the number of bytes it needs
to decide. More bytes never reverse a decision, so that the guess does not depend on segmentation, and no detector
needs more than a TLS record. They are tried in order; an exact signature precedes a looser one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

import msgspec

from dissectors.printable import printable

#: maximum length of a line that identifies a text protocol
MAX_LINE = 512

#: largest TLS record: 2^14 bytes and 2048 of expansion (RFC 5246, section 6.2.3)
_MAX_TLS_RECORD = 2**14 + 2048


class Guess(msgspec.Struct, frozen=True):
    """A protocol and the evidence for it.

    :ivar skip: bytes of a preamble after which Kafka may follow (PROXY protocol), or 0
    """

    protocol: str
    evidence: str
    skip: int = 0


Detector = Callable[[bytes], "Guess | int | None"]


def guess_client(data: bytes, *, final: bool = False) -> Guess | int | None:
    """Guess the protocol of a client that does not speak Kafka from its first bytes.

    :param final: no more bytes will arrive
    :returns: a guess, None if nothing is recognised, or the number of bytes needed to decide
    """
    return _first(_CLIENT, data, final)


def guess_server(data: bytes, *, final: bool = False) -> Guess | int | None:
    """Guess the protocol of a server that does not speak Kafka; see :func:`guess_client`."""
    return _first(_SERVER, data, final)


def _first(detectors: tuple[Detector, ...], data: bytes, final: bool) -> Guess | int | None:
    for detect in detectors:
        found = detect(data)
        if isinstance(found, Guess):
            return found
        if isinstance(found, int) and not final:
            return found
    return None


# -- TLS (RFC 8446, RFC 5246) ------------------------------------------------------------------------------------

_TLS_RECORDS = {20: "ChangeCipherSpec", 21: "alert", 22: "handshake", 23: "application data", 24: "heartbeat"}
_TLS_HANDSHAKES = {0: "HelloRequest", 1: "ClientHello", 2: "ServerHello", 11: "Certificate"}
#: alert descriptions (IANA registry "TLS Alerts")
TLS_ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    100: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    111: "certificate_unobtainable",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    114: "bad_certificate_hash_value",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}


def _tls(data: bytes) -> Guess | int | None:
    if data[0] not in _TLS_RECORDS or data[1:2] not in (b"", b"\x03"):
        return None
    if len(data) < 5:
        return 5
    kind, _, minor, length = struct.unpack_from(">BBBH", data)
    if minor > 4 or not 0 < length <= _MAX_TLS_RECORD:
        return None
    if len(data) < 5 + length:
        return 5 + length if kind in (21, 22) else Guess("TLS", _TLS_RECORDS[kind])
    return Guess("TLS", _tls_record(kind, data[5 : 5 + length]))


def _tls_cut(data: bytes) -> Guess | int | None:
    """Detect a TLS record without its end: at the end of a stream, the header alone is enough evidence."""
    found = _tls(data)
    if isinstance(found, int) and len(data) >= 5:
        return Guess("TLS", _TLS_RECORDS[data[0]])
    return None


def _tls_record(kind: int, record: bytes) -> str:
    if kind == 22 and record[0] in _TLS_HANDSHAKES:
        name = _TLS_HANDSHAKES[record[0]]
        server_name = _server_name(record) if record[0] == 1 else None
        return f"{name} (SNI {server_name})" if server_name else name
    if kind == 21 and len(record) == 2:
        return f"alert {TLS_ALERTS.get(record[1], record[1])}"
    return _TLS_RECORDS[kind]


def _server_name(hello: bytes) -> str | None:
    """Return the server name of a ClientHello (RFC 6066, section 3), or None."""
    try:
        at = 4 + 2 + 32
        at += 1 + hello[at]
        at += 2 + int.from_bytes(hello[at : at + 2], "big")
        at += 1 + hello[at]
        end = min(at + 2 + int.from_bytes(hello[at : at + 2], "big"), len(hello))
        at += 2
        while at + 4 <= end:
            kind, size = struct.unpack_from(">HH", hello, at)
            if kind == 0:
                (length,) = struct.unpack_from(">H", hello, at + 7)
                return hello[at + 9 : at + 9 + length].decode("ascii")
            at += 4 + size
    except (IndexError, struct.error, UnicodeDecodeError):
        pass
    return None


# -- text protocols ----------------------------------------------------------------------------------------------


def _line(protocol: str, *starts: bytes) -> Detector:
    """Return a detector of a first line that starts with one of `starts`; the line is the evidence."""
    first = {start[0] for start in starts}

    def detect(data: bytes) -> Guess | int | None:
        if data[0] not in first:
            return None
        for start in starts:
            if data.startswith(start):
                line, newline, _ = data[:MAX_LINE].partition(b"\n")
                if newline or len(data) >= MAX_LINE:
                    return Guess(protocol, _readable(line))
                return len(data) + 1
            if start.startswith(data):
                return len(start)
        return None

    return detect


def _line_cut(detect: Detector) -> Detector:
    """Return a detector of the same line without its line end, for the end of a stream."""

    def detect_cut(data: bytes) -> Guess | int | None:
        found = detect(data + b"\n")
        return found if isinstance(found, Guess) else None

    return detect_cut


def _readable(raw: bytes) -> str:
    return printable(raw.rstrip(b"\r").decode("utf-8", "replace"))


def _signature(protocol: str, evidence: str, *signatures: bytes) -> Detector:
    first = {signature[0] for signature in signatures}

    def detect(data: bytes) -> Guess | int | None:
        if data[0] not in first:
            return None
        if data.startswith(signatures):
            return Guess(protocol, evidence)
        return next((len(wanted) for wanted in signatures if wanted.startswith(data)), None)

    return detect


_HTTP_METHODS = tuple(
    method + b" "
    for method in (b"GET", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"CONNECT", b"PATCH", b"TRACE")
)

# -- PROXY protocol (haproxy.org, proxy-protocol.txt) --------------------------------------------------------------

_PROXY_V2 = b"\r\n\r\n\0\r\nQUIT\n"
#: longest v1 header, CRLF included
_PROXY_V1_LONGEST = 107


def _proxy_v1(data: bytes) -> Guess | int | None:
    start = b"PROXY "
    if not data.startswith(start):
        return len(start) if start.startswith(data) else None
    end = data.find(b"\r\n", 0, _PROXY_V1_LONGEST)
    if end >= 0:
        return Guess("PROXY protocol v1", _readable(data[:end]), skip=end + 2)
    return None if len(data) >= _PROXY_V1_LONGEST else len(data) + 1


def _proxy_v2(data: bytes) -> Guess | int | None:
    if not data.startswith(_PROXY_V2):
        return len(_PROXY_V2) if _PROXY_V2.startswith(data) else None
    if len(data) < 16:
        return 16
    if data[12] >> 4 != 2:
        return None
    stop = 16 + int.from_bytes(data[14:16], "big")
    if len(data) < stop:
        return stop
    return Guess(
        "PROXY protocol v2", _proxy_addresses(data[12] & 15, data[13] >> 4, data[16:stop]), skip=stop
    )


def _proxy_addresses(command: int, family: int, block: bytes) -> str:
    if command == 0:
        return "LOCAL"
    if family == 1 and len(block) >= 12:
        addresses = [".".join(map(str, block[at : at + 4])) for at in (0, 4)]
        ports = struct.unpack_from(">HH", block, 8)
    elif family == 2 and len(block) >= 36:
        addresses = [f"[{block[at : at + 16].hex(':', 2)}]" for at in (0, 16)]
        ports = struct.unpack_from(">HH", block, 32)
    else:
        return "PROXY"
    return f"PROXY {addresses[0]}:{ports[0]} {addresses[1]}:{ports[1]}"


# -- other binary protocols --------------------------------------------------------------------------------------

_ZOOKEEPER_WORDS = (
    b"conf cons crst dirs dump envi gtmk hash isro mntr ruok srst srvr stat stmk wchc wchp wchs".split()
)


def _zookeeper_word(data: bytes) -> Guess | int | None:
    if not data[:1].islower():
        return None
    word = data.rstrip(b"\r\n")
    if word in _ZOOKEEPER_WORDS and len(data) <= 6:
        return Guess("ZooKeeper", f"four-letter command {word.decode()!r}")
    return 4 if any(known.startswith(data) for known in _ZOOKEEPER_WORDS) else None


def _zookeeper_connect(data: bytes) -> Guess | int | None:
    """Detect a ConnectRequest (zookeeper.jute): as a Kafka header it would pass for Produce v0 without a client ID."""
    for size in (44, 45):
        start = struct.pack(">iiq", size, 0, 0)
        if data[:16] == start[: len(data)]:
            # Ask for no more than the size field first: a Kafka request may be shorter than 32 bytes.
            if len(data) < 32:
                return 32 if len(data) >= 4 else 4
            if data[28:32] == b"\0\0\0\x10":
                timeout = int.from_bytes(data[16:20], "big")
                return Guess("ZooKeeper", f"connect request, session timeout {timeout} ms")
    return None


#: codes after the length in a PostgreSQL start packet (postgresql.org, "Message Formats")
_POSTGRES = {80877102: "CancelRequest", 80877103: "SSLRequest", 80877104: "GSSENCRequest"}


def _postgres(data: bytes) -> Guess | int | None:
    if data[:2] != b"\0\0"[: len(data)]:
        return None
    if len(data) < 8:
        return 8
    size, code = struct.unpack_from(">ii", data)
    if code in _POSTGRES and size in (8, 16):
        return Guess("PostgreSQL", _POSTGRES[code])
    if code == 3 << 16:
        # As a Kafka header this is Metadata v0; its first parameter name tells the difference.
        if len(data) < 13:
            return 13
        if data[8:13] in (b"user\0", b"datab", b"appli", b"clien", b"repli"):
            return Guess("PostgreSQL", "StartupMessage 3.0")
    return None


def _mongodb(data: bytes) -> Guess | int | None:
    if data[3:4] not in (b"", b"\0"):
        return None
    if len(data) < 16:
        return 16 if data[0] else None
    size, _, response_to, code = struct.unpack_from("<iiii", data)
    if code in (2004, 2013) and response_to == 0 and 16 < size <= 48_000_000:
        return Guess("MongoDB", "OP_QUERY" if code == 2004 else "OP_MSG")
    return None


_REDIS_ARRAY = re.compile(rb"\*[1-9]\d{0,3}\r\n\$\d")


def _redis(data: bytes) -> Guess | int | None:
    if data[:1] != b"*" or not data[1:2].isdigit():
        return None if len(data) > 1 or data != b"*" else 2
    if _REDIS_ARRAY.match(data):
        return Guess("Redis", "RESP array")
    return len(data) + 1 if len(data) < 9 else None


def _mysql(data: bytes) -> Guess | int | None:
    if len(data) < 6:
        return 6 if data[2:5] == b"\0\0\x0a"[: max(len(data) - 2, 0)] else None
    if data[2:5] == b"\0\0\x0a" and chr(data[5]).isdigit():
        version, end, _ = data[5:64].partition(b"\0")
        if end:
            return Guess("MySQL", f"greeting, version {_readable(version)}")
        return len(data) + 1 if len(data) < 64 else None
    return None


_KAFKA_07 = {0: "Produce", 1: "Fetch", 2: "MultiFetch", 3: "MultiProduce", 4: "Offsets"}


def _kafka_07(data: bytes) -> Guess | int | None:
    """Detect Kafka 0.7: size, int16 type, int16-length topic; no version, correlation ID or client ID.

    The evidence is a topic of printable ASCII directly after the type. Read as a later header, its first letters
    would be the correlation ID, and the next two the client ID's length: more than such a frame can hold.
    """
    if data[:1] != b"\0":
        return None
    if len(data) < 8:
        return 8
    size: int
    kind: int
    length: int
    size, kind, length = struct.unpack_from(">ihh", data)
    if kind not in (0, 1, 4) or not 5 <= length <= 249 or size < length + 12:
        return None
    if len(data) < 14:
        return 14
    following = int.from_bytes(data[12:14], "big")
    if following <= size or not re.fullmatch(rb"[\w.-]+", data[8:14][:length]):
        return None
    if len(data) < 8 + length:
        return 8 + length
    topic = data[8 : 8 + length]
    if re.fullmatch(rb"[\w.-]+", topic):
        return Guess("Kafka 0.7", f"{_KAFKA_07[kind]} for topic {topic.decode()}")
    return None


_http = _line("HTTP", *_HTTP_METHODS)
_ssh = _line("SSH", b"SSH-")
_http_answer = _line("HTTP", b"HTTP/1.", b"HTTP/0.9")
_greeting = _line("SMTP or FTP", b"220 ", b"220-")
_redis_answer = _line("Redis", b"-ERR", b"+PONG", b"-NOAUTH", b"+OK")
_nats = _line("NATS", b"INFO {")

_CLIENT: tuple[Detector, ...] = (
    _proxy_v1,
    _proxy_v2,
    _tls,
    _signature("HTTP/2", "connection preface", b"PRI * HTTP/2.0\r\n"),
    _line("NATS", b"CONNECT {"),
    _http,
    _ssh,
    _signature("AMQP", "protocol header", b"AMQP"),
    _line("Redis", b"PING\r", b"AUTH ", b"INFO\r"),
    _redis,
    _zookeeper_word,
    _zookeeper_connect,
    _postgres,
    _mongodb,
    _signature("MQTT", "CONNECT", *(bytes([0x10, size, 0, 4]) + b"MQTT" for size in range(10, 128))),
    _kafka_07,
    _tls_cut,
    _line_cut(_http),
    _line_cut(_ssh),
)

_SERVER: tuple[Detector, ...] = (
    _tls,
    _http_answer,
    _ssh,
    _greeting,
    _redis_answer,
    _nats,
    _signature("AMQP", "protocol header", b"AMQP"),
    _signature("ZooKeeper", "answer to 'ruok'", b"imok"),
    _mysql,
    _tls_cut,
    _line_cut(_http_answer),
    _line_cut(_ssh),
)
