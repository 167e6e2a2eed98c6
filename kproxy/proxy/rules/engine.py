"""The fault rules in force: which rule decides about a frame, how often each did, and when it ends.

* The first rule that matches a frame, by number, decides about it. If its probability spares the frame, the rules after
  it are tried; so ``p=0.1 => drop`` before a delay drops one frame in ten and delays the others.
* A rule ends after its count or its time, and the list says so. An ended rule costs nothing.
* A rule never breaks traffic: if it cannot be applied, or fails, the frame is forwarded and the list shows the failure.

The code for filters is imported when the first rule is added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any

from captures.interventions import Change, Intervention, as_comment
from dissectors.apis import NAMES
from dissectors.budget import LimitReached
from dissectors.sides import Side
from kproxy.proxy.rules.errors import AnswerError, ForceNeededError
from kproxy.proxy.rules.outages import FOREVER, Outage
from kproxy.proxy.rules.scripts import ScriptReply, Scripts
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import UNCHANGED, UNKNOWN_API, Frame, Hold, Verdict

if TYPE_CHECKING:
    from kproxy.proxy.rules.matcher import Matcher
    from kproxy.proxy.rules.parser import Rule
    from kproxy.proxy.rules.views import View

MOST_ENDED = 100
"""Ended rules that stay in the list."""

_log = logging.getLogger(__name__)


class ActiveRule:
    """A rule with its counters.

    :ivar number: identifies it, 1 for the first that was ever added
    :ivar hits: how often it was applied
    :ivar failures: how often it matched a frame and could not be applied
    :ivar failure: the reason for the last failure
    :ivar undecided: number of failures because a frame exceeded a limit
    :ivar ended: why it has ended: ``count`` or ``time``; empty while it is in force
    """

    rule: Rule | Outage

    def __init__(self, number: int, rule: Rule | Outage, now: int) -> None:
        self.number = number
        self.rule = rule
        self.until = now + rule.duration
        self.hits = 0
        self.last_hit: int | None = None
        self.failures = 0
        self.failure = ""
        self.undecided = 0
        self.ended = ""

    def failed(self, error: Exception) -> None:
        """Record that it could not be applied."""
        self.failures += 1
        if isinstance(error, LimitReached):
            self.undecided += 1
        expected = isinstance(error, AnswerError | LimitReached)
        if not expected and not self.failure:
            _log.warning(
                "rule %d failed, the frame was forwarded: %s", self.number, self.rule.text, exc_info=error
            )
        self.failure = str(error) if expected else f"{type(error).__name__}: {error}"

    def to_json(self, now: int) -> dict[str, Any]:
        """Return the rule as ``kproxy ctl rules`` shows it (docs/faults.md)."""
        rule = self.rule
        left = None if rule.duration == FOREVER else max(self.until - now, 0)
        return {
            "number": self.number,
            "name": rule.name or None,
            "rule": rule.text,
            "side": None,
            "filter": None,
            "action": str(rule.action),
            "probability": rule.probability,
            "hits": self.hits,
            "last_hit_ns": self.last_hit,
            "left_count": None if rule.count is None else max(rule.count - self.hits, 0),
            "left_ns": 0 if self.ended else left,
            "ended": self.ended or None,
            "failures": self.failures,
            "failure": self.failure or None,
            "undecided": self.undecided,
        }


class FrameRule(ActiveRule):
    """A rule for frames."""

    rule: Rule

    def __init__(self, number: int, rule: Rule, matcher: Matcher, now: int) -> None:
        super().__init__(number, rule, now)
        self.matcher = matcher

    def to_json(self, now: int) -> dict[str, Any]:
        return {
            **super().to_json(now),
            "side": self.matcher.side,
            "filter": self.rule.condition.expanded,
        }


class OutageRule(ActiveRule):
    """A rule that takes a broker down; :mod:`kproxy.proxy.outages` carries it out."""

    rule: Outage


class Rules:
    """The fault rules of a proxy.

    :param names: of topic IDs
    :param clock: ns since the epoch
    :param chance: decides on probabilities, delays and corrupted bytes
    :param changed: called when rules were added, have ended or were removed
    :param notify: called with sentences for the user
    :param clusters: names of the clusters behind the proxy
    :ivar scripts: their processes
    :ivar outages: rules in force that take brokers down, by cluster and node ID
    """

    def __init__(
        self,
        names: TopicNames,
        clock: Callable[[], int] = time_ns,
        chance: Random | None = None,
        changed: Callable[[], None] = lambda: None,
        notify: Callable[[str], None] = lambda _: None,
        clusters: Sequence[str] = ("",),
    ) -> None:
        self._names = names
        self._clusters = clusters
        self._notify = notify
        self._clock = clock
        self._chance = chance or Random()  # noqa: S311  not for cryptography
        self._changed = changed
        self._start = clock()
        self._rules: list[ActiveRule] = []
        self._live: dict[Side, list[FrameRule]] = {"request": [], "response": []}
        self._wanted: dict[Side, frozenset[int]] = {"request": frozenset(), "response": frozenset()}
        self._next_end: int | None = None
        self._numbers = 0
        self.active = False
        self.scripts = Scripts()
        self.outages: dict[tuple[str, int], OutageRule] = {}

    # ------------------------------------------------------------ changing them
    def add(self, text: str, *, force: bool = False) -> int:
        """Add a rule; return its number.

        :param force: allow it to match everything or to have no end
        :raises FilterError: (a ValueError) with the position of the error in the rule
        :raises ForceNeededError: if it matches everything, or never ends
        :raises ValueError: if another rule has its name, or takes down the same broker
        """
        added = self._new_rule(text, force=force)
        self._rules.append(added)
        self._update()
        return added.number

    def check(self, text: str, *, force: bool = False) -> None:
        """Check a rule, regardless of the existing rules.

        :raises ValueError: as :meth:`add` does
        """
        Rules(self._names, self._clock, clusters=self._clusters).add(text, force=force)

    def _new_rule(self, text: str, *, force: bool) -> ActiveRule:
        from kproxy.proxy.rules.matcher import Matcher, matches_everything
        from kproxy.proxy.rules.parser import parse_rule

        rule = parse_rule(text, self._clusters)
        if not force and rule.duration == FOREVER:
            raise ForceNeededError(f"this rule never ends: {rule.text} (say for how long, or force it)")
        if isinstance(rule, Outage):
            rule = self._in_cluster(rule)
        self._refuse_second(rule)
        if isinstance(rule, Outage):
            self._numbers += 1
            return OutageRule(self._numbers, rule, self._clock())
        if not force and matches_everything(rule.condition):
            raise ForceNeededError(
                f"this rule concerns every {rule.condition.side}: {rule.text} (say which it is about, "
                f"such as api == Fetch or client_id == app-1, or force it)"
            )
        matcher = Matcher(rule.condition)
        if rule.action.apis is not None:
            matcher.apis &= rule.action.apis
            if not matcher.apis:
                raise ValueError(
                    f"no {matcher.side} that this rule is about has all these fields: {rule.text}"
                )
        self._numbers += 1
        return FrameRule(self._numbers, rule, matcher, self._clock())

    def _in_cluster(self, rule: Outage) -> Outage:
        """Return a rule with the name of the broker's cluster, which may be left out if there is only one."""
        known = self._clusters
        if rule.cluster not in known and (rule.cluster or len(known) > 1):
            example = f"broker {known[0]}/{rule.node_id} down"
            said = f"there is no cluster {rule.cluster!r}" if rule.cluster else "there are several clusters"
            named = f", say which: {', '.join(known)}, as in {example}" if any(known) else ""
            raise ValueError(f"{said}{named}: {rule.text}")
        return rule if rule.cluster else replace(rule, cluster=known[0])

    def _refuse_second(self, rule: Rule | Outage) -> None:
        for other in self._rules:
            if other.ended:
                continue
            if rule.name and other.rule.name == rule.name:
                raise ValueError(f"rule {other.number} has the name {rule.name} already: {other.rule.text}")
            if (
                isinstance(rule, Outage)
                and isinstance(other, OutageRule)
                and rule.broker == other.rule.broker
            ):
                raise ValueError(f"{rule.broker} is down already, by rule {other.number}: {other.rule.text}")

    def remove(self, which: int | str) -> None:
        """Remove a rule.

        :param which: its number, or its name
        :raises LookupError: if it does not exist
        """
        found = next(
            (rule for rule in reversed(self._rules) if which in (rule.number, rule.rule.name or None)),
            None,
        )
        if found is None:
            raise LookupError(f"there is no rule {which}")
        self._rules.remove(found)
        self._update()

    def replace(self, before: Sequence[int], texts: Sequence[str], *, force: bool = False) -> list[int]:
        """Replace rules with others, all or none of them; those with the same text stay as they are.

        :param before: numbers of the rules to be replaced, some of which may no longer exist
        :param texts: their replacements
        :returns: the numbers of these
        :raises ValueError: if one of them cannot be added; then nothing has changed
        """
        kept = self._rules[:]
        left = {rule.rule.text: rule for rule in self._rules if rule.number in before}
        numbers = []
        try:
            stay = [left.pop(text.strip(), None) for text in texts]
            gone = set(before) - {rule.number for rule in stay if rule is not None}
            self._rules = [rule for rule in self._rules if rule.number not in gone]
            for text, rule in zip(texts, stay, strict=True):
                if rule is None:
                    rule = self._new_rule(text, force=force)
                    self._rules.append(rule)
                numbers.append(rule.number)
        except BaseException:
            self._rules = kept
            raise
        self._update()
        return numbers

    def clear(self) -> int:
        """Remove all rules; return how many there were."""
        count = len(self._rules)
        self._rules.clear()
        self._update()
        return count

    def expire(self, now: int) -> None:
        """End the rules whose time is over."""
        if self._next_end is None or now < self._next_end:
            return
        for rule in self._rules:
            if not rule.ended and now >= rule.until:
                rule.ended = "time"
        self._update()

    def clock_set(self, step: int) -> None:
        """Shift the ends of rules with the clock.

        :param step: ns by which it was set forward
        """
        for rule in self._rules:
            rule.until += step
        self._update()

    def _update(self) -> None:
        """Update everything derived from the list of rules."""
        ended = [rule for rule in self._rules if rule.ended]
        for rule in ended[:-MOST_ENDED]:
            self._rules.remove(rule)
        unended = [rule for rule in self._rules if not rule.ended]
        self.outages = {
            (rule.rule.cluster, rule.rule.node_id): rule for rule in unended if isinstance(rule, OutageRule)
        }
        live = [rule for rule in unended if isinstance(rule, FrameRule)]
        for side in self._live:
            self._live[side] = [rule for rule in live if rule.matcher.side == side]
        # a response is inspected together with its request
        self._wanted["request"] = frozenset[int]().union(*(rule.matcher.apis for rule in live))
        self._wanted["response"] = frozenset[int]().union(
            *(rule.matcher.apis for rule in self._live["response"])
        )
        self._next_end = min((rule.until for rule in unended), default=None)
        self.active = bool(live)
        paths = (rule.rule.action.script for rule in live)
        self.scripts.keep({path for path in paths if path is not None})
        self._changed()

    # ------------------------------------------------------------ reports
    def to_json(self) -> list[dict[str, Any]]:
        """Return all rules, including those that have ended recently."""
        now = self._clock()
        self.expire(now)
        return [rule.to_json(now) for rule in self._rules]

    @property
    def applications(self) -> dict[str, int]:
        """How often each rule was applied, by its text."""
        counts: dict[str, int] = {}
        for rule in self._rules:
            counts[rule.rule.text] = counts.get(rule.rule.text, 0) + rule.hits
        return counts

    @property
    def undecided(self) -> int:
        """How often a rule could not decide about a frame because of a limit."""
        return sum(rule.undecided for rule in self._rules)

    @property
    def needs_names(self) -> bool:
        """Whether a rule refers to topics."""
        return any(rule.matcher.needs_names for side in self._live.values() for rule in side)

    # ------------------------------------------------------------ frames
    def wants(self, side: Side, api_key: int) -> bool:
        """Return whether frames of an API must be passed to :meth:`decide`."""
        return known_api(api_key) in self._wanted[side]

    def decide(self, frame: Frame) -> Verdict:
        """Decide about a frame. Never raises."""
        self.expire(self._clock())
        rules = self._live[frame.side]
        if not rules:
            return UNCHANGED
        from kproxy.proxy.rules.views import View  # loaded with the first rule

        view = View(frame, self._names, self._start)
        for rule in list(rules):
            try:
                verdict = self._applied(rule, view, frame)
            except Exception as error:
                rule.failed(error)
                if rule.undecided == 1 and isinstance(error, LimitReached):
                    self._notify(
                        f"rule {rule.number} could not decide about a frame, which was forwarded: {error}"
                    )
                continue
            if verdict is not None:
                return verdict
        return UNCHANGED

    def _applied(self, active: FrameRule, view: View, frame: Frame) -> Verdict | None:
        rule = active.rule
        if known_api(frame.api_key) not in active.matcher.apis or not view.meets(active.matcher):
            return None
        if rule.probability < 1 and self._chance.random() >= rule.probability:
            return None
        verdict, words, changed = rule.action.apply(frame, self._chance)
        if verdict.hold is not None and rule.action.script is not None:
            self.scripts.ask(rule.action.script, frame, partial(self._finish, active, verdict.hold))
        else:
            verdict.comments.append(_comment(rule, frame, verdict, words, changed))
        active.hits += 1
        active.last_hit = frame.time
        if active.hits == rule.count:
            active.ended = "count"
            self._update()
        return verdict

    def _finish(self, active: FrameRule, hold: Hold, reply: ScriptReply) -> None:
        """Let a frame continue as its script has decided."""
        if reply.printed:
            self._notify(f"{active.rule.action}: {reply.printed}")
        if reply.failure:
            active.failed(AnswerError(reply.failure))
            self._notify(f"rule {active.number} failed, the frame was forwarded: {reply.failure}")
        if hold.gone:
            return
        verdict = Verdict(reply.data, reply.answer, ending=reply.ending)
        words = reply.words or f"failed: {reply.failure}"
        verdict.comments.append(_comment(active.rule, hold.frame, verdict, words, reply.changed))
        hold.release(verdict)


def _comment(rule: Rule, frame: Frame, verdict: Verdict, words: str, changed: tuple[Change, ...]) -> str:
    """Return the packet comment about what a rule did to a frame.

    :param words: the same in words
    """
    intervention = Intervention(
        changed=changed,
        rule=rule.text,
        action=words,
        not_forwarded=frame.side == "request" and verdict.data == b"",
        altered=verdict.data not in (None, b"", frame.data),
        ended=verdict.ending.value,
    )
    return as_comment(intervention)


def known_api(api_key: int) -> int:
    """Return an API key, :data:`UNKNOWN_API` if it is not known."""
    return api_key if 0 <= api_key < len(NAMES) else UNKNOWN_API
