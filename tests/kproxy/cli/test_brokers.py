"""Options that tell commands which brokers to connect to."""

from __future__ import annotations

import click
import pytest

from kproxy.cli.options import BROKERS, LISTEN


def test_addresses() -> None:
    texts = "a:1, b ,[::1]:9093,[::2],::3"
    found = BROKERS.convert(texts, None, None)
    assert found == (("a", 1), ("b", 9092), ("::1", 9093), ("::2", 9092), ("::3", 9092))


@pytest.mark.parametrize("text", ["", ",", "a:", "a:x", "a:70000", ":9092", "a:0"])
def test_what_is_no_broker_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not (an|the) address"):
        BROKERS.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "right"), [("http://kafka1:9092/", "kafka1:9092"), ("PLAINTEXT://kafka1:9092", "kafka1:9092")]
)
def test_a_url_is_no_broker_and_what_to_write_is_said(text: str, right: str) -> None:
    with pytest.raises(click.BadParameter, match=f"is a URL: write host:port alone, {right}"):
        BROKERS.convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("", 9464)),
        (":9464", ("", 9464)),
        ("10.0.0.5:9464", ("10.0.0.5", 9464)),
        ("[::1]:1", ("::1", 1)),
    ],
)
def test_a_port_can_stand_alone_where_that_is_meant(text: str, address: tuple[str, int]) -> None:
    assert LISTEN.convert(text, None, None) == address
