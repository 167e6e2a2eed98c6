"""Commands on exchanges: marks, comments, and output as text, files and pictures."""

from __future__ import annotations

from kproxy.copy_as.formats import Format, by_name
from kproxy.copy_as.request import CannotCopyError
from kproxy.session import Priority
from kproxy.session.response_pairs import PairError, response_pair
from kproxy.tui.clipboard import copy
from kproxy.tui.detail.field_formats import field_formats
from kproxy.tui.dialogs.comment import CommentDialog
from kproxy.tui.dialogs.comparison import recorded_comparison
from kproxy.tui.dialogs.copy import CopyDialog, making, taking
from kproxy.tui.dialogs.write import WriteDialog
from kproxy.tui.files import save_screenshot
from kproxy.tui.main.part import Part, work


class ExchangeCommands(Part):
    """Commands on the exchange under the cursor, or on the marked ones."""

    @work("noting")
    async def action_mark_toggle(self) -> None:
        """Mark or unmark the exchange under the cursor; move to the next."""
        number = self.number
        if number is None:
            return
        await self.session.mark([number])
        self.session.summaries.want([number])
        if self.exchanges.list.has_focus:
            self.exchanges.list.action_move(1)

    @work("noting")
    async def action_mark_only(self) -> None:
        """Show only marked exchanges, or all again."""
        status = self.session.status
        if not status.marked_only and not status.marked:
            self.report("nothing is marked: m marks the exchange under the cursor")
            return
        await self.session.set_marked_only(not status.marked_only)

    @work("noting")
    async def action_mark_clear(self) -> None:
        await self.session.unmark_all()
        if self.session.status.marked_only:
            await self.session.set_marked_only(False)

    @work("comparing", exclusive=True)
    async def action_compare_responses(self) -> None:
        """Compare the responses of two marked exchanges, or the one under the cursor with the previous of its kind."""
        marked, number = self.session.marked, self.number
        numbers = (
            tuple(marked) if len(marked) == 2 else tuple({*marked, *([] if number is None else [number])})
        )
        if not numbers or len(numbers) > 2:
            self.report("mark two exchanges (m), or none to compare with the last response of this kind")
            return
        try:
            pair = await self.session.run(lambda access: response_pair(access, numbers), Priority.LOOK)
        except PairError as error:
            self.report(str(error))
            return
        self.screen.app.push_screen(recorded_comparison(pair, self.session.zone))

    @work("noting", asks=True)
    async def action_comment_edit(self, text: str = "") -> None:
        number = self.number
        if number is None:
            return
        if not text:
            exchange = await self.session.exchange(number)
            written = await self.screen.app.push_screen_wait(CommentDialog(number, exchange.note.comment))
            if written is None:
                return
            text = written
        await self.session.comment(number, text)
        self.session.summaries.want([number])
        self.exchanges.outdate_details()

    @work("output", exclusive=True, asks=True)
    async def action_copy_as(self, form: str = "") -> None:
        """Copy text selected with the mouse, else the selected record's value, else the exchange under the cursor.

        :param form: name of a format for the exchange; if empty, ask for one
        """
        selected = self.screen.get_selected_text()
        if selected and not form:
            self.report((await copy(self.app, selected)).message)
            self.screen.clear_selection()
            return
        from kproxy.tui.views.records import Records

        view = self.screen.view
        if isinstance(view, Records) and not form:
            value = await view.value()
            self.report(
                "there is no value to copy" if value is None else (await copy(self.app, value)).message
            )
            return
        number = self.number
        if number is None:
            self.report("no exchange to copy")
            return
        if not form:
            done = await self.screen.app.push_screen_wait(
                CopyDialog(self.session, [number], self._of_field())
            )
            if done is not None:
                self.report(done)
            return
        try:
            chosen = by_name(form)
            exchanges = await self.session.run(taking([number]), Priority.LOOK)
            text = await self.session.run(making(chosen, exchanges, self.session), Priority.LOOK)
        except (LookupError, CannotCopyError) as error:
            self.report(str(error))
            return
        self.report((await copy(self.app, text)).message)

    def _of_field(self) -> list[Format]:
        """Return the copy formats of the field under the cursor; empty if the focus is elsewhere."""
        details, focused = self.exchanges.details, self.screen.focused
        field = details.selected_field
        if field is None or focused is None or details not in focused.ancestors:
            return []
        return field_formats(field)

    @work("output", exclusive=True, asks=True)
    async def action_write_selection(self, path: str = "") -> None:
        number = self.number
        dialog = WriteDialog(self.session, [] if number is None else [number], path)
        done = await self.screen.app.push_screen_wait(dialog)
        if done is not None:
            self.report(done)
            self.kproxy.note(done)

    @work("output", exclusive=True)
    async def action_app_screenshot(self, path: str = "") -> None:
        try:
            written = await save_screenshot(self.app, path)
        except OSError as error:
            self.report(f"{error.filename or path} cannot be written: {error.strerror}")
        else:
            self.report(f"the screen was written to {written}")
