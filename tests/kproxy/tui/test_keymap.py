"""Keys changed by the configuration file: errors, and Textual's handling of a keymap."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from kproxy.tui.commands import BY_NAME, Scope, bindings
from kproxy.tui.keymap import UNBOUND, held_in, keymap, keys_of


@pytest.mark.parametrize(
    ("written", "keys"),
    [
        ("f2", "f2"),
        ("@, _", "at,underscore"),
        ("ctrl+x, D", "ctrl+x,D"),
        ("alt+shift+up", "alt+shift+up"),
        ("alt+q", "alt+q"),
        ("ctrl+backslash", "ctrl+backslash"),
        ("comma", "comma"),
        ("é", "é"),
        ("", UNBOUND),
    ],
)
def test_keys_as_they_are_written(written: str, keys: str) -> None:
    assert keymap({"mark.toggle": written}) == ({"mark.toggle": keys}, [])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"mark.togle": "f2"}, "ui.keys.mark.togle: there is no such command (did you mean mark.toggle"),
        ({"mark.toggle": "ctrl+i"}, "ui.keys.mark.toggle: most terminals send tab for ctrl+i"),
        ({"mark.toggle": "tab"}, "ui.keys.mark.toggle: tab goes to the next pane, everywhere"),
        ({"mark.toggle": "f99"}, "ui.keys.mark.toggle: there is no key 'f99'; keys are written"),
        ({"mark.toggle": "ctrl+"}, "ui.keys.mark.toggle: there is no key 'ctrl+'"),
        ({"mark.toggle": "a,,b"}, "ui.keys.mark.toggle: a key is missing beside a comma"),
        (
            {"mark.toggle": "f"},
            "ui.keys.mark.toggle: f is the key of filter.edit (filter) too; give that another",
        ),
        ({"list.down": "f"}, "ui.keys.list.down: f is the key of filter.edit (filter) too"),
        ({"rule.add": "u"}, "ui.keys.rule.add: u is the key of table.unfold (unfold) too"),
        ({"list.down": "s", "list.up": "s"}, "ui.keys.list.down: s is the key of list.up (up) too"),
    ],
)
def test_what_is_refused(changes: dict[str, str], problem: str) -> None:
    keys, problems = keymap({"mark.only": "f3", **changes})
    assert keys == {}
    assert [text[: len(problem)] for text in problems] == [problem]


def test_keys_may_be_swapped() -> None:
    changes = {"mark.toggle": "f", "filter.edit": "m"}
    assert keymap(changes) == (changes, [])


def test_a_key_may_be_taken_from_another_command() -> None:
    assert keymap({"mark.toggle": "f", "filter.edit": ""})[1] == []


def test_places_that_do_not_overlap_may_share_a_key() -> None:
    assert keymap({"list.down": "s", "tree.down": "s"})[1] == []


def test_the_keys_of_a_command() -> None:
    toggle = BY_NAME["mark.toggle"]
    assert keys_of(toggle, {}) == ["m"]
    assert keys_of(toggle, {"mark.toggle": "f2,f3"}) == ["f2", "f3"]
    assert keys_of(toggle, {"mark.toggle": UNBOUND}) == []
    assert keys_of(BY_NAME["app.theme"], {}) == []


def test_what_holds_at_a_place_begins_with_its_own() -> None:
    places = list(dict.fromkeys(command.scope for command in held_in(Scope.FAULTS)))
    assert places == [Scope.FAULTS, Scope.TABLE, Scope.SCREEN]


def test_the_defaults_do_not_clash() -> None:
    assert keymap({}) == ({}, [])


class Pane(Static, can_focus=True):
    """Performs the actions of the list."""

    BINDINGS = bindings(Scope.LIST)


class KeymapApp(App[None]):
    """Stores the performed actions."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS = bindings(Scope.SCREEN)

    def __init__(self, changes: dict[str, str]) -> None:
        super().__init__()
        keys, problems = keymap(changes)
        assert problems == []
        self.set_keymap(keys)
        self.done: list[str] = []

    def compose(self) -> ComposeResult:
        yield Pane("pane")

    async def run_action(self, action: object, *args: object, **options: object) -> bool:  # type: ignore[override]
        self.done.append(str(action))
        return True


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("changes", "presses", "done"),
    [
        ({}, ["m", "j", "down"], ["mark_toggle", "list_down", "list_down"]),
        ({"mark.toggle": "f", "filter.edit": "m"}, ["f", "m"], ["mark_toggle", "filter_edit"]),
        # one key instead of two, and two instead of one
        ({"list.down": "s"}, ["s", "j", "down"], ["list_down"]),
        (
            {"mark.toggle": "y,?", "help.show": "f1"},
            ["y", "?", "m", "f1"],
            ["mark_toggle"] * 2 + ["help_show"],
        ),
        ({"mark.toggle": ""}, ["m", "M"], ["mark_only"]),
    ],
)
async def test_textual_does_what_a_keymap_says(
    changes: dict[str, str], presses: list[str], done: list[str]
) -> None:
    app = KeymapApp(changes)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*presses)
        assert app.done == done
