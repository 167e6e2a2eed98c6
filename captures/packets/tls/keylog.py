"""Key logs: the secrets that let a capture be decrypted, by client random and by session ID.

The format is that of NSS (``SSLKEYLOGFILE``, RFC 9850): a label, the client random and a secret, a line each. Two
more are read: ``RSA Session-ID:HEX Master-Key:HEX``, which the Java agent extract-tls-secrets writes for TLS 1.2 and
OpenSSL's ``s_client`` users know, and key logs embedded in a pcapng (``packets.secrets``).

A key log may still be written while it is read: :meth:`KeyLog.refresh` takes in what was added, and a line without
its end is left until it has one, or until the file rests. Lines that are not understood are counted and passed over.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, TypeVar

MASTER_BYTES = 48

_CHUNK = 1 << 20
_MAX_LINE = 4096
_MAX_LEARNED = 10_000

_MASTER = "CLIENT_RANDOM"
_RANDOM_BYTES = 32
_TLS13 = (
    "CLIENT_EARLY_TRAFFIC_SECRET",
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
)
#: labels that are used, with the sizes their secrets may have: in TLS 1.3 that of SHA-256 or SHA-384
_SIZES = {(_MASTER, MASTER_BYTES)} | {(label, size) for label in _TLS13 for size in (32, 48)}
#: labels of exporters and of keys that follow from others (OpenSSL logs those of key updates)
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
_SESSION = re.compile(r"RSA\s+Session-ID:([0-9a-fA-F]{2,64})\s+Master-Key:([0-9a-fA-F]{96})")


_K = TypeVar("_K")


class KeyLog:
    """The secrets of one or more key logs.

    :param path: a key log file; it need not exist yet if it is `growing`
    :param growing: more may be added: a connection whose secret is not there yet waits for it
    :ivar growing: as given; set it to False when nothing more will come
    :ivar generation: goes up whenever a secret was added
    :ivar ignored: lines that are no secret in any known form
    :raises OSError: if the file cannot be read, now or in :meth:`refresh`
    """

    def __init__(self, path: str | Path | None = None, *, growing: bool = False) -> None:
        self.growing = growing
        self.generation = 0
        self.ignored = 0
        self._secrets: dict[tuple[str, bytes], bytes] = {}
        self._sessions: dict[bytes, bytes] = {}
        self._learned: OrderedDict[bytes, bytes] = OrderedDict()
        self._path = None if path is None else Path(path)
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._rest = b""
        if self._path is not None:
            self.refresh()

    def __len__(self) -> int:
        """How many secrets there are."""
        return len(self._secrets) + len(self._sessions)

    # -- in ----------------------------------------------------------------------------------------------------

    def add(self, data: bytes) -> bool:
        """Take in a whole key log, such as a decryption secrets block; return whether it held anything new."""
        before = self.generation
        for line in data.splitlines():
            self._add_line(line)
        return self.generation != before

    def refresh(self) -> bool:
        """Take in what was added to the file; return whether that held a secret.

        A file that was replaced or cut is read anew; secrets read before stay.
        """
        if self._path is None:
            return False
        before = self.generation
        try:
            with self._path.open("rb") as file:
                status = os.fstat(file.fileno())
                identity = (status.st_dev, status.st_ino)
                if identity != self._identity or status.st_size < self._offset:
                    self._identity, self._offset, self._rest = identity, 0, b""
                file.seek(self._offset)
                rests = not self._take(file)
        except FileNotFoundError:
            if not self.growing:
                raise
            return False
        if rests or not self.growing:
            # no end of the line seems to come; should it come after all, the whole line is read again
            self._add_line(self._rest, unfinished=True)
        return self.generation != before

    def _take(self, file: BinaryIO) -> bool:
        """Read the rest of the file; return whether there was any."""
        start = self._offset
        while chunk := file.read(_CHUNK):
            self._offset += len(chunk)
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            for line in lines:
                self._add_line(line)
            if (
                len(self._rest) > _MAX_LINE
            ):  # no key log line; what follows up to its end is passed over as one
                self._rest = self._rest[:_MAX_LINE]
        return self._offset > start

    def _add_line(self, line: bytes, *, unfinished: bool = False) -> None:
        """Take in one line, without its end."""
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

    def _put(self, secrets: dict[_K, bytes], key: _K, secret: bytes) -> None:
        if secrets.get(key) != secret:
            secrets[key] = secret
            self.generation += 1

    def remember(self, identifier: bytes, master: bytes) -> None:
        """Keep a TLS 1.2 master secret for connections that resume the session with this ID or ticket.

        What is learned from traffic is bounded: the oldest of 10,000 is forgotten.
        """
        if identifier:
            learned = self._learned
            learned[_key(identifier)] = master
            learned.move_to_end(_key(identifier))
            if len(learned) > _MAX_LEARNED:
                learned.popitem(last=False)

    # -- out ---------------------------------------------------------------------------------------------------

    def secret(self, label: str, client_random: bytes) -> bytes | None:
        """Return a secret of TLS 1.3 by its NSS label."""
        return self._secrets.get((label, client_random))

    def master(self, client_random: bytes, session_id: bytes) -> bytes | None:
        """Return the TLS 1.2 master secret of a connection.

        :param session_id: that of the ServerHello; empty if it has none
        """
        found = self._secrets.get((_MASTER, client_random))
        if found is None and session_id:
            found = self._sessions.get(session_id) or self.resumed(session_id)
        return found

    def resumed(self, identifier: bytes) -> bytes | None:
        """Return the master secret of the session with this ID or ticket, if it was seen to begin."""
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
    """Tickets may be long; a digest stands for them."""
    return sha256(identifier).digest()
