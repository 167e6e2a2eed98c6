"""The facts: what is kept reads back the same, a new release shows in sentences, and planted drift is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.definitions import facts
from tests.definitions.__main__ import main
from tests.definitions.declared import drift
from tests.definitions.facts import FOLDER, Facts, ServedVersions
from tests.definitions.layouts import Field, Layout, expand, flat
from tests.definitions.sources import CannotRun, Definitions, KafkaError, definition, from_folder

FIND = """// comment, with a "quoted" word
{
  "apiKey": 200, "type": "request", "name": "FindRequest", /* a
  comment of two lines */
  "validVersions": "1-3", "flexibleVersions": "3+",
  "commonStructs": [{"name": "Place", "versions": "2+", "fields": [
    {"name": "Index", "type": "int32", "versions": "0+"}]}],
  "fields": [
    {"name": "Kinds", "type": "[]int8", "versions": "0+", "about": "One of 0:NOT_SO, 1:Quite full // stop"},
    {"name": "Topics", "type": "[]Topic", "versions": "0-2", "nullableVersions": "2+", "fields": [
      {"name": "Name", "type": "string", "versions": "0+", "entityType": "topicName"}]},
    {"name": "Again", "type": "Topic", "versions": "1"},
    {"name": "Places", "type": "[]Place", "versions": "2+"},
    {"name": "Later", "type": "string", "versions": "1+", "taggedVersions": "3+", "tag": "0"},
    {"name": "Cluster", "type": "string", "tag": 1, "taggedVersions": "3+", "nullableVersions": "3+"}
  ]
} ]}
"""

ERRORS = """public enum Errors {
    NONE(0, null, message -> null),
    SLOW(1, "It took; too long.", SlowException::new),
    GONE(
        2, "It is gone.", message -> new GoneException(message));
"""
EXCEPTIONS = {
    "SlowException": "public class SlowException extends PatientException {",
    "PatientException": "public abstract class PatientException extends RetriableException {",
    "GoneException": "public class GoneException extends ApiException {",
}


@pytest.fixture
def found() -> Definitions:
    return Definitions("5.0.0", [definition(FIND)], {1: KafkaError(1, "SLOW", retriable=True)})


def changed(**changes: Any) -> Definitions:
    message = copy.deepcopy(definition(FIND))
    message.update(changes)
    return Definitions("5.1.0", [message])


@pytest.mark.slow
def test_the_facts_are_written_as_they_are_read(tmp_path: Path) -> None:
    facts.read().write(tmp_path)
    for kept in FOLDER.iterdir():
        assert (tmp_path / kept.name).read_text() == kept.read_text(), kept.name


def test_versions_are_resolved() -> None:
    message = definition(FIND)
    name = Field("Name", "string", entity="topicName")
    kinds = Field("Kinds", "int8", array=True, values=((0, "NOT_SO"), (1, "Quite full")))
    assert expand(message, 1) == Layout(
        flexible=False,
        fields=(
            kinds,
            Field("Topics", "struct", array=True, fields=(name,)),
            Field("Again", "struct", fields=(name,)),
            Field("Later", "string"),
        ),
    )
    assert [path for path, _ in flat(expand(message, 2).fields)] == [
        "Kinds",
        "Topics",
        "Topics.Name",
        "Places",
        "Places.Index",
        "Later",
    ]
    assert [str(field) for field in expand(message, 3).fields] == [
        "[]int8",
        "[]struct",
        "string with tag 0",
        "nullable string with tag 1",
    ]


def test_a_release_is_added_and_read_back(found: Definitions, tmp_path: Path) -> None:
    known = Facts()
    assert known.differences(found) == [
        "request FindRequest, key 200, is new, with versions 1-3",
        "error 1 is new: SLOW",
    ]
    known.add(found)
    assert known.differences(found) == []
    known.write(tmp_path)
    assert "request 200 FindRequest 1-3 flexible=3+\n  Kinds []int8 values=0:NOT_SO,1:Quite.full\n" in (
        tmp_path / "messages.txt"
    ).read_text(encoding="utf-8")
    again = facts.read(tmp_path)
    assert again == known
    assert again.differences(found) == []


def test_what_a_later_release_brings(found: Definitions, tmp_path: Path) -> None:
    known = Facts()
    known.add(found)
    fields = [
        *definition(FIND)["fields"],
        {"name": "More", "type": "int64", "versions": "4+"},
        {"name": "Why", "type": "string", "versions": "4+", "taggedVersions": "4+", "tag": 2},
    ]
    later = changed(validVersions="2-4", latestVersionUnstable=True, name="SeekRequest", fields=fields)
    later.errors = {1: KafkaError(1, "LATE", retriable=True), 3: KafkaError(3, "NEW", retriable=False)}
    assert known.differences(later) == [
        "FindRequest is now called SeekRequest",
        "SeekRequest v4 is new",
        "SeekRequest v4: More (int64) is only in v4 of 5.1.0",
        "SeekRequest v4: Why (string with tag 2) is only in v4 of 5.1.0",
        "error 1 is SLOW in the facts, LATE in 5.1.0",
        "error 3 is new: NEW",
    ]
    known.add(later)
    known.write(tmp_path)
    message = facts.read(tmp_path).messages["request", 200]
    assert (message.name, list(message.layouts)) == ("SeekRequest", [1, 2, 3, 4])  # v1 stays known
    assert [known.served[200, version] for version in (1, 4)] == [
        ServedVersions("5.0.0"),
        ServedVersions("5.1.0", ["5.1.0"]),
    ]
    assert known.errors[1] == facts.Error(1, "LATE", True, "5.0.0", ["SLOW"])


def test_other_bytes_for_the_same_version_are_kept_beside(found: Definitions, tmp_path: Path) -> None:
    known = Facts()
    known.add(found)
    fields = definition(FIND)["fields"]
    fields[0] = {"name": "Kinds", "type": "[]int16", "versions": "0+"}
    later = changed(fields=fields)
    assert known.differences(later)[0] == "FindRequest v1: Kinds is []int8 in the facts, []int16 in 5.1.0"
    known.add(later)
    assert [layout.before for layout in known.messages["request", 200].layouts[3]] == ["5.1.0", ""]
    known.write(tmp_path)
    assert facts.read(tmp_path) == known


def test_what_does_not_change_the_bytes_replaces_what_was_known(found: Definitions) -> None:
    known = Facts()
    known.add(found)
    fields = definition(FIND)["fields"]
    fields[0] = {"name": "Sorts", "type": "[]int8", "versions": "0+", "entityType": "brokerId"}
    later = changed(fields=fields)
    assert known.differences(later)[:2] == [
        "FindRequest v1: Kinds ([]int8) is only in the facts",
        "FindRequest v1: Sorts ([]int8) is only in 5.1.0",
    ]
    known.add(later)
    assert [len(layouts) for layouts in known.messages["request", 200].layouts.values()] == [1, 1, 1]
    assert known.messages["request", 200].layouts[1][0].fields[0].name == "Sorts"


def test_releases_are_added_in_their_order(found: Definitions) -> None:
    known = Facts()
    known.add(found)
    known.add(found)
    assert known.releases == ["5.0.0"]
    with pytest.raises(ValueError, match=r"the facts have 5.0.0, and 4.10.1 is older"):
        known.add(Definitions("4.10.1"))


def test_a_removed_message_stays_known(found: Definitions) -> None:
    known = Facts()
    known.add(found)
    known.add(changed(validVersions="none", fields=[]))
    assert list(known.messages["request", 200].layouts) == [1, 2, 3]


def test_a_checkout_is_read(tmp_path: Path) -> None:
    java = tmp_path / "clients/src/main/java/org/apache/kafka/common"
    texts = {f"errors/{name}.java": text for name, text in EXCEPTIONS.items()} | {
        "protocol/Errors.java": ERRORS
    }
    for name, text in texts.items():
        (java / name).parent.mkdir(parents=True, exist_ok=True)
        (java / name).write_text(text)
    with pytest.raises(CannotRun, match="no message definitions"):
        from_folder("5.0.0", tmp_path)
    for folder in ("main", "test"):
        place = tmp_path / f"clients/src/{folder}/resources/common/message"
        place.mkdir(parents=True)
        (place / "FindRequest.json").write_text(FIND)
        (place / "other.json").write_text("{}")
    found = from_folder("5.0.0", tmp_path)
    assert [message["name"] for message in found.messages] == ["FindRequest"]
    assert found.errors == {
        0: KafkaError(0, "NONE", retriable=False),
        1: KafkaError(1, "SLOW", retriable=True),
        2: KafkaError(2, "GONE", retriable=False),
    }


def test_the_command_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "FindRequest.json").write_text(FIND)
    done = CliRunner().invoke(main, ["5.0.0", "--source", str(tmp_path)])
    assert done.exit_code == 1
    assert "the error codes are not compared" in done.output
    assert "request FindRequest, key 200, is new, with versions 1-3\n" in done.output
    assert done.output.endswith("1 definitions, 0 errors of 5.0.0: 1 differences\n")
    (tmp_path / "FindRequest.json").write_text('{"validVersions"')
    done = CliRunner().invoke(main, ["5.0.0", "--source", str(tmp_path)])
    assert done.exit_code == 2
    assert "FindRequest.json of 5.0.0 is no message definition" in done.output


def test_a_type_that_is_not_known_is_an_error() -> None:
    fields = [{"name": "Odd", "type": "Unknown", "versions": "0+"}]
    with pytest.raises(ValueError, match=r"FindRequest.Odd has the unknown type Unknown"):
        expand(definition(FIND) | {"fields": fields, "commonStructs": []}, 1)


DRIFTS: dict[str, tuple[Callable[[str], str], str]] = {
    "type": (
        lambda text: text.replace("  SessionEpoch int32 7+", "  SessionEpoch int16 7+"),
        "FetchRequest v7: session_epoch is int32 in the declaration, int16 in Kafka",
    ),
    "version": (
        lambda text: text.replace("  SessionEpoch int32 7+", "  SessionEpoch int32 8+"),
        "FetchRequest v7: session_epoch (int32) is only in the declaration",
    ),
    "field": (
        lambda text: text.replace("  RackId string 11+\n  ClusterId", "  ClusterId"),
        "FetchRequest v11: rack_id (string) is only in the declaration",
    ),
    "null": (
        lambda text: text.replace("  RackId string 11+\n  Cl", "  RackId string 11+ null=12+\n  Cl"),
        "FetchRequest v12: rack_id is string in the declaration, nullable string in Kafka",
    ),
    "tag": (
        lambda text: text.replace("  ReplicaState struct 15+ tag=1", "  ReplicaState struct 15+ tag=2"),
        "FetchRequest v15: replica_state is struct with tag 1 in the declaration, struct with tag 2 in Kafka",
    ),
    "order": (
        lambda text: text.replace(
            "  MaxWaitMs int32\n  MinBytes int32\n", "  MinBytes int32\n  MaxWaitMs int32\n"
        ),
        "FetchRequest v0: the fields are in another order",
    ),
    "flexible": (
        lambda text: text.replace("FetchRequest 0-18 flexible=12+", "FetchRequest 0-18 flexible=11+"),
        "FetchRequest v11: is flexible in Kafka, not in the declaration",
    ),
    "new version": (
        lambda text: text.replace("FetchRequest 0-18 ", "FetchRequest 0-19 "),
        "FetchRequest v19 is not declared",
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", DRIFTS)
def test_drift_is_seen(name: str, tmp_path: Path) -> None:
    plant, sentence = DRIFTS[name]
    text = (FOLDER / "messages.txt").read_text(encoding="utf-8")
    assert plant(text) != text
    (tmp_path / "messages.txt").write_text(plant(text), encoding="utf-8")
    for table in FOLDER.glob("*.tsv"):
        (tmp_path / table.name).write_bytes(table.read_bytes())
    fetch = facts.read(tmp_path).messages["request", 1]
    assert drift(fetch)[0].startswith(sentence)
    assert drift(facts.kept().messages["request", 1]) == []


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("    Name string", "is indented as no field here is"),
        ("  Name string size=4", "the unknown attribute 'size'"),
    ],
)
def test_a_broken_file_is_named(line: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "messages.txt").write_text(f"# head\n\nrequest 1 FetchRequest 0-1\n{line}\n")
    with pytest.raises(ValueError, match=reason):
        facts.read(tmp_path)
