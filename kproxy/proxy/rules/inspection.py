"""Rules and holds together: the inspector that the data plane asks about frames.

A frame that a hold filter matches waits first; the rules then decide about what continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from time import time_ns

from dissectors.sides import Side
from kproxy.proxy.rules.engine import OutageRule, Rules
from kproxy.proxy.rules.holds import REQUEST_TIMEOUT, Holds
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame, Peers, Verdict


class Inspection:
    """Decides about frames (:class:`kproxy.proxy.verdicts.Inspector`).

    :param held: called with how many frames are held, when that changes
    :param tell: takes sentences for the user
    :param outages: called with the rules that take brokers down, by node ID, when rules have changed
    :ivar active: whether there are rules or hold filters; nothing else needs to be asked while there are none
    :ivar names: of topic IDs; shown answers to Metadata even while not active, it costs little to keep them
    """

    def __init__(
        self,
        clock: Callable[[], int] = time_ns,
        chance: Random | None = None,
        *,
        request_timeout: int = REQUEST_TIMEOUT,
        held: Callable[[int], None] = lambda _: None,
        tell: Callable[[str], None] = lambda _: None,
        outages: Callable[[Mapping[int, OutageRule]], None] = lambda _: None,
    ) -> None:
        self._outages = outages
        self.active = False
        self.names = TopicNames()
        self._needs_names = False
        self.rules = Rules(self.names, clock, chance, self._sort_out, tell)
        self.holds = Holds(
            self.names,
            self.rules.decide,
            clock,
            request_timeout=request_timeout,
            changed=self._sort_out,
            held=held,
            tell=tell,
        )

    def _sort_out(self) -> None:
        self.active = self.rules.active or self.holds.active
        self._needs_names = self.rules.needs_names or self.holds.needs_names
        self._outages(self.rules.outages)

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        """Return whether a frame is to be collected and shown to :meth:`decide`."""
        return (
            self.rules.wants(side, api_key)
            or self.holds.wants(side, api_key)
            or (self._needs_names and side == "response" and self.names.told_by(api_key))
        )

    def decide(self, frame: Frame) -> Verdict:
        """Decide about a frame. Never raises."""
        if self._needs_names and frame.side == "response":
            self.names.remember(frame.api_key, frame.version, frame.data)
        if self.holds.active:
            verdict = self.holds.decide(frame)
            if verdict.hold is not None:
                return verdict
        return self.rules.decide(frame)

    def tick(self, now: int) -> None:
        """End what is over, let continue what is due; to be called about once a second.

        :param now: ns since the epoch
        """
        self.rules.expire(now)
        self.holds.release_due(now)

    def clock_set(self, step: int) -> None:
        """Take notice that the clock was set forward by so many ns: what ends at a time ends so much later."""
        self.rules.clock_set(step)
        self.holds.clock_set(step)

    def release_all(self) -> None:
        """Stop holding and release everything: the last controller is gone."""
        self.holds.clear_filter()
        self.holds.release_all("detached")

    @property
    def undecided(self) -> int:
        """How often a rule or a hold filter was undecided of a frame, which continued."""
        return self.rules.undecided + self.holds.undecided

    @property
    def applications(self) -> dict[str, int]:
        """How often each rule was applied, by its text."""
        return self.rules.applications
