"""What a hostile file is: a name, what it attacks, and how it is made in any size."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.hostile.wire import cut
from tests.lanes.tools import CannotRun

#: yields the bytes of a file, given how many of what it has many of
Maker = Callable[[int], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile file that can be made.

    :ivar about: one line: what it attacks
    :ivar count: how many of what it has many of; 1 if it has nothing in numbers
    :ivar suffix: of the file name
    """

    name: str
    about: str
    count: int
    suffix: str
    make: Maker

    def path(self, folder: Path) -> Path:
        """Return where the file is, in a folder of such files."""
        return folder / f"{self.name}{self.suffix}"

    def write(self, folder: Path, scale: float = 1.0) -> Path:
        """Make the file.

        :param scale: how large: this part of what there is much of
        """
        path = self.path(folder)
        with path.open("wb") as file:
            for chunk in cut(self.make(max(round(self.count * scale), 1))):
                file.write(chunk)
        return path


#: by name, in the order in which they are declared
ATTACKS: dict[str, Attack] = {}


def attack(count: int = 1, suffix: str = ".pcap") -> Callable[[Maker], Maker]:
    """Declare a hostile file by the function that makes it: its name, and the first line of its docstring."""

    def declared(make: Maker) -> Maker:
        name = make.__name__.replace("_", "-")  # type: ignore[attr-defined]
        about = (make.__doc__ or "").strip().splitlines()[0]
        ATTACKS[name] = Attack(name, about, count, suffix, make)
        return make

    return declared


def written(attack: Attack, folder: Path, scale: float = 1.0) -> Path:
    """Make a file in a process of its own, so that this one stays small.

    :raises CannotRun: if it cannot be made
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
