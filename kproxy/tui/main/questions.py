"""Questions about the whole capture, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from captures.payloads.payload import SchemaError
from kproxy.session import Priority, questions
from kproxy.session.engine import ClosedError
from kproxy.session.questions import AnswerStyle, Question, QuestionError, answer
from kproxy.tui.dialogs.answer import AnswerDialog
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.main.part import Part, work
from kproxy.tui.widgets.table_rows import MOST_WIDTH

_MARGIN = 6
"""Columns taken by the box around an answer."""


class Questions(Part):
    """Commands that ask a question and show the answer."""

    @work("question", exclusive=True, asks=True)
    async def action_question_journey(self, text: str = "") -> None:
        """Show the journey of a record; by default of the one under the cursor."""
        text = text or await self._record_under_cursor()
        which = "Which record? TOPIC-PARTITION@OFFSET, such as orders-3@120"
        await self._ask_until_known(questions.journey, text, "journey of", which)

    @work("question", exclusive=True)
    async def action_question_party(self, text: str = "") -> None:
        """Show everything that a client did; by default the client of the exchange under the cursor."""
        if not text and self.number is not None:
            exchange = await self.session.exchange(self.number)
            text = exchange.client_id or exchange.client
        if text:
            self.report(await self._ask(questions.party, text, f"story of {text}"))

    @work("question", exclusive=True)
    async def action_question_config(self, text: str = "") -> None:
        self.report(await self._ask(questions.config, text, f"settings of {text or 'all clients'}"))

    @work("question", exclusive=True, asks=True)
    async def action_question_compat(self, text: str = "") -> None:
        """Show how a broker of another release would treat the clients."""
        which = "Which release of the broker? Such as 4.3"
        await self._ask_until_known(questions.compat, text, "compatibility with Kafka", which)

    @work("question", exclusive=True, asks=True)
    async def action_question_diff(self, text: str = "") -> None:
        """Show the differences from another capture, or between two time ranges of this one."""
        which = "Differences from which capture? Or two times: A..B C..D"
        await self._ask_until_known(questions.diff, text, "differences from", which)

    @work("question", exclusive=True, asks=True)
    async def action_records_schema(self, text: str = "") -> None:
        """Decode the values of records with a schema."""
        from kproxy.tui.views.records import Records

        view = await self.screen.mounted_view(Records.view_name)
        assert isinstance(view, Records)

        async def decode(text: str) -> str:
            try:
                await asyncio.to_thread(view.read_by, text)
            except SchemaError as error:
                return str(error)
            return ""

        which = "Decode values with which schema?\n[TOPIC=]FILE[:MESSAGE], or the URL of a schema registry"
        if await self._until_accepted(decode, text, "schema", which):
            await self.screen.show_view(Records.view_name)

    async def _record_under_cursor(self) -> str:
        """Return the name of the selected record, empty if none is selected or its offset is unknown."""
        from kproxy.tui.views.records import Records, record_at

        view, details, number = self.screen.view, self.exchanges.details, self.number
        if isinstance(view, Records):
            return view.selected.name if view.selected is not None and view.selected.located else ""
        field, focused = details.selected_field, self.screen.focused
        if field is None or number is None or focused is None or details not in focused.ancestors:
            return ""
        path = field.path
        try:
            record = await self.session.run(lambda access: record_at(access, number, path), Priority.LOOK)
        except ClosedError:
            return ""
        return "" if record is None or record.offset is None else record.name

    async def _ask_until_known(self, question: Question, text: str, title: str, which: str) -> None:
        """Ask a question about `text`; ask for a text if it is empty or there is no answer.

        :param which: the prompt for the text
        """

        async def ask(text: str) -> str:
            return await self._ask(question, text, f"{title} {text}")

        await self._until_accepted(ask, text, title.split()[0], which)

    async def _until_accepted(
        self, attempt: Callable[[str], Awaitable[str]], text: str, title: str, which: str
    ) -> bool:
        """Ask for a text as long as it is empty or `attempt` returns a problem; return False after escape.

        :param which: the prompt for the text
        """
        problem = ""
        while not text or (problem := await attempt(text)):
            self.report("")
            prompt = Prompt(which, text, title=title, problem=problem)
            typed = await self.screen.app.push_screen_wait(prompt)
            if not typed:
                return False
            text = typed
        return True

    async def _ask(self, question: Question, text: str, title: str) -> str:
        """Show the answer to a question; return why there is none, empty if there is one."""
        self.report(f"{title}: reading …")
        asked = AnswerStyle(self.session.zone, min(max(self.screen.size.width - _MARGIN, 20), MOST_WIDTH))
        try:
            found = await self.session.run(answer(question, text, asked))
        except QuestionError as error:
            return str(error)
        except ClosedError:  # the session is closing, and the screen with it
            return ""
        self.report("")
        number = await self.screen.app.push_screen_wait(AnswerDialog(title, found))
        if number is not None:
            self.screen.go_to(number)
        return ""
