"""JSON Schemas for the output of commands with ``--json``: ``docs/schemas/COMMAND.schema.json``.

Keys and types come from the declarations from which results are printed (:mod:`captures.json_objects`); msgspec makes
schemas from them. Descriptions of keys come from the hand-written pages. A key without a description is an error, so
every printed key is documented. Tests compare the schemas with the output of commands for recordings.

Objects are open: readers must ignore unknown keys, because keys are added within a major version.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unittest import mock

import msgspec
from msgspec import UNSET, Meta, UnsetType

import captures.analysis
import kproxy.cli.config
import kproxy.doctor
import kproxy.replay
from captures.analysis.client_trace.model import Line
from captures.analysis.groups.model import Rebalance
from captures.analysis.incidents.model import Incident
from captures.analysis.percentiles import Percentiles
from captures.analysis.topic_stats import Flow
from captures.exchanges.exchange import Exchange
from captures.json_objects import Form, hint, keys
from captures.tables.options import TablesSummary
from kproxy.cli import results

for _package in (captures.analysis, kproxy.doctor, kproxy.replay):
    for _each in pkgutil.walk_packages(_package.__path__, f"{_package.__name__}."):
        importlib.import_module(_each.name)
with mock.patch.object(typing, "TYPE_CHECKING", new=True):
    importlib.reload(results)  # to resolve the classes in its annotations, which are imported by now

DOCS = Path(__file__).parents[1]
FOLDER = "schemas"
PAGE = "json-schemas.md"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TIME = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$"
"""RFC 3339 in UTC with nanoseconds."""


class UndocumentedError(Exception):
    """A page lacks the description or the type of a printed key."""


# ------------------------------------------------------------ descriptions in pages
@dataclass(frozen=True)
class Row:
    """A row of a table of keys.

    :ivar types: types of the keys in the page; empty if the table has no types
    """

    keys: tuple[str, ...]
    types: tuple[str, ...]
    meaning: str


@cache
def tables(page: str) -> tuple[tuple[Row, ...], ...]:
    """Return the tables of keys in a page: those whose first column is `key`."""
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


_SCALARS = ("string", "integer", "number", "boolean", "null")


# ------------------------------------------------------------ outputs
@dataclass(frozen=True)
class Words:
    """The descriptions of one form of a printed object.

    :ivar page: page whose tables describe the keys
    :ivar root: class of the printed object
    :ivar places: position in the object -> number of the table; the root defaults to the first
    :ivar optional: positions that may be missing
    """

    page: str
    root: type
    places: Mapping[str, int] = field(default_factory=dict)
    optional: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Output:
    """The output of a command.

    :ivar by: the commands that print it
    :ivar lines: whether there is an object per line, instead of a single one
    :ivar forms: the possible forms of an object
    """

    title: str
    by: tuple[str, ...]
    forms: tuple[Words, ...]
    lines: bool = False


PARTS: dict[str, tuple[type, int]] = {"distribution": (Percentiles, 0), "flow": (Flow, 1)}
"""Objects that several have, by the words that pages use for them, with the tables of :data:`PAGE`."""

_STATISTICS = {
    f"{name}[]": number
    for number, name in enumerate(
        ("apis", "errors", "clients", "topics", "connections", "throttling", "time_shares"), 1
    )
}

PRINTED = {
    "exchange": Output(
        "An exchange",
        ("read", "sniff", "proxy", "attach", "export"),
        (Words("json.md", Exchange, {"kproxy.request": 1, "kproxy.response": 1, "broker_log": 2}),),
        lines=True,
    ),
    "stats": Output(
        "Statistics",
        ("stats",),
        (Words("json-stats.md", results.Statistics, {**_STATISTICS, "topics[].partitions[]": 4}),),
    ),
    "groups": Output(
        "A rebalance",
        ("groups",),
        (Words("json-groups.md", Rebalance, {"causes[]": 1, "waits[]": 2}),),
        lines=True,
    ),
    "diagnose": Output(
        "A diagnosis",
        ("diagnose",),
        (
            Words(
                "json-diagnose.md",
                results.DiagnosisResult,
                {"findings[]": 1, "blind[]": 2, "incidents[]": 3, "incidents[].consequences[]": 4},
            ),
        ),
    ),
    "incidents": Output(
        "An incident",
        ("incidents",),
        (Words("incidents.md", Incident, {"consequences[]": 1}),),
        lines=True,
    ),
    "api-versions": Output(
        "Versions offered and used",
        ("api-versions",),
        (
            Words(
                "api-versions.md",
                results.Versions,
                {"brokers[]": 1, "clients[]": 2, "clients[].versions[]": 3, "warnings[]": 4},
            ),
        ),
    ),
    "clients": Output(
        "Clients and their settings",
        ("clients",),
        (
            Words(
                "clients.md",
                results.ClientsResult,
                {"clients[]": 1, "clients[].settings[]": 2},
                optional=frozenset({"clients[].settings"}),
            ),
        ),
    ),
    "compat": Output(
        "Who would be refused, or served less",
        ("compat",),
        (
            Words(
                "compat.md",
                results.TargetResult,
                {"target": 1, "target.apis[]": 2, "clients[]": 3, "clients[].apis[]": 4},
            ),
            Words("compat.md", results.BrokersResult, {"": 5, "brokers[]": 6, "brokers[].apis[]": 7}),
        ),
    ),
    "diff": Output(
        "What differs",
        ("diff",),
        (
            Words(
                "diff.md",
                results.ComparisonResult,
                {"good": 1, "bad": 1, "differences[]": 2, "differences[].good": 3, "differences[].bad": 3},
            ),
        ),
    ),
    "follow": Output(
        "What a party did",
        ("follow",),
        (Words("follow.md", results.PartyResult), Words("follow.md", Line, {"": 1})),
        lines=True,
    ),
    "journey": Output(
        "The way of records",
        ("journey",),
        (
            Words(
                "journey.md",
                results.JourneysResult,
                {
                    "journeys[]": 1,
                    "journeys[].record": 2,
                    "journeys[].batch": 3,
                    "journeys[].attempts[]": 4,
                    "journeys[].transaction": 5,
                    "journeys[].groups[]": 6,
                    "journeys[].groups[].deliveries[]": 7,
                    "journeys[].groups[].commit": 8,
                    "journeys[].groups[].committed_before": 8,
                    "journeys[].logs[]": 10,
                    "waits": 9,
                    "waits.groups[]": 9,
                },
            ),
        ),
    ),
    "records": Output(
        "A record",
        ("records",),
        (
            Words("records.md", results.RecordResult, {"headers[]": 1, "batch": 2}),
            Words("records.md", results.LoggedRecordResult, {"headers[]": 1, "batch": 2}),
        ),
        lines=True,
    ),
    "lag": Output("Lag", ("lag",), (Words("lag.md", results.LagResult, {"partitions[]": 1}),)),
    "doctor": Output(
        "What the installation can do",
        ("doctor",),
        (Words("install.md", results.DoctorResult, {"checks[]": 1}),),
    ),
    "config": Output(
        "What is set",
        ("config",),
        (Words("configuration.md", results.ConfigurationResult, {"settings[]": 1}),),
    ),
    "replay": Output(
        "A plan, what came of each request, and a summary",
        ("replay",),
        (
            Words("replay.md", results.PlanResult, {"rows[]": 1}),
            Words("replay.md", results.OutcomeResult, {"": 2}),
            Words("replay.md", results.ReplaySummary, {"": 3, "apis[]": 4}),
        ),
        lines=True,
    ),
    "tables": Output("What became tables", ("tables",), (Words("spark.md", TablesSummary),)),
}
"""What there is a schema of, by the name of its file."""


# ------------------------------------------------------------ schemas
def _struct(name: str, fields: Mapping[str, Any]) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name,
        [(key, kind, UNSET) if UnsetType in get_args(kind) else (key, kind) for key, kind in fields.items()],
        kw_only=True,
    )


@cache
def _object(kind: Any) -> type[msgspec.Struct]:
    """Return the type of the JSON object for a class."""
    return _struct(kind.__name__, {key: _type(hint(kind, path)) for key, path in keys(kind).items()})


@cache
def _named(names: tuple[str, ...], kinds: tuple[Any, ...]) -> type[msgspec.Struct]:
    return _struct("".join(names).title(), dict(zip(names, map(_type, kinds), strict=True)))


def _type(kind: Any) -> Any:
    """Return the type of a value in JSON.

    :raises UndocumentedError: if it is unknown
    """
    inside = get_args(kind)
    if kind is object:
        raise UndocumentedError("a class in an annotation is imported for checks of types only")
    forms = getattr(kind, "__metadata__", ())
    if Form.EMPTY_IS_NULL in forms:
        rest = forms[:-1]
        return _type(Annotated[(inside[0], *rest)] if rest else inside[0]) | None
    if Form.NEGATIVE_IS_NULL in forms:
        return int | None
    if Form.TIME in forms:
        return Annotated[str, Meta(pattern=TIME)]
    if Form.ROUNDED in forms:
        return float
    if Form.WORD in forms:
        return Literal[tuple(each.name.lower() for each in inside[0])]
    if forms:
        return _named(tuple(forms[0]), get_args(inside[0]))
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return reduce(or_, map(_type, inside))
    if origin is Literal or not inside:
        return _object(kind) if isinstance(kind, type) and keys(kind) else kind
    if issubclass(origin, Mapping):
        return dict[str, _type(inside[1] if len(inside) > 1 else int)]  # Counter: values have no type
    return list[_type(inside[0])]  # type: ignore[misc]


class _Schema:
    """The schema of one form."""

    def __init__(self, form: Words) -> None:
        self.form = form
        self._done: set[str] = set()
        (self.shape,), self.parts = msgspec.json.schema_components(
            [_object(form.root)], ref_template="#/$defs/{name}"
        )
        self._describe(self.shape, "")

    def _describe(self, shape: dict[str, Any], place: str) -> None:
        """Add descriptions of keys to a schema and all schemas it refers to."""
        if "$ref" in shape:
            name = shape["$ref"].rpartition("/")[2]
            if name not in self._done:
                self._done.add(name)
                self._describe(self.parts[name], place)
            return
        for each in shape.get("anyOf", ()):
            self._describe(each, place)
        if "items" in shape:
            self._describe(shape["items"], f"{place}[]")
        if isinstance(shape.get("additionalProperties"), dict):
            self._describe(shape["additionalProperties"], f"{place}{{}}")
        number = next(
            (number for kind, number in PARTS.values() if kind.__name__ == shape.get("title")), None
        )
        for key, inner in shape.get("properties", {}).items():
            here = f"{place}.{key}".lstrip(".")
            self._describe(inner, here)
            if number is None:
                self._hold_to_page(here, place, key, inner)
            shape["properties"][key] = {"description": self.words(place, key, number), **inner}
            if here in self.form.optional:
                shape["required"].remove(key)

    # ------------------------------------------------------------ descriptions
    def words(self, place: str, key: str, number: int | None = None) -> str:
        """Return the description of a key.

        :param number: number of the table in :data:`PAGE`, for one of :data:`PARTS`

        :raises UndocumentedError: if no page has one
        """
        if number is not None:
            return next(_plain(row.meaning) for row in tables(PAGE)[number] if key in row.keys)
        known = tables(self.form.page)
        number = self.form.places.get(place, 0 if not place else None)
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
        """Check the types in a page.

        :raises UndocumentedError: if they differ from those in the code
        """
        number = self.form.places.get(place, 0 if not place else None)
        for row in tables(self.form.page)[number] if number is not None else ():
            if key in row.keys and row.types:
                told = _page_types(row.types[row.keys.index(key)])
                if told != self._kinds(shape):
                    raise UndocumentedError(
                        f"docs/{self.form.page} says {sorted(told)} of {here}: {sorted(self._kinds(shape))}"
                    )

    def _kinds(self, shape: Mapping[str, Any]) -> set[str]:
        """Return the JSON types that a schema allows at its top level."""
        if "anyOf" in shape:
            return {kind for each in shape["anyOf"] for kind in self._kinds(each)}
        if "$ref" in shape:
            return self._kinds(self.parts[shape["$ref"].rpartition("/")[2]])
        if "enum" in shape:
            return {"null" if each is None else "string" for each in shape["enum"]}
        return {shape["type"]} if "type" in shape else set()

    def _said_above(self, place: str, key: str) -> str:
        """Return the description of the object itself, if that names its key."""
        above, _, name = re.sub(r"\[\]|\{\}", "", place).rpartition(".")
        there = {
            re.sub(r"\[\]|\{\}", "", known): number for known, number in {"": 0, **self.form.places}.items()
        }
        known = tables(self.form.page)
        for table in [known[there[above]]] if above in there else known:
            for row in table:
                if name in row.keys and f"`{key}`" in row.meaning:
                    return _plain(row.meaning)
        return ""


def _page_types(text: str) -> set[str]:
    """Return the JSON types named in a table cell; empty for `any`."""
    found = set()
    for part in re.split(r" or |, ", text):
        name = part.removesuffix("s")
        if name == "any":
            continue
        known = name in _SCALARS or name == "object" or name in PARTS
        found.add(
            "array" if re.match("arrays? of ", part) else name if known and name not in PARTS else "object"
        )
    return found


def _common(key: str) -> str:
    """Return the general description of a key, from the last table of keys in the page on schemas."""
    return next((_plain(row.meaning) for row in tables(PAGE)[-1] if key in row.keys), "")


def _plain(words: str) -> str:
    """Return text of a page without links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", words)


def schema(name: str) -> dict[str, Any]:
    """Return the schema of an output, by its name in :data:`PRINTED`.

    :raises UndocumentedError: if a page lacks the description of a key
    """
    printed = PRINTED[name]
    makers = [_Schema(form) for form in printed.forms]
    made = [maker.shape for maker in makers]
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
    """Return the path of a schema relative to ``docs``."""
    return f"{FOLDER}/{name}.schema.json"


def overview() -> str:
    """Return the table of schemas: commands, and the pages that describe the keys."""
    lines = ["| schema | printed by | words from |", "|---|---|---|"]
    for name, printed in PRINTED.items():
        by = ", ".join(f"`kproxy {each}`" for each in printed.by)
        each = ", an object per line" if printed.lines else ""
        lines.append(f"| [{name}]({path(name)}) | {by}{each} | {_sources(printed)} |")
    return "\n".join(lines)


def _sources(printed: Output) -> str:
    pages = dict.fromkeys(f"[{form.page}]({form.page})" for form in printed.forms)
    return ", ".join(pages)


def pages() -> dict[str, str]:
    """Return the text of each schema by path relative to ``docs``."""
    return {path(name): json.dumps(schema(name), indent=1, ensure_ascii=False) + "\n" for name in PRINTED}
