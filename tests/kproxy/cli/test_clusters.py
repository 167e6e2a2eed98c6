"""Several clusters behind one proxy, by options and the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kproxy.cli.proxy_run
from kproxy.cli import main
from kproxy.proxy.settings import ClusterSettings, Settings

TABLES = """
[clusters.east]
bootstrap-server = ["kafka1:9092", "kafka2:9092"]
[clusters.west]
bootstrap-server = "kafka9:9092"
listen = "127.0.0.1:19192"
map = ["kafka9=127.0.0.1"]
client-tls = true
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Settings]:
    """Return a list that receives the settings of proxies instead of starting them."""
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    found: list[Settings] = []

    class Run:
        def __init__(self, settings: Settings, *_: Any, **__: Any) -> None:
            found.append(settings)

        def run(self) -> int:
            return 0

    monkeypatch.setattr(kproxy.cli.proxy_run, "ProxyRun", Run)
    return found


def proxy(*arguments: str, tables: str = "") -> str:
    """Start a proxy; return its error message."""
    Path("kproxy.toml").write_text(tables)
    return CliRunner().invoke(main, ["proxy", *arguments]).stderr


def brief(settings: Settings) -> list[tuple[str, str, int]]:
    """Return name, bootstrap hosts and port of each cluster."""
    return [
        (each.name, " ".join(host for host, _ in each.bootstrap), each.listen[1])
        for each in settings.clusters
    ]


def test_clusters_that_b_names_are_100_ports_apart(started: list[Settings]) -> None:
    assert not proxy(
        "-b", "east=kafka1:9092,kafka2:9092", "-b", "west=kafka9:9092", "--listen", "127.0.0.1:9200"
    )
    assert brief(started[0]) == [("east", "kafka1 kafka2", 9200), ("west", "kafka9", 9300)]


def test_one_cluster_needs_no_name(started: list[Settings]) -> None:
    assert not proxy("-b", "kafka1:9092", tables=TABLES)
    assert brief(started[0]) == [("", "kafka1", 9092)]


def test_tables_of_the_file_say_what_differs(started: list[Settings]) -> None:
    assert not proxy(tables=TABLES)
    assert not proxy("-b", "west=other:9092", tables=TABLES)
    assert brief(started[0]) == [("east", "kafka1 kafka2", 9092), ("west", "kafka9", 19192)]
    assert brief(started[1]) == [("west", "other", 19192)]
    east, west = started[0].clusters
    assert isinstance(west, ClusterSettings)
    assert (east.client_tls, east.mapped) == (None, ())
    assert west.client_tls is not None
    assert west.mapped == ("kafka9=127.0.0.1",)


@pytest.mark.parametrize(
    ("arguments", "tables", "why"),
    [
        (["-b", "a:1", "-b", "b:1"], "", "several clusters, which need names"),
        (["-b", "e=a:1", "-b", "e=b:1"], "", "a name of its own"),
        (["-b", "1e=a:1"], "", "'1e' is not a name for a cluster"),
        (
            ["-b", "e=a:1", "-b", "f=b:1", "--listen", ":65500", "--advertise", "h"],
            "",
            "f has no port 100 after that",
        ),
        ([], TABLES.replace("19192", "9092"), "two clusters have the same address in listen"),
        (["-b", "e=a:1", "-b", "f=b:1", "--stub"], "", "--stub stands for one cluster"),
        (["-b", "e=a:1", "-b", "f=b:1", "--mode", "transparent"], "", "name no clusters"),
        (["-b", "e=a:1", "-b", "f=b:1", "--fault", "broker 1 down"], "", "there are several clusters"),
        ([], "[clusters.east]\nlisten = 'h:1'\n", "say with -b which broker to connect to"),
        ([], "[clusters.east]\nlisten = 'x:y'\n", "line 2: clusters.east.listen: 'x:y' is not an address"),
        ([], "[clusters.east]\ndrain = '1s'\n", "clusters.east.drain: there is no option of a cluster"),
        ([], "[clusters.'a b']\nlisten = ':1'\n", "invalid name for a cluster"),
    ],
)
def test_what_makes_no_sense_is_refused(
    started: list[Settings], arguments: list[str], tables: str, why: str
) -> None:
    said = " ".join(proxy(*arguments, tables=tables).replace("\n", " ").split())
    assert why in said
    assert not started


def test_config_shows_and_checks_the_tables(started: list[Settings]) -> None:
    proxy(tables=TABLES)
    shown = CliRunner().invoke(main, ["config", "clusters"]).stdout
    assert "kproxy.toml, line 6: clusters.west.listen" in shown
    for table, wrong in (
        ("[clusters.east]\nlisten = 'x:y'\n", "clusters.east.listen"),
        ("[clusters.'a b']\n", "clusters.a b: invalid name"),
    ):
        Path("kproxy.toml").write_text(table)
        checked = CliRunner().invoke(main, ["config"])
        assert checked.exit_code == 1
        assert wrong in checked.stderr


def test_the_example_of_a_file_names_no_cluster(started: list[Settings]) -> None:
    tables = CliRunner().invoke(main, ["config", "--example"]).stdout
    assert "clusters.east" in tables
    proxy("--stub", tables=tables)
    assert brief(started[0]) == [("", "", 9092)]
