"""``kproxy completion SHELL``: the script that teaches a shell to complete kproxy's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kproxy.cli.printing import echo

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  eval "$(kproxy completion bash)"              in ~/.bashrc
    zsh:   eval "$(kproxy completion zsh)"               in ~/.zshrc
    fish:  kproxy completion fish > ~/.config/fish/completions/kproxy.fish
    """
    made = get_completion_class(shell)
    root = context.find_root()
    assert made is not None
    for line in made(root.command, {}, "kproxy", "_KPROXY_COMPLETE").source().split("\n"):
        echo(line, wait=True)
