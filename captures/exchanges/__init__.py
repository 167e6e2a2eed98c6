"""Exchanges: framing and pairing in bulk, the exchange table, and fully decoded exchanges."""

from captures.exchanges.capture import Capture, Progress, open_capture
from captures.exchanges.exchange import Exchange, ExchangeReader
from captures.exchanges.table import NO_ANSWER_SEEN, SETTLED, ExchangeTable, Flag
from captures.json_objects import rfc3339
