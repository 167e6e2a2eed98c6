"""Held frames: they wait until they are released, edited or killed.

Everything after a held frame in its direction of the connection waits too. A frame is released before its client gives
up on it (:mod:`kproxy.proxy.rules.views`), and all are released when the last controller leaves. Fault rules then
decide about the released frame in its final form.

There is one filter for requests and one for responses. The code for filters is imported when the first is set.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from time import time_ns
from typing import TYPE_CHECKING, Any

import msgspec

from captures.interventions import Change, Intervention, as_comment
from dissectors.apis import api_name
from dissectors.budget import LimitReached
from dissectors.sides import SIDES, Side
from kproxy.proxy.rules.engine import known_api
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import UNCHANGED, Ending, Frame, Hold, Verdict

if TYPE_CHECKING:
    from kproxy.proxy.rules.matcher import Matcher
    from kproxy.proxy.rules.parser import Condition

MOST_HELD = 1_000
"""Frames held at a time; further ones continue."""
REQUEST_TIMEOUT = 30 * 1_000_000_000
"""ns that clients wait for an answer by default (``request.timeout.ms``)."""

_log = logging.getLogger(__name__)


class Holds:
    """The hold filters of a proxy, and the frames that they hold.

    :param names: of topic IDs
    :param then: decides about a released frame
    :param clock: ns since the epoch
    :param request_timeout: ns that clients wait for an answer (``request.timeout.ms``)
    :param changed: called when filters have changed
    :param held: called with the number of held frames when it changes
    :param notify: called with sentences for the user
    :param clusters: names of the clusters behind the proxy
    :ivar passed: frames that matched a filter and were not held, because too many were or their client would give up
    :ivar failures: frames that continued because a filter failed
    :ivar undecided: those of them that exceeded a limit
    """

    def __init__(
        self,
        names: TopicNames,
        then: Callable[[Frame], Verdict] = lambda _: Verdict(),
        clock: Callable[[], int] = time_ns,
        *,
        request_timeout: int = REQUEST_TIMEOUT,
        changed: Callable[[], None] = lambda: None,
        held: Callable[[int], None] = lambda _: None,
        notify: Callable[[str], None] = lambda _: None,
        clusters: Sequence[str] = ("",),
    ) -> None:
        self._names = names
        self._notify = notify
        self._clusters = clusters
        self._then = then
        self._clock = clock
        self._request_timeout = request_timeout
        self._changed = changed
        self._held_changed = held
        self._start = clock()
        self._filters: dict[Side, tuple[Condition, Matcher]] = {}
        self._held: dict[int, Hold] = {}
        self._numbers = 0
        self._wanted: dict[Side, frozenset[int]] = dict.fromkeys(SIDES, frozenset())
        self.passed = 0
        self.failures = 0
        self.undecided = 0
        self.active = False

    # ------------------------------------------------------------ filters
    def set_filter(self, text: str) -> Side:
        """Hold matching frames from now on; return the side, whose earlier filter is replaced.

        :param text: the filter, preceded by ``request:`` or ``response:`` unless it implies the side
        :raises FilterError: (a ValueError) with the position of the error in the text
        """
        from kproxy.proxy.rules.matcher import Matcher
        from kproxy.proxy.rules.parser import parse_condition

        condition = parse_condition(text, clusters=self._clusters)
        self._filters[condition.side] = condition, Matcher(condition)
        self._update()
        return condition.side

    def clear_filter(self, side: Side | None = None) -> None:
        """Remove filters; held frames stay held."""
        for one in SIDES if side is None else (side,):
            self._filters.pop(one, None)
        self._update()

    def _update(self) -> None:
        matchers = {side: matcher for side, (_, matcher) in self._filters.items()}
        nothing: frozenset[int] = frozenset()
        responses = matchers["response"].apis if "response" in matchers else nothing
        requests = matchers["request"].apis if "request" in matchers else nothing
        self._wanted = {"request": requests | responses, "response": responses}
        self.active = bool(matchers)
        self._changed()

    @property
    def needs_names(self) -> bool:
        """Whether a filter refers to topics."""
        return any(matcher.needs_names for _, matcher in self._filters.values())

    # ------------------------------------------------------------ frames
    def wants(self, side: Side, api_key: int) -> bool:
        """Return whether frames of an API must be passed to :meth:`decide`."""
        return known_api(api_key) in self._wanted[side]

    def decide(self, frame: Frame) -> Verdict:
        """Hold a frame, or let it continue. Never raises."""
        if frame.side not in self._filters:
            return UNCHANGED
        from kproxy.proxy.rules.views import (
            View,
            held_until,  # loaded with the first filter
        )

        _, matcher = self._filters[frame.side]
        try:
            if not View(frame, self._names, self._start).meets(matcher):
                return UNCHANGED
            until = held_until(frame, self._request_timeout)
        except LimitReached as error:
            if not self.undecided:
                self._notify(f"the hold filter could not decide about a frame, which was forwarded: {error}")
            self.failures += 1
            self.undecided += 1
            return UNCHANGED
        except Exception:
            if not self.failures:
                _log.warning("a hold filter failed, the frame was forwarded", exc_info=True)
            self.failures += 1
            return UNCHANGED
        self._forget_gone()
        if until <= self._clock() or len(self._held) >= MOST_HELD:
            self.passed += 1
            return UNCHANGED
        self._numbers += 1
        hold = self._held[self._numbers] = Hold(self._numbers, frame, until)
        self._held_changed(len(self._held))
        return Verdict(hold=hold)

    def _forget_gone(self) -> None:
        for number in [number for number, hold in self._held.items() if hold.gone]:
            del self._held[number]

    def frame(self, number: int) -> Frame:
        """Return a held frame.

        :raises LookupError: if no such frame is held
        """
        return self._of(number).frame

    # ------------------------------------------------------------ release
    def release(self, number: int, by: str = "user") -> None:
        """Release a frame unchanged.

        :raises LookupError: if no such frame is held
        """
        self._continue(self._removed(number), by)
        self._held_changed(len(self._held))

    def edit(
        self,
        number: int,
        *,
        changes: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        data: bytes | None = None,
    ) -> tuple[Change, ...]:
        """Release a frame with other content; return the differences.

        Exactly one of ``changes``, ``body`` and ``data`` must be given; see :mod:`kproxy.proxy.rules.edits`.

        :raises LookupError: if no such frame is held
        :raises EditError: (a ValueError) if the content is invalid; the frame stays held
        """
        from kproxy.proxy.rules import edits

        frame = self.frame(number)
        if changes is not None:
            edited, changed = edits.with_changes(frame, changes)
        elif body is not None:
            edited, changed = edits.with_body(frame, body)
        else:
            edited, changed = edits.with_bytes(frame, data or b"")
        self._continue(self._removed(number), "edited", edited, changed)
        self._held_changed(len(self._held))
        return changed

    def kill(self, number: int) -> None:
        """Close the connection of a frame in its place.

        :raises LookupError: if no such frame is held
        """
        hold = self._removed(number)
        intervention = Intervention(
            released_by="killed", not_forwarded=hold.frame.side == "request", ended=Ending.CLOSE.value
        )
        hold.release(Verdict(data=b"", ending=Ending.CLOSE, comments=[self._comment(hold, intervention)]))
        self._held_changed(len(self._held))

    def release_all(self, by: str = "user") -> int:
        """Release all frames; return how many were held."""
        self._forget_gone()
        numbers = list(self._held)
        for number in numbers:
            # a released frame may end the connection of another
            if number in self._held:
                self._continue(self._removed(number), by)
        if numbers:
            self._held_changed(len(self._held))
        return len(numbers)

    def release_due(self, now: int) -> None:
        """Release frames whose time is over. Call this about once a second."""
        due = [number for number, hold in self._held.items() if now >= hold.until]
        for number in due:
            self._continue(self._held.pop(number), "timeout")
        if due:
            self._held_changed(len(self._held))

    def clock_set(self, step: int) -> None:
        """Shift the release times with the clock.

        :param step: ns by which it was set forward
        """
        for hold in self._held.values():
            hold.until += step

    def _of(self, number: int) -> Hold:
        self._forget_gone()
        if number not in self._held:
            raise LookupError(f"no frame {number} is held")
        return self._held[number]

    def _removed(self, number: int) -> Hold:
        hold = self._of(number)
        del self._held[number]
        return hold

    def _continue(
        self, hold: Hold, by: str, data: bytes | None = None, changed: tuple[Change, ...] = ()
    ) -> None:
        if hold.gone:
            return
        frame = hold.frame if data is None else replace(hold.frame, data=data)
        verdict = self._then(frame)
        intervention = Intervention(changed=changed, released_by=by, altered=data is not None)
        comments = [self._comment(hold, intervention), *verdict.comments]
        data = data if verdict.data is None else verdict.data
        hold.release(replace(verdict, data=data, comments=comments))

    def _comment(self, hold: Hold, intervention: Intervention) -> str:
        held = max(self._clock() - hold.frame.time, 0)
        return as_comment(msgspec.structs.replace(intervention, held_ns=held))

    # ------------------------------------------------------------ reports
    def to_json(self) -> dict[str, Any]:
        """Return the held frames as ``kproxy ctl holds`` shows them (docs/faults.md)."""
        self._forget_gone()
        now = self._clock()
        return {
            "filters": {side: condition.expanded for side, (condition, _) in self._filters.items()},
            "held": [_shown(hold, now) for hold in self._held.values()],
            "passed": self.passed,
            "failures": self.failures,
            "undecided": self.undecided,
        }


def _shown(hold: Hold, now: int) -> dict[str, Any]:
    frame = hold.frame
    return {
        "number": hold.number,
        "side": frame.side,
        "api": api_name(frame.api_key),
        "version": frame.version,
        "correlation_id": frame.correlation_id,
        "connection": frame.peers.connection,
        "client": frame.peers.client,
        "client_id": frame.peers.client_id,
        "broker": frame.peers.broker,
        "node_id": frame.peers.node_id,
        "size": len(frame.data),
        "held_since_ns": frame.time,
        "held_ns": max(now - frame.time, 0),
        "released_in_ns": max(hold.until - now, 0),
        "waiting_behind": hold.waiting_behind(),
    }
