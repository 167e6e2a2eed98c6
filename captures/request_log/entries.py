"""Entries of a request log: JSON since Kafka 2.8 (KIP-673), text before.

The header of a text entry is a ``Struct`` up to 0.11 and a ``RequestHeader`` from 1.0 on. Up to 0.11 there are no
responses, up to 0.10 no throttle time.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from captures.interventions import BrokerLog
from captures.request_log.lines import REQUEST_LOG_MARK
from dissectors.apis import keys_by_name

_HOST = r"([0-9A-Fa-f.:]+(?:%[^:]*)?)"
"""An address: brokers write no names here. The pattern is unambiguous."""
_CONNECTION = re.compile(
    rf"{_HOST}:(\d+)-{_HOST}:(\d+)(?:-\d+){{0,2}}"
)  # org.apache.kafka.common.network.ServerConnectionId; without a number before 1.0
_Name = Annotated[str, msgspec.Meta(max_length=4096)]
"""A name that goes into a packet comment, which has room for 64 KiB."""


_Milliseconds = Annotated[float, msgspec.Meta(ge=0, le=1e11)]
"""A duration: three years at most, so that its nanoseconds fit into 64 bits."""


class EntryError(ValueError):
    """A line is not a complete entry; the message says why."""


class Header(msgspec.Struct, rename="camel"):
    """The header of a request."""

    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None = None


class Entry(msgspec.Struct, rename="camel", kw_only=True):
    """A broker's record of a request that it has answered. Times are milliseconds.

    :ivar connection: ``broker:port-client:port-index``
    :ivar request: its fields; text if the entry is text
    :ivar response: its fields; empty if none was sent, None if the log has none
    """

    request_header: Header
    request: dict[str, Any] | str | None = None
    response: dict[str, Any] | str | None = None
    connection: str
    total_time_ms: _Milliseconds
    request_queue_time_ms: _Milliseconds
    local_time_ms: _Milliseconds
    remote_time_ms: _Milliseconds
    throttle_time_ms: _Milliseconds = 0
    response_queue_time_ms: _Milliseconds
    send_time_ms: _Milliseconds
    security_protocol: str = ""
    principal: _Name = ""
    listener: _Name = ""
    is_forwarded: bool = False

    @property
    def arrived_before_log(self) -> bool:
        """Whether the log was switched on after the request had arrived; its fields are then left out."""
        return self.request == ""

    @property
    def ends(self) -> tuple[str, str]:
        """The addresses of client and broker.

        :raises EntryError: if the connection has another form
        """
        found = _CONNECTION.fullmatch(self.connection)
        if found is None:
            raise EntryError("it is not ADDRESS:PORT-ADDRESS:PORT-NUMBER")
        broker, broker_port, client, client_port = found.groups()
        return _address(client, client_port), _address(broker, broker_port)

    def broker_log(
        self, *, request_left_out: int = 0, response_left_out: int = 0, captured: bool = False
    ) -> BrokerLog:
        """Return the broker's measurements, in nanoseconds."""
        return BrokerLog(
            request_queue=_ns(self.request_queue_time_ms),
            local=_ns(self.local_time_ms),
            remote=_ns(self.remote_time_ms),
            throttle=_ns(self.throttle_time_ms),
            response_queue=_ns(self.response_queue_time_ms),
            send=_ns(self.send_time_ms),
            request_left_out=request_left_out,
            response_left_out=response_left_out,
            listener=self.listener,
            principal=self.principal,
            captured=captured,
        )


_DECODER = msgspec.json.Decoder(Entry, strict=False)
_HEADER = re.compile(
    r"RequestHeader\(apiKey=(?P<requestApiKey>\w+), apiVersion=(?P<requestApiVersion>\d+), clientId=(?P<clientId>.*?), "
    r"correlationId=(?P<correlationId>-?\d+)\) -- "
)
_OLD_HEADER = re.compile(
    r"\{api_key=(?P<requestApiKey>\d+),api_version=(?P<requestApiVersion>\d+),"
    r"correlation_id=(?P<correlationId>-?\d+),client_id=(?P<clientId>.*?)\} -- "
)
_TAIL = re.compile(
    r" from connection (?P<connection>\S+);"
    r"totalTime:(?P<totalTimeMs>[\d.]+),requestQueueTime:(?P<requestQueueTimeMs>[\d.]+),"
    r"localTime:(?P<localTimeMs>[\d.]+),remoteTime:(?P<remoteTimeMs>[\d.]+),"
    r"(?:throttleTime:(?P<throttleTimeMs>[\d.]+),)?"
    r"responseQueueTime:(?P<responseQueueTimeMs>[\d.]+),sendTime:(?P<sendTimeMs>[\d.]+)"
    r"(?:,securityProtocol:(?P<securityProtocol>\w+),principal:"
    r"(?:(?P<principal>.*?),listener:(?P<listener>[^\s,]*)|(?P<lastPrincipal>\S*)))?"
)
"""The groups of these patterns have the names of fields in JSON."""


def entry_of(text: bytes) -> Entry:
    """Parse an entry from a JSON object or a text, and what the layout of the line has after it.

    :raises EntryError: if it is not one, for example because it was cut off
    """
    try:
        if text.startswith(b'{"'):
            return _DECODER.decode(text[: text.rfind(b"}") + 1])
        return _text_entry(text.decode())
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise EntryError(str(error)) from None


def _text_entry(text: str) -> Entry:
    header = _HEADER.match(text) or _OLD_HEADER.match(text)
    if header is None:
        raise EntryError(f"it starts with {text[:40]!r}, not with a header")
    end = text.rfind(" from connection ")
    tail = _TAIL.match(text, max(end, 0))
    if tail is None:
        raise EntryError("connection and times are missing at the end")
    name = header["requestApiKey"]
    if REQUEST_LOG_MARK.decode() in text:
        raise EntryError("another entry begins inside it")
    request, answered, response = text[header.end() : end].partition(",response:")
    logged: dict[str, Any] = header.groupdict()
    if not name.isdecimal():
        logged["requestApiKey"] = _key(name)
    if logged["clientId"] == "null":
        logged["clientId"] = None
    entry = {
        "requestHeader": logged,
        "request": request or None,
        "response": response if answered else None,
        "principal": tail["lastPrincipal"] or "",
        **{field: value for field, value in tail.groupdict().items() if value is not None},
    }
    return msgspec.convert(entry, Entry, strict=False)


def _key(name: str) -> int:
    key = keys_by_name().get(name.replace("_", "").lower())
    if key is None:
        raise EntryError(f"unknown API {name[:40]}")
    return key


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _address(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
