"""The commands of the control socket for rules and holds (docs/ctl.md, docs/faults.md)."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from captures.interventions import Change
from dissectors.sides import Side
from kproxy.proxy.control import MOST_LINE, Command, CommandError, parameters
from kproxy.proxy.rules.errors import EditError

if TYPE_CHECKING:
    from kproxy.proxy.rules.holds import Holds
    from kproxy.proxy.rules.inspection import Inspection

_MOST_SHOWN = MOST_LINE // 4 * 3 - 4096
"""Bytes of the largest held frame that is shown: its base64 has to fit into a line to return edited."""


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    rule: str
    force: bool = False


class _Which(msgspec.Struct, forbid_unknown_fields=True):
    number: int | Literal["all"]


class _WhichRule(msgspec.Struct, forbid_unknown_fields=True):
    number: int | str


class _Number(msgspec.Struct, forbid_unknown_fields=True):
    number: int


class _Filter(msgspec.Struct, forbid_unknown_fields=True):
    filter: str | None
    side: Side | None = None


class _Edit(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    changes: dict[str, Any] | None = None
    body: dict[str, Any] | None = None
    frame: str | None = None


def commands(inspection: Inspection) -> dict[str, Command]:
    """Return commands by name; each takes its parameters and raises :class:`CommandError`."""
    rules, holds = inspection.rules, inspection.holds

    def list_rules(_: dict[str, Any]) -> dict[str, Any]:
        return {"rules": rules.to_json()}

    def add_rule(values: dict[str, Any]) -> dict[str, Any]:
        given = parameters(values, _Rule)
        return {"number": _tried(lambda: rules.add(given.rule, force=given.force))}

    def remove_rule(values: dict[str, Any]) -> dict[str, Any]:
        number = parameters(values, _WhichRule).number
        if number == "all":
            return {"removed": rules.clear()}
        _tried(lambda: rules.remove(number))
        return {"removed": 1}

    def list_holds(_: dict[str, Any]) -> dict[str, Any]:
        return holds.to_json()

    def set_hold(values: dict[str, Any]) -> dict[str, Any]:
        given = parameters(values, _Filter)
        if given.filter is None:
            holds.clear_filter(given.side)
            return {"side": given.side}
        text = given.filter if given.side is None else f"{given.side}: {given.filter}"
        return {"side": _tried(lambda: holds.set_filter(text))}

    def release(values: dict[str, Any]) -> dict[str, Any]:
        number = parameters(values, _Which).number
        if number == "all":
            return {"released": holds.release_all()}
        _tried(lambda: holds.release(number))
        return {"released": 1}

    def kill(values: dict[str, Any]) -> dict[str, Any]:
        number = parameters(values, _Number).number
        _tried(lambda: holds.kill(number))
        return {"killed": 1}

    def edit(values: dict[str, Any]) -> dict[str, Any]:
        given = parameters(values, _Edit)
        if sum(one is not None for one in (given.changes, given.body, given.frame)) != 1:
            raise CommandError("give one of changes, body and frame")
        data = None if given.frame is None else _bytes(given.frame)
        changed = _tried(lambda: holds.edit(given.number, changes=given.changes, body=given.body, data=data))
        return {"changed": [_change(change) for change in changed]}

    return {
        "rules": list_rules,
        "add_rule": add_rule,
        "remove_rule": remove_rule,
        "holds": list_holds,
        "held": partial(_held, holds),
        "set_hold": set_hold,
        "release": release,
        "kill": kill,
        "edit": edit,
    }


def _held(holds: Holds, values: dict[str, Any]) -> dict[str, Any]:
    """Return a held frame, and the request if it is a response."""
    number = parameters(values, _Number).number
    frame = _tried(lambda: holds.frame(number))
    asked = frame.request
    size = len(frame.data) + (0 if asked is None else len(asked.data))
    if size > _MOST_SHOWN:
        raise CommandError(f"frame {number} has {size:,} bytes, and {_MOST_SHOWN:,} can be shown")
    return {
        "number": number,
        "side": frame.side,
        "api_key": frame.api_key,
        "version": frame.version,
        "frame": b64encode(frame.data).decode(),
        "response_to": None if asked is None else b64encode(asked.data).decode(),
    }


def _tried(do: Callable[[], Any]) -> Any:
    """Return the result of `do`; the user's mistakes become CommandErrors."""
    try:
        return do()
    except (LookupError, EditError) as error:
        raise CommandError(str(error)) from None
    except ValueError as error:
        # a FilterError renders its position; importing the class would import all code for rules
        render = getattr(error, "render", None)
        raise CommandError(str(error) if render is None else render()) from None


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise CommandError(f"a frame is written in base64: {error}") from None


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "sent": change.sent, "got": change.got}
