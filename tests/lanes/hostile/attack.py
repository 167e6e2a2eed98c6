"""Hostile files: name, target of the attack, and a generator for any size."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.hostile.wire import cut
from tests.lanes.tools import CannotRun

#: yields the bytes of a file, given the number of repeated items
Maker = Callable[[int], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile file that can be generated.

    :ivar about: one line about its content
    :ivar count: number of the repeated items; 1 if nothing is repeated
    :ivar suffix: suffix of the file name
    """

    name: str
    about: str
    count: int
    suffix: str
    make: Maker

    def path(self, folder: Path) -> Path:
        """Return the path of the file in a folder."""
        return folder / f"{self.name}{self.suffix}"

    def write(self, folder: Path, scale: float = 1.0) -> Path:
        """Generate the file.

        :param scale: factor for the number of repeated items
        """
        path = self.path(folder)
        with path.open("wb") as file:
            for chunk in cut(self.make(max(round(self.count * scale), 1))):
                file.write(chunk)
        return path


#: by name, in the order of declaration
ATTACKS: dict[str, Attack] = {}


def attack(count: int = 1, suffix: str = ".pcap") -> Callable[[Maker], Maker]:
    """Declare a hostile file by its generator, whose name and first docstring line become name and description."""

    def declared(make: Maker) -> Maker:
        name = make.__name__.replace("_", "-")  # type: ignore[attr-defined]
        about = (make.__doc__ or "").strip().splitlines()[0]
        ATTACKS[name] = Attack(name, about, count, suffix, make)
        return make

    return declared


def written(attack: Attack, folder: Path, scale: float = 1.0) -> Path:
    """Generate a file in another process, so that this one stays small.

    :raises CannotRun: if that fails
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            attack.write(folder, scale)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if status:
        raise CannotRun(f"{attack.name} could not be made")
    return attack.path(folder)
