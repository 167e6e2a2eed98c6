"""Names of addresses in any notation."""

import pytest

from captures.names import Names

pytestmark = pytest.mark.quick


def named(address: str, *names: str, port: int | None = None) -> Names:
    made = Names()
    made.add(address, *names, port=port)
    return made


def test_a_name_stands_in_the_place_of_the_address() -> None:
    names = named("10.0.0.1", "orders-0")
    assert names.shown("10.0.0.1:9092") == "orders-0:9092"
    assert names.shown_host("10.0.0.1") == "orders-0"


def test_what_has_no_name_stays_as_it_is() -> None:
    names = named("10.0.0.1", "orders-0")
    assert names.shown("10.0.0.2:9092") == "10.0.0.2:9092"
    assert names.shown_host("10.0.0.2") == "10.0.0.2"
    assert names.of("10.0.0.2:9092") == ()


def test_without_names_nothing_is_looked_at() -> None:
    assert not Names()
    assert Names().shown("no endpoint at all") == "no endpoint at all"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ("2001:DB8:0:0::1", "[2001:db8::1]:9092"),
        ("fe80::1%eth0", "[fe80::1]:9092"),  # a zone, RFC 4007
        ("10.0.0.1", "[::ffff:10.0.0.1]:9092"),  # what a dual-stack socket of Java shows
        ("::ffff:10.0.0.1", "10.0.0.1:9092"),
    ],
)
def test_an_address_is_the_same_in_any_notation(given: str, seen: str) -> None:
    assert named(given, "orders-0").shown(seen) == "orders-0:9092"


def test_brackets_around_a_host_do_not_matter() -> None:
    assert named("::1", "me").shown_host("[::1]") == "me"


def test_the_first_name_is_shown_and_all_are_known() -> None:
    names = named("10.0.0.1", "orders-0.shop", "orders-0")
    names.add("10.0.0.1", "orders-0", "blue")
    assert names.of("10.0.0.1:9092") == ("orders-0.shop", "orders-0", "blue")


def test_a_name_of_an_endpoint_goes_before_that_of_its_host() -> None:
    names = named("127.0.0.1", "localhost")
    names.add("127.0.0.1", "broker-2", port=9093)
    assert names.shown("127.0.0.1:9092") == "localhost:9092"
    assert names.shown("127.0.0.1:9093") == "broker-2:9093"
    assert names.of("127.0.0.1:9093") == ("broker-2", "localhost")


def test_a_name_given_later_is_seen() -> None:
    names = named("127.0.0.1", "localhost")
    assert names.shown("127.0.0.1:41000") == "localhost:41000"
    names.add("127.0.0.1", "shell", port=41000)
    assert names.shown("127.0.0.1:41000") == "shell:41000"


def test_who_holds_an_endpoint_may_change() -> None:
    names = named("127.0.0.1", "localhost")
    names.hold("127.0.0.1", 41000, "python3[7]", "python3 app.py")
    assert names.of("127.0.0.1:41000") == ("python3[7]", "python3 app.py", "localhost")
    names.hold("127.0.0.1", 41000, "java[9]")
    assert names.of("127.0.0.1:41000") == ("java[9]", "localhost")
    names.add("127.0.0.1", "shell", port=41000)
    assert names.shown("127.0.0.1:41000") == "shell:41000"


def test_names_are_fit_for_a_terminal() -> None:
    names = Names()
    names.hold("127.0.0.1", 41000, "\x1b[31mred[7]")
    assert names.shown("127.0.0.1:41000") == "�[31mred[7]:41000"


def test_what_is_no_address_cannot_be_named() -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0"):
        Names().add("10.0.0", "x")
