"""Certificates and keys as text and as names. The cryptographic library is loaded only to parse them.

(:mod:`captures.packets.tls.certificates` reads names for display; it would bring numpy into the data plane.)
"""

from __future__ import annotations

import asyncio
import re
import ssl
import warnings
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from contextlib import suppress
from textwrap import wrap
from typing import NamedTuple

_LINE = 64  # RFC 7468, section 2


class PemBlock(NamedTuple):
    """A block of PEM text.

    :ivar label: the word after BEGIN: ``CERTIFICATE``
    """

    label: str
    data: bytes


# Kafka accepts PEM on one line in client properties, with line breaks replaced by blanks or omitted
# (clients/.../ssl/DefaultSslEngineFactory.java, PemParser)
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def pem_blocks(text: str) -> list[PemBlock]:
    """Return the blocks of PEM text, ignoring everything around them.

    :raises ValueError: if one is not base64
    """
    blocks = []
    for label, content in _BLOCK.findall(text):
        try:
            blocks.append(PemBlock(label, b64decode("".join(content.split()), validate=True)))
        except Base64Error:
            raise ValueError(f"the text between BEGIN and END {label} is not base64") from None
    return blocks


def pem(label: str, data: bytes) -> str:
    """Return a block of PEM text, with its end of line."""
    lines = "\n".join(wrap(b64encode(data).decode(), _LINE))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def certificate_pem(*certificates: bytes) -> str:
    """Return certificates (DER) as PEM text."""
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates))


def names_of(certificate: bytes) -> list[str]:
    """Return the names in a certificate (DER): DNS names and IP addresses, or the common name if it has neither.

    The common name counts only without the others (RFC 6125, section 6.4.4). Empty if the certificate cannot be read.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd but readable certificates
        try:
            read = x509.load_der_x509_certificate(certificate)
            common = [str(each.value) for each in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
            alternative = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return common
        except (ValueError, x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType):
            return []
    names = [str(each.value) for each in alternative if isinstance(each, x509.DNSName | x509.IPAddress)]
    return names or common


async def certificate_of(host: str, port: int, timeout: float = 5.0) -> bytes | None:
    """Return the certificate (DER) of the server at an address, unverified; None if it cannot be obtained.

    The connection is closed at once, without sending any data.

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
