"""The pytest plugin in projects: their tests, run by pytester, connect to a fake broker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from captures.exchanges import open_capture
from kproxy.testing import plugin
from tests.kproxy.fake_broker import FakeBroker, running_in_thread

pytest_plugins = ("pytester",)

ASKS = """
import socket
from tests.kproxy.frames import request_frame

def ask(server, count):
    host, _, port = server.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        for number in range(count):
            connection.sendall(request_frame(3, 1, {"topics": None}, number))
            connection.recv(1 << 16)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeBroker]:
    with running_in_thread() as fake:
        yield fake


def run(pytester: pytest.Pytester, broker: FakeBroker | None, test: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_of_a_project=f"{ASKS}\n{test}")
    given = [] if broker is None else [f"--kproxy-broker={broker.host}:{broker.port}"]
    pytester.makeini("[pytest]\naddopts = --strict-markers -p no:asyncio -p no:cacheprovider")
    return pytester.runpytest_inprocess("--basetemp=temporary", *given, *arguments)


def recordings(pytester: pytest.Pytester) -> list[Path]:
    return list(pytester.path.rglob("*.pcapng"))


def messages_in(recording: Path) -> int:
    capture = open_capture([str(recording)])
    capture.read()
    return len(capture.table)


def test_the_entry_point_is_the_plugin() -> None:
    (found,) = entry_points(group="pytest11", name="kproxy")
    assert found.load() is plugin


def test_it_imports_nothing_else_of_kproxy_until_it_is_used() -> None:
    program = (
        "import pytest, sys; before = set(sys.modules); import kproxy.testing.plugin;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout.split() == ["kproxy", "kproxy.testing", "kproxy.testing.plugin"]


@pytest.mark.slow
def test_a_test_that_passes_leaves_no_recording(pytester: pytest.Pytester, broker: FakeBroker) -> None:
    test = """
def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 3)
    kproxy.assert_at_most(3, "api == Metadata")
    kproxy.assert_at_least(3, "api == Metadata")
    kproxy.assert_none("error")
    assert [each.api for each in kproxy.exchanges()] == ["Metadata"] * 3
    assert kproxy.recording.exists()
"""
    run(pytester, broker, test).assert_outcomes(passed=1)
    assert not recordings(pytester)


@pytest.mark.slow
def test_several_clusters(pytester: pytest.Pytester, broker: FakeBroker) -> None:
    test = f"""
import pytest

@pytest.fixture
def kproxy_broker():
    return "east={broker.host}:{broker.port}"

@pytest.mark.kproxy("-b", "west={broker.host}:{broker.port}")
def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 1)
    ask(kproxy.bootstrap_servers["west"], 2)
    kproxy.assert_at_least(1, "cluster == east")
    kproxy.assert_at_least(2, "cluster == west")
    assert kproxy.bootstrap_server == kproxy.bootstrap_servers["east"]
    kproxy.assert_none("cluster == wset")
"""
    result = run(pytester, None, test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*FilterError: there is no cluster wset *(did you mean west[?])"])


@pytest.mark.slow
def test_a_failure_names_the_exchanges_and_keeps_the_recording(
    pytester: pytest.Pytester, broker: FakeBroker
) -> None:
    test = """
def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 2)
    kproxy.assert_at_most(1, "api == Metadata")
"""
    result = run(pytester, broker, test)
    result.assert_outcomes(failed=1)
    (kept,) = recordings(pytester)
    assert kept.name == "test_of_a_project.py-test_metadata.pcapng"
    result.stdout.fnmatch_lines(
        [
            "E * expected at most 1, but 2 exchanges match 'api == Metadata'",
            "E  *1 * Metadata v1 *",
            "E  *2 * Metadata v1 *",
            f"E * kproxy read -Y 'api == Metadata' {kept}",
            "*- kproxy -*",
            f"kproxy open {kept}",
        ]
    )
    result.stdout.no_fnmatch_line("*proxied_broker.py:*")
    assert messages_in(kept) == 2


@pytest.mark.slow
def test_a_teardown_that_fails_keeps_the_recording(pytester: pytest.Pytester, broker: FakeBroker) -> None:
    test = """
import pytest

@pytest.fixture
def quiet(kproxy):
    yield
    kproxy.assert_none("api == Metadata")

def test_metadata(kproxy, quiet):
    ask(kproxy.bootstrap_server, 1)
"""
    run(pytester, broker, test).assert_outcomes(passed=1, errors=1)
    assert len(recordings(pytester)) == 1


@pytest.mark.slow
def test_recordings_go_to_the_folder_and_replace_earlier_ones(
    pytester: pytest.Pytester, broker: FakeBroker
) -> None:
    test = """
def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 1)
    assert len(kproxy.exchanges()) == 2
"""
    for _ in range(2):
        run(pytester, broker, test, "--kproxy-recordings=kept").assert_outcomes(failed=1)
    (kept,) = (pytester.path / "kept").iterdir()
    assert messages_in(kept) == 1


@pytest.mark.slow
def test_the_marker_gives_arguments_to_the_proxy(pytester: pytest.Pytester, broker: FakeBroker) -> None:
    test = """
import pytest

@pytest.mark.kproxy("--fault", "request: api == Metadata and correlation_id == 0 => drop")
def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 1)
    kproxy.assert_none("unanswered")
"""
    result = run(pytester, broker, test)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * expected at most 0, but 1 exchange matches 'unanswered'"])


@pytest.mark.slow
def test_a_project_may_start_its_own_broker(pytester: pytest.Pytester, broker: FakeBroker) -> None:
    test = f"""
import pytest

@pytest.fixture(scope="session")
def kproxy_broker():
    return "{broker.host}:{broker.port}"

def test_metadata(kproxy):
    ask(kproxy.bootstrap_server, 1)
    kproxy.assert_at_least(1, "api == Metadata")
"""
    run(pytester, None, test).assert_outcomes(passed=1)


def test_without_a_broker_it_says_what_to_set(pytester: pytest.Pytester) -> None:
    result = run(pytester, None, "def test_metadata(kproxy): pass")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*set --kproxy-broker or kproxy_broker, or override the fixture*"])
