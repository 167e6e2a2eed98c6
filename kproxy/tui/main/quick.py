"""Quick filters: made of the field, or the exchange, under the cursor."""

from __future__ import annotations

from textual import work

from captures.filters import Context
from kproxy.tui.dialogs.quick_filter import QuickFilterDialog
from kproxy.tui.main.narrowing import Narrowing
from kproxy.tui.quick_filters import QuickFilter, combined, of_exchange, of_field
from kproxy.tui.session import Access, Priority


class Quick(Narrowing):
    """The command behind ``!``."""

    @work(group="filter", exclusive=True)
    async def action_filter_quick(self) -> None:
        """Offer filters of what is selected."""
        number = self.number
        if number is None:
            self.tell("there is no exchange to make a filter of")
            return
        details = self.exchanges.details
        focused = self.focused
        in_fields = focused is not None and details in focused.ancestors
        field = details.selected_field if in_fields else None

        def make(access: Access) -> list[QuickFilter]:
            exchange = access.exchange(number)
            context = Context(access.reader.knowledge.topic_name)
            if field is not None:
                return of_field(field.path, field.value, exchange, context)
            return of_exchange(exchange, context)

        try:
            offers = await self.session.run(make, Priority.LOOK)
        except LookupError as error:
            self.tell(str(error))
            return
        present = self.filter_text
        chosen = await self.app.push_screen_wait(QuickFilterDialog(offers, present))
        if chosen is not None:
            offer, use = chosen
            self.use_filter(combined(present, offer.text, use))
