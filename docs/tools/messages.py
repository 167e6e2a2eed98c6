"""The reference of the protocol: a page per API with every field of its messages, embedded protocols, and error codes.

Generated from the declarations that decoding uses: :mod:`dissectors.apis`, :mod:`dissectors.embedded` and
:mod:`dissectors.error_codes`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

from dissectors.apis import NAMES, Api, api
from dissectors.domains import Domain, FlagDomain
from dissectors.error_codes import ErrorCode
from dissectors.schema import Array, Field, Message, Struct, Type

INDEX = f"""# The APIs and their fields

The {len(NAMES)} APIs of the Kafka protocol in all versions ever released, with every field of their messages. The path
of a field behind `request.` or `response.` is a field of the filter language ([filters.md](../filters.md)), can be a
column of the terminal UI, and is the place of the value in `kproxy read --json` ([json.md](../json.md)); the filter
language names arrays without their index. What is inside bytes fields, and the records of Kafka's own topics, is in
[embedded.md](embedded.md). Made by `python -m docs.generate`."""

EMBEDDED = """# What is inside: group protocols, internal topics, control records

Bytes fields and records that hold messages of their own, with every field of them. `kproxy read` shows them in place of
the bytes, `--json` under `decoded` ([json.md](../json.md#decoded)). [All APIs](README.md). Made by
`python -m docs.generate`."""

_MOST_NAMES = 12
"""Of the values of a field; a longer list is not repeated on each page."""

_EMBEDDED = (
    "consumer_protocol",
    "assignors",
    "connect",
    "streams_subscription",
    "envelope",
    "consumer_offsets",
    "transaction_state",
    "share_group_state",
    "cluster_metadata",
    "control",
    "remote_log_metadata",
)
"""Modules of :mod:`dissectors.embedded` that declare messages, in the order of the page."""

_HOLDING = ("group_metadata", "group_assignment", "principal")
"""What bytes fields hold that has a declaration."""

_PAGE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def pages() -> dict[str, str]:
    """Return the text of each page by path relative to ``docs``."""
    known = [found for key in range(len(NAMES)) if (found := api(key)) is not None]
    made = {page_of(each.name): _page(each) for each in known}
    return {"apis/README.md": _index(known), "apis/embedded.md": _embedded(), **made}


def page_of(name: str) -> str:
    """Return the path of an API's page relative to ``docs``."""
    return f"apis/{_PAGE.sub('-', name).lower()}.md"


def error_codes() -> str:
    """Return the table of error codes as Markdown."""
    lines = ["| code | name | retriable | since | what it means, what to do |", "|---|---|---|---|---|"]
    for error in ErrorCode:
        retriable = "yes" if error.retriable else "no"
        lines.append(f"| {error} | `{error.name}` | {retriable} | {error.since} | {_cell(error.advice)} |")
    return "\n".join(lines)


def paths(message: Message) -> Iterator[tuple[str, Field, tuple[int, int]]]:
    """Yield the fields of a message: path in the filter language, declaration, first and last version."""
    yield from _fields(message.struct, "", (message.versions.first, message.versions.last))


def _index(known: list[Api]) -> str:
    rows = []
    for each in known:
        page = page_of(each.name).partition("/")[2]
        rows.append(
            f"| {each.key} | [{each.name}]({page}) | {each.request.versions!r} | {_cell(_first_line(each))} |"
        )
    return "\n".join([INDEX, "", "| key | API | versions | what it is for |", "|---|---|---|---|", *rows, ""])


def _embedded() -> str:
    """Return the page about the contents of bytes fields and records."""
    parts = [EMBEDDED]
    for name in _EMBEDDED:
        module = import_module(f"dissectors.embedded.{name}")
        parts.append(f"## {_prose((module.__doc__ or name).partition(chr(10))[0].rstrip('.'))}")
        declared = (
            value for key, value in vars(module).items() if isinstance(value, Message) and key[0] != "_"
        )
        for message in declared:
            parts += _message(message, message.name, level=3)
    return "\n\n".join(parts) + "\n"


def _first_line(found: Api) -> str:
    """Return the purpose of the API, without its name and key."""
    return " ".join(found.doc.partition("\n\n")[0].split()).partition(": ")[2]


def _page(found: Api) -> str:
    doc = inspect.cleandoc(found.doc).partition("\n\n")
    what = _prose(" ".join(doc[0].split()))
    notes = [_prose(" ".join(paragraph.split())) for paragraph in doc[2].split("\n\n") if paragraph.strip()]
    parts = [
        f"# {found.name}",
        what,
        *notes,
        "[All APIs](README.md). Made by `python -m docs.generate`.",
        *_message(found.request, "Request"),
        *_message(found.response, "Response"),
    ]
    return "\n\n".join(parts) + "\n"


def _message(message: Message, title: str, level: int = 2) -> Iterator[str]:
    flexible = (
        f"{message.flexible!r} flexible" if repr(message.flexible) != "none" else "none of them flexible"
    )
    yield f"{'#' * level} {title}"
    yield f"Versions {message.versions!r}, {flexible} (KIP-482)."
    rows = [
        f"| `{path}` | {_type(field.type)} | {_range(versions)} | {_meaning(field)} |"
        for path, field, versions in paths(message)
    ]
    if not rows:
        yield "It has no fields."
        return
    yield "\n".join(["| field | type | versions | meaning |", "|---|---|---|---|", *rows])


def _fields(
    struct: Struct, above: str, within: tuple[int, int]
) -> Iterator[tuple[str, Field, tuple[int, int]]]:
    """Yield fields and their fields, in versions that contain their parent."""
    for field in struct.fields:
        path = f"{above}{field.name}"
        versions = max(field.versions.first, within[0]), min(field.versions.last, within[1])
        yield path, field, versions
        if field.type.inside is not None:
            yield from _fields(field.type.inside, f"{path}.", versions)


def _range(versions: tuple[int, int]) -> str:
    first, last = versions
    return str(first) if first == last else f"{first}-{last}"


def _type(declared: Type) -> str:
    words = [f"array of {declared.element.kind}" if isinstance(declared, Array) else declared.kind]
    nullable = declared.nullable
    if nullable.first <= nullable.last:
        words.append("nullable" if repr(nullable) == "0+" else f"nullable {nullable!r}")
    if declared.tag_number is not None:
        words.append(f"tag {declared.tag_number}")
    return ", ".join(words)


def _meaning(field: Field) -> str:
    parts = [_cell(field.doc)]
    if field.type.is_secret:
        parts.append("a secret: masked unless asked for")
    if field.type.content in _HOLDING:
        parts.append("[what is inside](embedded.md)")
    values = _values(field.type.domain)
    if values:
        parts.append(values)
    return "; ".join(part for part in parts if part)


def _values(domain: Domain | None) -> str:
    """Return the names of a field's values."""
    if domain is None or not domain.values:
        return ""
    if domain.name == "error_code":
        return "[error code](../error-codes.md)"
    if len(domain.values) > _MOST_NAMES:
        return ""
    kind = "bits" if isinstance(domain, FlagDomain) else "values"
    return f"{kind}: {', '.join(f'{value} `{name}`' for value, name in domain.values.items())}"


def _cell(said: str) -> str:
    return _prose(said).replace("|", r"\|")


def _prose(said: str) -> str:
    """Escape text that Markdown would read as a tag, a link or emphasis."""
    parts = said.replace("``", "`").split("`")
    parts[::2] = (re.sub(r"([<*\[\]]|\b_|_\b)", r"\\\1", part) for part in parts[::2])
    return "`".join(parts)
