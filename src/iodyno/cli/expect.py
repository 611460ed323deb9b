"""Gates: --expect of what is measured right now and --fail-if of `compare`, on the terminal and as JUnit XML for a build."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click

from iodyno.cli.stderr import to_stderr
from iodyno.core.errors import ExpectationError, StoreError
from iodyno.core.expectation import Expectation, parse
from iodyno.core.outcome import Estimate


@dataclass(frozen=True)
class Checked:
    """An expectation that was checked: its text, and why it is not met (empty: it is). `skipped`: why nothing can be said of it;
    `error`: why nothing was measured. `close`: the 95 % interval has the bound in it.
    """

    text: str
    why: str = ""
    skipped: str = ""
    error: str = ""
    close: bool = False


def _parsed(ctx: click.Context, _option: click.Parameter, written: Sequence[str]) -> tuple[Expectation, ...]:
    try:
        return tuple(parse(each, str(ctx.command.name)) for each in written)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None


expect = click.option(
    "--expect",
    metavar="EXPECTATION",
    multiple=True,
    callback=_parsed,
    help="What must hold, such as 'goodput >= 10Gbit/s', 'p99 <= 1ms', 'loss <= 1%' or 'client.cpu_ns_per_kib < 900'; else "
    "exit code 1. Rates and times need a unit, a share its % or a number below 1. May be repeated.",
)
junit = click.option(
    "--junit",
    metavar="PATH",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was expected as JUnit XML, a test case each.",
)


def check(expected: Sequence[Expectation], outcomes: Mapping[str, Estimate]) -> list[Checked]:
    """Check each expectation against the estimate of its outcome; one that is not known is not met."""
    from iodyno.report.headline import estimate_text

    checked = []
    for each in expected:
        found = outcomes.get(each.outcome)
        if found is None or found.estimate is None:
            why = f"{each.outcome} was not measured" if found is None else f"not reported: {found.missing}"
        else:
            why = (
                "" if each.met(found.estimate) else " ".join(filter(None, estimate_text(found, each.outcome)))
            )
        ends = (found.low, found.high) if found is not None and found.estimate is not None else (None, None)
        close = len({each.met(end) for end in ends if end is not None}) > 1
        checked.append(Checked(each.text, why, close=close))
    return checked


def conclude(name: str, checked: Sequence[Checked], written_to: Path | None) -> None:
    """Writes the JUnit file, and raises ExpectationError where something is not as expected."""
    failed = [each for each in checked if each.why]
    if written_to is not None:
        write_junit(name, checked, written_to)
    for each in checked:
        if each.close:
            to_stderr(
                f"iodyno: {each.text} is decided by the estimate: the bound lies in its interval; --repeat for a narrower one"
            )
    if failed:
        shown = "; ".join(f"{each.text}: {each.why}" for each in failed[:3])
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        raise ExpectationError(f"not as expected: {shown}{more}")


def write_junit(name: str, checked: Sequence[Checked], written_to: Path) -> None:
    """Write a test case for each that was checked. Raises StoreError."""
    number: Counter[str] = Counter()
    cases = []
    for each in checked:
        result = ""
        for kind, said in (("error", each.error), ("failure", each.why), ("skipped", each.skipped)):
            if said and not result:
                result = f'<{kind} message="{escape(said)}"/>'
                number[kind] += 1
        cases.append(f'<testcase classname="{escape(name)}" name="{escape(each.text)}">{result}</testcase>\n')
    suite = (
        f'<testsuite name="{escape(name)}" tests="{len(checked)}" failures="{number["failure"]}" '
        f'errors="{number["error"]}" skipped="{number["skipped"]}">'
    )
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n{suite}\n{"".join(cases)}</testsuite>\n'
    try:
        written_to.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StoreError(f"cannot be written: {error.strerror or error}", where=str(written_to)) from error
