"""Colours of whole lines of the list: the first rule whose filter matches an exchange colours its line.

Colours repeat facts that the line states in words, as everywhere in the UI. They are colours of the theme, so they are
legible in every theme.
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
    """A rule of the configuration file.

    :ivar filter: matches the exchanges to colour; empty to drop the default rule of the same name
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
"""The default rules, which rules of the same names in the configuration file replace."""


@dataclass(frozen=True, slots=True)
class RowColors:
    """Rules; the first match decides.

    :ivar rules: filters with their colours
    """

    rules: tuple[tuple[Filter, str], ...]

    @classmethod
    def of(cls, own: Mapping[str, RowColor]) -> RowColors:
        """Return a user's rules, followed by the default rules with other names."""
        rules: Iterable[RowColor] = {
            **own,
            **{name: rule for name, rule in USUAL.items() if name not in own},
        }.values()
        return cls(tuple((compile_filter(rule.filter), rule.color) for rule in rules if rule.filter))

    def color(self, exchange: Exchange, context: Context, faults: Faults) -> str:
        """Return the colour of an exchange's line, empty for that of plain text."""
        return next((color for wanted, color in self.rules if wanted.fits(exchange, context, faults)), "")
