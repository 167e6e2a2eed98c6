"""The pytest plugin: the fixture ``kproxy``, a proxy in front of a test's broker (docs/pytest.md).

pytest imports this module at every start, so it imports nothing else of kproxy until a test uses the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kproxy.testing.proxied_broker import ProxiedBroker

_PROXIED = pytest.StashKey["ProxiedBroker"]()
_FAILED = pytest.StashKey[bool]()
_LONGEST_NAME = 200


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the plugin's options."""
    group = parser.getgroup("kproxy")
    about = "Bootstrap servers of the broker behind the fixture 'kproxy', HOST:PORT[,HOST:PORT...]."
    group.addoption("--kproxy-broker", metavar="HOST:PORT", help=about)
    group.addoption(
        "--kproxy-recordings",
        metavar="DIR",
        type=Path,
        help="Folder for the recordings of failed tests. Default: their temporary folders.",
    )
    parser.addini("kproxy_broker", about)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        "kproxy(*arguments): more command-line arguments of 'kproxy proxy' for the fixture 'kproxy'",
    )


@pytest.fixture
def kproxy_broker(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of the broker; override this fixture if tests start their own broker."""
    broker = request.config.getoption("kproxy_broker") or request.config.getini("kproxy_broker")
    if not broker:
        raise pytest.UsageError("set --kproxy-broker or kproxy_broker, or override the fixture kproxy_broker")
    return str(broker)


@pytest.fixture
def kproxy(request: pytest.FixtureRequest, kproxy_broker: str, tmp_path: Path) -> Iterator[ProxiedBroker]:
    """Yield a proxy in front of the broker, with assertions about what passed through it."""
    from kproxy.testing.proxied_broker import ProxiedBroker

    marker = request.node.get_closest_marker("kproxy")
    folder: Path | None = request.config.getoption("kproxy_recordings")
    name = re.sub(r"[^\w.-]+", "-", request.node.nodeid)[-_LONGEST_NAME:].lstrip("-.")
    recording = (folder or tmp_path) / f"{name}.pcapng"
    with ProxiedBroker(kproxy_broker, recording, tmp_path, marker.args if marker else ()) as proxied:
        request.node.stash[_PROXIED] = proxied
        yield proxied


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Name the recording of a failed test, and remove that of any other."""
    report = yield
    proxied = item.stash.get(_PROXIED, None)
    if proxied is not None:
        if report.failed:
            item.stash[_FAILED] = True
            report.sections.append(("kproxy", f"kproxy open {proxied.recording}"))
        elif report.when == "teardown" and not item.stash.get(_FAILED, False):
            proxied.recording.unlink(missing_ok=True)
    return report
