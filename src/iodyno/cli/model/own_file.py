"""Files of models and measurements: a path, or `example:NAME` of one that ships."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from iodyno.formats import shipped


class OwnFile(click.Path):
    """A path that is read, or an example."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises ExperimentError for an example that there is none of."""
        return super().convert(shipped.path_of(value) if isinstance(value, str) else value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the examples that begin so, else files."""
        found = [CompletionItem(name) for name in shipped.addresses(incomplete, shipped.EXAMPLES)]
        return found or super().shell_complete(ctx, param, incomplete)
