"""JSON Schemas of what commands print with ``--json``: ``docs/schemas/COMMAND.schema.json``.

Keys and types come from the code where an object is made by a class or function whose source can be followed
(:mod:`docs.tools.json_types`), and from the tables of the hand-written pages where it is put together otherwise. What
keys mean always comes from the pages: a key without words there is an error, so that nothing is printed that is not
documented. Tests hold the schemas to what commands print for recordings.

Objects are open: readers have to pass over keys that they do not know, since keys are added within a major version.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from captures.analysis.client_compat import BrokerFit
from captures.analysis.clients.inventory import Client
from captures.analysis.comparison.model import Comparison
from captures.analysis.compat_model import ClientVerdict
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.groups.model import Rebalance
from captures.analysis.journey.journeys import JourneyResult
from captures.analysis.journey.model import Settled
from captures.analysis.lag import LagRow
from captures.analysis.party.model import Line, Party, Phase
from captures.analysis.percentiles import Percentiles
from captures.analysis.version_matrix import BrokerOffer, ClientVersions, VersionWarning
from captures.exchanges.exchange import Exchange
from captures.tables.options import TablesSummary
from docs.tools.json_types import Either, Many, Map, Object, Shape, Time, either, members, returned, shape_of
from kproxy.cli.compat import _target_json
from kproxy.cli.replay_tables import plan_json
from kproxy.doctor import AREAS, State
from kproxy.replay.results import ApiResult

DOCS = Path(__file__).parents[1]
FOLDER = "schemas"
PAGE = "json-schemas.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"
"""RFC 3339 in UTC with nanoseconds."""


class UndocumentedError(Exception):
    """A page lacks words or a type for a key that is printed."""


# ------------------------------------------------------------ what the pages say
@dataclass(frozen=True)
class Row:
    """A row of a table of keys.

    :ivar types: of each of the keys, as the page has it; empty where the table has no types
    """

    keys: tuple[str, ...]
    types: tuple[str, ...]
    meaning: str


@dataclass(frozen=True)
class Table:
    """The type of an object whose keys and types a table tells: the `number`-th table of keys of a page, from 0."""

    page: str
    number: int


@cache
def tables(page: str) -> tuple[tuple[Row, ...], ...]:
    """Return the tables of keys of a page: those whose first column is `key`."""
    found: list[tuple[Row, ...]] = []
    for block in re.findall(r"(?:^\|.*\n)+", (DOCS / page).read_text(), re.MULTILINE):
        head, _, *lines = [
            [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in block.splitlines()
        ]
        if head[0] == "key":
            found.append(tuple(_row(cells) for cells in lines))
    return tuple(found)


def _row(cells: list[str]) -> Row:
    keys = tuple(re.findall(r"`([^`]+)`", cells[0]))
    if len(cells) == 2:
        return Row(keys, (), cells[1])
    if len(keys) == 1:
        return Row(keys, (cells[1],), cells[2])
    parts = re.split(r"[;,] ", cells[1])
    if len(parts) not in (1, len(keys)):
        raise UndocumentedError(f"{cells[0]} has {len(keys)} keys and {len(parts)} types")
    return Row(keys, tuple(parts if len(parts) > 1 else parts * len(keys)), cells[2])


_SCALARS = {"string": str, "integer": int, "number": float, "boolean": bool, "null": None}


def _typed(text: str, key: str) -> Any:
    """Return the type that a cell tells.

    :raises UndocumentedError: if the cell says only that there are objects: then they have to be declared
    """
    found = []
    for part in re.split(r" or |, ", text):
        element = re.sub(r"^arrays? of ", "", part)
        name = element.removesuffix("s")
        if name in PARTS:
            one: Any = PARTS[name]
        elif name in _SCALARS:
            one = _SCALARS[name]
        else:
            raise UndocumentedError(f"{key}: {part!r} has to be declared")
        found.append(Many(one) if element != part else one)
    return either(*found)


PARTS = {"distribution": Table(PAGE, 0), "flow": Table(PAGE, 1)}
"""Objects that several have, by the words that pages use for them."""


# ------------------------------------------------------------ what is printed
@dataclass(frozen=True)
class Form:
    """One form of an object.

    :ivar page: whose tables say what keys mean
    :ivar root: its type
    :ivar types: types of places in it that are not as the root says: ``groups[].lag``
    :ivar words: the tables for places in it, by the number on the page, where they are not found by what the root is
    :ivar optional: places that are not always there
    :ivar source: where keys and types come from
    """

    page: str
    root: Any
    types: Mapping[str, Any] = field(default_factory=dict)
    words: Mapping[str, int] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()
    source: Literal["code", "page", "page and code", "declared"] = "code"


@dataclass(frozen=True)
class Printed:
    """What a command prints.

    :ivar by: the commands that print it
    :ivar lines: whether it is an object per line, not a single one
    :ivar forms: the forms that objects have, one of which each has
    """

    title: str
    by: tuple[str, ...]
    forms: tuple[Form, ...]
    lines: bool = False


MAYBE_TIME = Either((Time(), None))
TEXTS = Many(str)
NUMBERS = Many(int)


def _head(**more: Any) -> dict[str, Any]:
    """The types that the tops of most objects have in common."""
    return {"first": MAYBE_TIME, "last": MAYBE_TIME, **more}


def _each(name: str, **keys: Any) -> dict[str, Any]:
    """The types of keys of the objects in an array."""
    return {f"{name}[].{key}": found for key, found in keys.items()}


_SIDES = Object({"client": int, "broker": int})
_ROWS_OF_STATS = {
    f"{name}": Many(Table("json-stats.md", number))
    for number, name in enumerate(
        ("apis", "errors", "clients", "topics", "connections", "throttling", "time_shares"), 1
    )
}

SETTLED = tuple(each.name.lower() for each in Settled)

STATS = Form(
    "json-stats.md",
    Table("json-stats.md", 0),
    types=_head(
        **_ROWS_OF_STATS,
        names=Map(TEXTS),
        **_each("apis", wait_reasons=Map(int)),
        **_each("errors", clients=Map(int), first_time=Time(), last_time=Time()),
        **_each("clients", apis=Map(int), versions=Map(Map(int)), first=Time(), last=Time()),
        **_each(
            "topics",
            errors=Map(int),
            partitions=Many(
                Object(
                    {"partition": int, **dict.fromkeys(("produced", "fetched", "replicated"), PARTS["flow"])}
                    | {"errors": Map(int)}
                )
            ),
        ),
        **_each(
            "connections",
            first=Time(),
            last=Time(),
            versions=Map(NUMBERS),
            fallback=Map(int),
            unanswered=Map(int),
            ended=Literal[
                "closed by client", "closed by broker", "reset by client", "reset by broker", "open"
            ],
            **dict.fromkeys(("packets", "retransmitted", "reordered", "lost", "cut", "zero_windows"), _SIDES),
        ),
        **_each("throttling", first=MAYBE_TIME, last=MAYBE_TIME),
        **_each("time_shares", wait_reasons=Map(int)),
    ),
    words={"topics[].partitions[]": 4},
    optional=frozenset({"exchanges", "first", "last", *_ROWS_OF_STATS}),
    source="page",
)

_CHANGES = Object(
    {
        "changed": Many(Object({"path": str, "sent": Any, "got": Any})),
        "unlisted": int,
        "faults": Many(Object({"rule": str, "action": str})),
        "held_ns": int,
        "released_by": either(Literal["user", "timeout", "edited", "killed", "detached"], None),
        "answered": bool,
        "not_forwarded": bool,
    }
)

EXCHANGE = Form(
    "json.md",
    Shape(Exchange),
    types={
        "request": either(Map(Any), None),
        "response": either(Map(Any), None),
        "decoded": Map(Any),
        "kproxy": either(
            Object({"request": either(_CHANGES, None), "response": either(_CHANGES, None)}), None
        ),
        "problems": Many(
            Object({"side": Literal["request", "response"], "offset": int, "path": str, "reason": str})
        ),
    },
    words={"kproxy.request": 1, "kproxy.response": 1},
)

DIAGNOSIS = Form(
    "json-diagnose.md",
    Table("json-diagnose.md", 0),
    types=_head(
        findings=Many(Shape(Finding)),
        **_each("findings", severity=Literal[tuple(each.word for each in Severity)]),
        blind=Many(Table("json-diagnose.md", 2)),
    ),
    words={"findings[]": 1},
    source="page and code",
)

GROUPS = Form("json-groups.md", Shape(Rebalance), words={"causes[]": 1, "waits[]": 2})

VERSIONS = Form(
    "api-versions.md",
    Table("api-versions.md", 0),
    types={
        "brokers": Many(Object({**shape_of(BrokerOffer).keys, "name": either(str, None)})),
        "clients": Many(Shape(ClientVersions)),
        "warnings": Many(Shape(VersionWarning)),
    },
    words={"brokers[]": 1, "clients[]": 2, "clients[].versions[]": 3, "warnings[]": 4},
    source="page and code",
)

CLIENTS = Form(
    "clients.md",
    Object({"captures": TEXTS, "clients": Many(Shape(Client))}),
    words={"clients[]": 1, "clients[].settings[]": 2},
    optional=frozenset({"clients[].settings"}),
)

BROKER_VERSION = Form(
    "compat.md",
    Table("compat.md", 0),
    types={
        "target": returned(_target_json),
        "clients": Many(Shape(ClientVerdict)),
    },
    words={"target": 1, "target.apis[]": 2, "clients[]": 3, "clients[].apis[]": 4},
    source="page and code",
)

CLIENT_VERSION = Form(
    "compat.md",
    Object(
        {
            "captures": TEXTS,
            "client": str,
            "brokers": Many(Object({**shape_of(BrokerFit).keys, "name": either(str, None)})),
        }
    ),
    words={"": 5, "brokers[]": 6, "brokers[].apis[]": 7},
)

COMPARISON = Form(
    "diff.md",
    Object({"captures": TEXTS, **shape_of(Comparison).keys}),
    words={
        "good": 1,
        "bad": 1,
        "differences[]": 2,
        "differences[].good": 3,
        "differences[].bad": 3,
    },
)

PARTY = Form("follow.md", Object({"what": Literal["party"], "captures": TEXTS, **shape_of(Party).keys}))

LINE = Form("follow.md", Shape(Line), types={"phase": Phase}, words={"": 1})

JOURNEYS = Form(
    "journey.md",
    Object({"captures": TEXTS, "first": MAYBE_TIME, "last": MAYBE_TIME, **shape_of(JourneyResult).keys}),
    types={
        "journeys[].groups[].commit.kind": Literal[SETTLED],
        "journeys[].groups[].committed_before.kind": Literal[SETTLED],
    },
    words={
        "journeys[]": 1,
        "journeys[].record": 2,
        "journeys[].batch": 3,
        "journeys[].attempts[]": 4,
        "journeys[].transaction": 5,
        "journeys[].groups[]": 6,
        "journeys[].groups[].deliveries[]": 7,
        "journeys[].groups[].commit": 8,
        "journeys[].groups[].committed_before": 8,
        "waits": 9,
        "waits.groups[]": 9,
    },
)

LAG = Form(
    "lag.md",
    Table("lag.md", 0),
    types=_head(
        groups=Many(Object({"group": str, "lag": either(int, None), "unknown_partitions": int})),
        partitions=Many(Shape(LagRow)),
    ),
    words={"partitions[]": 1},
    source="page and code",
)

DOCTOR = Form(
    "install.md",
    Object(
        {
            "kproxy": either(str, None),
            **dict.fromkeys(("python", "executable", "system"), str),
            "works": bool,
            "checks": Many(
                Object(
                    {
                        "area": Literal[tuple(AREAS)],
                        "name": str,
                        "state": State,
                        **dict.fromkeys(("found", "about", "command"), str),
                    }
                )
            ),
        }
    ),
    words={"checks[]": 1},
    source="declared",
)

REPLAY_PLAN = Form("replay.md", returned(plan_json), words={"rows[]": 1})

REPLAY_EXCHANGE = Form(
    "replay.md",
    Object(
        {
            "type": Literal["exchange"],
            **dict.fromkeys(("number", "connection"), int),
            "api": str,
            **dict.fromkeys(("api_key", "version", "sent_version"), int),
            "broker": either(str, None),
            **dict.fromkeys(("recorded_latency_ns", "latency_ns"), either(int, None)),
            **dict.fromkeys(("recorded_errors", "errors"), NUMBERS),
            "same": either(bool, None),
            "differences": Many(Object({"path": str, "field": str, "recorded": Any, "new": Any})),
            "expected_differences": TEXTS,
            "failure": either(str, None),
            **dict.fromkeys(("recorded", "new"), either(Map(Any), None)),
        }
    ),
    words={"": 2},
    optional=frozenset({"differences[].recorded", "differences[].new"}),
    source="declared",
)

REPLAY_SUMMARY = Form(
    "replay.md",
    Object(
        {
            "type": Literal["summary"],
            **dict.fromkeys(("planned", "sent", "differing", "failed"), int),
            "apis": Many(Shape(ApiResult)),
            "expected_differences": Map(Object({"exchanges": int, "reason": str})),
            "failures": Map(int),
        }
    ),
    words={"": 3, "apis[]": 4},
    source="declared",
)

PRINTED = {
    "exchange": Printed(
        "An exchange", ("read", "sniff", "proxy", "attach", "export"), (EXCHANGE,), lines=True
    ),
    "stats": Printed("Statistics", ("stats",), (STATS,)),
    "groups": Printed("A rebalance", ("groups",), (GROUPS,), lines=True),
    "diagnose": Printed("A diagnosis", ("diagnose",), (DIAGNOSIS,)),
    "api-versions": Printed("Versions offered and used", ("api-versions",), (VERSIONS,)),
    "clients": Printed("Clients and their settings", ("clients",), (CLIENTS,)),
    "compat": Printed("Who would be refused, or served less", ("compat",), (BROKER_VERSION, CLIENT_VERSION)),
    "diff": Printed("What differs", ("diff",), (COMPARISON,)),
    "follow": Printed("What a party did", ("follow",), (PARTY, LINE), lines=True),
    "journey": Printed("The way of records", ("journey",), (JOURNEYS,)),
    "lag": Printed("Lag", ("lag",), (LAG,)),
    "doctor": Printed("What the installation can do", ("doctor",), (DOCTOR,)),
    "replay": Printed(
        "A plan, what came of each request, and a summary",
        ("replay",),
        (REPLAY_PLAN, REPLAY_EXCHANGE, REPLAY_SUMMARY),
        lines=True,
    ),
    "tables": Printed("What became tables", ("tables",), (Form("spark.md", Shape(TablesSummary)),)),
}
"""What there is a schema of, by the name of its file."""


# ------------------------------------------------------------ schemas
class _Schema:
    """The schema of one form."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.parts: dict[str, Any] = {}

    def of(self, found: Any, place: str = "") -> dict[str, Any]:
        """Return the schema of a type at a place, such as ``groups[].lag``."""
        kinds = members(self.form.types.get(place, found))
        made = [self._one(kind, place) for kind in kinds]
        if len(made) == 1:
            return made[0]
        plain = [each for each in made if each.keys() == {"type"}]
        other = [each for each in made if each not in plain]
        if not other:
            return {"type": [each["type"] for each in made]}
        if len(other) == 1 and "type" in other[0]:  # it, or null, say
            one = other[0]
            one["type"] = [one["type"], *(each["type"] for each in plain)]
            if "enum" in one:
                one["enum"] = [*one["enum"], None]
            return one
        return {"anyOf": made}

    def _one(self, kind: Any, place: str) -> dict[str, Any]:
        if kind is Percentiles or (isinstance(kind, Shape) and kind.made_by is Percentiles):
            kind = PARTS["distribution"]
        if isinstance(kind, Table) and kind in PARTS.values():
            return self._part(kind)
        if isinstance(kind, Object | Shape | Table):
            return self._object(kind, place)
        if isinstance(kind, Many):
            return {"type": "array", "items": self.of(kind.element, f"{place}[]")}
        if isinstance(kind, Map):
            value = self.of(kind.value, f"{place}{{}}")
            return {"type": "object", "additionalProperties": value or True}
        if isinstance(kind, Time):
            return {"type": "string", "pattern": TIME}
        return self._annotated(kind, place)

    def _annotated(self, kind: Any, place: str) -> dict[str, Any]:
        origin, inside = get_origin(kind), get_args(kind)
        if kind is Any:
            return {}
        if kind is bytes:
            return {"type": "string", "contentEncoding": "base64"}
        if origin is Literal:
            return {"type": "string", "enum": list(inside)}
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"type": "string", "enum": [str(each.value) for each in kind]}
        if origin in (list, set, frozenset, tuple, Sequence) and len(set(inside) - {...}) == 1:
            return {"type": "array", "items": self.of(inside[0], f"{place}[]")}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            value = int if len(inside) == 1 else inside[1]  # a Counter
            return {"type": "object", "additionalProperties": self.of(value, f"{place}{{}}")}
        names = {
            str: "string",
            bool: "boolean",
            int: "integer",
            float: "number",
            None: "null",
            NoneType: "null",
        }
        if kind not in names:
            raise UndocumentedError(f"{self.form.page}: {place}: {kind} is no type of JSON")
        return {"type": names[kind]}

    def _part(self, part: Table) -> dict[str, Any]:
        (name,) = [name for name, each in PARTS.items() if each == part]
        if name not in self.parts:
            self.parts[name] = {}
            types = {"clients": Map(int)} if name == "flow" else {}
            self.parts[name] = _Schema(Form(PAGE, part, types))._object(part, "")
        return {"$ref": f"#/$defs/{name}"}

    def _object(self, kind: Object | Shape | Table, place: str) -> dict[str, Any]:
        keys: Mapping[str, Any]
        if isinstance(kind, Table):
            keys = dict(self._of_table(kind, place))
        else:
            keys = kind.keys if isinstance(kind, Object) else shape_of(kind.made_by).keys
        made: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for key, found in keys.items():
            here = f"{place}.{key}".lstrip(".")
            words = self.words(place, key, kind.number if isinstance(kind, Table) else None)
            shape = self.of(found, here)
            self._hold_to_page(here, place, key, shape)
            made["properties"][key] = {"description": words, **shape}
            if here not in self.form.optional:
                made["required"].append(key)
        return made

    def _of_table(self, table: Table, place: str) -> Iterator[tuple[str, Any]]:
        for row in tables(table.page)[table.number]:
            for key, text in zip(row.keys, row.types, strict=True):
                here = f"{place}.{key}".lstrip(".")
                yield (
                    key,
                    self.form.types[here]
                    if here in self.form.types
                    else _typed(text, f"{table.page}: {here}"),
                )

    # ------------------------------------------------------------ words
    def words(self, place: str, key: str, number: int | None = None) -> str:
        """Return what a key means.

        :raises UndocumentedError: if no page says so
        """
        known = tables(self.form.page)
        number = self.form.words.get(place, 0 if not place else None) if number is None else number
        if number is not None:
            for row in known[number]:
                if key in row.keys and row.meaning:
                    return _plain(row.meaning)
        words = self._said_above(place, key) or _common(key)
        if not words:
            raise UndocumentedError(
                f"docs/{self.form.page} does not say what {place + '.' if place else ''}{key} means"
            )
        return words

    def _hold_to_page(self, here: str, place: str, key: str, shape: Mapping[str, Any]) -> None:
        """Let a page be right about types, where it tells any.

        :raises UndocumentedError: if it tells another type than the code
        """
        number = self.form.words.get(place, 0 if not place else None)
        for row in tables(self.form.page)[number] if number is not None else ():
            if key in row.keys and row.types:
                told = _named(row.types[row.keys.index(key)])
                if told != _kinds(shape):
                    raise UndocumentedError(
                        f"docs/{self.form.page} says {sorted(told)} of {here}: {sorted(_kinds(shape))}"
                    )

    def _said_above(self, place: str, key: str) -> str:
        """Return what is said of the object itself, if that names its key."""
        above, _, name = re.sub(r"\[\]|\{\}", "", place).rpartition(".")
        there = {
            re.sub(r"\[\]|\{\}", "", known): number for known, number in {"": 0, **self.form.words}.items()
        }
        known = tables(self.form.page)
        for table in [known[there[above]]] if above in there else known:
            for row in table:
                if name in row.keys and f"`{key}`" in row.meaning:
                    return _plain(row.meaning)
        return ""


def _named(text: str) -> set[str]:
    """Return the types of JSON that a cell of a table names."""
    found = set()
    for part in re.split(r" or |, ", text):
        name = part.removesuffix("s")
        known = name in _SCALARS or name == "object" or name in PARTS
        found.add(
            "array" if re.match("arrays? of ", part) else name if known and name not in PARTS else "object"
        )
    return found


def _kinds(shape: Mapping[str, Any]) -> set[str]:
    """Return the types of JSON that a schema allows at its top."""
    if "anyOf" in shape:
        return {kind for each in shape["anyOf"] for kind in _kinds(each)}
    if "type" not in shape:
        return {"object"} if "$ref" in shape else set()
    return {shape["type"]} if isinstance(shape["type"], str) else set(shape["type"])


def _common(key: str) -> str:
    """Return what a key means wherever it is, by the last table of keys of the page on schemas."""
    return next((_plain(row.meaning) for row in tables(PAGE)[-1] if key in row.keys), "")


def _plain(words: str) -> str:
    """Return words of a page without its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", words)


def schema(name: str) -> dict[str, Any]:
    """Return the schema of what is printed, by its name in :data:`PRINTED`.

    :raises UndocumentedError: if a page lacks words for a key
    """
    printed = PRINTED[name]
    makers = [_Schema(form) for form in printed.forms]
    made = [maker.of(maker.form.root) for maker in makers]
    parts = {name: part for maker in makers for name, part in maker.parts.items()}
    commands = ", ".join(f"kproxy {each}" for each in printed.by)
    pages = dict.fromkeys(f"docs/{form.page}" for form in printed.forms)
    return {
        "$schema": DIALECT,
        "title": printed.title,
        "description": f"{'One line' if printed.lines else 'All'} of the JSON of {commands}; see {', '.join(pages)}. "
        "Keys are added within a major version: pass over what you do not know.",
        **(made[0] if len(made) == 1 else {"anyOf": made}),
        **({"$defs": parts} if parts else {}),
    }


def path(name: str) -> str:
    """Return where a schema is, below ``docs``."""
    return f"{FOLDER}/{name}.schema.json"


def overview() -> str:
    """Return the table of the schemas: what prints the objects, and where the schema comes from."""
    lines = ["| schema | printed by | keys and types from; words from |", "|---|---|---|"]
    for name, printed in PRINTED.items():
        by = ", ".join(f"`kproxy {each}`" for each in printed.by)
        each = ", an object per line" if printed.lines else ""
        lines.append(f"| [{name}]({path(name)}) | {by}{each} | {_sources(printed)} |")
    return "\n".join(lines)


def _sources(printed: Printed) -> str:
    found = dict.fromkeys(form.source for form in printed.forms)
    pages = dict.fromkeys(f"[{form.page}]({form.page})" for form in printed.forms)
    return f"{', '.join(found)}; {', '.join(pages)}"


def pages() -> dict[str, str]:
    """Return the text of each schema, by its path below ``docs``."""
    return {path(name): json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n" for name in PRINTED}
