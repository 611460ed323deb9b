"""Writes the manual pages of `iodyno` and of every command, from what --help shows: `python tools/package/man.py FOLDER`."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import click

from iodyno.cli.main import iodyno


class Manual(click.HelpFormatter):
    """A help text in the macros of man(7)."""

    def __init__(self) -> None:
        super().__init__()
        self._in_list = False

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f".SH SYNOPSIS\n.B {_roff(prog)}\n{_roff(args)}\n.SH DESCRIPTION\n")

    def write_heading(self, heading: str) -> None:
        self.write(f".SH {_roff(heading.upper())}\n")

    def write_paragraph(self) -> None:
        pass

    def write_text(self, text: str) -> None:
        if self._in_list:  # the text below all lists
            self.write_heading("Notes")
        for paragraph in text.split("\n\n"):
            # As click has it: what begins so keeps its lines.
            kept = paragraph.startswith("\b\n")
            self.write(f".PP\n{'.nf' if kept else ''}\n{_roff(paragraph.removeprefix(chr(8)).strip())}\n")
            self.write(".fi\n" if kept else "")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        self._in_list = True
        for term, text in rows:
            self.write(f".TP\n.B {_roff(term)}\n{_roff(text)}\n")

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        self.write_heading(name)
        yield


def _roff(text: str) -> str:
    lines = text.replace("\\", "\\e").replace("-", "\\-").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in lines)


def write(folder: Path, command: click.Command, name: str, parent: click.Context | None = None) -> None:
    """Writes the page of a command, and those of the commands below it."""
    context = click.Context(command, info_name=name, parent=parent, **command.context_settings)
    page = context.command_path.replace(" ", "-")
    within = command.list_commands(context) if isinstance(command, click.Group) else []
    manual = Manual()
    manual.write(f'.TH {page.upper()} 1 "" "iodyno {version("iodyno")}" "iodyno manual"\n.SH NAME\n')
    manual.write(
        f"{_roff(page)} \\- {_roff((command.help or '').split('. ')[0].split(chr(10))[0].rstrip('.'))}\n"
    )
    command.format_help(context, manual)
    others = [f"{page}-{word}" for word in within] + (
        [parent.command_path.replace(" ", "-")] if parent else []
    )
    manual.write(".SH SEE ALSO\n" + ",\n".join(f"{_roff(other)}(1)" for other in others) + "\n")
    (folder / f"{page}.1").write_text(manual.getvalue(), encoding="utf-8")
    for word in within:
        below = command.get_command(context, word) if isinstance(command, click.Group) else None
        if below is not None:
            write(folder, below, word, context)


if __name__ == "__main__":
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    write(Path(sys.argv[1]), iodyno, "iodyno")
