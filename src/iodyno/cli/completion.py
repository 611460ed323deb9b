"""`iodyno completion`: the script that teaches a shell the commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid


@click.command(name="completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      eval "$(iodyno completion bash)"
      iodyno completion zsh > ~/.zfunc/_iodyno
      iodyno completion fish > ~/.config/fish/completions/iodyno.fish
    """
    complete = get_completion_class(shell)
    if complete is None:
        raise ExperimentError(invalid(shell, "bash, zsh, fish"), where="SHELL")
    root = ctx.find_root().command
    click.echo(complete(root, {}, "iodyno", "_IODYNO_COMPLETE").source())
