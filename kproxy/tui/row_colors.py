"""Colours of whole lines of the list: the first rule whose filter an exchange fits gives its line a colour.

Colours repeat what the line says in words, as everywhere in the UI. They are those of the theme, so that they are
legible in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from captures.exchanges import Exchange
from captures.faults import Faults
from captures.filters import Context, Filter, compile_filter

Color = Literal["error", "warning", "success", "primary", "secondary", "accent", "muted"]
COLORS: tuple[str, ...] = get_args(Color)


class RowColor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule, as the configuration file states it.

    :ivar filter: what it is for; empty to drop the usual rule of that name
    :ivar color: of the theme
    """

    filter: str = ""
    color: Color = "accent"


USUAL: Mapping[str, RowColor] = {
    "errors": RowColor("error and not expected", "error"),
    "lost": RowColor("unanswered or damaged or problem", "error"),
    "changed": RowColor("kproxy", "secondary"),
    "slow": RowColor("excess > 100ms", "warning"),
    "rebalance": RowColor("api in {JoinGroup, SyncGroup, LeaveGroup}", "accent"),
    "transactions": RowColor(
        "api in {InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn}", "primary"
    ),
    "connecting": RowColor("api in {ApiVersions, SaslHandshake, SaslAuthenticate, FindCoordinator}", "muted"),
    "idle": RowColor("api == Heartbeat or (api == Fetch and not records > 0)", "muted"),
}
"""The rules that are there unless the configuration file has others of their names."""


@dataclass(frozen=True, slots=True)
class RowColors:
    """Rules, the first that fits first.

    :ivar rules: filters with their colours
    """

    rules: tuple[tuple[Filter, str], ...]

    @classmethod
    def of(cls, own: Mapping[str, RowColor]) -> RowColors:
        """Return the rules of a user, in front of the usual ones of other names."""
        rules: Iterable[RowColor] = {
            **own,
            **{name: rule for name, rule in USUAL.items() if name not in own},
        }.values()
        return cls(tuple((compile_filter(rule.filter), rule.color) for rule in rules if rule.filter))

    def color(self, exchange: Exchange, context: Context, faults: Faults) -> str:
        """Return the colour of the line of an exchange, empty for that of plain text."""
        return next((color for wanted, color in self.rules if wanted.fits(exchange, context, faults)), "")
