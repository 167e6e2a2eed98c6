"""One direction of a TLS connection: its state, and opening its records even after a loss.

A record opens only under the right keys and sequence number. Both are known as long as nothing is lost. After a hole
of at most n records the sequence number may be up to n higher, and the keys may have changed; both are found by
trying, with a bound on the work. A loss is reported when a record opens again, and only if it may have contained
application data.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from captures.packets.tls.events import MissingData
from captures.packets.tls.handshake import MessageReader
from captures.packets.tls.keys import Epoch, Keys
from captures.packets.tls.records import RecordHole, RecordReader, TlsRecord, Undecryptable
from dissectors.conversation import Side

if TYPE_CHECKING:
    from captures.packets.tls.ciphers import RecordCipher

_MAX_TRIES = 1 << 14
_MAX_TRIES_AHEAD = 1 << 10  # under succeeding keys
# work limit of one search, in bytes of ciphertext; setting up a try costs as much as some bytes
_SEARCH_BUDGET = 64 << 20
_TRY_COST = 2 << 10
_MAX_FAILURES = 16


class TlsHalf(msgspec.Struct):
    """One direction.

    :ivar queue: records and holes not processed yet
    :ivar epoch: protection of the next record
    :ivar generation: see :class:`.keys.Keys`
    :ivar cipher: the keys in use, None until they are looked up
    :ivar sequence: sequence number of the next record under these keys
    :ivar hellos: number of hello messages of this side so far
    :ivar changes: number of ChangeCipherSpec messages so far
    :ivar preamble: number of records at the start of the application epoch without data: Finished in TLS 1.2
    :ivar lost: number of records that may have been lost since the last readable one
    :ivar passes: number of records that may still fail to open because their keys are unknown
    :ivar position: application bytes so far
    :ivar wants: reason why the first record of the queue waits, in words
    :ivar needs_secret: it waits for a secret that the key log may still deliver
    :ivar stopped: no more of this side is decrypted
    """

    side: Side
    reader: RecordReader = msgspec.field(default_factory=RecordReader)
    queue: deque[TlsRecord | RecordHole] = msgspec.field(default_factory=deque)
    messages: MessageReader = msgspec.field(default_factory=MessageReader)
    epoch: Epoch = Epoch.CLEAR
    generation: int = 0
    cipher: RecordCipher | None = None
    sequence: int = 0
    hellos: int = 0
    changes: int = 0
    preamble: int = 0
    lost: int = 0
    passes: int = 0
    position: int = 0
    wants: str = ""
    needs_secret: bool = False
    stopped: bool = False
    _failures: int = 0
    _search_cost: int = 0
    _hole: RecordHole | None = None
    _hole_epoch: Epoch = Epoch.CLEAR

    def enter(self, epoch: Epoch, generation: int = 0, cipher: RecordCipher | None = None) -> None:
        self.epoch, self.generation, self.cipher, self.sequence = epoch, generation, cipher, 0

    def keep(self, count: int) -> None:
        """Copy the payload of the last `count` items of the queue, which refers to the bytes that were fed."""
        for item in islice(reversed(self.queue), count):
            if isinstance(item, TlsRecord):
                item.payload = bytes(item.payload)

    @property
    def held(self) -> int:
        """The number of stream bytes that the queue covers."""
        return self.queue[-1].end - self.queue[0].start if self.queue else 0

    # -- losses ------------------------------------------------------------------------------------------------

    @property
    def hole_start(self) -> int | None:
        """Start of the current loss."""
        return None if self._hole is None else self._hole.start

    @property
    def hole_reason(self) -> str:
        """Reason of the current loss, in words; empty if there is none."""
        return "" if self._hole is None else self._hole.reason

    def lose(self, hole: RecordHole) -> None:
        """Record that records are missing or could not be read."""
        self.messages.reset()
        self.lost += hole.records
        if self._hole is None:
            self._hole, self._hole_epoch = hole, self.epoch
        else:
            self._hole.end = hole.end

    def recover(self, until: int) -> MissingData | None:
        """End the current loss at the readable record that starts at `until`; return it if it may have held data."""
        hole, self._hole = self._hole, None
        self.lost = 0
        if hole is None:
            return None
        reached_data = self.epoch is Epoch.APPLICATION and self.sequence > 1 + self.preamble
        if self._hole_epoch in (Epoch.CLEAR, Epoch.HANDSHAKE) and not reached_data:
            return None
        return MissingData(self.side, hole.start, until, self.position, hole.reason)

    def lost_until(self, end: int) -> MissingData:
        """Return the loss that lasted to the end of the stream."""
        assert self._hole is not None
        return MissingData(self.side, self._hole.start, end, self.position, self._hole.reason)

    # -- opening -----------------------------------------------------------------------------------------------

    @property
    def hopeless(self) -> bool:
        """Whether so many records failed to open that the following will fail too."""
        return self._failures >= _MAX_FAILURES or (self._failures > 0 and self.lost == 0 == self.sequence)

    def open(self, record: TlsRecord, keys: Keys) -> tuple[int, bytes] | None:
        """Return content type and content of a record, None if it does not open."""
        assert self.cipher is not None
        try:
            opened = self.cipher.open(self.sequence, record)
        except Undecryptable:
            found = self._search(record, keys)
            if found is None:
                self._failures += not self.passes
                return None
            opened = found
        self.sequence += 1
        self._failures = self._search_cost = self.passes = 0
        return opened

    def _search(self, record: TlsRecord, keys: Keys) -> tuple[int, bytes] | None:
        for epoch, generation, cipher, sequence in self._candidates(record, keys):
            if self._search_cost > _SEARCH_BUDGET:
                break
            self._search_cost += _TRY_COST + len(record.payload)
            try:
                opened = cipher.open(sequence, record)
            except Undecryptable:
                continue
            if cipher is not self.cipher:
                self.enter(epoch, generation, cipher)
                self.changes = max(self.changes, generation + 1)
            self.sequence = sequence
            return opened
        return None

    def _candidates(self, record: TlsRecord, keys: Keys) -> Iterator[tuple[Epoch, int, RecordCipher, int]]:
        assert self.cipher is not None
        here = self.epoch, self.generation, self.cipher
        guess = self.cipher.likely_sequence(record)
        if guess is not None and self.sequence < guess <= self.sequence + self.lost:
            yield *here, guess
        for skipped in range(1, min(self.lost, _MAX_TRIES) + 1):
            yield *here, self.sequence + skipped
        for successor in keys.successors(self.side, self.epoch, self.generation):
            for sequence in range(min(self.lost, _MAX_TRIES_AHEAD) + 1):
                yield *successor, sequence
