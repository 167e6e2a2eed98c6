"""``kproxy mcp``: available queries, and responses to the protocol's own client."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from kproxy.cli import main, mcp_server, program_context
from kproxy.cli.command import options_of
from kproxy.cli.mcp_tools import TOOLS, Tool
from tests.kproxy.tui.kit import REBALANCE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BY_NAME = {tool.name: tool for tool in TOOLS}


def _command(tool: Tool) -> click.Command:
    found = main.get_command(program_context(), tool.command)
    assert found is not None
    return found


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_parameters_are_options_that_only_read(tool: Tool) -> None:
    declared = {option.key: option for option in options_of(_command(tool))}
    assert set(tool.options) <= set(declared)
    Draft202012Validator.check_schema(tool.schema())
    for key in tool.options:
        assert not isinstance(declared[key].type, click.Path)
        assert key not in (
            "show-secrets",
            "write",
            "follow",
            "registry",
            "value-schema",
            "key-schema",
            "html",
        )


def test_values_are_given_as_options_and_the_captures_behind() -> None:
    given = {"by": ["api", "topic"], "filter": "-x == 1", "all": True, "json": False}
    assert BY_NAME["stats"].arguments(given, ["--keylog=k"], ["a.pcap"]) == [
        *("stats", "--color=never", "--keylog=k", "--utc"),
        *("--by=api", "--by=topic", "--filter=-x == 1", "--all", "--", "a.pcap"),
    ]
    assert BY_NAME["records"].arguments({}, [], ["a"])[2:4] == ["--utc", "--no-show-secrets"]
    assert BY_NAME["follow"].arguments({"client": "--all"}, [], ["a"])[-3:] == ["--", "--all", "a"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("follow", {"client": "/etc/passwd", "connection": 1}),  # kproxy would read it as a capture
        ("journey", {"record": "/etc/passwd", "topic": "orders"}),
        ("follow", {}),
        ("compat", {"broker_version": "/etc/passwd"}),
        ("exchange", {}),
        ("exchange", {"exchange": "1"}),
        ("exchanges", {"show_secrets": True}),
        ("diagnose", {"least": "grave"}),
    ],
)
def test_what_is_no_question_is_refused(name: str, given: dict[str, Any]) -> None:
    assert not Draft202012Validator(BY_NAME[name].schema()).is_valid(given)


def test_each_question_reads_anew() -> None:
    result = CliRunner().invoke(main, ["mcp", "-"])
    assert result.exit_code == 2
    assert "write it to a file" in result.output


@asynccontextmanager
async def _asked(*arguments: str) -> AsyncIterator[ClientSession]:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "kproxy", "mcp", *arguments, str(REBALANCE)]
    )
    async with stdio_client(server) as (receiving, sending), ClientSession(receiving, sending) as session:
        await session.initialize()
        yield session


@pytest.mark.slow
async def test_a_client_of_the_protocol_is_answered() -> None:
    async with _asked() as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == [tool.name for tool in TOOLS]

        async def texts(name: str, **given: Any) -> tuple[bool, list[str]]:
            told = await session.call_tool(name, given)
            return bool(told.is_error), [content.text for content in told.content]  # type: ignore[union-attr]

        failed, (captured, diagnosis, *_) = await texts("diagnose")
        assert not failed
        assert captured == mcp_server.CAPTURED
        assert "m3 of group gr2-java_eager_range died" in diagnosis
        assert "#252" in diagnosis
        failed, (_, exchange) = await texts("exchange", exchange=252)
        assert not failed
        assert "OffsetCommit v9" in exchange
        assert await texts("exchanges", filter="error ==") == (
            True,
            ["invalid filter: a value is missing after ==\n  error ==\n          ^"],
        )
        failed, (_, cut, note) = await texts("exchanges", json=True)
        assert not failed
        assert len(cut) <= 60_000
        assert cut.endswith("}")
        assert note.startswith("cut after ")
        assert await texts("exchange", exchange="1") == (
            True,
            [
                "exchange: '1' is not of type 'integer'. One exchange by its number: every field with its bytes."
            ],
        )
        failed, (why,) = await texts("read")
        assert failed
        assert why.startswith("there is no tool read: there are diagnose, ")


@pytest.mark.slow
async def test_an_answer_that_takes_too_long_is_ended() -> None:
    said = await mcp_server.answer(["read", "--follow", str(REBALANCE)], 3)
    assert said.exit_status is None
    assert "ended after 3 s" in said.notes
