"""The certificate that a broker shows, looked at after a failed verification to say what is in it."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress


async def certificate_of(host: str, port: int, timeout: float = 5.0) -> bytes | None:
    """Return the certificate (DER) that is shown at an address, unverified; None if there is none to be had.

    The connection is closed at once: nothing is sent over it.

    :param timeout: seconds
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with suppress(OSError, TimeoutError, UnicodeError):
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
        try:
            tls = writer.get_extra_info("ssl_object")
            return tls.getpeercert(binary_form=True) if tls else None
        finally:
            writer.transport.abort()
    return None
