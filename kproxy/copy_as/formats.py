"""The table of formats, and those in which kproxy itself shows exchanges: JSON, lines, trees, a filter, a diagram."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from io import BytesIO

from captures.exchanges import Capture, Exchange
from captures.exchanges.broker_logs import Lack
from captures.export.jsonlines import write_json_lines
from captures.export.mermaid import SequenceDiagram
from captures.meaning import words
from captures.packets.joined_source import JoinedSource
from dissectors.sides import SIDES, Side
from kproxy.copy_as import kcat, python_source, tools
from kproxy.copy_as.frames import base64, hex_dump, raw_hex
from kproxy.copy_as.request import CannotCopyError, rendered
from kproxy.copy_as.shell import Command
from kproxy.text.lines import Lines
from kproxy.text.tree import exchange_tree


@dataclass(frozen=True, slots=True)
class Context:
    """What a format may need in addition to the exchanges.

    :ivar capture: of the exchanges
    :ivar zone: time zone, None for local time
    :ivar show_secrets: whether the exchanges were read with their secrets
    """

    capture: Capture
    zone: tzinfo | None = None
    show_secrets: bool = False


@dataclass(frozen=True, slots=True)
class Format:
    """A format in which exchanges can be copied.

    :ivar name: on the command line
    :ivar title: a few words, for a menu
    :ivar suffix: of a file with such text
    :ivar make: makes the text; raises :class:`CannotCopyError`
    :ivar exists: returns whether the format applies to an exchange
    """

    name: str
    title: str
    suffix: str
    make: Callable[[Sequence[Exchange], Context], str]
    exists: Callable[[Exchange], bool] = lambda _: True

    def text(self, exchanges: Sequence[Exchange], context: Context) -> str:
        """Return exchanges in this format, without those that it does not apply to.

        :param exchanges: annotated
        :raises CannotCopyError: if they cannot be copied: the format applies to none of them, they contain secrets, or
            bytes are missing
        """
        there = [exchange for exchange in exchanges if self.exists(exchange)]
        if not there:
            raise CannotCopyError(f"{self.title}: this does not apply to {_subject(exchanges)}")
        return self.make(there, context)


def _subject(exchanges: Sequence[Exchange]) -> str:
    if len(exchanges) != 1:
        return "these exchanges"
    return exchanges[0].title


def _json_lines(exchanges: Sequence[Exchange], _: Context) -> str:
    """Return an object per line, as ``kproxy read --json --text`` prints it."""
    out = BytesIO()
    write_json_lines(exchanges, out, text=True)
    return out.getvalue().decode()


def _lines(exchanges: Sequence[Exchange], context: Context, *, trees: bool = False) -> str:
    """Return a line for each, as ``kproxy read`` prints it to a pipe, without column names.

    :param trees: whether every field is below it, as with ``-V``
    """
    form = Lines(None, context.zone)
    form.fit(list(exchanges))
    lines: list[str] = []
    for exchange in exchanges:
        lines += [form.line(exchange), *(exchange_tree(exchange) if trees else ())]
    return "".join(f"{line}\n" for line in lines)


def _filter(exchanges: Sequence[Exchange], _: Context) -> str:
    numbers = words.runs(exchange.number for exchange in exchanges)
    if len(exchanges) == 1:
        return f"number == {numbers[0]}\n"
    return f"number in {{{', '.join(numbers).replace('-', '..')}}}\n"


def _mermaid(exchanges: Sequence[Exchange], context: Context) -> str:
    diagram = SequenceDiagram()
    diagram.add(context.capture, exchanges)
    return "".join(f"{line}\n" for line in diagram.lines())


_OneFrame = Callable[..., str]


def _frames(
    make: _OneFrame, sides: Sequence[Side], between: str = ""
) -> Callable[[Sequence[Exchange], Context], str]:
    """Return a function that puts one frame after the other."""

    def text(exchanges: Sequence[Exchange], context: Context) -> str:
        return between.join(
            make(exchange, side, show_secrets=context.show_secrets)
            for exchange in exchanges
            for side in sides
            if _has(side, exchange)
        )

    return text


def _has(side: Side, exchange: Exchange) -> bool:
    return bool(exchange.size(side))


def _encoded(name: str, title: str, suffix: str, make: _OneFrame) -> Iterator[Format]:
    """Yield the formats of a request's and of a response's bytes."""
    for side in SIDES:
        text = _frames(make, [side])
        yield Format(f"{side}-{name}", f"{side} as {title}", suffix, text, partial(_has, side))


def _has_message(side: Side, exchange: Exchange) -> bool:
    return exchange.body(side) is not None


def _script(side: Side) -> Callable[[Sequence[Exchange], Context], str]:
    def text(exchanges: Sequence[Exchange], context: Context) -> str:
        if len(exchanges) > 1:
            raise CannotCopyError("a script builds one message: choose one exchange")
        return python_source.script(exchanges[0], side, show_secrets=context.show_secrets)

    return text


def _commands(
    make: Callable[[Exchange], Sequence[Command]], tls: str
) -> Callable[[Sequence[Exchange], Context], str]:
    def text(exchanges: Sequence[Exchange], context: Context) -> str:
        encrypted = any(exchange.connection in context.capture.decryption.tls for exchange in exchanges)
        return rendered([(exchange, make(exchange)) for exchange in exchanges], tls=tls if encrypted else "")

    return text


def _has_command(make: Callable[[Exchange], Sequence[Command]], exchange: Exchange) -> bool:
    return any(command.words for command in make(exchange))


def _wireshark(exchanges: Sequence[Exchange], context: Context) -> str:
    """Return a display filter of Wireshark for the packets of exchanges."""
    from captures.export.packets import packet_numbers

    source = context.capture.source
    if Lack.PACKETS in context.capture.notes.broker_logs.lacks:
        raise CannotCopyError("a request log has no packets")
    if source.live or isinstance(source, JoinedSource):
        raise CannotCopyError("packets are numbered by file: write the exchange to a file of its own (w)")
    numbers = packet_numbers(context.capture, [each.row for each in exchanges])
    if not numbers:
        raise CannotCopyError("its bytes are in no packet as they are: they were decrypted or joined")
    return f"frame.number in {{{', '.join(map(str, numbers))}}}\n"


FORMATS = (
    Format("json", "JSON", ".jsonl", _json_lines),
    Format("tree", "tree of fields", ".txt", partial(_lines, trees=True)),
    Format("line", "line of the list", ".txt", _lines),
    Format("hexdump", "hex dump with text", ".txt", _frames(hex_dump, SIDES, "\n")),
    *_encoded("hex", "hex", ".hex", raw_hex),
    *_encoded("base64", "base64", ".b64", base64),
    Format("filter", "filter that shows it", ".txt", _filter),
    Format("wireshark", "Wireshark filter of packets", ".txt", _wireshark),
    Format("mermaid", "Mermaid diagram", ".mmd", _mermaid),
    Format(
        "kcat",
        "kcat command",
        ".sh",
        _commands(kcat.commands, kcat.TLS),
        partial(_has_command, kcat.commands),
    ),
    Format(
        "kafka",
        "command of Kafka's tools",
        ".sh",
        _commands(tools.commands, tools.TLS),
        partial(_has_command, tools.commands),
    ),
    Format(
        "python", "Python, builds the request", ".py", _script("request"), partial(_has_message, "request")
    ),
    Format(
        "python-response",
        "Python, builds the response",
        ".py",
        _script("response"),
        partial(_has_message, "response"),
    ),
)
"""All formats, in the order of a menu."""

_BY_NAME = {each.name: each for each in FORMATS}


def by_name(name: str) -> Format:
    """Return a format.

    :raises LookupError: if there is none of that name
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise LookupError(f"there is no format {name!r}; there are {', '.join(_BY_NAME)}") from None


def formats_of(exchanges: Sequence[Exchange]) -> list[Format]:
    """Return the formats that apply to at least one of the exchanges."""
    return [each for each in FORMATS if any(map(each.exists, exchanges))]
