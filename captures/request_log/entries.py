"""Entries of a request log in JSON."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from captures.interventions import BrokerLog

_HOST = r"([0-9A-Fa-f.:]+(?:%[^:]*)?)"
"""An address: brokers write no names here. The pattern is unambiguous."""
_CONNECTION = re.compile(
    rf"{_HOST}:(\d+)-{_HOST}:(\d+)-\d+(?:-\d+)?"
)  # org.apache.kafka.common.network.ServerConnectionId
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
    :ivar response: its fields; empty if none was sent
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
    def ends(self) -> tuple[str, str]:
        """The addresses of client and broker.

        :raises EntryError: if the connection has another form
        """
        found = _CONNECTION.fullmatch(self.connection)
        if found is None:
            raise EntryError("it is not ADDRESS:PORT-ADDRESS:PORT-NUMBER")
        broker, broker_port, client, client_port = found.groups()
        return _address(client, client_port), _address(broker, broker_port)

    def broker_log(self, *, request_left_out: int, response_left_out: int) -> BrokerLog:
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
        )


_DECODER = msgspec.json.Decoder(Entry, strict=False)


def entry_of(text: bytes) -> Entry:
    """Parse an entry from a JSON object.

    :raises EntryError: if it is not one, for example because it was cut off
    """
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise EntryError(str(error)) from None


def _ns(milliseconds: float) -> int:
    return round(milliseconds * 1e6)


def _address(host: str, port: str) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
