"""Errors that a user can do something about, and the exit code of each.

```
IodynoError            1   (never raised itself)
├── ExpectationError   1   what was measured is not what was expected of it (--expect, --fail-if)
├── ExperimentError    2   the experiment file, or a word on the command line, is wrong, or no model fits the points that it names
├── AccessError        3   a host cannot be reached, or an agent cannot be started or trusted there
├── PreflightError     4   a host cannot carry what the experiment asks for
├── TrialError         5   trials failed, and failed again when they were retried
├── StoreError         6   results cannot be written or read
└── Interrupted      130   Ctrl-C
```
Every error says what is wrong, where (file, line, key, host) and what to try. They are printed in one place,
`cli/main.py`.
"""

from __future__ import annotations

from typing import ClassVar

from iodyno.core.invalid import for_key

INSTALL_AGAIN = "install iodyno again, or run `make build` in a checkout of it"
"""Advice that brings lab and agent of one build together."""


class IodynoError(Exception):
    """Error that says what is wrong, where, and what to try."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", advice: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.advice = advice

    def __str__(self) -> str:
        what = self.what
        if self.where:
            # An option, or an argument: it stands in the sentence, as a key does.
            is_key = self.where.startswith("-") or (self.where.isalpha() and self.where.isupper())
            what = for_key(self.where, what) if is_key else f"{self.where}: {what}"
        return what + (f"\n  try: {self.advice}" if self.advice else "")


class ExpectationError(IodynoError):
    """A measured value is not what was expected of it."""

    exit_code = 1


class ExperimentError(IodynoError):
    """The experiment file, or a word on the command line, is wrong, or no model fits the points that it names."""

    exit_code = 2


class AccessError(IodynoError):
    """A host cannot be reached, or an agent cannot be started or trusted there."""

    exit_code = 3


class PreflightError(IodynoError):
    """A host cannot carry what the experiment asks for."""

    exit_code = 4


class TrialError(IodynoError):
    """Trials failed, also when they were made again; the others are stored.

    `code` is the agent's error code, or the lab's own word.
    """

    exit_code = 5

    def __init__(self, what: str, *, where: str = "", advice: str = "", code: str = "trial") -> None:
        super().__init__(what, where=where, advice=advice)
        self.code = code


WRONG_DATA = "wrong_data"
"""Code of a trial whose blocks do not hold what was written with checks."""
CERTAIN = frozenset({"unsupported", "job", "script_cut", WRONG_DATA, "flowop_failed"})
"""Codes of failures that come again however often the trial is made: it asks for what the host has not got, or for what
cannot be. `unsupported` and `job` are the agent's own words for them (`agent/core/src/message.rs`); `script_cut`: its windows
are too short for it; `wrong_data`: blocks are wrong, whether or not another attempt would meet them; `flowop_failed`: what most
calls of a personality's flowop were refused for.
"""


class StoreError(IodynoError):
    """Results cannot be written or read."""

    exit_code = 6


class Interrupted(IodynoError):  # noqa: N818 - not an error of anybody
    """The user stopped the command."""

    exit_code = 130
