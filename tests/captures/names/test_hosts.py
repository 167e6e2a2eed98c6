"""The hosts format."""

import pytest

from captures.names.hosts import Entry, LineError, endpoint, entries


def parsed(text: str) -> list[Entry]:
    return list(entries(iter(enumerate(text.splitlines(), 1))))


def test_the_example_of_the_manual() -> None:
    # hosts(5) of the Linux man-pages
    text = """\
# The following lines are desirable for IPv4 capable hosts
127.0.0.1       localhost

# 127.0.1.1 is often used for the FQDN of the machine
127.0.1.1       thishost.example.org   thishost
192.168.1.10    foo.example.org        foo
209.237.226.90  www.opensource.org

# The following lines are desirable for IPv6 capable hosts
::1             localhost ip6-localhost ip6-loopback
ff02::1         ip6-allnodes
"""
    assert parsed(text) == [
        Entry("127.0.0.1", None, ("localhost",)),
        Entry("127.0.1.1", None, ("thishost.example.org", "thishost")),
        Entry("192.168.1.10", None, ("foo.example.org", "foo")),
        Entry("209.237.226.90", None, ("www.opensource.org",)),
        Entry("::1", None, ("localhost", "ip6-localhost", "ip6-loopback")),
        Entry("ff02::1", None, ("ip6-allnodes",)),
    ]


def test_comments_end_a_line() -> None:
    assert parsed("\t10.0.0.1 one#two three\n   # nothing\n") == [Entry("10.0.0.1", None, ("one",))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1", ("10.0.0.1", None)),
        ("10.0.0.1:9092", ("10.0.0.1", 9092)),
        ("::1", ("::1", None)),
        ("[::1]:9092", ("::1", 9092)),
        ("fe80::1%lo0", ("fe80::1%lo0", None)),
        ("10.0.0.1:70000", None),
        ("10.0.0:9092", None),
        ("broker", None),
        ("", None),
    ],
)
def test_endpoints(text: str, expected: tuple[str, int | None] | None) -> None:
    assert endpoint(text) == expected


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("10.0.0.1 one\n10.0.0 two\n", 2, "'10.0.0' is no IP address"),
        ("\n\n10.0.0.1 # nameless\n", 3, "there is no name after 10.0.0.1"),
    ],
)
def test_mistakes_are_told_by_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(LineError, match=reason) as caught:
        parsed(text)
    assert caught.value.line == line
