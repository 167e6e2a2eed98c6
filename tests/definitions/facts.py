"""The facts: what all releases of Kafka together say of messages and errors.

Messages are kept as declarations, one line for a field, so that a new version of a message shows as few changed
lines. ``+`` stands for "up to the newest version", and a field without versions is in all versions of what holds it::

    request 9 OffsetFetchRequest 0-10 flexible=6+
      GroupId string 0-7 entity=groupId
      Topics []struct 0-7 null=2-7
        Name string entity=topicName
        PartitionIndexes []int32

A version that had other bytes before a certain release has a second declaration, with ``before=`` and that release.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from dissectors.schema import VersionRange
from tests.definitions.layouts import Field, Layout, differences, expand, in_order, untagged, versions
from tests.definitions.sources import Definitions

FOLDER = Path(__file__).resolve().parent.parent / "data" / "definitions"

_HEAD = "# Made by python -m tests.definitions: see CONTRIBUTING.md. Releases read:"
_SERVED_COLUMNS = ("api_key", "version", "since", "unstable_in")
_ERROR_COLUMNS = ("code", "name", "retriable", "since", "former_names")
_HERE = "the facts"

Identity = tuple[str, int | str]
"""Kind and API key of a request or response, which survive a change of name; otherwise "" and the name."""


@dataclass
class Message:
    """A message in all its versions.

    :ivar kind: ``type`` in Kafka's definition: request, response, header, data, metadata, coordinator-key or -value
    :ivar key: API key, or the type of a record; None if it has none
    :ivar layouts: by version: the newest form last, before it those that earlier releases gave to the same number
    """

    name: str
    kind: str
    key: int | None
    layouts: dict[int, list[Layout]] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """What the message is known by in all releases."""
        if self.kind in ("request", "response") and self.key is not None:
            return self.kind, self.key
        return "", self.name


@dataclass
class Error:
    """An error code.

    :ivar since: the first release that has the code, of those read (before 2.2 they say nothing else)
    :ivar former_names: oldest first
    """

    code: int
    name: str
    retriable: bool
    since: str
    former_names: list[str] = field(default_factory=list)


@dataclass
class ServedVersions:
    """Since when brokers know a version of a request.

    :ivar since: the first release that has the version, of those read with definitions (2.2 and later)
    :ivar unstable: releases in which it is served only with ``unstable.api.versions.enable``
    """

    since: str
    unstable: list[str] = field(default_factory=list)


@dataclass
class Facts:
    """All facts.

    :ivar releases: those that the facts were read from, oldest first
    :ivar served: by API key and version
    :ivar errors: by code
    """

    releases: list[str] = field(default_factory=list)
    messages: dict[Identity, Message] = field(default_factory=dict)
    served: dict[tuple[int, int], ServedVersions] = field(default_factory=dict)
    errors: dict[int, Error] = field(default_factory=dict)

    def of_kind(self, *kinds: str) -> list[Message]:
        """Return the messages of some kinds."""
        return [message for message in self.messages.values() if message.kind in kinds]

    def differences(self, found: Definitions) -> list[str]:
        """Return in sentences what a release says and the facts do not."""
        said = []
        for definition in found.messages:
            if versions(definition):
                said += self._message_differences(definition, found.release)
        for code, theirs in sorted(found.errors.items()):
            ours = self.errors.get(code)
            if ours is None:
                said.append(f"error {code} is new: {theirs.name or 'without a name'}")
            elif theirs.name and theirs.name != ours.name:
                said.append(f"error {code} is {ours.name} in {_HERE}, {theirs.name} in {found.release}")
            elif theirs.name and theirs.retriable != ours.retriable:
                said.append(
                    f"error {code} {ours.name} is {_retry(ours)} in {_HERE}, {_retry(theirs)} in {found.release}"
                )
        return said

    def _message_differences(self, definition: dict[str, object], release: str) -> list[str]:
        theirs = _message(definition)
        ours = self.messages.get(theirs.identity)
        if ours is None:
            number = "" if theirs.key is None else f", key {theirs.key},"
            return [f"{theirs.kind} {theirs.name}{number} is new, with versions {_versions(theirs.layouts)}"]
        said = []
        if ours.name != theirs.name:
            said.append(f"{ours.name} is now called {theirs.name}")
        if (ours.kind, ours.key) != (theirs.kind, theirs.key):
            said.append(
                f"{ours.name} is {ours.kind} {ours.key} in {_HERE}, {theirs.kind} {theirs.key} in {release}"
            )
        for version, (layout,) in theirs.layouts.items():
            if version in ours.layouts:
                known, there = ours.layouts[version][-1], release
                said += [
                    f"{theirs.name} v{version}: {each}"
                    for each in differences(known, layout, here=_HERE, there=there)
                ]
            else:
                before = max((each for each in ours.layouts if each < version), default=None)
                said.append(f"{theirs.name} v{version} is new")
                if before is not None:
                    said += [
                        f"{theirs.name} v{version}: {each}"
                        for each in differences(
                            ours.layouts[before][-1],
                            layout,
                            here=f"v{before} of {_HERE}",
                            there=f"v{version} of {release}",
                        )
                    ]
        return said

    def add(self, found: Definitions) -> None:
        """Add a release: what it says goes before what older ones said.

        :raises ValueError: if the facts have a newer one
        """
        if self.releases and _release(found.release) < _release(self.releases[-1]):
            raise ValueError(f"the facts have {self.releases[-1]}, and {found.release} is older")
        for definition in found.messages:
            theirs = _message(definition)
            if not theirs.layouts:
                continue  # removed; what it was stays known
            ours = self.messages.setdefault(theirs.identity, theirs)
            ours.name, ours.kind, ours.key = theirs.name, theirs.kind, theirs.key
            for version, (layout,) in theirs.layouts.items():
                known = ours.layouts.setdefault(version, [layout])
                former = known[-1]
                if (former.flexible, untagged(former.fields)) == (layout.flexible, untagged(layout.fields)):
                    known[-1] = layout
                else:
                    known[-1:] = [replace(former, before=found.release), layout]
            if theirs.kind == "request" and theirs.key is not None:
                is_unstable = bool(definition.get("latestVersionUnstable"))
                self._add_served(theirs.key, sorted(theirs.layouts), found.release, is_unstable=is_unstable)
        for code, error in found.errors.items():
            self._add_error(code, error.name, error.retriable, found.release)
        if found.release not in self.releases:
            self.releases.append(found.release)

    def _add_served(self, key: int, versions: Sequence[int], release: str, *, is_unstable: bool) -> None:
        for version in versions:
            known = self.served.setdefault((key, version), ServedVersions(release))
        if is_unstable and release not in known.unstable:
            known.unstable.append(release)

    def _add_error(self, code: int, name: str, retriable: bool, release: str) -> None:
        known = self.errors.setdefault(code, Error(code, name, retriable, release))
        if known.name and name != known.name:
            known.former_names.append(known.name)
        known.name, known.retriable = name, retriable

    def write(self, folder: Path = FOLDER) -> None:
        """Write the facts."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{_HEAD} {' '.join(self.releases)}"]
        for message in sorted(self.messages.values(), key=_place):
            lines += ["", *_declarations(message)]
        (folder / "messages.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        served = [
            (key, version, each.since, " ".join(each.unstable))
            for (key, version), each in sorted(self.served.items())
        ]
        errors = [
            (code, each.name, str(each.retriable).lower(), each.since, " ".join(each.former_names))
            for code, each in sorted(self.errors.items())
        ]
        for name, rows in (("served", [_SERVED_COLUMNS, *served]), ("errors", [_ERROR_COLUMNS, *errors])):
            with (folder / f"{name}.tsv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def read(folder: Path = FOLDER) -> Facts:
    """Read the facts from where they are kept.

    :raises ValueError: naming the line that is not of the form that :meth:`Facts.write` gives it
    """
    text = (folder / "messages.txt").read_text(encoding="utf-8")
    head, *blocks = text.removesuffix("\n").split("\n\n")
    facts = Facts(head.removeprefix(_HEAD).split())
    for block in blocks:
        message = _parse(block.split("\n"))
        known = facts.messages.setdefault(message.identity, message)
        if known is not message:
            for version, layouts in message.layouts.items():
                known.layouts.setdefault(version, []).extend(layouts)
    for row in _rows(folder / "served.tsv"):
        place = int(row["api_key"]), int(row["version"])
        facts.served[place] = ServedVersions(row["since"], row["unstable_in"].split())
    for row in _rows(folder / "errors.tsv"):
        code, names = int(row["code"]), row["former_names"].split()
        facts.errors[code] = Error(code, row["name"], row["retriable"] == "true", row["since"], names)
    return facts


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines, delimiter="\t")


@cache
def kept() -> Facts:
    """Return the facts of the repository."""
    return read()


def _retry(error: object) -> str:
    return "retriable" if getattr(error, "retriable") else "not retriable"  # noqa: B009  # two classes have it


def _message(definition: Mapping[str, object]) -> Message:
    said = dict(definition)
    key = said.get("apiKey")
    layouts = {version: [expand(said, version)] for version in versions(said)}
    return Message(str(said["name"]), str(said["type"]), key if isinstance(key, int) else None, layouts)


def _place(message: Message) -> tuple[str, int, str]:
    return message.kind, -1 if message.key is None else message.key, message.name


# ---------------------------------------------------------------- the form of the file
def _versions(wanted: Iterable[int], last: int | None = None) -> str:
    """Versions as text: ``0-3``, ``4``, or ``4+`` if they go on to the last one."""
    runs: list[list[int]] = []
    for version in sorted(wanted):
        if runs and version == runs[-1][1] + 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ",".join(
        f"{first}+" if end == last else str(first) if first == end else f"{first}-{end}"
        for first, end in runs
    )


def _among(text: str, possible: Iterable[int]) -> set[int]:
    ranges = [VersionRange(each) for each in text.split(",")]
    return {version for version in possible if any(version in each for each in ranges)}


def _declarations(message: Message) -> Iterator[str]:
    """Yield the lines of a message; what earlier releases said comes first, oldest first.

    :raises ValueError: if its versions have no common order of fields
    """
    forms = sorted(
        {layout.before for layouts in message.layouts.values() for layout in layouts}, key=_release
    )
    for before in forms:
        layouts = {
            version: layout
            for version, found in message.layouts.items()
            for layout in found
            if layout.before == before
        }
        if before != forms[0]:
            yield ""
        last = max(layouts)
        words = [message.kind, "-" if message.key is None else str(message.key), message.name]
        words.append(_versions(layouts))
        flexible = [version for version, layout in layouts.items() if layout.flexible]
        words += [f"flexible={_versions(flexible, last)}"] if flexible else []
        words += [f"before={before}"] if before else []
        lines = [" ".join(words), *_lines({each: layouts[each].fields for each in layouts}, last, "  ")]
        if _bare(_parse(lines)) != _bare(
            replace(message, layouts={each: [layouts[each]] for each in layouts})
        ):
            raise ValueError(f"the versions of {message.name} cannot be told in one declaration")
        yield from lines


def _release(name: str) -> tuple[int, ...]:
    """Sort key of a release; no release comes last."""
    return tuple(map(int, name.split("."))) if name else (99,)


def bare(fields: Sequence[Field]) -> tuple[Field, ...]:
    """Leave out entity types and values: those of the newest version stand for all versions of a field."""
    return tuple(replace(each, entity="", values=(), fields=bare(each.fields)) for each in fields)


def _bare(message: Message) -> Message:
    layouts = {
        version: [replace(layout, fields=bare(layout.fields)) for layout in layouts]
        for version, layouts in sorted(message.layouts.items())
    }
    return replace(message, layouts=layouts)


_Place = tuple[str, str, bool]


def _key(field: Field) -> _Place:
    return field.name, field.type, field.array


def _common_order(by_version: Mapping[int, tuple[Field, ...]]) -> list[_Place]:
    """Return the fields of all versions, each after those that any version has before it."""
    order: list[_Place] = []
    for version in sorted(by_version, reverse=True):
        at = 0
        for key in [_key(each) for each in by_version[version] if each.tag is None]:
            if key not in order:
                order.insert(at, key)
            at = order.index(key) + 1
    tags = {
        (each.tag, _key(each)) for fields in by_version.values() for each in fields if each.tag is not None
    }
    return [*order, *(key for _, key in sorted(tags) if key not in order)]


def _lines(by_version: Mapping[int, tuple[Field, ...]], last: int, indent: str) -> Iterator[str]:
    for key in _common_order(by_version):
        found = {
            version: each for version, fields in by_version.items() for each in fields if _key(each) == key
        }
        newest = found[max(found)]
        words = [newest.name, f"[]{newest.type}" if newest.array else newest.type]
        words += [_versions(found, last)] if found.keys() != by_version.keys() else []
        tags = {version: each.tag for version, each in found.items() if each.tag is not None}
        words += [
            each for tag in set(tags.values()) for each in _attribute(f"tag={tag}", found, [*tags], last)
        ]
        words += _attribute("null", found, [v for v, each in found.items() if each.nullable], last)
        words += _attribute("classic", found, [v for v, each in found.items() if each.classic], last)
        words += [f"entity={newest.entity}"] if newest.entity else []
        values = ",".join(f"{value}:{name}" for value, name in newest.values)
        words += [f"values={values.replace(' ', '.')}"] if values else []
        yield indent + " ".join(words)
        yield from _lines({version: each.fields for version, each in found.items()}, last, indent + "  ")


def _attribute(name: str, found: Mapping[int, Field], holds: Sequence[int], last: int) -> list[str]:
    if not holds:
        return []
    text = "" if len(holds) == len(found) else _versions(holds, last)
    joint = "@" if "=" in name else "="
    return [f"{name}{joint}{text}" if text else name]


def _parse(lines: Sequence[str]) -> Message:
    """Read the declaration of a message."""
    kind, key, name, covered, *rest = lines[0].split(" ")
    attributes = dict(each.split("=") for each in rest)
    possible = _among(covered, range(int(covered.rpartition("-")[2].rpartition(",")[2]) + 1))
    flexible = _among(attributes["flexible"], possible) if "flexible" in attributes else set()
    fields = _parse_fields(lines[1:], possible, "  ")
    before = attributes.get("before", "")
    layouts = {each: [Layout(each in flexible, fields[each], before)] for each in sorted(possible)}
    return Message(name, kind, None if key == "-" else int(key), layouts)


def _parse_fields(lines: Sequence[str], possible: set[int], indent: str) -> dict[int, tuple[Field, ...]]:
    found: dict[int, list[Field]] = {version: [] for version in possible}
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        while end < len(lines) and lines[end].startswith(indent + " "):
            end += 1
        if not line.startswith(indent) or line[len(indent)] == " ":
            raise ValueError(f"{line!r} is indented as no field here is")
        _parse_field(line[len(indent) :], lines[at + 1 : end], indent, found)
        at = end
    return {version: in_order(fields) for version, fields in found.items()}


def _parse_field(line: str, inner: Sequence[str], indent: str, into: dict[int, list[Field]]) -> None:
    name, type_, *words = line.split(" ")
    carried = set(into)
    if words and words[0][0].isdigit():
        carried = _among(words.pop(0), carried)
    attributes = dict(word.partition("=")[::2] for word in words)
    unknown = attributes.keys() - {"null", "classic", "tag", "entity", "values"}
    if unknown:
        raise ValueError(f"{line!r} has the unknown attribute {min(unknown)!r}")

    def holds(attribute: str) -> set[int]:
        text = attributes.get(attribute)
        return set() if text is None else _among(text or "0+", carried)

    tag, _, tagged = attributes.get("tag", "").partition("@")
    with_tag = _among(tagged or "0+", carried) if tag else set()
    listed = [each.split(":") for each in attributes.get("values", "").split(",") if each]
    nullable, classic = holds("null"), holds("classic")
    fields = _parse_fields(inner, carried, indent + "  ")
    for version in carried:
        into[version].append(
            Field(
                name,
                type_.removeprefix("[]"),
                type_.startswith("[]"),
                version in nullable,
                int(tag) if version in with_tag else None,
                attributes.get("entity", ""),
                tuple((int(value), text.replace(".", " ")) for value, text in listed),
                version in classic,
                fields[version],
            )
        )
