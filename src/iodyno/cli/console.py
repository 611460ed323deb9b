"""A console of rich on stdout or stderr: its own escape sequences pass, those in what it shows are shown as text."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from iodyno.cli.encoding import Unescaped
from iodyno.core.visible import visible


class VisibleConsole(Console):
    """Shows control characters of texts; `stderr`: there instead of on stdout."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        stream = sys.stderr if stderr else sys.stdout
        super().__init__(file=cast("IO[str]", Unescaped(stream)), width=width)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render the text that is to be written, before rows are cut to their width."""
        for part in super().render(renderable, options):
            yield part if part.control else Segment(visible(part.text), part.style)
