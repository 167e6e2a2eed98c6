"""The output of ``kproxy clients``: a table of clients, and their settings in the notation of configuration files."""

from __future__ import annotations

from collections.abc import Iterator

from captures.analysis.clients.inventory import Client
from captures.analysis.clients.libraries import Library
from captures.analysis.clients.setting_display import DisplayedSetting
from captures.analysis.clients.settings import ValueSource
from captures.meaning import words
from captures.names import Names
from kproxy.output import style
from kproxy.text.blocks import Line
from kproxy.text.tables import Column, Table

_UNKNOWN = "?"


def client_table(found: list[Client], names: Names) -> Table:
    """The clients, one per row, those with the most exchanges first."""
    unknown = sum(client.library is None for client in found)
    about = words.counted(len(found), "client")
    if unknown:
        about += f", the library of {unknown:,} is not known"
    return Table.of(
        "Clients",
        found,
        [
            (Column("client", least=12), lambda client: words.line(client.name)),
            (Column("library", least=12), lambda client: words.line(str(client.library or _UNKNOWN))),
            (Column("known", rank=4), lambda client: _known(client.library)),
            (Column("role", rank=5), lambda client: words.line(", ".join(client.roles))),
            (Column("principal", rank=2), lambda client: words.some(map(words.line, client.principals))),
            (
                Column("address", least=9, rank=1),
                lambda client: words.some(_named(client.hosts, names)),
            ),
            (Column("brokers", right=True, rank=7), lambda client: f"{len(client.brokers):,}"),
            (Column("connections", right=True, rank=6), lambda client: f"{client.connections:,}"),
            (Column("exchanges", right=True, rank=3), lambda client: f"{client.exchanges:,}"),
        ],
        about=about,
        below=_below,
    )


def _known(library: Library | None) -> str:
    return "" if library is None else "told" if library.announced else "guess"


def shown_settings(client: Client, *, changed: bool) -> list[DisplayedSetting]:
    """Return the settings of a client to be shown.

    :param changed: leave out settings that were not seen, and defaults of the release
    """
    if not changed:
        return client.settings
    return [each for each in client.settings if _differs_from_default(each)]


def _differs_from_default(shown: DisplayedSetting) -> bool:
    """Return whether a setting is not, or may not be, the default; a bound without a known default proves nothing."""
    if shown.setting.how is ValueSource.NOT_SEEN or shown.changed is False:
        return False
    return bool(shown.changed) or not shown.setting.at_least


def properties(client: Client, names: Names, *, changed: bool) -> Iterator[str]:
    """Yield the settings of a client as lines of a properties file, each after a comment with its source."""
    about = [
        _library_text(client.library),
        words.line(", ".join(client.roles)) or "neither producer nor consumer",
        words.some(_named(client.hosts, names)),
        *map(words.line, client.principals),
        f"{words.counted(client.connections, 'connection')}, {words.counted(client.exchanges, 'exchange')}",
    ]
    title = f"# {words.line(client.name)}"
    yield f"{style(title, bold=True)}  {'; '.join(filter(None, about))}"
    if client.library is not None and not client.library.announced:
        yield style(f"# the library is a guess: {words.line(client.library.why)}", dim=True)
    settings = shown_settings(client, changed=changed)
    if not settings:
        text = "# nothing was seen that is not the default" if changed else "# no settings"
        yield style(text, dim=True)
    for each in settings:
        # on its own line: after a value, a comment is part of the value in properties
        numbers = each.setting.evidence
        yield Line(style(f"# {_remark(each)}", dim=True), numbers[0] if numbers else None)
        if each.danger:
            yield style(f"# ! {each.danger}", fg="yellow")
        line = f"{each.name}={words.line(each.text)}"
        yield line if _is_set(each) else f"#{line}"


def _is_set(shown: DisplayedSetting) -> bool:
    """Return whether there is a value that a configuration could contain."""
    setting = shown.setting
    return setting.how is not ValueSource.NOT_SEEN and setting.value is not None and not setting.at_least


def _below(client: Client) -> list[str]:
    library, below = client.library, []
    if library is not None and _differs(client):
        below.append(f"software: {words.line(', '.join(client.software))}")
    if library is not None and not library.announced:
        below.append(f"guessed from: {words.line(library.why)}")
    return below


def _differs(client: Client) -> bool:
    """Return whether the client states more than the library: a binding, or several releases."""
    return bool(client.software) and client.software != [str(client.library)]


def _named(hosts: list[str], names: Names) -> list[str]:
    return [next(iter(names.of(host)), host) for host in hosts]


def _library_text(library: Library | None) -> str:
    if library is None:
        return "library not known"
    text = words.line(str(library))
    return text if library.announced else f"{text} (guess)"


def _remark(shown: DisplayedSetting) -> str:
    """Return how a setting is known, from which exchanges, and its default."""
    setting = shown.setting
    parts = [setting.how.value]
    if setting.how is ValueSource.READ:
        if setting.value is None:
            parts[0] = "read: not set"
        if setting.evidence:
            parts.append(_exchanges(shown))
    elif setting.how is ValueSource.ESTIMATED:
        parts[0] = "estimated, as a lower bound" if setting.at_least else parts[0]
        parts.append(setting.note)
        parts.append(_exchanges(shown))
    else:
        parts.append(setting.note)
    if shown.other_values:
        others = (f"{words.line(text) or 'not set'} ({count:,})" for text, count in shown.other_values)
        parts.append(f"also {', '.join(others)}")
    if shown.default is not None and (shown.changed or setting.at_least):
        parts.append(f"default {shown.default or 'not set'}")
    return "; ".join(filter(None, parts))


def _exchanges(shown: DisplayedSetting) -> str:
    numbers = shown.setting.evidence
    if not numbers:
        return ""
    more = " …" if shown.setting.count > len(numbers) else ""
    return f"exchange{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}{more}"
