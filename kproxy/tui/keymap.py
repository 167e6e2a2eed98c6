"""The keys of commands: the defaults of the command table, and the changes of the configuration file.

A keymap applies as a whole or not at all: half of one could put a key on a command that its user does not expect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.binding import Binding, InvalidBinding
from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character

from captures.filters.errors import did_you_mean
from kproxy.tui.commands import BY_NAME, COMMANDS, Command, Scope

UNBOUND = "unbound"
"""A key that no terminal sends, for commands without a key: Textual's keymaps cannot express that."""

SAME_IN_TERMINALS = {
    "ctrl+h": "backspace",
    "ctrl+i": "tab",
    "ctrl+j": "enter",
    "ctrl+m": "enter",
    "ctrl+left_square_bracket": "escape",
}
"""Keys that most terminals send as another key."""

RESERVED = {
    "tab": "goes to the next pane",
    "shift+tab": "goes to the pane before",
    "escape": "goes back",
    "ctrl+p": "opens the command palette",
    "ctrl+q": "quits",
    "ctrl+c": "copies selected text",
}
"""Keys that cannot be assigned to a command, except its default keys."""

_MODIFIERS = ("ctrl+", "shift+", "alt+", "super+", "hyper+", "meta+")
_NAMED = {key.value for key in Keys if not key.value.startswith("<")} | set(KEY_NAME_REPLACEMENTS.values())
_AROUND: dict[Scope, tuple[Scope, ...]] = {
    **dict.fromkeys(Scope, (Scope.SCREEN,)),
    Scope.SCREEN: (),
    # these contain tables
    Scope.LATENCY: (Scope.TABLE, Scope.SCREEN),
    Scope.FAULTS: (Scope.TABLE, Scope.SCREEN),
    Scope.GROUPS: (Scope.TABLE, Scope.TIMELINE, Scope.FACTS, Scope.SCREEN),
    # a line takes all other keys as text
    Scope.TYPING: (),
    Scope.SEARCHING: (Scope.TYPING,),
}

Keymap = dict[str, str]
"""Keys in Textual's notation, separated by commas, by command name."""


def keymap(changes: Mapping[str, str]) -> tuple[Keymap, list[str]]:
    """Return the keymap for ``App.set_keymap``, and the problems of the changes.

    :param changes: keys by command, as in the configuration file
    :return: the keymap is empty if there is any problem
    """
    keys: Keymap = {}
    problems = []
    for name, written in changes.items():
        if name not in BY_NAME:
            hint = did_you_mean(name, BY_NAME) or "? shows the names of all commands"
            problems.append(f"ui.keys.{name}: there is no such command ({hint})")
            continue
        try:
            keys[name] = _normalised(written, BY_NAME[name]) or UNBOUND
        except ValueError as error:
            problems.append(f"ui.keys.{name}: {error}")
    problems += _clashes(keys)
    return ({}, problems) if problems else (keys, [])


def keys_of(command: Command, changes: Mapping[str, str]) -> list[str]:
    """Return the keys of a command in Textual's notation.

    :param changes: the active keymap
    """
    keys = changes.get(command.name, command.keys)
    return keys.split(",") if keys and keys != UNBOUND else []


def held_in(scope: Scope) -> Iterator[Command]:
    """Yield the commands available while a place has the focus, its own first."""
    for held in (scope, *_AROUND[scope]):
        yield from (command for command in COMMANDS if command.scope is held)


def _normalised(written: str, command: Command) -> str:
    """Return the keys of a command in Textual's notation, separated by commas.

    :raises ValueError: if a key does not exist or cannot be used
    """
    if not written.strip():
        return ""
    try:
        keys = [binding.key for binding in Binding.make_bindings([Binding(written, "")])]
    except InvalidBinding:
        raise ValueError("a key is missing beside a comma; the comma itself is called comma") from None
    for key in keys:
        if other := SAME_IN_TERMINALS.get(key):
            raise ValueError(f"most terminals send {other} for {key}")
        if (does := RESERVED.get(key)) and key not in keys_of(command, {}):
            raise ValueError(f"{key} {does}, everywhere")
        if not _is_key(key):
            raise ValueError(f"there is no key {key!r}; keys are written x, X, f5, ctrl+x, pageup, slash ...")
    return ",".join(keys)


def _is_key(key: str) -> bool:
    while key.startswith(_MODIFIERS):
        key = key.partition("+")[2]
    return key in _NAMED or key_to_character(key) is not None


def _clashes(changes: Keymap) -> list[str]:
    """Return a problem for each pair of commands with the same key at one place, except pairs of the command table."""
    problems = []
    reported = set()
    for scope in Scope:
        used: dict[str, Command] = {}
        for command in held_in(scope):
            for key in keys_of(command, changes):
                other = used.setdefault(key, command)
                pair = frozenset((command.name, other.name))
                meant = key in keys_of(command, {}) and key in keys_of(other, {})
                if other is not command and not meant and pair not in reported:
                    reported.add(pair)
                    changed, standard = (other, command) if other.name in changes else (command, other)
                    problems.append(
                        f"ui.keys.{changed.name}: {key} is the key of {standard.name} ({standard.title}) too;"
                        f' give that another one, or none: "{standard.name}" = ""'
                    )
    return problems
