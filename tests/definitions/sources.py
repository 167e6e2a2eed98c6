"""Where Kafka's definitions come from: a checkout, a folder of JSON files, or the jars at Maven Central."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.request import urlopen
from zipfile import ZipFile

from tests.lanes.tools import CannotRun, cache, class_path, need, run

REPOSITORY = "https://repo.maven.apache.org/maven2/org/apache/kafka"
CLIENTS = "kafka-clients"
CORE = "kafka_2.13"
ARTIFACTS = (
    CLIENTS,
    CORE,  # records of coordinators, until they had artifacts of their own
    "kafka-group-coordinator",
    "kafka-metadata",
    "kafka-raft",
    "kafka-share-coordinator",
    "kafka-storage",
    "kafka-streams",
    "kafka-transaction-coordinator",
)
"""The artifacts of a release that hold message definitions."""

_OLDEST_CORE = "kafka_2.10"  # the brokers' error codes, until 0.9 took those of the clients

_ERRORS = "org/apache/kafka/common/protocol/Errors.java"
_EXCEPTIONS = "org/apache/kafka/common/errors/"
_ERROR_MAPPING = "kafka/common/ErrorMapping.scala"

Text = tuple[str, str]
"""Path of a file, its content."""


class KafkaError(NamedTuple):
    """An error code of a release; before 0.8.2 there were numbers only, so the name is empty."""

    code: int
    name: str
    retriable: bool


@dataclass
class Definitions:
    """What one release of Kafka says.

    :ivar messages: the JSON of each message definition
    :ivar errors: by code; empty if the errors are not in the source
    :ivar missing: sentences on what could not be read
    """

    release: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    errors: dict[int, KafkaError] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def from_folder(release: str, folder: Path) -> Definitions:
    """Read a checkout of Kafka, or any folder with its message definitions.

    :raises CannotRun: if there are no definitions in it
    """
    names = sorted(path for kind in ("json", "java") for path in folder.rglob(f"*.{kind}"))
    files = [path.relative_to(folder).as_posix() for path in names]
    texts = [
        (file, (folder / file).read_text(encoding="utf-8"))
        for file in files
        if "/test/" not in f"/{file}" and "/build/" not in f"/{file}" and _of_interest(file)
    ]
    found = _read(release, texts)
    if not found.messages:
        raise CannotRun(f"{folder} holds no message definitions of Kafka (*.json with validVersions)")
    if not found.errors:
        found.missing.append(f"{folder} has no {_ERRORS}: the error codes are not compared")
    return found


def from_jars(release: str) -> Definitions:
    """Read the jars of a release, after fetching what is not yet there.

    :raises CannotRun: if Maven Central does not answer, or has no such release
    """
    texts: list[Text] = []
    missing = []
    core = _OLDEST_CORE if release.startswith("0.8.") else CLIENTS
    for artifact in dict.fromkeys((*ARTIFACTS, core)):
        jar = _fetch(artifact, release, "-sources") or _fetch(artifact, release, "")
        if jar is not None:
            texts += _texts(jar)
        elif artifact == core:
            raise CannotRun(f"{REPOSITORY} has no {artifact} {release}")
        else:
            missing.append(f"there is no {artifact} {release}")
    found = _read(release, texts)
    found.missing = missing
    if not found.errors:
        found.errors = _printed_errors(release)
    return found


def _fetch(artifact: str, release: str, classifier: str) -> Path | None:
    """Return a jar; None if it was not published."""
    name = f"{artifact}-{release}{classifier}.jar"
    jar = cache() / "definitions" / name
    if not jar.exists():
        jar.parent.mkdir(exist_ok=True)
        try:
            with urlopen(f"{REPOSITORY}/{artifact}/{release}/{name}", timeout=60) as answer:
                content = answer.read()
        except HTTPError as error:
            if error.code == 404:
                return None
            raise CannotRun(f"fetching {name} failed: {error}") from None
        except URLError as error:
            raise CannotRun(f"fetching {name} failed: {error.reason}") from None
        jar.write_bytes(content)
    return jar


def _of_interest(name: str) -> bool:
    """Tell whether a file is a message definition or belongs to the errors."""
    return name.endswith((".json", _ERRORS, _ERROR_MAPPING)) or _EXCEPTIONS in name


def _texts(jar: Path) -> Iterator[Text]:
    with ZipFile(jar) as files:
        for name in sorted(files.namelist()):
            if _of_interest(name) and not name.endswith((".class", "/")):
                yield name, files.read(name).decode()


def _read(release: str, texts: list[Text]) -> Definitions:
    found = Definitions(release)
    for name, text in texts:
        if name.endswith(".json") and '"validVersions"' in text:
            try:
                found.messages.append(definition(text))
            except ValueError as error:
                raise CannotRun(f"{name} of {release} is no message definition: {error}") from None
    found.errors = _errors(texts)
    return found


def definition(text: str) -> dict[str, Any]:
    """Read a message definition: JSON with comments, which may go on after its end (2.8 has one that does).

    :raises ValueError: if it is none
    """
    bare = re.sub(
        r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", text, flags=re.DOTALL
    )
    found, _ = json.JSONDecoder().raw_decode(bare.strip())
    if not isinstance(found, dict) or not {"name", "type", "validVersions"} <= found.keys():
        raise ValueError("it has no name, type and validVersions")
    return found


def _errors(texts: list[Text]) -> dict[int, KafkaError]:
    """Read the constants of Errors.java. An error is retriable if its exception descends from RetriableException.

    The Scala brokers of 0.8 had a table of their own, which gives numbers to what has no constant yet.
    """
    parents: dict[str, str] = {}
    constants: dict[int, tuple[str, str]] = {}
    for name, text in texts:
        if _EXCEPTIONS in name:
            parents |= dict(re.findall(r"\bclass (\w+) extends (\w+)", text))
        elif name.endswith(_ERRORS):
            starts = [*re.finditer(r"^ {4}([A-Z][A-Z0-9_]*)\(\s*(-?\d+),", text, re.MULTILINE)]
            ends = [each.start() for each in starts[1:]] + [len(text)]
            for start, end in zip(starts, ends, strict=True):
                made = re.search(r"\bnew (\w+Exception)\(|\b(\w+Exception)::new", text[start.end() : end])
                constants[int(start[2])] = start[1], (made[1] or made[2]) if made else ""
        elif name.endswith(_ERROR_MAPPING):
            for code in re.findall(r"val \w+\s*:\s*Short\s*=\s*(-?\d+)", text):
                constants.setdefault(int(code), ("", ""))

    def is_retriable(exception: str) -> bool:
        while exception in parents and exception != "RetriableException":
            exception = parents[exception]
        return exception == "RetriableException"

    return {code: KafkaError(code, name, is_retriable(made)) for code, (name, made) in constants.items()}


def _printed_errors(release: str) -> dict[int, KafkaError]:
    """Return the errors of a release without published sources: its Errors class prints them for Kafka's own pages.

    :raises CannotRun: without Java or Maven
    """
    need("java")
    jars = class_path([f"org.apache.kafka:{CLIENTS}:{release}"])
    printed = run(["java", "-cp", jars, "org.apache.kafka.common.protocol.Errors"])
    rows = re.findall(r"<td>([A-Z][A-Z0-9_]*)</td>\s*<td>(-?\d+)</td>\s*<td>(True|False)</td>", printed)
    return {int(code): KafkaError(int(code), name, retriable == "True") for name, code, retriable in rows}
