"""The parts of the main screen: objects, each with the commands about one thing.

The screen offers their methods ``action_<name>`` as actions of its own, and passes them the messages that are theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from textual.app import App
from textual.worker import Worker

from kproxy.session import Session

if TYPE_CHECKING:
    from kproxy.tui.app import KproxyApp
    from kproxy.tui.main.screen import MainScreen
    from kproxy.tui.views.exchanges import Exchanges

_P = ParamSpec("_P")
_Self = TypeVar("_Self", bound="Part")


class Part:
    """Commands that belong together.

    :ivar screen: the main screen, on which they show and ask
    """

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen

    @property
    def session(self) -> Session:
        """What is looked at."""
        return self.screen.session

    @property
    def app(self) -> App[Any]:
        """The application, for Textual's own methods."""
        return self.screen.app

    @property
    def kproxy(self) -> KproxyApp:
        """The application."""
        return self.screen.kproxy

    @property
    def exchanges(self) -> Exchanges:
        """The list with the details."""
        return self.screen.exchanges

    @property
    def number(self) -> int | None:
        """The exchange under the cursor of the list, None if there is none."""
        return self.screen.number

    def tell(self, message: str) -> None:
        """Show a message for a while; it may hold what came from the wire."""
        self.screen.tell(message)


def work(
    group: str, *, exclusive: bool = False, asks: bool = False, confirms: bool = False
) -> Callable[
    [Callable[Concatenate[_Self, _P], Coroutine[Any, Any, None]]],
    Callable[Concatenate[_Self, _P], Worker[None]],
]:
    """Have a method carried out by a worker of the screen, as :func:`textual.work` does for widgets.

    :param exclusive: end other work of the group first
    :param asks: whether it begins with a dialog unless it is given arguments: what is typed next is for that
    :param confirms: whether it may begin with a question
    """

    def decorate(
        method: Callable[Concatenate[_Self, _P], Coroutine[Any, Any, None]],
    ) -> Callable[Concatenate[_Self, _P], Worker[None]]:
        @wraps(method)
        def start(self: _Self, /, *args: _P.args, **kwargs: _P.kwargs) -> Worker[None]:
            worker: Worker[None] = self.screen.run_worker(
                partial(method, self, *args, **kwargs), method.__name__, group, exclusive=exclusive
            )
            asked = asks and not args and not kwargs
            if asked or confirms:
                self.kproxy.typed_keys.wait_for_dialog(worker, surely=asked)
            return worker

        return start

    return decorate
