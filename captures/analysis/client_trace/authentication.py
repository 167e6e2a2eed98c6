"""Authentications of a party: one line for each on each connection."""

from __future__ import annotations

from dataclasses import replace

from captures.analysis.client_identity import Introduction, Introductions, client_name, connection_key
from captures.analysis.client_trace.model import NUMBERS_SHOWN, Line, Phase
from captures.exchanges import Exchange, Flag
from captures.meaning import words
from dissectors.api_keys import ApiKey


class Authentications:
    """Collects SASL handshakes and tokens."""

    def __init__(self) -> None:
        self._introductions = Introductions()
        self._lines: list[tuple[Line, Introduction, bool]] = []
        self._begun: dict[int, tuple[int, Line]] = {}

    def add(self, exchange: Exchange) -> bool:
        """Process one exchange; return whether it is part of an authentication."""
        self._introductions.add(exchange)
        token = Flag.SASL_TOKEN in exchange.flag
        if not token and exchange.api_key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return False
        known = self._introductions.of(connection_key(exchange))
        times, line = self._begun.get(exchange.connection, (0, None))
        if line is None or known.authentications != times:
            line = _begun(exchange)
            self._begun[exchange.connection] = known.authentications, line
            self._lines.append((line, known, known.authentications > 1))
        line.count += 1
        line.last = exchange.number
        line.until = max(line.until, exchange.end)
        if len(line.numbers) < NUMBERS_SHOWN:
            line.numbers.append(exchange.number)
        line.trouble = line.trouble or bool(exchange.errors)
        return True

    def lines(self) -> list[Line]:
        """Return a line for each authentication."""
        found = []
        for line, known, repeated in self._lines:
            text = _sentence(known, repeated=repeated)
            if line.trouble:
                text += f": {known.refusal or 'refused'}"
            else:
                text += ": accepted" if known.authenticated else ": its outcome was not seen"
            text = words.line(text)
            found.append(replace(line, text=text, key=("authentication", line.client, text)))
        return found


def _begun(exchange: Exchange) -> Line:
    return Line(
        time=exchange.time,
        until=exchange.time,
        what="authentication",
        phase=Phase.AUTHENTICATION,
        text="",
        client=client_name(exchange),
        connections=[exchange.connection],
        brokers=[exchange.shown_broker],
    )


def _sentence(known: Introduction, *, repeated: bool) -> str:
    does = "authenticates again" if repeated else "authenticates"
    by = f" by {known.mechanism}" if known.mechanism else ""
    return f"{does}{by}" + (f" as {known.principal}" if known.principal else "")
