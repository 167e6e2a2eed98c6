"""Commands made from typed options: the fields of a class are the command's options and its arguments.

::

    @options
    class LagOptions(ReadingOptions, GroupOption):
        files: tuple[str, ...] = argument("CAPTURE...")
        show_all: bool = option("--all", help="Show every partition.")

    @command(LagOptions, short_help="Show how far groups are behind, over time.")
    def lag(options: LagOptions) -> None: ...

The annotation determines click's type: a ``bool`` is a flag, a ``Literal`` a choice, a ``tuple`` may be given several
times; an annotation with a type of click's, such as :data:`Count`, has that type. Completion, ``--help``,
docs/commands.md and the manual pages are made from the same fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import types
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

import click

T = TypeVar("T")
C = TypeVar("C", bound=click.Command)
Parser = Any  # click does not export the type of its parsers


class TextParam(click.ParamType[T]):
    """The type of an option whose values a function makes of texts.

    :param name: shown in help
    :param parse: returns the value of a text; its ValueErrors are messages for the user
    :param written: returns the text of a value
    """

    def __init__(self, name: str, parse: Callable[[str], T], written: Callable[[T], str] = str) -> None:
        self.name = name
        self._parse = parse
        self.written = written

    def convert(self, value: str | T, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Number(click.IntRange):
    """A whole number, shown as N in help."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "N"


class _File(click.Path):
    """A file of any kind, shown as FILE in help."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "FILE"


Number = Annotated[int, _Number(0)]
"""A whole number, such as that of a connection."""
Count = Annotated[int, _Number(1)]
"""How many of something, at least one."""
AnyFile = Annotated[str, _File()]
"""A file, or anything else with a path."""
FileName = Annotated[str, click.Path(dir_okay=False)]
"""A file, which may be new."""
ExistingFile = Annotated[str, click.Path(exists=True, dir_okay=False)]
"""A file to be read."""


class Option(click.Option):
    """An option.

    :ivar heading: its heading in ``--help``; empty for ``Options``
    :ivar former: earlier spellings, accepted with a note on standard error
    :ivar initial: the default as written, None if there is none
    :ivar private: whether its value may contain a password, and is not shown
    :ivar of_cluster: whether each cluster behind ``kproxy proxy`` may have a value of its own
    """

    def __init__(
        self,
        *args: Any,
        heading: str = "",
        former: tuple[str, ...] = (),
        private: bool = False,
        of_cluster: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(*args, **attributes)
        self.heading = heading
        self.former = former
        self.private = private
        self.of_cluster = of_cluster
        self.initial = attributes.get("default") or (False if self.is_bool_flag else None)

    @property
    def configurable(self) -> bool:
        """Whether the environment and the configuration file may set it."""
        return not (self.is_eager or self.hidden)

    @property
    def key(self) -> str:
        """The long spelling without its dashes."""
        return max(self.opts, key=len).lstrip("-")

    def add_to_parser(self, parser: Parser, ctx: click.Context) -> None:
        """Add spellings that help and completion omit: former ones, and ``--no-NAME`` of flags."""
        spellings, self.opts = self.opts, [*self.opts, *self.former]
        if self.is_bool_flag and self.configurable:
            self.secondary_opts = [f"--no-{self.key}"]
        super().add_to_parser(parser, ctx)
        self.opts, self.secondary_opts = spellings, []

    def variable(self, ctx: click.Context) -> str:
        """Return the environment variable for it: ``KPROXY_READ_UTC``."""
        return "_".join(("KPROXY", *path_of(ctx), self.key)).upper().replace("-", "_")

    def value_from_envvar(self, ctx: click.Context) -> Any:
        text = os.environ.get(self.variable(ctx)) if self.configurable else None
        if not text:
            return None
        return [line for line in text.split("\n") if line] if self.multiple else text


class Command(click.Command):
    """A command whose options may have headings and former spellings, and be set in a configuration file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            self._note_former(args)
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
            # --version and --help work even if the file is invalid
            if "version" not in given and not {"-h", "--help"} & set(args):
                from kproxy.cli.config import defaults

                ctx.default_map = defaults(ctx, given.get("config"), given.get("profile"))
        return super().parse_args(ctx, args)

    def _note_former(self, args: list[str]) -> None:
        from kproxy.output import notice

        given = args[: args.index("--")] if "--" in args else args
        for option in options_of(self):
            for spelling in option.former:
                if any(arg.split("=")[0] == spelling or arg[:2] == spelling for arg in given):
                    notice(f"{spelling} is called --{option.key} now")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, parameters in by_heading(self.get_params(ctx)).items():
            with formatter.section(heading):
                formatter.write_dl([record for each in parameters if (record := each.get_help_record(ctx))])


class Group(Command, click.Group):
    """A group of commands, with options of its own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def path_of(ctx: click.Context) -> tuple[str, ...]:
    """Return the names of a command and its parents, without kproxy itself."""
    return (*path_of(ctx.parent), ctx.info_name or "") if ctx.parent else ()


def options_of(command: click.Command) -> Iterator[Option]:
    """Yield the options of a command that are declared with :func:`option`: all but ``--help``."""
    return (each for each in command.params if isinstance(each, Option))


def by_heading(parameters: Iterable[click.Parameter]) -> dict[str, list[click.Option]]:
    """Return the options that are not hidden, by their heading in ``--help``."""
    found: dict[str, list[click.Option]] = {}
    for each in parameters:
        if isinstance(each, click.Option) and not each.hidden:
            found.setdefault(getattr(each, "heading", "") or "Options", []).append(each)
    return found


# ---------------------------------------------------------------- declarations
@dataclasses.dataclass(slots=True)
class _Declaration:
    """A parameter of a command, until its class is complete."""

    kind: type[click.Parameter]
    spellings: tuple[str, ...]
    attributes: dict[str, Any]

    def complete(self, name: str, hint: Any, heading: str) -> Any:
        """Return the field of the dataclass; `hint` supplies attributes that were not given."""
        given = self.attributes
        inner = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
        plain = inner[0]
        if get_origin(plain) is tuple and self.kind is Option:
            given.setdefault("multiple", True)
            plain = get_args(plain)[0]
        if get_origin(plain) is Annotated:
            given.setdefault("type", get_args(plain)[1])
        elif plain is bool:
            given.setdefault("is_flag", True)
        elif get_origin(plain) is Literal:
            given.setdefault("type", click.Choice(get_args(plain)))
        elif isinstance(plain, type) and get_origin(plain) is None and self.kind is Option:
            given.setdefault("type", plain)
        if self.kind is Option:
            given.setdefault("heading", heading)
        self.spellings = (*self.spellings, name)
        if given.get("required"):
            return dataclasses.field(metadata={"declared": self})
        empty: Any = () if get_origin(inner[0]) is tuple else False if plain is bool else None
        default = given.get("default", empty)
        kind = given.get("type")
        if isinstance(default, str) and isinstance(kind, click.ParamType):
            make = partial(kind.convert, default, None, None)
            return dataclasses.field(default_factory=make, metadata={"declared": self})
        return dataclasses.field(default=default, metadata={"declared": self})

    def parameter(self) -> click.Parameter:
        return self.kind(list(self.spellings), **self.attributes)


def option(*spellings: str, **attributes: Any) -> Any:
    """Declare an option of a command.

    :param attributes: of :class:`Option` and :class:`click.Option`, except those that follow from the annotation
    """
    return _Declaration(Option, spellings, attributes)


def argument(metavar: str | None, *, required: bool = True, **attributes: Any) -> Any:
    """Declare the arguments of a command; several unless ``nargs`` says otherwise."""
    return _Declaration(
        click.Argument, (), {"nargs": -1, "required": required, "metavar": metavar, **attributes}
    )


@dataclass_transform(frozen_default=True, kw_only_default=True)
def options(cls: type[T]) -> type[T]:
    """Turn a class of declarations into a frozen dataclass. Its attribute ``title`` is the heading of its options.

    Nothing compares or prints options, and methods for that would be generated at each start.
    """
    hints = inspect.get_annotations(cls, eval_str=True)
    for name, declared in list(vars(cls).items()):
        if isinstance(declared, _Declaration):
            setattr(cls, name, declared.complete(name, hints[name], vars(cls).get("title", "")))
    return dataclasses.dataclass(frozen=True, kw_only=True, eq=False, repr=False)(cls)


def parameters(declared: type[Any]) -> list[click.Parameter]:
    """Return new click parameters for a class: those without a heading first, own before inherited ones."""
    own = vars(declared).get("__annotations__", {})
    found = [(each.name in own, each.metadata["declared"]) for each in dataclasses.fields(declared)]
    found.sort(key=lambda each: (bool(each[1].attributes.get("heading")), not each[0]))
    return [declaration.parameter() for _, declaration in found]


def arguments_of(declared: type[T], given: T) -> list[str]:
    """Return command-line arguments that give a command of options class `declared` the values in `given`."""
    arguments: list[str] = []
    behind: list[str] = []
    for each in parameters(declared):
        value = getattr(given, each.name or "")
        values = value if each.multiple or each.nargs == -1 else () if value is None else (value,)
        if isinstance(each, click.Argument):
            behind += map(str, values)
        elif isinstance(each, Option) and each.is_bool_flag:
            arguments += [f"--{each.key}" if value else f"--no-{each.key}"]
        elif isinstance(each, Option):
            written = getattr(each.type, "written", str)
            arguments += [f"--{each.key}={written(one)}" for one in values]
    return [*arguments, "--", *behind] if behind else arguments


@options
class NoOptions:
    """No options."""


@options
class ConfigurationOptions:
    """The configuration file; every command accepts these options, and kproxy itself shows them."""

    config: FileName | None = option(
        "--config",
        is_eager=True,
        expose_value=False,
        help="The configuration file. Default: kproxy.toml here, or in ~/.config/kproxy (docs/configuration.md).",
    )
    profile: str | None = option(
        "--profile",
        is_eager=True,
        expose_value=False,
        metavar="NAME",
        help="Lay [profile.NAME] of the configuration file over the rest.",
    )


def command(
    declared: type[T], name: str | None = None, *, parent: click.Group | None = None, **attributes: Any
) -> Callable[[Callable[[T], None]], Command]:
    """Turn a function of its options into a command.

    :param parent: the group that it belongs to; None for kproxy itself
    :param attributes: of :class:`click.Command`
    """
    return partial(built, Command, declared, name, parent, attributes)


def group(
    declared: type[T], name: str | None = None, *, parent: click.Group | None = None, **attributes: Any
) -> Callable[[Callable[[T], None]], Group]:
    """Turn a function into a group of commands, as :func:`command` does for a command."""
    return partial(built, Group, declared, name, parent, attributes)


def built(
    kind: type[C],
    declared: type[T],
    name: str | None,
    parent: click.Group | None,
    attributes: dict[str, Any],
    function: Callable[[T], None],
) -> C:
    """Return a command of class `kind` made from a function, see :func:`command`."""
    params = parameters(declared)
    taken = {
        spelling for each in params if isinstance(each, Option) for spelling in (*each.opts, *each.former)
    }
    for each in parameters(ConfigurationOptions):
        if isinstance(each, Option) and not taken.intersection(each.opts):
            each.hidden = True
            params.append(each)
    result = kind(
        name or function.__name__.rstrip("_").replace("_", "-"),
        callback=lambda **values: function(declared(**values)),
        params=params,
        **{"help": function.__doc__, **attributes},
    )
    if parent is not None:
        parent.add_command(result)
    return result
