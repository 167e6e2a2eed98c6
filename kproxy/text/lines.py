"""One line per exchange, in columns.

On a terminal, lines are cut to its width, and values that repeat the line above are dimmed. In a pipe nothing is cut or
coloured.
"""

from __future__ import annotations

from datetime import tzinfo

from captures.exchanges import Exchange, Flag
from captures.exchanges.exchange_block import ExchangeBlock
from captures.meaning import words
from captures.time_format import clock, milliseconds, zone_name
from kproxy.output import style
from kproxy.text.cells import cut, fit
from kproxy.text.cells import width as width_of
from kproxy.text.interventions import marks

GAP = "  "
_LEAST = {"#": 6, "time": 12, "ms": 8, "client": 14, "broker": 15}
_MOST = {"client": 24, "broker": 22}
_LIKELY = 18  # console-consumer, 10.0.12.231:9092
_NARROW = 100


class Lines:
    """Formats exchanges.

    :param width: columns of the terminal, None for a pipe
    :param zone: time zone of the times; None is the local one
    """

    def __init__(self, width: int | None, zone: tzinfo | None) -> None:
        self._width = width
        self._zone = zone
        self._last: tuple[str, str] = ("", "")
        self._columns = dict(_LEAST)
        self._texts = (46, 40)
        if width is not None:
            if width < _NARROW:
                self._columns["client"], self._columns["broker"] = 10, 10
            fixed = sum(self._columns.values()) + len(GAP) * (len(self._columns) + 1)
            rest = max(width - fixed, 20)
            self._texts = (rest * 11 // 20, rest - rest * 11 // 20)

    def fit(self, exchanges: list[Exchange], *, more: bool = False) -> None:
        """Choose column widths by the first exchanges.

        :param more: whether these are few and others will follow: leave room for longer names
        """
        if self._width is not None and self._width < _NARROW:
            return
        for name, values in (
            ("client", [shown_client(exchange) for exchange in exchanges]),
            ("broker", [exchange.shown_broker for exchange in exchanges]),
        ):
            longest = max(map(len, values), default=0)
            least = _LIKELY if more else _LEAST[name]
            extra = min(max(longest, least), _MOST[name]) - self._columns[name]
            self._columns[name] += extra
            if self._width is not None:
                rest = sum(self._texts) - extra
                self._texts = (rest * 11 // 20, rest - rest * 11 // 20)

    def header(self, time: int) -> str:
        """Return the line of column names."""
        columns = self._columns
        title = (
            f"{'#':>{columns['#']}}{GAP}{'time':<{columns['time']}}{GAP}{'ms':>{columns['ms']}}{GAP}"
            f"{'client':<{columns['client']}}{GAP}{'broker':<{columns['broker']}}{GAP}"
            f"{'request':<{self._texts[0]}}{GAP}response    (times in {zone_name(time, self._zone)})"
        )
        return style(title, bold=True)

    def line(self, exchange: Exchange) -> str:
        times = self._times(exchange.number, exchange.time, exchange.latency, marked=exchange.note.marked)
        return f"{times}{GAP}{self._party(exchange)}{GAP}{self._summary(exchange)}".rstrip()

    def block(self, block: ExchangeBlock) -> list[str]:
        """Return the lines of many exchanges, for a pipe."""
        parties = [self._party(party) for party in block.parties]
        texts: dict[tuple[int, str, str], str] = {}
        lines = []
        for number, time, latency, kind, party, request, response in zip(
            block.number, block.time, block.latency, block.kind.tolist(), block.party.tolist(), *block.summary,
            strict=True,
        ):  # fmt: skip
            text = texts.get((kind, request, response))
            if text is None:
                block.kinds[kind].summary = request, response
                text = texts[kind, request, response] = self._summary(block.kinds[kind])
            times = self._times(number, time, latency, marked=block.kinds[kind].note.marked)
            lines.append(f"{times}{GAP}{parties[party]}{GAP}{text}".rstrip())
        return lines

    def _times(self, number: int, time: int, latency: int | None, *, marked: bool) -> str:
        columns = self._columns
        first = f"{'*' if marked else ''}{number}".rjust(columns["#"])
        last = ("-" if latency is None else milliseconds(latency)).rjust(columns["ms"])
        return f"{first}{GAP}{clock(time, self._zone)}{GAP}{last}"

    def _party(self, exchange: Exchange) -> str:
        columns, (client_above, broker_above) = self._columns, self._last
        client, broker = self._last = shown_client(exchange), exchange.shown_broker
        return GAP.join(
            (
                self._repeated(self._cell(client, columns["client"]), client == client_above),
                self._repeated(self._cell(broker, columns["broker"]), broker == broker_above),
            )
        )

    def _summary(self, exchange: Exchange) -> str:
        request, response, colour = request_text(exchange), *response_text(exchange)
        last = response if self._width is None else cut(response, self._texts[1])
        return f"{self._cell(request, self._texts[0])}{GAP}{style(last, fg=colour) if colour else last}"

    def _cell(self, text: str, width: int) -> str:
        if self._width is not None:
            return fit(text, width)
        return text.ljust(width) if text.isascii() else text + " " * (width - width_of(text))

    def _repeated(self, text: str, repeated: bool) -> str:
        return style(text, dim=True) if repeated else text


_SPECIAL = {
    Flag.CONFLICTING: "(captured twice, with differing bytes)",
    Flag.RESYNCHRONISED: "(found after bytes of no frame)",
    Flag.RESPONSE_LOGGED: "(response from the broker's log)",
    Flag.REQUEST_LOGGED: "(request from the broker's log)",
}


def shown_client(exchange: Exchange) -> str:
    """Return the client ID, made printable, or the client's name or address if it has none."""
    return words.line(exchange.client_id) if exchange.client_id else exchange.shown_client


def request_text(exchange: Exchange) -> str:
    """Return API, version and summary of the request."""
    if exchange.api_key is None:
        return (
            f"SASL token  {exchange.summary[0]}".rstrip()
            if Flag.SASL_TOKEN in exchange.flag
            else "(request not captured)"
        )
    return f"{exchange.title}  {exchange.summary[0]}".rstrip()


def response_text(exchange: Exchange) -> tuple[str, str | None]:
    """Return the summary of the response with its peculiarities, and a colour or None."""
    flag, response, request = exchange.flag, exchange.response, exchange.request
    guess = (response is not None and response.guess) or (request is not None and request.guess) or ""
    special = flag or guess or exchange.errors or exchange.interventions
    if not (special or exchange.problems or exchange.annotations.problems):  # the usual case
        return exchange.summary[1], None
    summary, colour, separator = exchange.summary[1], "cyan" if exchange.intervened else None, " "
    notes = [text for each, text in _SPECIAL.items() if each in flag]
    marked = [marks(exchange)] if exchange.interventions else []
    if not exchange.intervened:  # interventions come first, so that narrow lines do not cut them off
        notes, marked = [*marked, *notes], []
    if Flag.ORPHAN in flag:
        summary = f"response to an unseen request, correlation ID {exchange.correlation_id}"
        return " ".join(filter(None, [*marked, summary, *notes])), "yellow"
    if guess:
        notes.append(f"({guess})")
    for side, problem in (exchange.problems + exchange.annotations.problems)[:1]:
        at = f" at byte {problem.offset}" if problem.offset >= 0 else ""
        notes.append(f"[{side}{at}: {problem.reason}]")
    if Flag.NO_RESPONSE_EXPECTED in flag:
        summary = "(none expected)"
    elif Flag.SASL_TOKEN in flag:
        summary = "(token)" if exchange.response_size else "(no token back)"
    elif Flag.UNANSWERED in flag:
        summary, colour = "NO ANSWER", "yellow"
    elif Flag.NOT_RECORDED in flag:
        summary, colour = "answer not recorded", "yellow"
    else:
        separator = "  "
        if exchange.failed:
            colour = "red"
        elif exchange.expected and not exchange.interventions.has_injected_errors:
            notes.append("(expected)")
        if exchange.problems:
            colour = "magenta"
    shown = " ".join(filter(None, [*marked, summary]))
    return separator.join(filter(None, [shown, " ".join(filter(None, notes))])), colour
