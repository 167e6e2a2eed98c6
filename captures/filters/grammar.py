"""Tokens to a syntax tree, and the tree back to text.

::

    filter     = or
    or         = and { ("or" | "||" | "|") and }
    and        = not { ["and" | "&&" | "&"] not }          # omitted only before a short form or a selector
    not        = ("not" | "!") not | "(" or ")" | term
    term       = short form [value] | "@" selector | field [test] | text alone, in quotes or not
    test       = ("==" | "!=" | "<" | "<=" | ">" | ">=") value
               | ("~" | "matches" | "!~" | "contains") value
               | "in" "{" value { [","] value } "}"        # or ( ) ; low..high is a range of numbers
               | "not" ("in" ... | "contains" ... | "matches" ...)
               | "exists"
    field      = name { "." name ["[" index "]"] }
    value      = "quoted" | 'quoted' | bare-run-of-characters

The tree (:mod:`captures.filters.nodes`) contains what was written. :mod:`captures.filters.binding` resolves names and
values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

from captures.filters import lexer, shortforms
from captures.filters.context import MEANINGS
from captures.filters.errors import FilterError, did_you_mean
from captures.filters.fields import BY_NAME
from captures.filters.lexer import Scanner, Token, quoted
from captures.filters.nodes import (
    CONTAINS,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    MATCHES,
    And,
    Compare,
    Exists,
    FieldPresent,
    MatchAll,
    Name,
    Node,
    Not,
    OneOf,
    Or,
    Selector,
    Value,
    leaves,
)

MAX_LENGTH = 100_000
"""Maximum number of characters of a filter."""
_NEARLY = 0.88
"""Similarity to a field name (:mod:`difflib`) from which a word counts as a misspelt field."""
MAX_DEPTH = 60
"""Maximum nesting of parentheses and negations; Python's own parser allows about 90."""

_WORDS = {
    "contains": CONTAINS,
    "matches": MATCHES,
    # Wireshark's words
    "eq": EQUAL,
    "ne": "!=",
    "lt": LESS,
    "le": LESS_EQUAL,
    "gt": GREATER,
    "ge": GREATER_EQUAL,
}
OPERATOR_WORDS = (*_WORDS, "in", "exists", "not", "and", "or")
_NEGATED = {"!=": EQUAL, "!~": MATCHES}
_MISTAKES = {"=": "write == to compare", "=~": "write ~ to match", "===": "write ==", "<>": "write !="}
_MISTAKE = re.compile(r"===?|=~?|<>")
_CLOSING = {"{": "}", "(": ")"}


def parse(text: str, *, plain: bool = True) -> Node:
    """Return the syntax tree of a filter; an empty one matches everything.

    :param plain: whether a text alone is a filter, too; if not, it is an unknown field
    :raises FilterError: at the character where it stops making sense
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"a filter has at most {MAX_LENGTH} characters", text, MAX_LENGTH)
    return _Parser(text, plain).filter()


class _Parser:
    def __init__(self, text: str, plain: bool) -> None:
        self.text = text
        self._takes_plain = plain
        self.scan = Scanner(text)
        self._depth = 0

    def filter(self) -> Node:
        if self.scan.ended():
            return MatchAll()
        node = self._or()
        if not self.scan.ended():
            raise self._leftover()
        return node

    def _leftover(self) -> FilterError:
        position, length = self.scan.here()
        rest = self.text[position : position + length]
        if rest.startswith(")"):
            return self._error("this parenthesis closes nothing", position, 1)
        hint = did_you_mean(rest, OPERATOR_WORDS) or "join two conditions by and, or"
        return self._error(f"{rest!r} is not expected here", position, length, hint)

    def _error(
        self, message: str, position: int, length: int = 0, hint: str = "", **context: str
    ) -> FilterError:
        return FilterError(message, self.text, position, length, hint, **context)

    # ------------------------------------------------------------ connectives
    def _or(self) -> Node:
        items = [self._and()]
        while self.scan.take(lexer.OR, "or"):
            items.append(self._and())
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _and(self) -> Node:
        items = [self._not()]
        while self.scan.take(lexer.AND, "and") or self.scan.peek(lexer.JOINED):
            items.append(self._not())
        return items[0] if len(items) == 1 else And(tuple(items))

    def _not(self) -> Node:
        position = self.scan.skip()
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels of parentheses and negations", position, 1)
        try:
            if self.scan.take(lexer.NOT, "not"):
                return Not(self._not())
            opening = self.scan.sign("(")
            return self._group(opening) if opening else self._term()
        finally:
            self._depth -= 1

    def _group(self, opening: Token) -> Node:
        node = self._or()
        if self.scan.sign(")"):
            return node
        if self.scan.ended():
            raise self._error("this parenthesis is never closed", opening.position, 1, "add ) at the end")
        raise self._leftover()

    # ------------------------------------------------------------ terms
    def _term(self) -> Node:
        short = self.scan.take(lexer.SHORT, "short")
        if short:
            return self._short(short)
        selector = self.scan.take(lexer.SELECTOR, "selector")
        if selector:
            text = selector.text[1:]
            return MatchAll() if text == "all" else Selector(text, selector.position)
        plain = self._plain()
        if plain is not None:
            return plain
        name = self.scan.take(lexer.NAME, "name")
        if name is None:
            raise self._no_term()
        if name.text.lower() in OPERATOR_WORDS:
            hint = f"write a field before {name.text}"
            raise self._error(f"there is no field {name.text}", name.position, name.length, hint)
        after = self.scan.at
        if self.text[after : after + 1] in (".", "["):
            what = (
                "a field name is missing after the dot" if self.text[after] == "." else "[ ] holds an index"
            )
            raise self._error(what, after + 1, 0, expected="term")
        return self._test(Name(name.text, name.position))

    def _no_term(self) -> FilterError:
        position, length = self.scan.here()
        if not length:
            return self._error(
                "something is missing at the end", position, 0, "a field or ~x", expected="term"
            )
        rest = self.text[position : position + length]
        if rest.startswith("~"):
            return self._error(f"no short form {rest}", position, length, "~e, ~t orders, ~c client, ...")
        return self._error("a field is expected here", position, length)

    def _plain(self) -> Node | None:
        """Take a standalone text, if there is one: in quotes, or with characters that no field has."""
        if not self._takes_plain:
            return None
        position = self.scan.skip()
        name = self.scan.peek(lexer.NAME)
        if not self.text.startswith(tuple(lexer.QUOTES), position):
            written = self.scan.peek(lexer.PLAIN)
            if written is None or (
                name is not None and self.text[name.end() : name.end() + 1] not in tuple(":/+*")
            ):
                return None
        return shortforms.plain(self._value("", regex=True))

    def _short(self, token: Token) -> Node:
        letter = token.text[1:]
        form = shortforms.FORMS.get(letter)
        if form is None:
            hint = did_you_mean(letter, shortforms.FORMS) or f"there are {' '.join(shortforms.signs())}"
            raise self._error(f"no short form {token.text}", token.position, token.length, hint)
        value = None
        if form.argument and not (form.optional and self._value_is_absent()):
            value = self._value(token.text, regex=True)
        return form.make(token.position, value)

    def _value_is_absent(self) -> bool:
        """Return whether no value follows a short form whose value is optional."""
        scan = self.scan
        if scan.ended() or scan.peek(re.compile(r"[)~@!]")):
            return True
        return bool(scan.peek(lexer.AND) or scan.peek(lexer.OR) or scan.peek(lexer.NOT))

    def _test(self, name: Name) -> Node:
        mistake = self.scan.peek(_MISTAKE)
        if mistake and mistake[0] != "==":
            raise self._error(
                f"there is no operator {mistake[0]}", mistake.start(), len(mistake[0]), _MISTAKES[mistake[0]]
            )
        if self.scan.peek(lexer.SHORT) and not self._is_field(name):
            return shortforms.plain(Value(name.text, False, name.position, name.length))
        sign = self.scan.take(lexer.OPERATOR, "operator")
        if sign:
            return self._compare(name, sign, sign.text)
        word = self.scan.peek(lexer.WORD)
        written = word[0].lower() if word else ""
        if written == "not" and word:
            return self._negated(name)
        if written == "in":
            self.scan.take(lexer.WORD, "word")
            return OneOf(name, self._list(name))
        if written == "exists":
            self.scan.take(lexer.WORD, "word")
            return Exists(name)
        if written in _WORDS:
            token = self.scan.take(lexer.WORD, "word")
            assert token is not None
            return self._compare(name, token, _WORDS[written])
        return (
            FieldPresent(name)
            if self._is_field(name)
            else shortforms.plain(Value(name.text, False, name.position, name.length))
        )

    def _is_field(self, name: Name) -> bool:
        """Return whether a name alone is a field, or was meant to be one, rather than a text to search for.

        :raises FilterError: if it almost is one
        """
        if name.text in BY_NAME or name.text.partition(".")[0].partition("[")[0] in {
            *BY_NAME,
            "request",
            "response",
        }:
            return True
        meant = get_close_matches(name.text.lower(), BY_NAME, 1, _NEARLY)
        if not meant and self._takes_plain:
            return False
        hint = f"did you mean {meant[0]}?" if meant else ""
        if self._takes_plain:
            hint += f' In quotes it is a text: "{name.text}"'
        raise self._error(f"there is no field {name.text}", name.position, name.length, hint)

    def _negated(self, name: Name) -> Node:
        self.scan.take(lexer.WORD, "word")
        word = self.scan.take(lexer.WORD, "word")
        written = word.text.lower() if word else ""
        if written == "in":
            return OneOf(name, self._list(name), negated=True)
        if word and written in ("contains", "matches"):
            return self._compare(name, word, _WORDS[written], negated=True)
        position, length = (word.position, word.length) if word else self.scan.here()
        raise self._error(
            "in, contains or matches is expected after not",
            position,
            length,
            expected="operator",
            field=name.text,
        )

    def _compare(self, name: Name, token: Token, operator: str, *, negated: bool = False) -> Node:
        positive = _NEGATED.get(operator, operator)
        value = self._value(name.text, regex=positive == MATCHES, after=token.text)
        return Compare(name, positive, value, negated or positive != operator, token.position, token.length)

    def _value(self, name: str, *, regex: bool = False, after: str = "") -> Value:
        token = self.scan.value()
        if token is None:
            position, length = self.scan.here()
            message = f"a value is missing after {after or name}"
            raise self._error(
                message, position, min(length, 1), expected="" if length else "value", field=name
            )
        text = token.text
        if token.kind == "string":
            text = lexer.unescape_regex(text) if regex else lexer.unescape(text)
        return Value(text, token.kind == "string", token.position, token.length)

    def _list(self, name: Name) -> tuple[Value, ...]:
        opening = self.scan.sign("{(")
        if opening is None:
            position, length = self.scan.here()
            hint = f"write {name.text} in {{a, b}}"
            raise self._error(
                "a list is expected after in", position, length, hint, expected="list", field=name.text
            )
        closing, values = _CLOSING[opening.text], [self._value(name.text)]
        while not self.scan.sign(closing):
            self.scan.sign(",")
            if self.scan.sign(closing):
                break
            if self.scan.ended():
                raise self._error(
                    f"this {opening.text} is never closed",
                    opening.position,
                    1,
                    f"add {closing}",
                    expected="value",
                    field=name.text,
                )
            values.append(self._value(name.text))
        return tuple(values)


# ---------------------------------------------------------------- back to text
def render(node: Node) -> str:
    """Return the filter in the main grammar, without short forms; parsing it returns the same tree."""
    match node:
        case Compare(name, operator, value, negated):
            text = _regex(value.text) if operator == MATCHES else _written(value)
            sign = {EQUAL: "!=", MATCHES: "!~"}.get(operator, f"not {operator}") if negated else operator
            if negated and operator in (LESS, LESS_EQUAL, GREATER, GREATER_EQUAL):
                return f"not {name.text} {operator} {text}"
            return f"{name.text} {sign} {text}"
        case OneOf(name, values, negated):
            return f"{name.text} {'not ' * negated}in {{{', '.join(map(_written, values))}}}"
        case FieldPresent(name):
            return name.text
        case Exists(name):
            return f"{name.text} exists"
        case Selector(text):
            return f"@{text}"
        case MatchAll():
            return "@all"
        case Not(item):
            return f"not {_inside(item)}"
        case And(items):
            return " and ".join(map(_inside, items))
        case Or(items):
            return " or ".join(map(_inside, items))


def _inside(node: Node) -> str:
    return f"({render(node)})" if isinstance(node, And | Or) else render(node)


def _written(value: Value) -> str:
    text = quoted(value.text)
    # a quoted value is text, an unquoted one may be a number
    return f'"{text}"' if value.quoted and not text.startswith('"') else text


def _regex(text: str) -> str:
    # a backslash before a quote means the quote itself, both in the string and in the expression
    return '"' + re.sub(r'(\\.)|"', lambda found: found[1] or '\\"', text, flags=re.DOTALL) + '"'


def with_saved(text: str, saved: Mapping[str, str]) -> str:
    """Return a filter with saved filters substituted for their names, ``@name``; they may name others.

    A text that is not a filter is returned unchanged.

    :param saved: texts by name; the language's own selectors, ``@marked`` and the like, are ignored
    :raises FilterError: if a filter contains itself, or the result is too long
    """
    usable = {name for name in saved if name not in MEANINGS and not name[:1].isdigit()}
    made: dict[str, str] = {}

    def made_of(text: str, inside: tuple[str, ...]) -> str:
        try:
            found = [
                each for each in leaves(parse(text)) if isinstance(each, Selector) and each.text in usable
            ]
        except FilterError:
            return text
        for each in reversed(found):
            begin, end = each.position, each.position + len(each.text) + 1
            if each.text in inside:
                raise FilterError(f"@{each.text} contains itself", text, begin, end - begin)
            if each.text not in made:
                made[each.text] = made_of(saved[each.text], (*inside, each.text))
            inner = made[each.text]
            alone = not (text[:begin] + text[end:]).strip()
            text = f"{text[:begin]}{inner if alone else f'({inner})'}{text[end:]}"
            if len(text) > MAX_LENGTH:
                raise FilterError(f"a filter has at most {MAX_LENGTH} characters", text, MAX_LENGTH)
        return text

    return made_of(text, ())
