"""Records: key, value and headers of each record in the shown exchanges, formatted as by ``kproxy records``."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from captures.analysis.records import CapturedRecord, RecordListing, RecordSelection
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.meaning import words
from captures.payloads.decoding import PayloadDecoding, schema_of
from captures.payloads.payload import Payload
from captures.payloads.registry import SchemaRegistry
from kproxy.session import Session
from kproxy.session.access import Access
from kproxy.text.records import (
    RecordPayloads,
    batch_words,
    one_line,
    pretty,
    remarks,
    seen,
    timestamp,
)
from kproxy.text.tables import Column
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row

MOST = 20_000
"""Most records that are listed; further ones are only counted, and a filter can select them."""
_PREVIEW = 200
"""Most characters of a key or value in the table."""
_MOST_LINES = 2_000
"""Most lines of a value below the table."""
_MORE = "more"


class RecordKey(NamedTuple):
    """The record of a row.

    :ivar number: of the exchange
    :ivar path: of the record among the exchange's fields
    :ivar name: its place in the log, as accepted by ``J``
    """

    number: int
    path: str
    name: str

    @property
    def located(self) -> bool:
        """Whether its offset is known."""
        return not self.name.endswith("?")


class RecordsFold:
    """The records of the shown exchanges: their rows and places.

    :param listing: reads the records
    :param payloads: decodes keys and values
    :ivar rows: of the first :data:`MOST`
    :ivar more: number of further records
    """

    TAKEN = ("records",)

    def __init__(self, listing: RecordListing, payloads: RecordPayloads, view: Records) -> None:
        self.listing = listing
        self.payloads = payloads
        self._view = view
        self.rows: list[Row] = []
        self.more = 0

    def add(self, exchange: Exchange) -> None:
        """Add the records of one exchange."""
        if len(self.rows) >= MOST:
            self.more += self.listing.announced(exchange)
            return
        for record in self.listing.of(exchange):
            if len(self.rows) < MOST:
                self.rows.append(self._view.row(record, self.payloads))
            else:
                self.more += 1

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        records = columns.flat("records")
        with_records = np.flatnonzero(columns.flat("batches"))
        for exchange in access.plain.several(indexes[with_records].tolist()):
            index = exchange.number - access.plain.first
            if len(self.rows) >= MOST:
                self.more += int(np.maximum(records[np.searchsorted(indexes, index) :], 0).sum())
                return
            self.add(exchange)
            yield index


class Records(TableView[RecordsFold]):
    """One row per record; the whole of the selected one below."""

    view_name = "records"
    THINGS = "records"
    DRAWN = False  # the table takes the rest

    DEFAULT_CSS = """
    Records {
        & > .rows { height: 1fr; max-height: 100%; }
        & > .detail { height: auto; max-height: 50%; }
        & > .detail.-text-only > .text { height: auto; }
        &.-beside > .detail { height: 1fr; max-height: 100%; }
    }
    """

    COLUMNS = (
        Column("record", least=16),
        Column("time", rank=2),
        Column("seen", rank=3),
        Column("key", least=6),
        Column("value", least=20),
        Column("headers", least=8, rank=4),
        Column("remarks", least=8, rank=1),
    )
    DETAILS = ()

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._decoding = PayloadDecoding()

    def read_by(self, text: str) -> None:
        """Decode values with a schema from now on; slow if it has to be compiled.

        :param text: ``[TOPIC=]FILE[:MESSAGE]``, or the URL of a schema registry
        :raises SchemaError: if it cannot be used
        """
        known = self._decoding
        if text.startswith(("http://", "https://")):
            self._decoding = PayloadDecoding(schemas=known.schemas, registry=SchemaRegistry(text))
        else:
            topic, decoder = schema_of(text)
            schemas = {**known.schemas, ("value", topic): decoder}
            self._decoding = PayloadDecoding(schemas=schemas, registry=known.registry)
        self._folding.restart()

    @property
    def failures(self) -> list[str]:
        """Failures of the schema registry, as printable texts."""
        return [] if self._decoding.registry is None else self._decoding.registry.failures

    def make(self, access: Access) -> RecordsFold:
        listing = RecordListing(
            RecordSelection(),
            access.plain.knowledge.topic_name,
            wanted=self.session.filter,
            show_secrets=self.session.show_secrets,
        )
        return RecordsFold(listing, RecordPayloads(self._decoding), self)

    def rows(self, fold: RecordsFold, access: Access) -> Sequence[Row]:
        if not fold.more:
            return list(fold.rows)
        more = Cell(f"{fold.more:,} more records: a filter (f) chooses among them", Role.MUTED)
        cells = [
            "…" if not at else more if column.title == "value" else ""
            for at, column in enumerate(self.COLUMNS)
        ]
        return [*fold.rows, Row(_MORE, tuple(cells))]

    def row(self, record: CapturedRecord, payloads: RecordPayloads) -> Row:
        remark = words.listed(remarks(record))
        role = Role.MUTED if record.control is not None else Role.PLAIN
        cells: tuple[AnyCell, ...] = (
            Cell(record.name, role, record.offset),
            Cell(timestamp(record, self.session.zone), role, record.timestamp),
            Cell(seen(record), role, record.number),
            _cell(payloads.key(record), role),
            _cell(payloads.value(record), role),
            words.listed(
                f"{name}={one_line(payload, _PREVIEW)}" for name, payload in payloads.headers(record)
            ),
            Cell(remark, Role.MUTED if record.control is not None else Role.WARNING),
        )
        return Row(RecordKey(record.number, record.path, record.name), cells, leads_to=record.number)

    def detail(self, fold: RecordsFold, access: Access, key: Hashable) -> Detail | None:
        record = _record(fold, access, key)
        if record is None:
            return None
        value = fold.payloads.value(record)
        lines = pretty(value)
        shown = lines[:_MOST_LINES]
        left = [f"… {len(lines) - len(shown):,} more lines"] if len(lines) > len(shown) else []
        text = facts(
            *(("", Cell(failure, Role.ERROR)) for failure in self.failures),
            ("", Cell(words.listed(remarks(record)), Role.WARNING)),
            ("seen", seen(record), f"by {record.client_id or record.client}", f"broker {record.broker}"),
            ("timestamp", timestamp(record, self.session.zone)),
            ("batch", *batch_words(record)),
            *(("key", line) for line in pretty(fold.payloads.key(record))[:1]),
            *(
                (f"{words.clipped(name, 12)}", one_line(each, _PREVIEW))
                for name, each in fold.payloads.headers(record)
            ),
            (_title(value), shown[0] if len(shown) == 1 else words.size(value.size), value.problem),
            ("schema", value.schema or self._hint(record.tp.topic, value)),
            *(("", Cell(line or " ")) for line in (shown if len(shown) > 1 else [])),
            *(("", Cell(line, Role.MUTED)) for line in left),
        )
        return Detail(f"record {record.name}", text, ())

    def _hint(self, topic: str, value: Payload) -> str:
        """Return how a value can be decoded that looks as if a registry had its schema; empty for other values."""
        number = self._decoding.framed.get(topic)
        if value.format != "hex" or number is None:
            return ""
        return f"perhaps schema {number} of a registry: :schema http://HOST:PORT asks it"

    # ------------------------------------------------------------ selection
    def field_of(self, row: Row) -> str:
        return f"{row.key.path}.value" if isinstance(row.key, RecordKey) else ""

    @property
    def selected(self) -> RecordKey | None:
        """The record under the cursor, None if there is none."""
        row = self._table.selected
        return row.key if row is not None and isinstance(row.key, RecordKey) else None

    async def value(self) -> str | None:
        """Return the value of the record under the cursor as text, None if there is no record, or it has no value."""
        key = self.selected
        if key is None:
            return None

        def text(fold: RecordsFold, access: Access) -> str | None:
            record = _record(fold, access, key)
            if record is None:
                return None
            payload = fold.payloads.value(record)
            if payload.format == "null":
                return None
            return str(payload.data) if payload.format in ("text", "hex") else "\n".join(pretty(payload))

        return await self._counts.read(text)


def record_at(access: Access, number: int, path: str) -> CapturedRecord | None:
    """Return the record that contains a field of an exchange; None if none does."""
    listing = RecordListing(RecordSelection(), access.plain.knowledge.topic_name)
    return next((listing.at(each, path) for each in access.exchanges([number])), None)


def _record(fold: RecordsFold, access: Access, key: Hashable) -> CapturedRecord | None:
    """Return a record of the table, read again because only its row is kept."""
    if not isinstance(key, RecordKey):
        return None
    return next((fold.listing.at(each, key.path) for each in access.exchanges([key.number])), None)


def _cell(payload: Payload, role: Role) -> AnyCell:
    text = one_line(payload, _PREVIEW)
    return Cell(text, Role.MUTED if payload.format in ("null", "hex") else role)


def _title(payload: Payload) -> str:
    return "value" if payload.format in ("null", "text", "hex") else payload.format
