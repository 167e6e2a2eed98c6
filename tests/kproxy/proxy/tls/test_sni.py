"""Server names from hellos made by OpenSSL, and other data that arrives at a port."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.packets.tls.handshake import MalformedHandshake, parse_client_hello
from kproxy.proxy.tls.sni import NEED_MORE, NodeNames, NodeNamesError, host_name, server_name


def hello(name: str | None, **options: object) -> bytes:
    """Return a ClientHello of OpenSSL, with its record."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for option, value in options.items():
        setattr(context, option, value)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


HELLO = hello("b1.kafka.test")


def in_records(data: bytes, size: int) -> bytes:
    """Return a handshake split into records of another size."""
    message = data[5:]
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


@pytest.mark.parametrize("options", [{}, {"maximum_version": ssl.TLSVersion.TLSv1_2}])
@pytest.mark.parametrize(
    ("asked", "told"),
    [("b1.kafka.test", "b1.kafka.test"), ("Ab_c.test", "ab_c.test"), ("127.0.0.1", None), (None, None)],
)
def test_the_name_of_a_hello(asked: str | None, told: str | None, options: dict[str, object]) -> None:
    assert server_name(hello(asked, **options)) == told


def test_more_is_needed_until_the_end() -> None:
    for end in range(len(HELLO)):
        assert server_name(HELLO[:end]) is NEED_MORE
    assert server_name(HELLO) == server_name(HELLO + b"more") == "b1.kafka.test"


@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_a_hello_in_several_records(size: int) -> None:
    data = in_records(HELLO, size)
    assert server_name(data) == "b1.kafka.test"
    assert server_name(data[:-1]) is NEED_MORE


@pytest.mark.parametrize(
    "data",
    [
        b"\0\0\0\x20\0\x12\0\x03",  # a request
        b"GET / HTTP/1.1\r\n",
        b"\x15\x03\x01\0\x02\x02\x28",  # an alert
        b"\x16\x03\x01\0\x04\x02\0\0\0",  # a ServerHello
        b"\x16\x03\x01\0\0",  # an empty record
        b"\x16\x03\x01\xff\xff\x01",  # a record that is too long
        b"\x16\x03\x01\0\x04\x01\xff\xff\xff",  # a hello that is too long
        b"\x16\x03\x01\0\x04\x01\0\0\0",  # an empty hello
    ],
)
def test_what_has_no_name(data: bytes) -> None:
    assert server_name(data) is None


@given(st.data())
def test_damaged_hellos_raise_nothing_and_read_as_the_other_parser_does(data: st.DataObject) -> None:
    damaged = bytearray(HELLO)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(9, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    name = server_name(bytes(damaged))
    try:
        theirs = parse_client_hello(bytes(damaged[9:])).server_name
    except MalformedHandshake:
        return
    assert name == host_name(theirs)


@given(st.binary(max_size=300))
def test_anything_may_come(data: bytes) -> None:
    server_name(data)
    server_name(b"\x16\x03\x01" + data)
    server_name(HELLO[:43] + data)


class TestNodeNames:
    """Host names of brokers."""

    def test_there_and_back(self) -> None:
        names = NodeNames("b{node_id}.kafka.test")
        for node_id in (0, 1, 17, 2**31 - 1):
            assert names.node_id(names.name(node_id)) == node_id
            assert names.node_id(names.name(node_id).upper() + ".") == node_id
            assert names.node_id(names.name(node_id, "controller")) is None
            assert names.node_id(names.name(node_id, "controller"), "controller") == node_id

    @pytest.mark.parametrize(
        "name",
        [
            "kafka.test",
            "b.kafka.test",
            "b01.kafka.test",
            "b1xkafka.test",
            "b-1.kafka.test",
            "bb1.kafka.test",
            "b1.kafka.test.evil",
            "b99999999999.kafka.test",
            "",
        ],
    )
    def test_others_are_no_brokers(self, name: str) -> None:
        assert NodeNames("b{node_id}.kafka.test").node_id(name) is None

    @pytest.mark.parametrize(
        "pattern", ["kafka.test", "{node_id}.{node_id}.test", "b {node_id}", "", "b{node}.test", "-{node_id}"]
    )
    def test_patterns_that_cannot_be(self, pattern: str) -> None:
        with pytest.raises(NodeNamesError):
            NodeNames(pattern)
