"""State shared by several rules."""

from __future__ import annotations

from captures.analysis.findings.shared_followers import OncePerExchange, SharedFollowers
from captures.exchanges import Exchange
from tests.captures.analysis.findings.cluster_kit import spoken
from tests.captures.analysis.findings.group_kit import unread


class CountingFollower:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def add(self, exchange: Exchange) -> None:
        self.seen.append(exchange.number)


def test_an_exchange_that_several_rules_show_is_taken_in_once() -> None:
    followed = OncePerExchange(CountingFollower())
    for number in (1, 2, 3):
        exchange = spoken(3, 12, {}, {}, number=number)
        for _ in range(3):
            followed.add(exchange)
    assert followed.known.seen == [1, 2, 3]


def test_rules_of_one_diagnosis_follow_the_same() -> None:
    one, other = (SharedFollowers(unread(), lambda _: None) for _ in range(2))
    for name in ("closings", "staleness", "introductions", "offered", "advertised"):
        assert getattr(one, name) is getattr(one, name)
        assert getattr(one, name) is not getattr(other, name)
