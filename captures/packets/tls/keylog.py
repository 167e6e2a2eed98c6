"""Key logs: the secrets that let a capture be decrypted, by client random and by session ID.

The format is that of NSS (``SSLKEYLOGFILE``, RFC 9850): a label, the client random and a secret, a line each. Two
more are read: ``RSA Session-ID:HEX Master-Key:HEX``, which the Java agent extract-tls-secrets writes for TLS 1.2 and
OpenSSL's ``s_client`` users know, and key logs embedded in a pcapng (``packets.secrets``).

A key log may still be written while it is read: :meth:`KeyLog.refresh` takes in what was added, and a line without
its end is left until it has one, or until the file rests. Of one that grows the newest million secrets are kept: they
are needed when their connection begins. Lines that are not understood are counted and skipped.
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
_SESSION = re.compile(r"RSA\s+Session-ID:((?:[0-9a-fA-F]{2}){1,32})\s+Master-Key:([0-9a-fA-F]{96})")


_K = TypeVar("_K")


class KeyLog:
    """The secrets of one or more key logs.

    :param path: a key log file; it need not exist yet if it is `growing`
    :param growing: more may be added: a connection whose secret is not there yet waits for it
    :param file: the same file, for a process that could open it and now may not; is taken over
    :ivar growing: as given; set it to False when nothing more will come
    :ivar generation: goes up whenever a secret was added
    :ivar ignored: lines that are no secret in any known form
    :ivar path: as given
    :ivar trouble: why a growing file could not be read the last time, in words; empty if it could, or is not there yet
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

        A file that was replaced or cut is read again; secrets read before stay. Nothing is raised: a reader that runs
        continues with the secrets it has, and says so (:attr:`trouble`).
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
        """Note that nothing more will come; take in the last of it, and return whether that held a secret."""
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
            # no end of the line seems to come; should it come after all, the whole line is read again
            self._add_line(self._rest, unfinished=True)

    def _renewed(self, path: Path) -> bool:
        """Open the file if it is there and is not the one that is open; return whether it was.

        One that grows stays open: a live capture gives its privileges up, and with them maybe the right to open it.
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
        """Read the rest of the file that is open; return whether it had none."""
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
            # no key log line is so long; what follows up to its end is skipped as one
            self._rest = self._rest[:_MAX_LINE]
        return self._offset == start

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:
        """Close the file: who stops reading a capture need not finish its key log."""
        self._close()

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

    def _put(self, secrets: OrderedDict[_K, bytes], key: _K, secret: bytes) -> None:
        if secrets.get(key) != secret:
            secrets[key] = secret
            self.generation += 1
            if self.growing and len(secrets) > _MAX_FOLLOWED:
                secrets.popitem(last=False)

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

    def sessions(self) -> Iterator[bytes]:
        """Yield the master secrets that are filed under a session ID, the newest first, at most 256."""
        return islice(reversed(self._sessions.values()), _MAX_TRIED)

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
