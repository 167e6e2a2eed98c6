"""Getting things out: files, the clipboard, pictures."""

from __future__ import annotations

from textual import work

from kproxy.copying.errors import CannotCopyError
from kproxy.copying.formats import by_name
from kproxy.tui.clipboard import copy
from kproxy.tui.dialogs.copy import CopyDialog, making, taking
from kproxy.tui.dialogs.write import WriteDialog
from kproxy.tui.main.base import MainScreenBase
from kproxy.tui.screenshot import save_screenshot
from kproxy.tui.session import Priority


class Output(MainScreenBase):
    """The commands of the main screen that write or copy."""

    @work(group="output", exclusive=True)
    async def action_copy_as(self, form: str = "") -> None:
        """Copy the exchange under the cursor; text that is selected with the mouse goes before.

        :param form: name of a format; asked for if there is none
        """
        selected = self.get_selected_text()
        if selected and not form:
            self.tell((await copy(self.app, selected)).said)
            self.clear_selection()
            return
        number = self.number
        if number is None:
            self.tell("there is no exchange to copy")
            return
        if not form:
            done = await self.app.push_screen_wait(CopyDialog(self.session, [number]))
            if done is not None:
                self.tell(done)
            return
        try:
            chosen = by_name(form)
            exchanges = await self.session.run(taking([number]), Priority.LOOK)
            text = await self.session.run(making(chosen, exchanges, self.session), Priority.LOOK)
        except (LookupError, CannotCopyError) as error:
            self.tell(str(error))
            return
        self.tell((await copy(self.app, text)).said)

    @work(group="output", exclusive=True)
    async def action_write_selection(self, path: str = "") -> None:
        """Write what is shown, or marked, to a file."""
        number = self.number
        dialog = WriteDialog(self.session, [] if number is None else [number], path)
        done = await self.app.push_screen_wait(dialog)
        if done is not None:
            self.tell(done)

    @work(group="output", exclusive=True)
    async def action_app_screenshot(self, path: str = "") -> None:
        """Write the screen to an SVG file."""
        try:
            written = await save_screenshot(self.app, path)
        except OSError as error:
            self.tell(f"{error.filename or path} cannot be written: {error.strerror}")
        else:
            self.tell(f"the screen is in {written}")
