"""Names in certificates. This module loads the cryptographic library, so import it only when there is a certificate."""

from __future__ import annotations

import warnings

from cryptography import x509
from cryptography.x509.oid import NameOID

_MAX_NAMES = 64
_MAX_NAME = 255


def certificate_names(der: bytes) -> tuple[str, ...]:
    """Return the names of a certificate: its common name first, then the subject alternative names, each once.

    DNS names and IP addresses (RFC 5280, section 4.2.1.6), at most 64. Empty if the certificate cannot be read.
    """
    names: dict[str, None] = {}
    with warnings.catch_warnings():
        # odd but readable certificates cause warnings, which do not matter for reading names
        warnings.simplefilter("ignore")
        try:
            certificate = x509.load_der_x509_certificate(der)
            for attribute in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME):
                names[str(attribute.value)[:_MAX_NAME]] = None
            alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            for name in alternative:
                if isinstance(name, x509.DNSName | x509.IPAddress):
                    names[str(name.value)[:_MAX_NAME]] = None
        except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension):
            pass
        except (x509.UnsupportedGeneralNameType, x509.InvalidVersion):
            pass
    return tuple(names)[:_MAX_NAMES]
