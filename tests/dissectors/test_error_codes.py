"""The table of error codes against three others: Kafka's, kio's and kafka-python's."""

from __future__ import annotations

import inspect
import re

import kafka.errors
import pytest
from kio.schema.errors import ErrorCode as KioError

from dissectors.error_codes import BY_CODE, BY_NAME, FORMER_NAMES, ErrorCode, error_name
from tests.definitions import facts

# Names used only by kafka-python 3.0.12 (kafka/errors.py); it also uses some former names of Kafka.
KAFKA_PYTHON_NAMES = {
    0: "NO_ERROR",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def kafka_python_errors() -> dict[int, type[kafka.errors.BrokerResponseError]]:
    return {
        cls.errno: cls
        for _, cls in inspect.getmembers(kafka.errors, inspect.isclass)
        if issubclass(cls, kafka.errors.BrokerResponseError) and cls.errno is not None
    }


def words(text: str) -> str:
    return " ".join(re.findall(r"[a-z0-9]+", text.casefold()))


def test_codes_are_complete_and_in_order() -> None:
    assert list(ErrorCode) == list(range(-1, len(ErrorCode) - 1))


def test_names_and_advice_are_unique() -> None:
    assert len(BY_CODE) == len(ErrorCode)
    assert len({error.name for error in ErrorCode}) == len(ErrorCode)
    assert len({error.advice for error in ErrorCode}) == len(ErrorCode)
    assert len(BY_NAME) == len(ErrorCode) + len(FORMER_NAMES)


@pytest.mark.parametrize("error", ErrorCode, ids=lambda error: error.name)
def test_advice_reads_as_sentences(error: ErrorCode) -> None:
    assert error.advice.endswith((".", "!"))
    assert error.advice[0].isupper() or error.advice.startswith(("acks", "delete.topic.enable"))
    assert "  " not in error.advice
    assert len(error.advice) <= 250
    if error:
        assert len(error.advice) >= 40


@pytest.mark.parametrize("error", ErrorCode, ids=lambda error: error.name)
def test_since_is_a_release(error: ErrorCode) -> None:
    assert re.fullmatch(r"0\.\d+\.\d+(\.0)?|[1-4]\.\d+\.0", error.since)


def test_releases_rise_with_the_codes() -> None:
    # Codes are assigned in sequence, so a later code never belongs to an earlier release.
    releases = [tuple(map(int, error.since.split("."))) for error in ErrorCode]
    assert releases == sorted(releases)


def test_unknown_code_has_a_name_too() -> None:
    assert error_name(27) == "REBALANCE_IN_PROGRESS"
    assert error_name(137) == "UNKNOWN_CODE_137"
    assert error_name(-2) == "UNKNOWN_CODE_-2"


def test_former_names_lead_to_present_errors() -> None:
    # renamed in 2.6 (KIP-392 follow-up) and 0.11 respectively, Errors.java of those releases
    assert BY_NAME["NOT_LEADER_FOR_PARTITION"].name == "NOT_LEADER_OR_FOLLOWER"
    assert BY_NAME["GROUP_COORDINATOR_NOT_AVAILABLE"].name == "COORDINATOR_NOT_AVAILABLE"


@pytest.mark.parametrize("theirs", KioError, ids=lambda code: code.name)
def test_equals_kio(theirs: KioError) -> None:
    ours = BY_CODE[theirs.value]
    assert ours.name == theirs.name.upper()
    assert ours.retriable == theirs.retriable


def test_kafka_python_knows_no_code_that_we_lack() -> None:
    theirs = kafka_python_errors()
    assert len(theirs) > 100
    assert theirs.keys() <= BY_CODE.keys()


@pytest.mark.parametrize(("code", "cls"), kafka_python_errors().items(), ids=str)
def test_names_equal_kafka_python(code: int, cls: type[kafka.errors.BrokerResponseError]) -> None:
    if code in KAFKA_PYTHON_NAMES:
        assert cls.message == KAFKA_PYTHON_NAMES[code]
        assert cls.message not in BY_NAME
    else:
        assert BY_NAME[cls.message] == code


@pytest.mark.parametrize("error", ErrorCode, ids=lambda error: error.name)
def test_equals_kafkas_table(error: ErrorCode) -> None:
    theirs = facts.kept().errors[error]
    assert (error.name, error.retriable) == (theirs.name, theirs.retriable)
    # of 0.8.1 there are no sources to make the facts from
    assert error.since == theirs.since or (error.since, theirs.since) == ("0.8.1", "0.8.2.0")


def test_no_code_of_kafka_is_missing() -> None:
    assert facts.kept().errors.keys() == BY_CODE.keys()


def test_former_names_are_kafkas() -> None:
    former = {name: error.code for error in facts.kept().errors.values() for name in error.former_names}
    assert former == FORMER_NAMES


@pytest.mark.parametrize(
    ("code", "cls"),
    [(code, cls) for code, cls in kafka_python_errors().items() if code and cls.description],
    ids=str,
)
def test_advice_is_not_kafkas_message(code: int, cls: type[kafka.errors.BrokerResponseError]) -> None:
    """kafka-python has Kafka's texts."""
    message, advice = words(cls.description), words(BY_CODE[code].advice)
    assert message
    assert message not in advice
    assert advice not in message
