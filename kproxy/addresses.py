"""Addresses as people write them: ``broker:9092``, ``[::1]:9092``."""

from __future__ import annotations

Address = tuple[str, int]
"""Host, without brackets, and port."""

LOOPBACK = "127.0.0.1"
_DEFAULT_PORT = 9092
MOST_PORT = 65_535


def address_text(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def address(text: str, *, port_alone: bool = False) -> Address:
    """Parse ``host:port``, ``host``, ``:port`` or ``[::1]:port``; return host and port.

    :param port_alone: a text without a colon is a port, not a host
    :raises ValueError: if it is not an address
    """
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.endswith("]")):
        host, port = ("", text) if port_alone else (text, str(_DEFAULT_PORT))
    if not port.isdecimal() or int(port) > MOST_PORT:
        raise ValueError(f"{text!r} is not an address: write host:9092 or [::1]:9092")
    return host.removeprefix("[").removesuffix("]"), int(port)


def addresses(text: str) -> tuple[Address, ...]:
    """Parse a comma-separated list of broker addresses, as Kafka's own tools accept.

    :raises ValueError: if one is not the address of a broker
    """
    if "://" in text:
        scheme, _, rest = text.partition("://")
        raise ValueError(
            f"{text!r} is a URL: write host:port alone, {rest.strip('/') or 'broker:9092'}"
            + (
                ". It is the broker's address, not that of an HTTP service"
                if scheme.startswith("http")
                else ""
            )
        )
    found = tuple(address(each.strip()) for each in text.split(",") if each.strip())
    if not found or not all(host and port for host, port in found):
        raise ValueError(f"{text!r} is not the address of a broker: write broker:9092 or [::1]:9092")
    return found
