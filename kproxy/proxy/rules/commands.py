"""The commands of the control socket for rules and holds (docs/ctl.md, docs/faults.md)."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, Literal

from captures.interventions import Change
from dissectors.sides import Side
from kproxy.proxy.control import MOST_LINE, Command, CommandError, by_name

if TYPE_CHECKING:
    from kproxy.proxy.rules.inspection import Inspection

_MOST_SHOWN = MOST_LINE // 4 * 3 - 4096
"""Bytes of the largest held frame that is shown: its base64 has to fit into a line to return edited."""


def commands(inspection: Inspection) -> dict[str, Command]:
    """Return the commands that change nothing, by name."""

    def rules() -> dict[str, Any]:
        """Return the fault rules, and how often each was applied."""
        return {"rules": inspection.rules.to_json()}

    def holds() -> dict[str, Any]:
        """Return the held messages."""
        return inspection.holds.to_json()

    def held(number: int) -> dict[str, Any]:
        """Return a held message with its bytes in base64."""
        frame = inspection.holds.frame(number)
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

    return by_name(rules, holds, held)


def changing_commands(inspection: Inspection) -> dict[str, Command]:
    """Return the commands that change something, by name."""
    rules, holds = inspection.rules, inspection.holds

    def add_rule(rule: str, *, force: bool = False) -> dict[str, Any]:
        """Add a fault rule; `force` if it matches everything."""
        return {"number": rules.add(rule, force=force)}

    def remove_rule(number: int | str) -> dict[str, Any]:
        """Remove a fault rule by its number or name, or all of them."""
        if number == "all":
            return {"removed": rules.clear()}
        rules.remove(number)
        return {"removed": 1}

    def set_hold(filter: str | None, side: Side | None = None) -> dict[str, Any]:  # noqa: A002
        """Hold messages that match a filter; hold nothing more if it is null."""
        if filter is None:
            holds.clear_filter(side)
            return {"side": side}
        return {"side": holds.set_filter(filter if side is None else f"{side}: {filter}")}

    def release(number: int | Literal["all"]) -> dict[str, Any]:
        """Release a held message, or all of them."""
        if number == "all":
            return {"released": holds.release_all()}
        holds.release(number)
        return {"released": 1}

    def kill(number: int) -> dict[str, Any]:
        """Close the connection of a held message."""
        holds.kill(number)
        return {"killed": 1}

    def edit(
        number: int,
        changes: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
        frame: str | None = None,
    ) -> dict[str, Any]:
        """Change a held message and release it: values by field path, the whole body, or the frame in base64."""
        if sum(one is not None for one in (changes, body, frame)) != 1:
            raise CommandError("give one of changes, body and frame")
        data = None if frame is None else _bytes(frame)
        changed = holds.edit(number, changes=changes, body=body, data=data)
        return {"changed": [_change(change) for change in changed]}

    return by_name(add_rule, remove_rule, set_hold, release, kill, edit)


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except binascii.Error as error:
        raise CommandError(f"a frame is written in base64: {error}") from None


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "sent": change.sent, "got": change.got}
