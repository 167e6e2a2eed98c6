"""The transactions of a party; consecutive ones with the same outcome form one line.

A transaction begins with the first request that names its transactional ID after the end of the one before, and ends
with the response to EndTxn. From Kafka 4.0 on, the first request may be a Produce or TxnOffsetCommit (KIP-890).
"""

from __future__ import annotations

from captures.analysis.client_identity import client_name
from captures.analysis.client_trace.apis import IN_TRANSACTION, MANNERS
from captures.analysis.client_trace.exchange_runs import ExchangeRun, Transactions
from captures.analysis.client_trace.model import Line
from captures.analysis.findings.common import transactional_id
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import text
from captures.time_format import span
from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name

_MOST = 10_000
"""Most lines that are kept."""
_Key = tuple[str, str]
"""Client and transactional ID: clients that share an ID have separate transactions."""


class TransactionRequests:
    """Collects the successful requests of transactions; failures are reported as errors."""

    def __init__(self) -> None:
        self._open: dict[_Key, ExchangeRun] = {}
        self._done: list[Transactions] = []
        self._latest: dict[_Key, Transactions] = {}

    def produced(self, exchange: Exchange) -> None:
        """Process a Produce, which may begin a transaction."""
        key = _key(exchange)
        if key is not None and key not in self._open and not exchange.errors:
            self._begun(key, exchange)

    def add(self, exchange: Exchange) -> bool:
        """Process a successful request of a transaction; return whether it is reported as part of one."""
        key = _key(exchange)
        if key is None or exchange.api_key not in IN_TRANSACTION:
            return False
        known = self._open.get(key) or self._begun(key, exchange)
        known.add(exchange)
        known.text = known.text or words.line(text(exchange.request_body, "group_id"))
        if exchange.api_key == ApiKey.END_TXN:
            committed = exchange.request_body.get("committed")
            self._end(
                key, exchange, "ended" if committed is None else "committed" if committed else "aborted"
            )
        return True

    def failed(self, exchange: Exchange) -> None:
        """Process a failed request; if it was to end a transaction, the client gives that up."""
        key = _key(exchange)
        if key is not None and key in self._open and exchange.api_key == ApiKey.END_TXN and exchange.errors:
            self._end(key, exchange, f"not ended ({error_name(exchange.errors[0].code)})")

    def _begun(self, key: _Key, exchange: Exchange) -> ExchangeRun:
        known = ExchangeRun(
            ("transaction", *key, "open"), MANNERS[ApiKey.END_TXN], exchange.time, client=key[0]
        )
        known.end = exchange.time
        self._open[key] = known
        return known

    def _end(self, key: _Key, exchange: Exchange, outcome: str) -> None:
        known = self._open.pop(key)
        if known.text:
            outcome = f"{outcome}, with offsets of {known.text}"
        of = ("transaction", *key, outcome)
        latest = self._latest.get(key)
        if latest is None or latest.key != of:
            sentence = f"of {words.line(key[1])} {outcome}"
            latest = self._latest[key] = Transactions(of, MANNERS[ApiKey.END_TXN], known.time, sentence)
            if len(self._done) < _MOST:
                self._done.append(latest)
        if exchange.errors:
            known.add(exchange)
        latest.ended += 1
        latest.trouble = not outcome.startswith(("ended", "committed"))
        latest.lasted.add(exchange.end - known.time)
        latest.include(known)

    def lines(self, now: int) -> list[Line]:
        """Return a line for each stretch of transactions, and for those that are still open.

        :param now: when the party was last active, ns since the epoch
        """
        lines = [stretch.line() for stretch in self._done]
        for (_, name), known in self._open.items():
            line = known.line()
            line.until, line.trouble = max(now, known.time), True
            line.text = (
                f"transaction of {words.line(name)} begins; its end was not seen in {span(line.until - known.time)}"
                " to the last sign of life"
            )
            lines.append(line)
        return lines


def _key(exchange: Exchange) -> _Key | None:
    name = transactional_id(exchange)
    return (client_name(exchange), name) if name and isinstance(name, str) else None
