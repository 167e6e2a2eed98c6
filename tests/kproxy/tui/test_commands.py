"""The table of commands: properties of all commands, and their execution where the table says."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from textual.widget import Widget

from kproxy.tui.commands import BY_LINE, BY_NAME, COMMANDS, Command, Scope, bindings
from kproxy.tui.keymap import RESERVED, SAME_IN_TERMINALS, keymap, keys_of
from kproxy.tui.main.part import Part
from kproxy.tui.main.screen import MainScreen
from kproxy.tui.views import all as views
from kproxy.tui.views.conversation import ConversationView
from kproxy.tui.views.exchanges import Exchanges
from kproxy.tui.views.faults import Faults
from kproxy.tui.views.groups import Groups
from kproxy.tui.views.latency import LatencyView
from kproxy.tui.widgets.byte_view import ByteView
from kproxy.tui.widgets.exchange_list import ExchangeList
from kproxy.tui.widgets.fact_text import FactText
from kproxy.tui.widgets.field_tree import FieldTree
from kproxy.tui.widgets.group_picture import GroupPicture
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.search_bar import SearchBar
from kproxy.tui.widgets.typing_line import TypingLine

pytestmark = pytest.mark.quick

CLASSES: dict[Scope, type[Widget]] = {
    Scope.SCREEN: MainScreen,
    Scope.LIST: ExchangeList,
    Scope.TREE: FieldTree,
    Scope.BYTES: ByteView,
    Scope.TABLE: RowTable,
    Scope.CONVERSATION: ConversationView,
    Scope.LATENCY: LatencyView,
    Scope.GROUPS: Groups,
    Scope.TIMELINE: GroupPicture,
    Scope.FACTS: FactText,
    Scope.FAULTS: Faults,
    Scope.TYPING: TypingLine,
    Scope.SEARCHING: SearchBar,
}

SHADOWS = {
    ("conversation.follow", "follow.toggle"),
    ("table.sort", "order.choose"),
    ("table.reverse", "order.reverse"),
}
"""Local commands that have the key of a global command, because they mean the same there."""

VIEWS = {Exchanges.view_name, *views.CLASSES, Faults.view_name}

every_command = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def test_every_place_has_a_class() -> None:
    assert set(CLASSES) == set(Scope)


@every_command
def test_a_command_is_carried_out_at_its_place(command: Command) -> None:
    if command.group == "view":
        assert command.name.removeprefix("view.") in VIEWS
        return
    parts = Part.__subclasses__() if command.scope is Scope.SCREEN else []
    assert len([kind for kind in (CLASSES[command.scope], *parts) if hasattr(kind, command.method)]) == 1


@pytest.mark.parametrize("place", Scope, ids=lambda place: place.name)
def test_the_class_of_a_place_has_its_keys(place: Scope) -> None:
    bound = {binding.id for binding in CLASSES[place].BINDINGS if not isinstance(binding, tuple)}
    assert {command.name for command in COMMANDS if command.scope is place and command.keys} <= bound


@every_command
def test_names_and_explanations_have_their_form(command: Command) -> None:
    assert re.fullmatch(r"[a-z]+\.[a-z_]+", command.name)
    assert re.fullmatch(r"[A-Z@].*[^ ]\.", command.doc), "an explanation is a sentence"
    assert command.title
    assert not command.title.endswith(".")
    assert re.fullmatch(r"[a-z-]*!?", command.line)
    assert command.line or not command.argument, "what has an argument can be typed"


def test_names_are_unique() -> None:
    assert len(BY_NAME) == len(COMMANDS)
    assert len(BY_LINE) == len([command for command in COMMANDS if command.line])


@every_command
def test_default_keys_exist_and_arrive(command: Command) -> None:
    kept = {} if command.scope is Scope.TYPING else RESERVED  # input lines use tab and escape
    assert not {*kept, *SAME_IN_TERMINALS} & set(keys_of(command, {}))
    if command.keys:
        assert keymap({command.name: command.keys}) == ({command.name: command.keys}, [])


@pytest.mark.parametrize("place", Scope, ids=lambda place: place.name)
def test_no_two_commands_of_a_place_share_a_key(place: Scope) -> None:
    keys = Counter(key for command in COMMANDS if command.scope is place for key in keys_of(command, {}))
    assert [key for key, count in keys.items() if count > 1] == []


def test_keys_that_hold_everywhere_mean_the_same_everywhere() -> None:
    everywhere = {
        key: command for command in COMMANDS if command.scope is Scope.SCREEN for key in keys_of(command, {})
    }
    shadowed = {
        (command.name, everywhere[key].name)
        for command in COMMANDS
        if command.scope is not Scope.SCREEN
        for key in keys_of(command, {})
        if key in everywhere
    }
    assert shadowed <= SHADOWS


@pytest.mark.parametrize("place", Scope, ids=lambda place: place.name)
def test_bindings_are_those_of_the_table(place: Scope) -> None:
    for binding in bindings(place):
        command = BY_NAME[str(binding.id)]
        assert (binding.key, binding.action, binding.tooltip) == (command.keys, command.action, command.doc)
