"""Rules and holds together: the inspector that the data plane asks about frames.

A frame that matches a hold filter waits first; the rules decide about it when it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from time import time_ns

from dissectors.sides import Side
from kproxy.proxy.rules.engine import OutageRule, Rules
from kproxy.proxy.rules.holds import REQUEST_TIMEOUT, Holds
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame, Peers, Verdict


class Inspection:
    """Decides about frames (:class:`kproxy.proxy.verdicts.Inspector`).

    :param held: called with the number of held frames when it changes
    :param notify: called with sentences for the user
    :param outages: called with the rules that take brokers down when rules have changed, by cluster and node ID
    :param clusters: names of the clusters behind the proxy
    :ivar active: whether there are rules or hold filters; if not, no frames need be inspected
    :ivar names: of topic IDs; fed with Metadata responses even while inactive, because that costs little
    """

    def __init__(
        self,
        clock: Callable[[], int] = time_ns,
        chance: Random | None = None,
        *,
        request_timeout: int = REQUEST_TIMEOUT,
        held: Callable[[int], None] = lambda _: None,
        notify: Callable[[str], None] = lambda _: None,
        outages: Callable[[Mapping[tuple[str, int], OutageRule]], None] = lambda _: None,
        clusters: Sequence[str] = ("",),
    ) -> None:
        self._outages = outages
        self.active = False
        self.names = TopicNames()
        self._needs_names = False
        self.rules = Rules(self.names, clock, chance, self._update, notify, clusters)
        self.holds = Holds(
            self.names,
            self.rules.decide,
            clock,
            request_timeout=request_timeout,
            changed=self._update,
            held=held,
            notify=notify,
            clusters=clusters,
        )

    def _update(self) -> None:
        self.active = self.rules.active or self.holds.active
        self._needs_names = self.rules.needs_names or self.holds.needs_names
        self._outages(self.rules.outages)

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        """Return whether a frame must be collected and passed to :meth:`decide`."""
        return (
            self.rules.wants(side, api_key)
            or self.holds.wants(side, api_key)
            or (self._needs_names and side == "response" and self.names.has_names(api_key))
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
        """End rules whose time is over, and release frames that are due. Call this about once a second.

        :param now: ns since the epoch
        """
        self.rules.expire(now)
        self.rules.scripts.refresh()
        self.holds.release_due(now)

    def clock_set(self, step: int) -> None:
        """Shift the ends of rules and holds with the clock.

        :param step: ns by which it was set forward
        """
        self.rules.clock_set(step)
        self.holds.clock_set(step)

    def release_all(self) -> None:
        """Remove hold filters and release all frames, because the last controller has left."""
        self.holds.clear_filter()
        self.holds.release_all("detached")

    async def close(self) -> None:
        """End the processes of scripts."""
        await self.rules.scripts.close()

    @property
    def undecided(self) -> int:
        """How often a rule or a hold filter could not decide about a frame, which was then forwarded."""
        return self.rules.undecided + self.holds.undecided

    @property
    def applications(self) -> dict[str, int]:
        """How often each rule was applied, by its text."""
        return self.rules.applications
