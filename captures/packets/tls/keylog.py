"""Key logs: the secrets that decrypt a capture, by client random and by session ID.

The format is that of NSS (``SSLKEYLOGFILE``, RFC 9850): each line has a label, the client random and a secret. Two
more are read: ``RSA Session-ID:HEX Master-Key:HEX``, written by the Java agent extract-tls-secrets for TLS 1.2 and
known to users of OpenSSL's ``s_client``, and key logs embedded in a pcapng (``packets.secrets``).

A key log may still be written while it is read: :meth:`KeyLog.refresh` reads added lines. A line without
its end is left until it has one, or until the file no longer grows. Of a growing key log the newest million secrets are
kept: they are needed when their connection starts. Lines of unknown form are counted and skipped.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeVar

MASTER_BYTES = 48

_CHUNK = 1 << 20
_MAX_LINE = 4096
_MAX_LEARNED = 10_000
_MAX_FOLLOWED = 1_000_000
_MAX_TRIED = 256

_MASTER = "CLIENT_RANDOM"
_RANDOM_BYTES = 32
_TLS13 = (
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
)
#: labels in use, with the valid sizes of their secrets: in TLS 1.3 that of SHA-256 or SHA-384
_SIZES = {(_MASTER, MASTER_BYTES)} | {(label, size) for label in _TLS13 for size in (32, 48)}
#: labels of exporters and of derived keys (OpenSSL logs those of key updates)
_UNUSED = frozenset(
    (
        "EXPORTER_SECRET",
        "EARLY_EXPORTER_SECRET",
        "CLIENT_TRAFFIC_SECRET_N",
        "SERVER_TRAFFIC_SECRET_N",
        "ECH_SECRET",
        "ECH_CONFIG",
    )
)
_SESSION = re.compile(r"RSA\s+Session-ID:((?:[0-9a-fA-F]{2}){1,32})\s+Master-Key:([0-9a-fA-F]{96})")


_K = TypeVar("_K")


class KeyLog:
    """The secrets of one or more key logs.

    :param path: a key log file; it need not exist yet if it is `growing`
    :param growing: more may be added: a connection whose secret is missing waits for it
    :param file: the same file already open, for a process that has lost the right to open it; the key log closes it
    :ivar growing: as given; set it to False when nothing more will be added
    :ivar generation: incremented whenever a secret was added
    :ivar ignored: number of lines that are not a secret in any known form
    :ivar path: as given
    :ivar trouble: why a growing file could not be read the last time, in words; empty if it could, or does not exist
        yet
    :raises OSError: if the file cannot be read
    """

    def __init__(
        self, path: str | Path | None = None, *, growing: bool = False, file: BinaryIO | None = None
    ) -> None:
        self.growing = growing
        self.generation = 0
        self.ignored = 0
        self._secrets: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._sessions: OrderedDict[bytes, bytes] = OrderedDict()
        self._learned: OrderedDict[bytes, bytes] = OrderedDict()
        self.path = None if path is None else Path(path)
        self.trouble = ""
        self._file = file
        self._offset = 0
        self._rest = b""
        if self.path is not None:
            self._refresh(self.path)
            if not growing:
                self._close()

    def __len__(self) -> int:
        return len(self._secrets) + len(self._sessions)

    # -- in ----------------------------------------------------------------------------------------------------

    def add(self, data: bytes) -> bool:
        """Add a whole key log, such as a decryption secrets block; return whether it contained a new secret."""
        before = self.generation
        for line in data.splitlines():
            self._add_line(line)
        return self.generation != before

    def refresh(self) -> bool:
        """Read lines added to the file; return whether they contained a secret.

        A file that was replaced or truncated is read again; secrets read before stay. Nothing raises: a running reader
        continues with the secrets it has, and reports the error (:attr:`trouble`).
        """
        if self.path is None:
            return False
        before = self.generation
        try:
            self._refresh(self.path)
            self.trouble = ""
        except OSError as error:
            self.trouble = error.strerror or str(error)
        return self.generation != before

    def finish(self) -> bool:
        """Record that nothing more will be added; read the last lines, and return whether they contained a secret."""
        if not self.growing:
            return False
        self.growing = False
        new = self.refresh()
        self._close()
        return new

    def _refresh(self, path: Path) -> None:
        rests = self._take()
        if self._renewed(path):
            rests = self._take()
        if rests or not self.growing:
            # the line seems to have no end; if it arrives after all, the whole line is read again
            self._add_line(self._rest, unfinished=True)

    def _renewed(self, path: Path) -> bool:
        """Open the file if it exists and is not the open one; return whether it was opened.

        A growing file stays open: a live capture drops its privileges, and with them perhaps the right to open it.
        """
        try:
            if self._file is not None and os.path.samestat(path.stat(), os.fstat(self._file.fileno())):
                return False
            file = path.open("rb")
        except (FileNotFoundError, PermissionError) as error:
            awaited = self.growing and isinstance(error, FileNotFoundError)
            if self._file is not None or awaited:
                return False
            raise
        self._close()
        self._file, self._offset, self._rest = file, 0, b""
        return True

    def _take(self) -> bool:
        """Read the rest of the open file; return whether it had none."""
        file = self._file
        if file is None:
            return False
        if os.fstat(file.fileno()).st_size < self._offset:
            self._offset, self._rest = 0, b""
        start = self._offset
        file.seek(start)
        while chunk := file.read(_CHUNK):
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._add_line(line)
            # no key log line is that long; everything up to its end is skipped as one line
            self._rest = self._rest[:_MAX_LINE]
        return self._offset == start

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        """Close the file, because a reader of a capture may stop without finishing its key log."""
        self._close()

    def _add_line(self, line: bytes, *, unfinished: bool = False) -> None:
        text = line[:_MAX_LINE].decode("ascii", "replace").strip()
        if not text or text.startswith("#"):
            return
        session = _SESSION.fullmatch(text)
        if session:
            self._put(self._sessions, bytes.fromhex(session[1]), bytes.fromhex(session[2]))
            return
        label, _, rest = text.partition(" ")
        if label in _UNUSED:
            return
        random, secret = _hex(rest)
        if len(random) == _RANDOM_BYTES and (label, len(secret)) in _SIZES:
            self._put(self._secrets, (label, random), secret)
        elif not unfinished:
            self.ignored += 1

    def _put(self, secrets: OrderedDict[_K, bytes], key: _K, secret: bytes) -> None:
        if secrets.get(key) != secret:
            secrets[key] = secret
            self.generation += 1
            if self.growing and len(secrets) > _MAX_FOLLOWED:
                secrets.popitem(last=False)

    def remember(self, identifier: bytes, master: bytes) -> None:
        """Keep a TLS 1.2 master secret for connections that resume the session with this ID or ticket.

        Secrets learned from traffic are bounded: the oldest of 10,000 is dropped.
        """
        if identifier:
            learned = self._learned
            learned[_key(identifier)] = master
            learned.move_to_end(_key(identifier))
            if len(learned) > _MAX_LEARNED:
                learned.popitem(last=False)

    # -- out ---------------------------------------------------------------------------------------------------

    def secret(self, label: str, client_random: bytes) -> bytes | None:
        """Return a TLS 1.3 secret by its NSS label."""
        return self._secrets.get((label, client_random))

    def master(self, client_random: bytes, session_id: bytes) -> bytes | None:
        """Return the TLS 1.2 master secret of a connection.

        :param session_id: session ID in the ServerHello; empty if it has none
        """
        found = self._secrets.get((_MASTER, client_random))
        if found is None and session_id:
            found = self._sessions.get(session_id) or self.resumed(session_id)
        return found

    def sessions(self) -> Iterator[bytes]:
        """Yield the master secrets stored under a session ID, the newest first, at most 256."""
        return islice(reversed(self._sessions.values()), _MAX_TRIED)

    def resumed(self, identifier: bytes) -> bytes | None:
        """Return the master secret of the session with this ID or ticket, if its start was seen."""
        return self._learned.get(_key(identifier))


def _hex(text: str) -> tuple[bytes, bytes]:
    """Return client random and secret of a line without its label, empty if they are not hexadecimal."""
    parts = text.split()
    try:
        random, secret = map(bytes.fromhex, parts)
    except ValueError:
        return b"", b""
    return random, secret


def _key(identifier: bytes) -> bytes:
    """Return a digest of an identifier, because tickets may be long."""
    return sha256(identifier).digest()
