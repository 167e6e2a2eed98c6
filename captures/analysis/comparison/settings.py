"""Differences of the settings of clients on both sides, as far as the wire shows them."""

from __future__ import annotations

from captures.analysis.clients.inventory import Client
from captures.analysis.clients.setting_display import DisplayedSetting
from captures.analysis.clients.settings import ValueSource, alike
from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.side import Side

_READ, _ESTIMATED, _DANGEROUS = 3.0, 0.5, 2.0
_NEVER = frozenset({"client.id"})
"""Settings that identify a client."""


def setting_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the settings that were seen on both sides, with different values.

    Estimates from the timing of requests prove nothing, and are reported as possible differences.
    """
    clients = {each.name: each for each in good.configured()}
    found = []
    for client in bad.configured():
        before = clients.get(client.name)
        if before is not None:
            found += _of_client(before, client)
    return found


def _of_client(good: Client, bad: Client) -> list[Difference]:
    known = {each.setting.key: each for each in good.settings if each.setting.how is not ValueSource.NOT_SEEN}
    found = []
    for after in bad.settings:
        before = known.get(after.setting.key)
        if (
            before is not None
            and after.setting.how is not ValueSource.NOT_SEEN
            and after.setting.key not in _NEVER
        ):
            difference = _of_setting(bad.name, before, after)
            if difference is not None:
                found.append(difference)
    return found


def _of_setting(client: str, good: DisplayedSetting, bad: DisplayedSetting) -> Difference | None:
    read = good.setting.how is ValueSource.READ and bad.setting.how is ValueSource.READ
    if read and good.setting.value == bad.setting.value:
        return None
    if not read and (alike(bad.setting, good.setting.value) or alike(good.setting, bad.setting.value)):
        return None
    values = [each.text or "not set" for each in (good, bad)]
    warning = f". {bad.danger[:1].upper()}{bad.danger[1:]}" if bad.danger and not good.danger else ""
    estimated = "" if read else ", an estimate"
    score = (_READ if read else _ESTIMATED) + (_DANGEROUS if warning else 0.0)
    return Difference(
        aspect=Aspect.SETTINGS,
        subject=client,
        what=bad.setting.key,
        sentence=f"client {client}: {bad.name} is {values[0]} in good and {values[1]} in bad{estimated}{warning}",
        good=_shown(good, values[0]),
        bad=_shown(bad, values[1]),
        score=score,
        certain=read,
    )


def _shown(setting: DisplayedSetting, text: str) -> SideValue:
    return SideValue(text, count=setting.setting.count, examples=tuple(setting.setting.evidence))
