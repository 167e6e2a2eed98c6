"""One TLS connection, sans I/O: feed the bytes of both directions, get decrypted application data.

Rules of the two versions for a reader:

* TLS 1.2: both sides send in clear until their ChangeCipherSpec, and under new keys after it; renegotiation repeats
  that under the old keys (RFC 5246, section 7.1).
* TLS 1.3: the server is encrypted after its ServerHello, the client from its answer to it; ChangeCipherSpec means
  nothing. A side's Finished ends its handshake keys; KeyUpdate derives the next keys from the last (RFC 8446,
  section 4).
* A side's records wait while they need data that the other side, or a growing key log, has yet to deliver. The
  broker's data waits with the client's, so that no response is delivered before its request.
"""

from __future__ import annotations

from captures.packets.tls.events import Alert, DecryptionStopped, Event, Plaintext, TlsInfo
from captures.packets.tls.half import TlsHalf
from captures.packets.tls.handshake import (
    TLS13,
    MalformedHandshake,
    MessageType,
    decompressed_certificate,
    parse_certificate,
    parse_client_hello,
    parse_encrypted_extensions,
    parse_server_hello,
    parse_session_ticket,
    plausible_start,
    version_name,
)
from captures.packets.tls.keylog import KeyLog
from captures.packets.tls.keys import Epoch, Keys, Negotiation, NoKeys, Remedy
from captures.packets.tls.records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    RecordHole,
    TlsRecord,
)
from captures.packets.tls.suites import suite_name
from dissectors.budget import limit
from dissectors.conversation import Side

#: maximum number of records under keys missing from the key log, before the first one that opens
_HANDSHAKE_PASSES = 64
_OTHER = {Side.CLIENT: Side.BROKER, Side.BROKER: Side.CLIENT}
_EARLY_PASSES = 4096


class TlsConnection:
    """Decrypts one connection, and describes it if it cannot be decrypted.

    Whatever the bytes are, nothing raises. Each call returns the pending events, in the order of each side's
    stream; :class:`DecryptionStopped` is the last event of a side.

    :param keylog: the secrets; None to read only the parts in clear
    :ivar info: description of the connection so far
    """

    def __init__(self, keylog: KeyLog | None = None) -> None:
        self.info = TlsInfo()
        self._keys = Keys(keylog)
        self._most_waiting = limit("tls_bytes")
        self._halves = {Side.BROKER: TlsHalf(Side.BROKER), Side.CLIENT: TlsHalf(Side.CLIENT)}
        self._events: list[Event] = []
        self._generation = -1  # generation of the key log at the last lookup of secrets
        self._tls13 = False

    # -- in and out --------------------------------------------------------------------------------------------

    def receive(self, side: Side, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take the next bytes of one side."""
        half = self._halves[side]
        items = half.reader.feed(data)
        if half.reader.foreign:
            self._stop(half, f"the {half.side.value} does not start with a TLS record", 0)
        if not items:
            return self._take_events() if self._events else []
        half.queue += items
        self._advance()
        half.keep(len(items))
        return self._take_events()

    def gap(self, side: Side, length: int, reason: str = "bytes are missing from the capture") -> list[Event]:
        """Record that `length` bytes of one side are missing before the next ones."""
        if length <= 0:
            return []
        half = self._halves[side]
        half.queue += half.reader.gap(length, reason)
        self._advance()
        return self._take_events()

    def retry(self) -> list[Event]:
        """Look up missing secrets again; call it when the key log has grown."""
        keylog = self._keys.keylog
        if keylog is None or keylog.generation == self._generation:
            return []
        self._advance()
        return self._take_events()

    def finish(self) -> list[Event]:
        """Record that no more bytes or secrets will arrive; waiting data is given up with a reason."""
        for half in self._halves.values():
            half.queue += half.reader.close()
        self._advance()
        while self.waiting:
            self._give_up()
        for half in self._halves.values():
            if half.hole_start is not None and not half.stopped:
                self._events.append(half.lost_until(half.reader.position))
        return self._take_events()

    def give_up(self, reason: str) -> list[Event]:
        """Give up waiting data, for `reason`."""
        while self.waiting:
            self._give_up(reason)
        return self._take_events()

    def release(self) -> None:
        """Drop keys and all other decryption state after the end of the connection. Its description stays."""
        self._keys = Keys(None)
        for side in self._halves:
            self._halves[side] = TlsHalf(side, stopped=True)

    @property
    def waiting(self) -> bool:
        """Whether ciphertext waits for a secret or for the other side."""
        return any(half.queue for half in self._halves.values())

    @property
    def held(self) -> int:
        """The number of waiting bytes of ciphertext."""
        return sum(half.held for half in self._halves.values())

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    # -- records -----------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Process records as far as possible; each side may wait for the other's progress."""
        if self._keys.keylog is not None:
            self._generation = self._keys.keylog.generation
        progress = True
        while progress:
            progress = False
            for half in self._halves.values():
                while half.queue and self._take(half, half.queue[0]):
                    progress = True
                    if half.queue:
                        half.queue.popleft()
        for half in self._halves.values():
            if half.held > self._most_waiting:
                held = f"{self._most_waiting >> 10} KiB"
                self._stop(half, f"{half.wants}; no more than {held} of ciphertext are kept waiting")

    def _take(self, half: TlsHalf, item: TlsRecord | RecordHole) -> bool:
        """Process a record; return False if it has to wait."""
        if half.stopped:
            return True
        half.needs_secret = False
        if half.epoch is Epoch.APPLICATION and half.side is Side.BROKER:
            client = self._halves[Side.CLIENT]
            if client.needs_secret and not client.stopped:
                half.wants = client.wants
                return False
        if isinstance(item, RecordHole):
            half.lose(item)
            if half.epoch < Epoch.APPLICATION:
                self.info.note(f"{item.reason} in the handshake of the {half.side.value}")
            return True
        try:
            if half.epoch is Epoch.CLEAR:
                return self._take_clear(half, item)
            return self._take_protected(half, item)
        except NoKeys as lack:
            return self._wait_for_keys(half, lack)

    def _wait_for_keys(self, half: TlsHalf, lack: NoKeys) -> bool:
        """Wait for keys, or stop the side; return False if it waits."""
        keylog, other = self._keys.keylog, self._halves[_OTHER[half.side]]
        if lack.cure is Remedy.OTHER_SIDE:
            waits = not other.stopped
        else:
            waits = lack.cure is Remedy.KEY_LOG and keylog is not None and keylog.growing
            half.needs_secret = waits
        if waits:
            half.wants = lack.reason
        else:
            self._stop(half, lack.reason)
        return not waits

    def _take_clear(self, half: TlsHalf, record: TlsRecord) -> bool:
        payload = record.payload
        if record.kind == HANDSHAKE and not (half.lost and half.hellos and not plausible_start(payload)):
            half.recover(record.start)
            self._messages(half, payload)
            return True
        if record.kind == ALERT and len(payload) == 2:
            self._alert(half, record, payload)
            return True
        if record.kind == CHANGE_CIPHER_SPEC and self._keys.negotiation(0).retried:
            return True  # sent by TLS 1.3 for the sake of middleboxes; it may follow a HelloRetryRequest
        if not half.hellos:
            name = "ClientHello" if half.side is Side.CLIENT else "ServerHello"
            self._stop(half, f"the {name} was not captured")
            return True
        negotiation = self._keys.negotiation(half.changes)
        if negotiation.server is None:
            raise NoKeys("the ServerHello was not captured", Remedy.OTHER_SIDE)
        if negotiation.tls13:
            return record.kind == CHANGE_CIPHER_SPEC or self._leave_clear(half, negotiation, record)
        if record.kind == CHANGE_CIPHER_SPEC:
            self._change_cipher(half)
            return True
        if half.lost:  # the ChangeCipherSpec is among the lost records
            self._change_cipher(half)
            return self._take_protected(half, record)
        self._stop(half, "protected records before the end of the handshake")
        return True

    def _leave_clear(self, half: TlsHalf, negotiation: Negotiation, record: TlsRecord) -> bool:
        """Find the keys of the first protected record of TLS 1.3: the client's may be early data."""
        client, broker = negotiation.client, self._halves[Side.BROKER]
        epoch = Epoch.HANDSHAKE
        if half.side is Side.CLIENT and client is not None and client.early_data:
            accepted = False if negotiation.retried else negotiation.early_accepted
            if accepted is None and broker.epoch is Epoch.HANDSHAKE and not broker.stopped:
                raise NoKeys("the broker's answer to early data was not captured", Remedy.OTHER_SIDE)
            if accepted is False:
                half.passes = _EARLY_PASSES  # not part of the conversation
            else:  # if the answer is lost, early data is assumed to be accepted, as it usually is
                epoch = Epoch.EARLY
        half.enter(epoch)
        return self._take_protected(half, record)

    def _take_protected(self, half: TlsHalf, record: TlsRecord) -> bool:
        if self._tls13 and record.kind != APPLICATION_DATA:
            return self._take_unprotected(half, record)
        if half.cipher is None:
            self._look_up_cipher(half, record)
        opened = half.open(record, self._keys)
        if opened is None:
            self._record_failed(half, record)
            return True
        missing = half.recover(record.start)
        if missing is not None:
            self._events.append(missing)
        kind, content = opened
        if kind == APPLICATION_DATA:
            self.info.records += 1
            if content:
                self._events.append(Plaintext(half.side, record.start, record.end, half.position, content))
                half.position += len(content)
        elif kind == HANDSHAKE:
            self._messages(half, content)
        elif kind == ALERT and len(content) == 2:
            self._alert(half, record, content)
        elif kind == CHANGE_CIPHER_SPEC:
            self._change_cipher(half)
        return True

    def _take_unprotected(self, half: TlsHalf, record: TlsRecord) -> bool:
        """Process a record that TLS 1.3 sends in clear between protected ones."""
        payload = record.payload
        if record.kind == ALERT and len(payload) == 2:
            self._alert(half, record, payload)
        elif record.kind == HANDSHAKE and half.epoch is not Epoch.APPLICATION:
            self._messages(half, payload)  # a second ClientHello, after rejected early data
        elif record.kind != CHANGE_CIPHER_SPEC:
            self.info.note(
                f"record of type {record.kind} in clear at byte {record.start} of the {half.side.value}"
            )
        return True

    def _look_up_cipher(self, half: TlsHalf, record: TlsRecord) -> None:
        """Get the keys of this side's epoch; continue to the next epoch if only its keys are known.

        :raises NoKeys: if there are none
        """
        try:
            half.cipher = self._keys.cipher(half.side, half.epoch, half.generation)
        except NoKeys as lack:
            if lack.cure is not Remedy.KEY_LOG:
                raise
            half.cipher = self._keys.cipher_by_trial(half.side, half.generation, record)
            if half.cipher is not None:
                return
            if half.epoch not in (Epoch.EARLY, Epoch.HANDSHAKE):
                raise
            # secrets are logged in the order of their use: one missing before a present one will never be logged
            following = next(self._keys.successors(half.side, half.epoch, half.generation), None)
            if following is None:
                raise
            if half.epoch is Epoch.EARLY:
                half.passes = _EARLY_PASSES
                half.lose(RecordHole(record.start, record.start, 0, lack.reason))
            else:
                half.passes = _HANDSHAKE_PASSES
            self.info.note(lack.reason)
            half.enter(*following)

    def _record_failed(self, half: TlsHalf, record: TlsRecord) -> None:
        if half.passes:
            half.passes -= 1
            return
        if not half.hopeless:
            reason = half.hole_reason or "a record cannot be decrypted"
            half.lose(RecordHole(record.start, record.end, 1, reason))
            return
        if half.hole_start is None:
            self._stop(half, "the secret in the key log does not match the connection", record.start)
        else:
            self._stop(half, f"no more records can be decrypted ({half.hole_reason})", half.hole_start)

    # -- content -----------------------------------------------------------------------------------------------

    def _messages(self, half: TlsHalf, payload: bytes | memoryview) -> None:
        for kind, body in half.messages.feed(payload):
            try:
                self._message(half, kind, body)
            except MalformedHandshake as error:
                self.info.note(f"malformed handshake message {kind} from the {half.side.value}: {error}")

    def _message(self, half: TlsHalf, kind: int, body: bytes) -> None:
        """Process a handshake message.

        :raises MalformedHandshake: if it does not match its layout
        :raises NoKeys: if there were too many handshakes
        """
        from_client = half.side is Side.CLIENT
        negotiation = self._keys.negotiation(max(half.hellos - 1, 0))
        match kind:
            case MessageType.CLIENT_HELLO if from_client:
                self._client_hello(half, body)
            case MessageType.SERVER_HELLO if not from_client:
                self._server_hello(half, body)
            case MessageType.ENCRYPTED_EXTENSIONS if not from_client:
                extensions = parse_encrypted_extensions(body)
                self.info.alpn = extensions.alpn
                self.info.early_data = negotiation.early_accepted = extensions.early_data
            case MessageType.CERTIFICATE:
                self._certificate(half, body, negotiation)
            case MessageType.COMPRESSED_CERTIFICATE if negotiation.tls13:
                self._certificate(half, decompressed_certificate(body), negotiation)
            case MessageType.SERVER_HELLO_DONE if not from_client:
                self._resumed(negotiation, False)
            case MessageType.NEW_SESSION_TICKET if not from_client and not negotiation.tls13:
                self._keys.issued(negotiation, parse_session_ticket(body))
            case MessageType.END_OF_EARLY_DATA if half.epoch is Epoch.EARLY:
                half.enter(Epoch.HANDSHAKE)
            case MessageType.FINISHED if half.epoch is Epoch.HANDSHAKE:
                half.enter(Epoch.APPLICATION)
            case MessageType.KEY_UPDATE if half.epoch is Epoch.APPLICATION and negotiation.tls13:
                half.enter(Epoch.APPLICATION, half.generation + 1)

    def _client_hello(self, half: TlsHalf, body: bytes) -> None:
        hello = parse_client_hello(body)
        last = self._keys.negotiation(max(half.hellos - 1, 0))
        if last.client is not None and last.client.random == hello.random:
            # the answer to a HelloRetryRequest (RFC 8446, section 4.1.2); early data no longer offered was rejected
            early = last.client.early_data
            last.client, last.client.early_data = hello, early
            last.retried = True
        else:
            self._keys.negotiation(half.hellos).client = hello
            half.hellos += 1
        info = self.info
        if half.hellos > 1:
            info.note("renegotiated")
            return  # only the first handshake is listed
        info.client_random = hello.random
        info.server_name = hello.server_name or info.server_name
        info.offered_alpn = hello.alpn or info.offered_alpn

    def _server_hello(self, half: TlsHalf, body: bytes) -> None:
        hello = parse_server_hello(body)
        negotiation = self._keys.negotiation(half.hellos)
        if not half.hellos:  # only the first handshake is listed
            info = self.info
            info.version, info.suite = version_name(hello.version), suite_name(hello.suite)
            info.alpn = hello.alpn
        if hello.retry:
            negotiation.retried = True
            return
        half.hellos += 1
        negotiation.server = hello
        if hello.version >= TLS13 and half.hellos == 1:
            self._tls13 = True
            self._resumed(negotiation, hello.resumed)
            half.enter(Epoch.HANDSHAKE)

    def _certificate(self, half: TlsHalf, body: bytes, negotiation: Negotiation) -> None:
        der = parse_certificate(body, tls13=negotiation.tls13)
        if not der:
            return
        from captures.packets.tls.certificates import certificate_names

        names = certificate_names(der)
        if half.side is Side.CLIENT:
            self.info.client_certificate = names
        else:
            self.info.certificate = names
            self._resumed(negotiation, False)

    def _change_cipher(self, half: TlsHalf) -> None:
        negotiation = self._keys.negotiation(half.changes)
        if half.side is Side.BROKER and negotiation.resumed is None and not half.lost:
            # neither certificate nor ServerHelloDone: an abbreviated handshake (RFC 5246, section 7.3)
            self._resumed(negotiation, True)
        half.enter(Epoch.APPLICATION, half.changes)
        half.changes += 1
        half.preamble = 1

    def _resumed(self, negotiation: Negotiation, resumed: bool) -> None:
        negotiation.resumed = resumed
        if negotiation is self._keys.negotiations[0]:
            self.info.resumed = resumed

    def _alert(self, half: TlsHalf, record: TlsRecord, content: bytes | memoryview) -> None:
        alert = Alert(half.side, record.start, record.end, content[0], content[1])
        self.info.add_alert(alert)
        self._events.append(alert)

    # -- the end -----------------------------------------------------------------------------------------------

    def _give_up(self, reason: str = "") -> None:
        """Stop the sides that wait for a secret, or otherwise those that wait for the other side, and continue without
        them.
        """
        waiting = [half for half in self._halves.values() if half.queue]
        for half in [half for half in waiting if half.needs_secret] or waiting:
            self._stop(half, f"{half.wants}; {reason}" if reason else half.wants)
        self._advance()

    def _stop(self, half: TlsHalf, reason: str, start: int | None = None) -> None:
        if half.stopped:
            return
        if start is None:
            start = half.hole_start
        if start is None:
            start = half.queue[0].start if half.queue else half.reader.position
        half.stopped = True
        half.reader.discard()
        half.queue.clear()
        self.info.reason = self.info.reason or reason
        self._events.append(DecryptionStopped(half.side, start, reason))
