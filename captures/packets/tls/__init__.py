"""TLS in captures: connections decrypted with a key log, or described by their readable parts.

    keylog = KeyLog("keys.log", growing=live)
    for block in packets.secrets:                       # embedded in a pcapng
        keylog.add(block)
    tls = TlsConnection(keylog)                         # or TlsConnection() without a key log
    for event in tls.receive(Side.CLIENT, data): ...    # Plain, Missing, Alert, Stopped
    tls.gap(Side.BROKER, 1448)
    if keylog.refresh(): events = tls.retry()           # a key log that grows
    tls.finish(); print(tls.info.summary())

TLS 1.2 and 1.3 with AES-GCM, AES-CCM, ChaCha20-Poly1305 and AES-CBC are decrypted, with resumption, renegotiation,
early data and key updates. Every event has the stream positions of its record, so that the time of
decrypted bytes is that of the record's last byte. ``looks_like_tls`` and ``is_client_hello`` recognise TLS, and its
client, by the first bytes of a direction. The cryptographic library is loaded when there is something to decrypt
or a certificate to read.
"""

from __future__ import annotations

from captures.packets.tls.connection import TlsConnection
from captures.packets.tls.events import Alert, DecryptionStopped, Event, MissingData, Plaintext, TlsInfo
from captures.packets.tls.keylog import KeyLog
from captures.packets.tls.records import FIRST_CONTENT_TYPES, is_client_hello, looks_like_tls
