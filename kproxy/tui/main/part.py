"""Parts of the main screen: objects with the commands of one subject.

The screen offers their methods ``action_<name>`` as its own actions, and passes them their messages.
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
    """Commands of one subject.

    :ivar screen: the main screen, which they act on
    """

    def __init__(self, screen: MainScreen) -> None:
        self.screen = screen

    @property
    def session(self) -> Session:
        return self.screen.session

    @property
    def app(self) -> App[Any]:
        """The application, for Textual's own methods."""
        return self.screen.app

    @property
    def kproxy(self) -> KproxyApp:
        return self.screen.kproxy

    @property
    def exchanges(self) -> Exchanges:
        """The view with the list and the details."""
        return self.screen.exchanges

    @property
    def number(self) -> int | None:
        """Number of the exchange under the list's cursor, None if there is none."""
        return self.screen.number

    def report(self, message: str) -> None:
        """Show a message for some seconds; it may contain text from the wire."""
        self.screen.report(message)


def work(
    group: str, *, exclusive: bool = False, asks: bool = False, confirms: bool = False
) -> Callable[
    [Callable[Concatenate[_Self, _P], Coroutine[Any, Any, None]]],
    Callable[Concatenate[_Self, _P], Worker[None]],
]:
    """Run a method in a worker of the screen, as :func:`textual.work` does for widgets.

    :param exclusive: cancel other workers of the group first
    :param asks: whether it starts with a dialog unless it gets arguments; keys typed next are for the dialog
    :param confirms: whether it may start with a question
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
