"""``kproxy completion SHELL``: prints the script that lets a shell complete kproxy's commands and options."""

from __future__ import annotations

from typing import Literal

import click
from click.shell_completion import get_completion_class

from kproxy.cli.command import argument, command, options
from kproxy.output import echo


@options
class CompletionOptions:
    """Options of ``kproxy completion``."""

    shell: Literal["bash", "zsh", "fish"] = argument(None, nargs=1)


@command(CompletionOptions, short_help="Print the completion script for a shell.")
def completion(options: CompletionOptions) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(kproxy completion bash)"              in ~/.bashrc
    zsh:   eval "$(kproxy completion zsh)"               in ~/.zshrc
    fish:  kproxy completion fish > ~/.config/fish/completions/kproxy.fish
    """
    made = get_completion_class(options.shell)
    root = click.get_current_context().find_root()
    assert made is not None
    for line in made(root.command, {}, "kproxy", "_KPROXY_COMPLETE").source().split("\n"):
        echo(line, wait=True)
