"""Marks and comments."""

from __future__ import annotations

from textual import work

from kproxy.tui.dialogs.comment import CommentDialog
from kproxy.tui.main.base import MainScreenBase


class Noting(MainScreenBase):
    """The commands of the main screen that note something of exchanges."""

    @work(group="noting")
    async def action_mark_toggle(self) -> None:
        """Mark the exchange under the cursor, or take its mark away; go on to the next."""
        number = self.number
        if number is None:
            return
        await self.session.mark([number])
        self.session.summaries.want([number])
        if self.exchanges.list.has_focus:
            self.exchanges.list.action_list_down()

    @work(group="noting")
    async def action_mark_only(self) -> None:
        """Show only what is marked, or again all that fits the filter."""
        status = self.session.status
        if not status.marked_only and not status.marked:
            self.tell("nothing is marked: m marks the exchange under the cursor")
            return
        await self.session.set_marked_only(not status.marked_only)

    @work(group="noting")
    async def action_mark_clear(self) -> None:
        """Take all marks away."""
        await self.session.unmark_all()
        if self.session.status.marked_only:
            await self.session.set_marked_only(False)

    @work(group="noting")
    async def action_comment_edit(self, text: str = "") -> None:
        """Comment on the exchange under the cursor."""
        number = self.number
        if number is None:
            return
        if not text:
            exchange = await self.session.exchange(number)
            written = await self.app.push_screen_wait(CommentDialog(number, exchange.note.comment))
            if written is None:
                return
            text = written
        await self.session.comment(number, text)
        self.session.summaries.want([number])
        self.exchanges.outdate_details()
