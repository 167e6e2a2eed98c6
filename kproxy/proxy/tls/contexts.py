"""``ssl.SSLContext`` for both sides. They work with asyncio's loop and with uvloop's.

Python's interface to OpenSSL loads keys only from files; keys in memory go through an unnamed file, or one that no
other user can open.
"""

from __future__ import annotations

import os
import ssl
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from captures import private
from kproxy.proxy.tls.security import Identity, Security, Tls
from kproxy.proxy.tls.sni import host_name

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}

ClientAuth = Literal["none", "requested", "required"]
"""Whether clients must show a certificate: the values of Kafka's ``ssl.client.auth``."""


class TlsConfigError(Exception):
    """A certificate, key or option cannot be used; the message says which, and why."""


def upstream_context(security: Security, *, keylog: str = "") -> ssl.SSLContext | None:
    """Return the context for connections to brokers, None for plaintext.

    Pass the host that the broker advertises as ``server_hostname``: the broker's certificate must match it.

    :param keylog: file to which the secrets of connections are appended, empty for none
    :raises TlsConfigError: if OpenSSL rejects a setting
    """
    tls = security.tls
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.verify and tls.verify_host
    context.verify_mode = ssl.CERT_REQUIRED if tls.verify else ssl.CERT_NONE
    if tls.verify:
        _trust(context, tls.authorities)
    if tls.identity is not None:
        load_identity(context, tls.identity)
    _restrict(context, tls)
    if keylog:
        write_key_log(context, keylog)
    return context


def server_context(
    identity: Identity,
    *,
    client_auth: ClientAuth = "none",
    client_authorities: str | None = None,
    keylog: str = "",
) -> ssl.SSLContext:
    """Return the context for connections of clients.

    :param identity: certificate shown to clients
    :param client_authorities: PEM of the authorities that must have signed client certificates
    :param keylog: file to which the secrets of connections are appended, empty for none
    :raises TlsConfigError: if OpenSSL rejects a setting
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_identity(context, identity)
    if client_auth != "none":
        if client_authorities is None:
            raise TlsConfigError("to verify client certificates, the authority that signs them is needed")
        context.verify_mode = ssl.CERT_REQUIRED if client_auth == "required" else ssl.CERT_OPTIONAL
        _trust(context, client_authorities)
    if keylog:
        write_key_log(context, keylog)
    return context


class ClientContexts:
    """The contexts for connections of clients: one for each name by which they reach kproxy.

    Names are read from ClientHellos before TLS begins (:mod:`kproxy.proxy.tls.sni`), so that no callback has to change
    the context of a connection that has begun.

    :param identity: certificate and key for all names, or a function that makes them for given names
        (:meth:`Authority.identity <kproxy.proxy.tls.authority.Authority.identity>`)
    :param own_names: host names and addresses that every such certificate includes, at least one
    :raises TlsConfigError: if OpenSSL rejects a setting
    """

    _MOST = 256
    _RENEW_SECONDS = 30 * 86_400

    def __init__(
        self,
        identity: Identity | Callable[..., Identity],
        *,
        own_names: Sequence[str] = (),
        client_auth: ClientAuth = "none",
        client_authorities: str | None = None,
        keylog: str = "",
    ) -> None:
        self._identity = identity
        self._own_names = tuple(own_names)
        self._client_auth: ClientAuth = client_auth
        self._client_authorities = client_authorities
        self._keylog = keylog
        self._made: OrderedDict[str, tuple[float, ssl.SSLContext]] = OrderedDict()
        self.of("")

    def of(self, name: str) -> ssl.SSLContext:
        """Return the context for a connection.

        :param name: host name that the client asks for; without one, the address that it connected to
        """
        name = "" if isinstance(self._identity, Identity) else _certifiable(name)
        now = time.monotonic()
        made, context = self._made.get(name, (-self._RENEW_SECONDS, None))
        if context is None or now - made > self._RENEW_SECONDS:
            made, context = now, self._make(name)
            self._made[name] = made, context
            if len(self._made) > self._MOST:  # names are the client's choice
                self._made.popitem(last=False)
        self._made.move_to_end(name)
        return context

    def _make(self, name: str) -> ssl.SSLContext:
        identity = self._identity
        if not isinstance(identity, Identity):
            identity = identity(*filter(None, (name, *self._own_names)))
        return server_context(
            identity,
            client_auth=self._client_auth,
            client_authorities=self._client_authorities,
            keylog=self._keylog,
        )


def _certifiable(name: str) -> str:
    """Return a name as it can stand in a certificate, empty if it cannot."""
    try:
        return str(ip_address(name))
    except ValueError:
        return host_name(name) or ""


def load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    """Load certificate and key into a context.

    :raises TlsConfigError: if they do not belong together, or OpenSSL refuses them
    """
    with _in_file(f"{identity.key.rstrip()}\n{identity.chain}".encode()) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise TlsConfigError(f"certificate and key cannot be used: {_reason(error)}") from None


@contextmanager
def _in_file(content: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").exists():
        descriptor = os.memfd_create("kproxy", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
        return
    with tempfile.NamedTemporaryFile(prefix="kproxy-", suffix=".pem") as named:  # mode 0600
        named.write(content)
        named.flush()
        yield named.name


def write_key_log(context: ssl.SSLContext, path: str) -> None:
    """Append the secrets of a context's connections to a file in NSS format, which no other user may read.

    :raises TlsConfigError: if the file cannot be written
    """
    try:
        descriptor = private.opened(path, os.O_WRONLY | os.O_APPEND)
        try:
            context.keylog_filename = (
                f"/dev/fd/{descriptor}"  # the file just opened, even if the path is replaced meanwhile
            )
        finally:
            os.close(descriptor)
    except OSError as error:
        raise TlsConfigError(f"the key log {path} cannot be written: {error.strerror}") from None


def _trust(context: ssl.SSLContext, authorities: str | None) -> None:
    if authorities is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        context.load_verify_locations(cadata=authorities)
    except ssl.SSLError as error:
        raise TlsConfigError(f"the trusted certificates cannot be used: {_reason(error)}") from None
    # as in Java, everything in a trust store is trusted, including intermediate authorities and single hosts
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _restrict(context: ssl.SSLContext, tls: Tls) -> None:
    if tls.versions is not None:
        lowest, highest = (_VERSIONS[version] for version in tls.versions)
        context.minimum_version, context.maximum_version = lowest, highest
    if tls.ciphers:
        try:
            context.set_ciphers(tls.ciphers)
        except ssl.SSLError:
            raise TlsConfigError(f"OpenSSL knows none of the cipher suites {tls.ciphers}") from None


def _reason(error: ssl.SSLError) -> str:
    return error.reason.replace("_", " ").lower() if error.reason else str(error)
