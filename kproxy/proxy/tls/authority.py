"""The local certificate authority, created on first use: clients that trust it can use TLS with kproxy under any name.

It lives in ``$XDG_DATA_HOME/kproxy/authority`` (``~/.local/share`` by default):

    authority.key   its private key, for its owner only: its holder can impersonate any host to clients that trust it
    authority.pem   its certificate, for librdkafka, Python, Go, Node, and Java (ssl.truststore.type=PEM)
    authority.p12   the same as a trust store for Java, with the password ``changeit``

Host certificates are made in memory, by name, and signed by it: ECDSA on P-256 with SHA-256, 397 days, the longest
lifetime that browsers accept (CA/Browser Forum Baseline Requirements, section 6.3.2). This module loads the
cryptographic library: import it where the authority is needed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kproxy.proxy.tls.contexts import TlsConfigError
from kproxy.proxy.tls.security import Identity
from kproxy.proxy.tls.sni import host_name
from kproxy.user_folders import user_folder

KEY, CERTIFICATE, TRUST_STORE = "authority.key", "authority.pem", "authority.p12"
TRUST_STORE_PASSWORD = "changeit"  # Java's default; a trust store holds no secret  # noqa: S105

_AUTHORITY_DAYS = 3650
_HOST_DAYS = 397
_CLOCKS_DIFFER = timedelta(days=1)
_LONGEST_COMMON_NAME = 64  # RFC 5280, appendix A.1, ub-common-name


class AuthorityError(TlsConfigError):
    """The authority cannot be used or created; the message says why."""


def default_folder() -> Path:
    """Return the folder of the authority."""
    return user_folder("XDG_DATA_HOME") / "authority"


class Authority:
    """A certificate authority with its key.

    :ivar folder: of its files
    :ivar made: whether it was just created, so that no client trusts it yet
    """

    def __init__(
        self,
        folder: Path,
        certificate: x509.Certificate,
        key: ec.EllipticCurvePrivateKey,
        *,
        made: bool = False,
    ) -> None:
        self.folder = folder
        self.made = made
        self._certificate = certificate
        self._key = key
        self._host_key = ec.generate_private_key(ec.SECP256R1())  # one for all hosts, never written to disk

    @classmethod
    def open(cls, folder: Path | None = None) -> Authority:
        """Return the authority in a folder; create it if it does not exist.

        :param folder: :func:`default_folder` if None
        :raises AuthorityError: if it cannot be read or created, or has expired
        """
        folder = default_folder() if folder is None else folder
        try:
            made = not (folder / CERTIFICATE).exists() and _make(folder)
            return cls._read(folder, made=made)
        except OSError as error:
            raise AuthorityError(
                f"the authority for TLS in {folder} cannot be used: {error.strerror or error}"
            ) from None

    @classmethod
    def _read(cls, folder: Path, *, made: bool) -> Authority:
        anew = f"remove {folder} to have a new one made, and give that to the clients"
        try:
            certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
            key = load_pem_private_key((folder / KEY).read_bytes(), None)
        except (ValueError, TypeError) as error:
            raise AuthorityError(f"the authority for TLS in {folder} is damaged ({error}): {anew}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
            raise AuthorityError(f"key and certificate in {folder} do not belong together: {anew}")
        if certificate.not_valid_after_utc <= datetime.now(UTC):
            raise AuthorityError(f"the authority for TLS in {folder} has expired: {anew}")
        return cls(folder, certificate, key, made=made)

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def identity(self, *names: str) -> Identity:
        """Return a new certificate for `names`, and its key.

        :param names: host names and IP addresses, at least one
        :raises ValueError: if one is neither
        """
        alternative = x509.SubjectAlternativeName(map(_general_name, dict.fromkeys(names)))
        begin = datetime.now(UTC) - _CLOCKS_DIFFER
        end = min(begin + timedelta(days=_HOST_DAYS, seconds=-1), self._certificate.not_valid_after_utc)
        public = self._host_key.public_key()
        # a name too long for the subject is only in the alternative names, which are all that clients check
        subject = _subject(names[0]) if len(names[0]) <= _LONGEST_COMMON_NAME else x509.Name([])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._certificate.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(alternative, critical=not list(subject))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        key = self._host_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return Identity(certificate.public_bytes(Encoding.PEM).decode(), key.decode())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        host = host_name(name)
        if host is None:
            raise ValueError(f"{name!r} is neither a host name nor an IP address") from None
        return x509.DNSName(host)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(*, digital_signature: bool = False, signs_certificates: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


# -- making it -------------------------------------------------------------------------------------------------


def _make(folder: Path) -> bool:
    """Create the files of an authority, all or none; return False if another process created it meanwhile.

    :raises OSError: if they cannot be written
    """
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=".authority-", dir=folder.parent))
    try:
        _write(making)
        making.chmod(0o755)
        making.rename(folder)
    except FileExistsError:
        return False
    except OSError:
        if (folder / CERTIFICATE).exists():
            return False
        raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return True


def _write(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key()
    begin = datetime.now(UTC) - _CLOCKS_DIFFER
    # distinguishes it from kproxy's other authorities in lists of trusted ones
    subject = _subject(f"kproxy authority of {datetime.now(UTC):%Y-%m-%d}, {os.urandom(3).hex()}")
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=_AUTHORITY_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(secret, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (folder / CERTIFICATE).write_bytes(certificate.public_bytes(Encoding.PEM))
    # sets the attribute by which Java recognises trusted certificates
    store = serialize_java_truststore(
        [PKCS12Certificate(certificate, b"kproxy")], BestAvailableEncryption(TRUST_STORE_PASSWORD.encode())
    )
    (folder / TRUST_STORE).write_bytes(store)
