"""The declaration types of tables, and the columns that several tables share."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from captures.export.columns import choose


class Needs(Enum):
    """The parts of an exchange that a column needs. Each includes the ones before it."""

    HEADER = "header"
    """The exchange table alone: nothing is decoded."""
    BODIES = "bodies"
    """Both bodies, decoded."""
    SHOWN = "shown"
    """Bodies annotated for display: records decompressed, secrets masked. Much slower."""


class Column(NamedTuple):
    """One column.

    :ivar type: in the syntax of Spark SQL
    :ivar unit: empty if it has none
    :ivar nullable: whether the value may be missing
    :ivar needs: parts of an exchange to read for it; used only in the table ``exchanges``
    :ivar on_request: whether it is written only if requested by name
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    needs: Needs = Needs.BODIES
    on_request: bool = False


class Table(NamedTuple):
    """One table.

    :ivar about: meaning of a row, in a sentence or two
    :ivar per_exchange: whether its rows come from single exchanges rather than from a whole capture
    :ivar on_request: whether it is written only if requested by name
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    per_exchange: bool
    on_request: bool = False

    @property
    def usual(self) -> tuple[Column, ...]:
        """The default columns: all that are not on request."""
        return tuple(column for column in self.columns if not column.on_request)

    def since(self, first: str) -> tuple[str, ...]:
        """Return the names of the columns from `first` on."""
        names = [column.name for column in self.columns]
        return tuple(names[names.index(first) :])

    def choose(self, names: Iterable[str] | None = None) -> tuple[Column, ...]:
        """Return columns by name, in the order of the names; the default columns if `names` is None.

        :raises ValueError: for an unknown name, or an empty choice
        """
        return self.usual if names is None else choose(names, self.columns, self.name)


HEADER = Needs.HEADER
PLACES = "array<struct<topic:string,partition:int>>"

RUN = Column("run", "int", "which run into the folder wrote the row, counted from 0", needs=HEADER)
NUMBER = Column(
    "number",
    "bigint",
    "of the exchange, counted from 1 by the first byte of the request in the input of the run",
    needs=HEADER,
)
CONNECTION = Column(
    "connection", "int", "TCP connection, counted by its first packet in the input of the run", needs=HEADER
)


def moment(name: str, meaning: str, *, nullable: bool = False) -> tuple[Column, Column]:
    """Return the two columns of a point in time."""
    return (
        Column(name, "timestamp", meaning, "us, UTC", nullable, HEADER),
        Column(f"{name}_ns", "bigint", f"`{name}` to the nanosecond", "ns since the epoch", nullable, HEADER),
    )


OF_REQUEST = moment(
    "time", "of the packet with the first byte of the request (of the response, if it has no request)"
)
PLACE = (
    Column("topic", "string", "name of the topic, or its ID if no message told the name"),
    Column("topic_id", "string", "ID of the topic, where the message names it by ID", nullable=True),
    Column("partition", "int", "number of the partition"),
)
API = (
    Column("api", "string", "name of the API", needs=HEADER),
    Column("api_key", "smallint", "null for SASL tokens and orphan responses", nullable=True, needs=HEADER),
)
ENDS = (
    Column("client", "string", "address of the client, `host:port`", needs=HEADER),
    Column("broker", "string", "address of the broker, `host:port`", needs=HEADER),
)
END_NAMES = (
    Column("client_name", "string", "what `--hosts` calls the client's address", nullable=True, needs=HEADER),
    Column("broker_name", "string", "what `--hosts` calls the broker's", nullable=True, needs=HEADER),
)
