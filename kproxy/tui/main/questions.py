"""Questions about everything that was captured: they are asked, and their answers shown."""

from __future__ import annotations

from kproxy.session import questions
from kproxy.session.engine import ClosedError
from kproxy.session.questions import AnswerStyle, Question, QuestionError, answer
from kproxy.tui.dialogs.answer import AnswerDialog
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.main.part import Part, work
from kproxy.tui.widgets.table_rows import MOST_WIDTH

_MARGIN = 6
"""Columns that the box around an answer takes."""


class Questions(Part):
    """Asks, and shows answers."""

    @work("question", exclusive=True, asks=True)
    async def action_question_journey(self, text: str = "") -> None:
        """Tell the way of a record."""
        text = text or await self._asked_for(
            "Which record? TOPIC-PARTITION@OFFSET, such as orders-3@120", "journey"
        )
        if text:
            await self._ask(questions.journey, text, f"journey of {text}")

    @work("question", exclusive=True)
    async def action_question_party(self, text: str = "") -> None:
        """Tell everything that a client did: the one of the exchange under the cursor, if none is named."""
        if not text and self.number is not None:
            exchange = await self.session.exchange(self.number)
            text = exchange.client_id or exchange.client
        if text:
            await self._ask(questions.party, text, f"story of {text}")

    @work("question", exclusive=True)
    async def action_question_config(self, text: str = "") -> None:
        """Tell the settings of clients."""
        await self._ask(questions.config, text, f"settings of {text or 'all clients'}")

    @work("question", exclusive=True, asks=True)
    async def action_question_compat(self, text: str = "") -> None:
        """Tell what a broker of another release would make of the clients."""
        text = text or await self._asked_for("Which release of the broker? Such as 4.3", "compatibility")
        if text:
            await self._ask(questions.compat, text, f"with Kafka {text}")

    @work("question", exclusive=True, asks=True)
    async def action_question_diff(self, text: str = "") -> None:
        """Tell what differs from another capture, or between two times of this one."""
        text = text or await self._asked_for(
            "Differences from which capture? Or two times: A..B C..D", "differences"
        )
        if text:
            await self._ask(questions.diff, text, f"differences from {text}")

    async def _asked_for(self, question: str, title: str) -> str:
        return await self.screen.app.push_screen_wait(Prompt(question, title=title)) or ""

    async def _ask(self, question: Question, text: str, title: str) -> None:
        self.tell(f"{title}: reading …")
        asked = AnswerStyle(self.session.zone, min(max(self.screen.size.width - _MARGIN, 20), MOST_WIDTH))
        try:
            found = await self.session.run(answer(question, text, asked))
        except QuestionError as error:
            self.tell(str(error))
            return
        except ClosedError:  # the session ends, and the screen with it
            return
        self.tell("")
        number = await self.screen.app.push_screen_wait(AnswerDialog(title, found))
        if number is not None:
            self.screen.show_view("exchanges")
            self.screen.go_to(number)
