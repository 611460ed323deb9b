"""Which options were typed, and which have their defaults: an option without an effect is refused, not dropped."""

from __future__ import annotations

import click
from click.core import ParameterSource


def given(ctx: click.Context) -> set[str]:
    """Names of the parameters that stand on the command line."""
    return {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
