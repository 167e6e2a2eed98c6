"""Authentications of a party: one line for each on each connection."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from captures.analysis.client_identity import Introduction, Introductions, connection_key
from captures.analysis.client_trace.apis import MANNERS
from captures.analysis.client_trace.exchange_runs import ExchangeRun
from captures.analysis.client_trace.model import Line
from captures.exchanges import Exchange, Flag
from captures.meaning import words
from dissectors.api_keys import ApiKey

_MANNER = MANNERS[ApiKey.SASL_AUTHENTICATE]


@dataclass(slots=True, eq=False)
class Authentication(ExchangeRun):
    """The handshake and the tokens of one authentication.

    :ivar known: what the connection says of its client
    :ivar repeated: whether the connection was authenticated before
    """

    known: Introduction = field(kw_only=True)
    repeated: bool = field(kw_only=True)

    def sentence(self) -> str:
        known = self.known
        does = "authenticates again" if self.repeated else "authenticates"
        by = f" by {known.mechanism}" if known.mechanism else ""
        who = f" as {known.principal}" if known.principal else ""
        if self.trouble:
            outcome = known.refusal or "refused"
        else:
            outcome = "accepted" if known.authenticated else "its outcome was not seen"
        return words.line(f"{does}{by}{who}: {outcome}")

    def line(self) -> Line:
        line = ExchangeRun.line(self)
        return replace(line, key=(line.what, line.client, line.text))


class Authentications:
    """Collects SASL handshakes and tokens."""

    def __init__(self) -> None:
        self._introductions = Introductions()
        self._found: dict[tuple[int, int], Authentication] = {}
        """Connection and number of its authentications so far -> the latest."""

    def add(self, exchange: Exchange) -> bool:
        """Process one exchange; return whether it is part of an authentication."""
        self._introductions.add(exchange)
        token = Flag.SASL_TOKEN in exchange.flag
        if not token and exchange.api_key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return False
        known = self._introductions.of(connection_key(exchange))
        key = exchange.connection, known.authentications
        if key not in self._found:
            repeated = known.authentications > 1
            self._found[key] = Authentication(key, _MANNER, exchange.time, known=known, repeated=repeated)
        self._found[key].add(exchange)
        self._found[key].trouble |= bool(exchange.errors)
        return True

    def lines(self) -> list[Line]:
        """Return a line for each authentication."""
        return [found.line() for found in self._found.values()]
