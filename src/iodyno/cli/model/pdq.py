"""`iodyno model pdq`: a script that calls PDQ, run as it is."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType

import click

from iodyno.cli.model.own_file import OwnFile
from iodyno.core.errors import ExperimentError
from iodyno.formats.given_file import read_given

_MOST_BYTES = 2**20
_NOT_READ = re.compile(r"^\s*#\s*include\b|\bPDQ_\w+\s*\(|\blibrary\(\s*pdq\s*\)", re.MULTILINE)


@click.command(
    name="pdq", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("script", type=OwnFile(), metavar="SCRIPT")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT ...]")
def command(script: Path, arguments: tuple[str, ...]) -> None:
    """Run a script that calls PDQ, in Python or simple Perl, with iodyno's own solutions.

    `import pdq` finds iodyno.pdq, which has PDQ's functions and constants; ARGUMENTs are the script's own, and so is what it
    prints. A Python script is a program, and may do all that you may: run only what you trust. docs/background/networks.md says
    what of Perl is read, and how scripts in C and R are translated.

    \b
    Examples:
      iodyno model pdq model.py
      iodyno model pdq example:mm8-response 8 0.000127
    """
    # Imported here: numpy is slow to load, and `--help` does not need it.
    from iodyno import pdq

    try:
        raw = read_given(script, _MOST_BYTES, pipes=True)
    except OSError as problem:
        raise ExperimentError(f"cannot be read: {problem.strerror}", where=str(script)) from None
    if len(raw) > _MOST_BYTES:
        raise ExperimentError("more than 1 MiB: expected a script of that size", where=str(script))
    text = raw.decode("utf-8", errors="replace")
    if script.suffix == ".pl" or re.search(r"\bpdq::\w|^\s*use\s+pdq\b", text, re.MULTILINE):
        _run_perl(text, arguments, str(script), pdq)
    elif script.suffix != ".py" and _NOT_READ.search(text):
        raise ExperimentError(
            "invalid value: a script in C or R; expected Python or Perl",
            where=str(script),
            advice="translate it line by line: docs/background/networks.md has a table",
        )
    else:
        _run_python(raw, text, arguments, script, pdq)


def _run_perl(text: str, arguments: tuple[str, ...], file: str, pdq: ModuleType) -> None:
    from iodyno.formats.pdq_perl import PerlScript

    names = {name: getattr(pdq, name) for name in pdq.__all__}
    functions = {name: value for name, value in names.items() if callable(value)}
    script = PerlScript(functions, names, lambda text: click.echo(text, nl=False))
    try:
        script.run(text, arguments)
    except (ArithmeticError, ExperimentError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        if isinstance(problem, KeyError):
            problem = ExperimentError(f"{problem.args[0]} has no value here")
        raise _as_one(problem, f"{file}:{script.line}") from None


def _run_python(raw: bytes, text: str, arguments: tuple[str, ...], script: Path, pdq: ModuleType) -> None:
    main = ModuleType("__main__")
    main.__file__ = str(script)
    code = _compiled(raw, text, str(script), main)
    before = sys.argv, sys.path, {name: sys.modules.get(name) for name in ("pdq", "__main__")}
    sys.argv, sys.path = [str(script), *arguments], [str(script.parent), *sys.path]
    sys.modules.update({"pdq": pdq, "__main__": main})
    try:
        exec(code, main.__dict__)
    except BrokenPipeError:
        raise
    except Exception as problem:  # noqa: BLE001  (a user's program raises what it likes)
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(script)]
        raise _as_one(problem, f"{script}:{lines[-1]}" if lines else str(script)) from None
    finally:
        sys.argv, sys.path, modules = before
        for name, module in modules.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _compiled(raw: bytes, text: str, file: str, main: ModuleType) -> CodeType:
    try:
        return compile(raw, file, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        from iodyno.formats import python2

        try:
            code = python2.compiled(text, file)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            line = f":{problem.lineno}" if isinstance(problem, SyntaxError) and problem.lineno else ""
            # MemoryError is what the compiler raises where nothing can be nested deeper.
            cause = RecursionError() if isinstance(problem, MemoryError) else problem
            raise _as_one(cause, f"{file}{line}") from None
    click.echo(f"iodyno: {file} is read as Python 2: print is a statement, 7 / 2 is 3", err=True)
    main.__dict__.update({python2.DIVIDE: python2.divide, **python2.NAMES})
    return code


def _as_one(problem: Exception, where: str) -> ExperimentError:
    """One error with the line of the script."""
    if isinstance(problem, ExperimentError):
        what = f"{problem.where}: {problem.what}" if problem.where else problem.what
        return ExperimentError(what, where=where, advice=problem.advice)
    if isinstance(problem, RecursionError):
        return ExperimentError("found too many brackets or calls in each other", where=where)
    what = problem.msg if isinstance(problem, SyntaxError) else str(problem)
    return ExperimentError(f"{type(problem).__name__}: {what}", where=where)
