"""Combinations of options that ``kproxy proxy --authenticate`` rejects, and those that ``--force`` allows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main, proxy_run
from kproxy.proxy.settings import Settings

PLAIN = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
"""
NO_TOKEN = """
security.protocol=SASL_PLAINTEXT
sasl.mechanism=OAUTHBEARER
sasl.oauthbearer.token.endpoint.url=file:///no/such/token
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Return a list that receives the settings of the proxy instead of starting it."""
    taken: list[Settings] = []

    def proxy_run_of(settings: Settings, *_: Any, **__: Any) -> SimpleNamespace:
        taken.append(settings)
        return SimpleNamespace(run=lambda: 0)

    monkeypatch.setattr(proxy_run, "ProxyRun", proxy_run_of)
    return taken


def invoke(path: Path, properties: str, *arguments: str) -> Result:
    file = path / "client.properties"
    file.write_text(properties)
    command = ["proxy", "--command-config", str(file), "--authenticate", *arguments]
    return CliRunner().invoke(main, command, catch_exceptions=False)


@pytest.mark.parametrize(
    ("properties", "arguments", "said"),
    [
        (
            "",
            "-b broker:9092",
            "--authenticate needs credentials: security.protocol=SASL_SSL or SASL_PLAINTEXT",
        ),
        (PLAIN.replace("=PLAIN\n", "=GSSAPI\n"), "-b broker:9092", "cannot authenticate with GSSAPI"),
        (
            NO_TOKEN,
            "-b broker:9092",
            "--authenticate: the token in /no/such/token cannot be read",
        ),
        (
            PLAIN,
            "-b broker:9092 --listen 0.0.0.0:9092 --advertise localhost",
            "can connect to 0.0.0.0 has the rights of kproxy's",
        ),
        (
            PLAIN,
            "-b broker:9092 --listen :9092 --advertise localhost",
            "can connect to this machine has the rights of kproxy's",
        ),
        (PLAIN, "-b broker:9092 --listen example.com:9092", "can connect to example.com has the rights"),
        (PLAIN, "--stub", "--authenticate needs brokers"),
        (PLAIN, "--no-forward", "--authenticate needs brokers"),
        (PLAIN, "--mode transparent --listen :9292", "would send the password to any address"),
        (PLAIN, "--mode transparent --listen :9292 --force", "would send the password to any address"),
    ],
)
def test_refused(tmp_path: Path, started: list[Settings], properties: str, arguments: str, said: str) -> None:
    result = invoke(tmp_path, properties, *arguments.split())
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert "secret" not in result.stderr
    assert not started


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "--listen 127.0.0.2:0",
        "--listen localhost:0",
        "--listen [::1]:0",
        "--listen 0.0.0.0:0 --force --advertise localhost",
        "--listen :0 --force --advertise localhost",
        "--listen example.com:0 --force",
    ],
)
def test_allowed(tmp_path: Path, started: list[Settings], arguments: str) -> None:
    assert invoke(tmp_path, PLAIN, "-b", "broker:9092", *arguments.split()).exit_code == 0
    (settings,) = started
    assert settings.authenticate
    assert settings.security.sasl is not None
    assert settings.security.sasl.username == "alice"
