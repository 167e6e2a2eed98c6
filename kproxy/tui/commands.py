"""The table of all commands of the UI.

Bindings, footer, command palette, help screen, the ``:`` line and the reference in docs/ui.md are generated from it,
and the configuration file remaps keys by its names. A command runs the method ``action_<name>`` of the place it belongs
to, with dots as underscores: ``mark.toggle`` runs ``action_mark_toggle``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from textual.binding import Binding


class Scope(StrEnum):
    """Where a command is available: everywhere on the main screen, or only while a widget has the focus."""

    SCREEN = "everywhere"
    LIST = "list of exchanges"
    TREE = "field tree"
    BYTES = "bytes"
    TABLE = "tables of views"
    CONVERSATION = "conversation"
    LATENCY = "latency"
    GROUPS = "groups"
    TIMELINE = "timeline of a group"
    FACTS = "facts and stories"
    FAULTS = "holds and faults"
    TYPING = "lines to type in"
    SEARCHING = "search line"


class Effect(Enum):
    """What a command does beyond showing: only write a file, change live traffic at once, or other things."""

    NONE = auto()
    FILE = auto()
    TRAFFIC = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    :ivar name: ``group.verb``; the name in the configuration file, and the binding's id
    :ivar keys: default keys in Textual's notation, separated by commas; empty for none
    :ivar title: one or two words, for the footer and the palette
    :ivar doc: a sentence, for help
    :ivar scope: where it is available
    :ivar show: whether the footer shows it
    :ivar argument: its argument on the ``:`` line, empty for none; without the argument the command asks for it
    :ivar line: its name on the ``:`` line, empty for commands that make no sense there
    :ivar effect: what it does beyond showing
    :ivar call: Textual's action with its arguments, if commands share a method: ``move(-1)``; else it has their name
    """

    name: str
    keys: str
    title: str
    doc: str
    scope: Scope = Scope.SCREEN
    show: bool = False
    argument: str = ""
    line: str = ""
    effect: Effect = Effect.NONE
    call: str = ""

    @property
    def group(self) -> str:
        """Its subject: the part of the name before the dot."""
        return self.name.partition(".")[0]

    @property
    def action(self) -> str:
        """Its action, as Textual's bindings have it."""
        return self.call or self.name.replace(".", "_")

    @property
    def method(self) -> str:
        """The name of the method that carries it out."""
        return f"action_{self.action.partition('(')[0]}"


_S, _L, _T, _B, _V = Scope.SCREEN, Scope.LIST, Scope.TREE, Scope.BYTES, Scope.TABLE


def _moves(group: str, scope: Scope, noun: str, whole: str = "") -> Iterator[Command]:
    """Yield the commands that move a cursor among things called `noun`; `whole` says whose, if more exist than shown."""
    yield Command(f"{group}.down", "down,j", "down", f"The next {noun}.", scope, call="move(1)")
    yield Command(f"{group}.up", "up,k", "up", f"The previous {noun}.", scope, call="move(-1)")
    yield Command(
        f"{group}.page_down", "pagedown,space,ctrl+f", "page down", "A page down.", scope, call="move_page(1)"
    )
    yield Command(f"{group}.page_up", "pageup,ctrl+b", "page up", "A page up.", scope, call="move_page(-1)")
    yield Command(f"{group}.top", "home,g", "top", f"The first {noun}{whole}.", scope, call="move_to_first")
    yield Command(
        f"{group}.bottom", "end,G", "bottom", f"The last {noun}{whole}.", scope, call="move_to_last"
    )


COMMANDS: tuple[Command, ...] = (
    Command("help.show", "question_mark,f1", "help", "Show keys, and the filter language.", show=True, line="help"),
    Command("command.line", "colon", "command", "Type a command, with completion."),
    Command("app.quit", "q", "quit", "Quit; asks first if that ends a proxy.", line="quit"),
    Command("app.quit_now", "Q", "quit now", "Quit at once, without a question.", line="quit!"),
    Command("app.events", "E", "events", "Show notices, warnings and errors so far.", line="events"),
    Command("app.theme", "", "theme", "Choose the colours.", argument="NAME", line="theme"),
    Command("app.screenshot", "ctrl+s", "screenshot", "Write the screen to an SVG file.", argument="[FILE]", line="screenshot", effect=Effect.FILE),
    # ---- views
    Command("view.exchanges", "1", "exchanges", "The list of exchanges.", show=False, line="exchanges"),
    Command("view.connections", "2", "connections", "TCP connections: endpoints, traffic, problems, how they ended.", line="connections"),
    Command("view.clients", "3", "clients", "Clients: software, addresses, API versions they use.", line="clients"),
    Command("view.topics", "4", "topics", "Topics and partitions: who produces, who fetches, rates, lag.", line="topics"),
    Command("view.records", "R", "records", "Records: keys, values and headers of the records shown.", line="records"),
    Command("view.groups", "5", "groups", "Groups: members, rebalances and what caused them.", line="groups"),
    Command("view.latency", "6", "latency", "Latency: distribution, and over time.", line="latency"),
    Command("view.errors", "7", "errors", "Errors: what they mean, and what the client did next.", line="errors"),
    Command("view.conversation", "8", "conversation", "A sequence diagram of the exchanges shown.", line="conversation"),
    Command("view.faults", "9", "holds, faults", "Live: held messages, fault rules, forwarding.", line="faults"),
    Command("view.findings", "0", "findings", "Findings: what is wrong, the evidence, and what to do.", line="findings"),
    Command("view.incidents", "W", "incidents", "Incidents: what happened, and what followed from it.", line="incidents"),
    # ---- what is shown
    Command("filter.edit", "f", "filter", "Type a filter; all views show what matches.", show=True, argument="[FILTER]", line="filter"),
    Command("filter.clear", "c", "clear filter", "Clear the filter.", line="clear"),
    Command("filter.toggle", "t", "filter on/off", "Switch the filter off or on.", line="toggle"),
    Command("filter.quick", "exclamation_mark", "quick filter", "Make a filter from the selected field or exchange: only this, hide this.", show=True),
    Command("filter.save", "", "save filter", "Save the filter under a name: @NAME, here and in commands.", argument="NAME", line="save"),
    Command("search.start", "slash", "search", "Search in the list, the tree or the bytes: text, /expression/ or 0xHEX.", show=True, argument="[TEXT]", line="search"),
    Command("search.next", "n", "next match", "Go to the next match."),
    Command("search.previous", "N", "previous match", "Go to the previous match."),
    Command("follow.toggle", "F", "follow", "Follow the newest exchange; moving away stops it.", show=True, line="follow"),
    Command("mark.toggle", "m", "mark", "Mark or unmark the exchange.", show=True, line="mark"),
    Command("mark.only", "M", "marked only", "Show only marked exchanges that match the filter.", line="marked"),
    Command("mark.clear", "U", "unmark all", "Remove all marks.", line="unmark"),
    Command("comment.edit", "semicolon", "comment", "Comment on the exchange.", argument="[TEXT]", line="comment"),
    Command("goto.number", "ctrl+g", "go to", "Go to an exchange by its number.", argument="NUMBER", line="goto"),
    Command("order.choose", "o", "order", "Sort the list by a column.", argument="[COLUMN]", line="order"),
    Command("order.reverse", "v", "reverse", "Reverse the order.", line="reverse"),
    Command("columns.edit", "C", "columns", "Choose, order and resize the columns of the list.", line="columns"),
    Command("rows.colors", "percent_sign", "colours", "Switch the colours of the list's lines on or off.", line="colors"),
    Command("columns.profile", "", "profile", "Use a saved set of columns, or save this one.", argument="NAME", line="profile"),
    # ---- holds and faults
    Command("hold.filter", "i", "hold", "Live: hold messages that match a filter.", argument="[FILTER]", line="hold", effect=Effect.OTHER),
    Command("hold.toggle", "I", "hold on/off", "Live: switch holding off or on.", line="holding", effect=Effect.TRAFFIC),
    Command("hold.release", "a", "release", "Live: release the selected held message.", line="release", effect=Effect.TRAFFIC),
    Command("hold.release_all", "A", "release all", "Live: release all held messages.", line="release-all", effect=Effect.TRAFFIC),
    Command("hold.kill", "X", "kill", "Live: close the connection of the held message.", line="kill", effect=Effect.TRAFFIC),
    Command("hold.edit", "e", "edit", "Live: edit the held message, then release it.", line="edit", effect=Effect.OTHER),
    Command("forward.pause", "P", "pause", "Live: hold every request; press it again to release them.", line="pause", effect=Effect.TRAFFIC),
    Command("forward.toggle", "O", "forwarding", "Live: switch forwarding off or on.", line="forwarding", effect=Effect.TRAFFIC),
    Command("proxy.brokers", "", "brokers", "Live: the brokers: what they advertise, where clients find them, whether they can be reached.", line="brokers"),
    Command("rule.add", "plus", "add rule", "Live: add a fault rule, FILTER => ACTION.", Scope.FAULTS, show=True, argument="RULE", line="rule", effect=Effect.OTHER),
    Command("rule.remove", "delete,d", "remove rule", "Live: remove the selected fault rule.", Scope.FAULTS, show=True, effect=Effect.TRAFFIC),
    Command("replay.start", "r", "replay", "Send the request, or all marked ones, to a broker again, and compare the responses.", argument="[BROKER]", line="replay", effect=Effect.OTHER),
    Command("recorder.keep", "K", "keep moment", "Live: make the flight recorder keep the traffic around this moment.", line="keep", effect=Effect.OTHER),
    Command("compare.responses", "equals_sign", "compare", "Compare two responses field by field: those of the two marked exchanges, or this one and the previous one of its kind.", line="compare"),
    # ---- getting things out
    Command("write.selection", "w", "write", "Write the shown or marked exchanges to a file: pcapng, JSON, CSV, Parquet, Mermaid.", show=True, argument="[FILE]", line="write", effect=Effect.FILE),
    Command("copy.as", "x", "copy", "Copy as JSON, text, hex, a command line, Python.", show=True, argument="[FORMAT]", line="copy"),
    # ---- questions
    Command("question.journey", "J", "journey", "The journey of a record through the cluster: TOPIC-PARTITION@OFFSET.", argument="RECORD", line="journey"),
    Command("question.party", "S", "story", "Everything that a client did on all its connections: that of the exchange, or one by its ID.", argument="[CLIENT]", line="story"),
    Command("question.config", "", "settings", "The settings of clients, as far as their requests reveal them.", argument="[CLIENT]", line="config"),
    Command("question.compat", "", "compatibility", "What a broker of another release would refuse or serve in older versions.", argument="RELEASE", line="compat"),
    Command("question.diff", "", "differences", "Differences from another capture, or between two time ranges of this one: FILE, or A..B C..D.", argument="FILE", line="diff", effect=Effect.OTHER),
    Command("records.schema", "", "schema", "Decode record values with an Avro or Protobuf schema from a file or a schema registry.", argument="[TOPIC=]FILE or URL", line="schema", effect=Effect.OTHER),
    # ---- layout
    Command("layout.cycle", "minus", "layout", "Switch to the next arrangement of the panes.", line="layout"),
    Command("layout.maximise", "backslash", "maximise", "Maximise the focused pane, or restore it.", line="maximise"),
    Command("footer.toggle", "H", "footer", "Show or hide the line of keys.", line="footer"),
    # ---- the list
    *_moves("list", _L, "exchange"),
    Command("list.left", "left,h", "left", "Scroll columns that do not fit.", _L, call="scroll_sideways(-1)"),
    Command("list.right", "right,l", "right", "Scroll columns that do not fit.", _L, call="scroll_sideways(1)"),
    Command("list.enter", "enter", "fields", "Go to the fields of the exchange.", _L, show=True),
    # ---- the tree
    *_moves("tree", _T, "field"),
    Command("tree.enter", "enter", "unfold", "Unfold or fold the field; on a leaf, go to its bytes.", _T, show=True),
    Command("tree.unfold", "right,l", "unfold", "Unfold the field, or go into it.", _T),
    Command("tree.fold", "left,h", "fold", "Fold the field, or go to its parent.", _T),
    Command("tree.unfold_all", "asterisk", "unfold all", "Unfold everything below the field.", _T),
    Command("tree.column", "plus", "add as column", "Show the field as a column of the list.", _T, show=True),
    Command("tree.next_exchange", "right_square_bracket", "next exchange", "The next exchange, without leaving the tree.", _T, call="step_exchange(1)"),
    Command("tree.previous_exchange", "left_square_bracket", "previous exchange", "The previous exchange.", _T, call="step_exchange(-1)"),
    # ---- the bytes
    Command("bytes.down", "down,j", "down", "A line down.", _B, call="move(1)"),
    Command("bytes.up", "up,k", "up", "A line up.", _B, call="move(-1)"),
    Command("bytes.left", "left,h", "left", "The previous byte.", _B, call="move_bytes(-1)"),
    Command("bytes.right", "right,l", "right", "The next byte.", _B, call="move_bytes(1)"),
    Command("bytes.page_down", "pagedown,space,ctrl+f", "page down", "A page down.", _B, call="move_page(1)"),
    Command("bytes.page_up", "pageup,ctrl+b", "page up", "A page up.", _B, call="move_page(-1)"),
    Command("bytes.top", "home,g", "top", "The first byte.", _B, call="move_to_first"),
    Command("bytes.bottom", "end,G", "bottom", "The last byte.", _B, call="move_to_last"),
    Command("bytes.enter", "enter", "field", "Go to the field that this byte belongs to.", _B, show=True),
    Command("bytes.tab", "right_square_bracket", "next bytes", "The next buffer: the frame, decompressed batches.", _B, show=True, call="step_buffer(1)"),
    Command("bytes.previous_tab", "left_square_bracket", "previous bytes", "The previous buffer.", _B, call="step_buffer(-1)"),
    # ---- tables of views
    *_moves("table", _V, "row"),
    Command("table.left", "left,h", "left", "Scroll columns that do not fit.", _V),
    Command("table.right", "right,l", "right", "Scroll columns that do not fit.", _V),
    Command("table.enter", "enter", "exchanges", "Show the exchanges of the row.", _V, show=True),
    Command("table.sort", "o,greater_than_sign", "sort", "Sort by the next column; after the last, restore the original order.", _V, show=True, call="sort(1)"),
    Command("table.sort_back", "less_than_sign", "sort back", "Sort by the previous column.", _V, call="sort(-1)"),
    Command("table.reverse", "v", "reverse", "Reverse the order.", _V),
    Command("table.unfold", "u", "unfold", "Show the parts of the row, such as the partitions of a topic.", _V),
    # ---- groups
    Command("group.members", "b", "members", "Show members instead of rebalances, and back.", Scope.GROUPS, show=True, line="members"),
    Command("timeline.earlier", "left,h", "earlier", "The previous rebalance.", Scope.TIMELINE, call="move(-1)"),
    Command("timeline.later", "right,l", "later", "The next rebalance.", Scope.TIMELINE, call="move(1)"),
    Command("timeline.first", "home,g", "first", "The first rebalance.", Scope.TIMELINE, call="move_to_first"),
    Command("timeline.last", "end,G", "last", "The latest rebalance.", Scope.TIMELINE, call="move_to_last"),
    Command("timeline.up", "up,k", "up", "Scroll the members up.", Scope.TIMELINE, call="scroll_members(-1)"),
    Command("timeline.down", "down,j", "down", "Scroll the members down.", Scope.TIMELINE, call="scroll_members(1)"),
    Command("timeline.zoom_in", "z,plus", "zoom in", "Show less time around the rebalance.", Scope.TIMELINE, show=True, call="zoom(1)"),
    Command("timeline.zoom_out", "Z", "zoom out", "Show more time.", Scope.TIMELINE, show=True, call="zoom(-1)"),
    Command("timeline.whole", "asterisk", "all", "Show all the time.", Scope.TIMELINE, show=True, call="zoom(0)"),
    Command("timeline.pan_earlier", "less_than_sign,shift+left,pageup", "pan back", "Show earlier times.", Scope.TIMELINE, call="pan(-1)"),
    Command("timeline.pan_later", "greater_than_sign,shift+right,pagedown", "pan on", "Show later times.", Scope.TIMELINE, call="pan(1)"),
    Command("timeline.enter", "enter", "exchange", "Show the exchange that began the rebalance.", Scope.TIMELINE, show=True),
    Command("reference.previous", "left,h", "previous", "The previous exchange or incident that the text names.", Scope.FACTS, call="choose(-1)"),
    Command("reference.next", "right,l", "next", "The next exchange or incident that the text names.", Scope.FACTS, call="choose(1)"),
    Command("reference.enter", "enter", "go to", "Go to the exchange or incident that the text names.", Scope.FACTS, show=True),
    # ---- conversation
    *_moves("conversation", Scope.CONVERSATION, "line", " of the conversation"),
    Command("conversation.left", "left,h", "left", "Scroll participants that do not fit.", Scope.CONVERSATION, call="scroll_sideways(-1)"),
    Command("conversation.right", "right,l", "right", "Scroll participants that do not fit.", Scope.CONVERSATION, call="scroll_sideways(1)"),
    Command("conversation.enter", "enter", "go to", "Go to the exchange in the list; on repeats, unfold them.", Scope.CONVERSATION, show=True),
    Command("conversation.unfold", "u", "unfold", "Unfold or fold repeated exchanges.", Scope.CONVERSATION, show=True),
    Command("conversation.unfold_all", "asterisk", "unfold all", "Unfold or fold all repeated exchanges.", Scope.CONVERSATION),
    Command("conversation.connection", "s", "connection", "Show only the connection of this line, or all.", Scope.CONVERSATION, show=True),
    Command("conversation.participants", "p", "who", "Choose the clients and brokers that are shown.", Scope.CONVERSATION, show=True),
    Command("conversation.follow", "F", "follow", "Follow the newest exchange; moving away stops it.", Scope.CONVERSATION, show=True),
    # ---- latency
    Command("latency.slower", "up,k", "slower", "The range of latencies above.", Scope.LATENCY, call="move(1, 0)"),
    Command("latency.faster", "down,j", "faster", "The range of latencies below.", Scope.LATENCY, call="move(-1, 0)"),
    Command("latency.slowest", "home,g", "slowest", "The slowest range.", Scope.LATENCY, call="move(1000, 0)"),
    Command("latency.fastest", "end,G", "fastest", "The fastest range.", Scope.LATENCY, call="move(-1000, 0)"),
    Command("latency.earlier", "left,h", "earlier", "The previous slice of time; before the first, the whole time.", Scope.LATENCY, call="move(0, -1)"),
    Command("latency.later", "right,l", "later", "The next slice of time.", Scope.LATENCY, call="move(0, 1)"),
    Command("latency.page_earlier", "pageup,ctrl+b", "ten earlier", "Ten slices of time back.", Scope.LATENCY, call="move(0, -10)"),
    Command("latency.page_later", "pagedown,space,ctrl+f", "ten later", "Ten slices of time forward.", Scope.LATENCY, call="move(0, 10)"),
    Command("latency.enter", "enter", "exchanges", "Show the exchanges of this range and time.", Scope.LATENCY, show=True),
    Command("latency.longest", "s", "slowest", "Go to the slowest exchange of the row.", Scope.LATENCY, show=True, line="slowest"),
    Command("latency.by", "b", "by", "Group latencies by API, by broker or by client.", Scope.LATENCY, show=True, line="by"),
    Command("latency.waiting", "d", "waiting", "Count designed waiting as latency, such as that of a Fetch for records, or leave it out.", Scope.LATENCY, show=True, line="waiting"),
    Command("latency.lines", "p", "percentiles", "Draw percentiles over time, or counts.", Scope.LATENCY, show=True, line="percentiles"),
    # ---- lines to type in
    Command("typing.accept", "tab", "take", "Accept the completion.", Scope.TYPING, show=True),
    Command("typing.down", "down", "next", "The next completion or history entry.", Scope.TYPING),
    Command("typing.up", "up", "previous", "The previous completion or history entry.", Scope.TYPING),
    Command("typing.page_down", "pagedown", "page down", "A page down in the completions.", Scope.TYPING, call="page(1)"),
    Command("typing.page_up", "pageup", "page up", "A page up in the completions.", Scope.TYPING, call="page(-1)"),
    Command("typing.close", "escape", "close", "Close the completions, then the line.", Scope.TYPING, show=True),
    Command("typing.deep", "ctrl+t", "all fields", "Search in every field and in the bytes of exchanges, not only in what the list shows.", Scope.SEARCHING, show=True),
)  # fmt: skip
"""All commands, in the order of help."""

BY_NAME = {command.name: command for command in COMMANDS}
BY_ACTION = {command.action: command for command in COMMANDS}
BY_LINE = {command.line: command for command in COMMANDS if command.line}


def of(scope: Scope) -> Iterator[Command]:
    """Yield the commands of a place."""
    return (command for command in COMMANDS if command.scope is scope)


def bindings(scope: Scope) -> list[Binding]:
    """Return the bindings of a place, for the ``BINDINGS`` of the class that implements its actions."""
    return [
        Binding(
            command.keys,
            command.action,
            command.title,
            show=command.show,
            tooltip=command.doc,
            id=command.name,
        )
        for command in of(scope)
        if command.keys
    ]
