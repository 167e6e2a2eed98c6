"""Fixtures for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dissectors import budget
from tests import selection
from tests.spark import mark_tests, scheduler, spark

__all__ = ["spark"]

DATA = Path(__file__).parent / "data" / "captures"


@pytest.fixture(autouse=True)
def limits_of_this_test() -> Iterator[None]:
    """Reset limits after each test: a test sets them for the whole process, like ``kproxy --limit``."""
    given = os.environ.get(budget.ENVIRONMENT)
    with budget.changed():
        yield
    if os.environ.get(budget.ENVIRONMENT) != given:
        os.environ.pop(budget.ENVIRONMENT, None)
        if given is not None:
            os.environ[budget.ENVIRONMENT] = given


@pytest.fixture
def recorded_scram() -> Path:
    """A consumer that authenticates with SCRAM-SHA-256 in SaslAuthenticate (recorded against Kafka 4.3.0)."""
    return DATA / "24_k430_franz_scramsha256.pcap"


@pytest.fixture
def recorded_garbage() -> Path:
    """HTTP, random bytes and impossible sizes sent to a Kafka port."""
    return DATA / "06_tansu_garbage.pcap"


def pytest_configure(config: pytest.Config) -> None:
    selection.configure(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if selection.is_left_out(collection_path, config) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Disable garbage collection during test collection, and exempt tests from it: a pass would take half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selection.mark_slow(items)
    selection.leave_to_other_turns(config, items)
    if hasattr(config, "workerinput"):
        mark_tests(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduler(config, log) if config.getoption("dist") == "load" else None
