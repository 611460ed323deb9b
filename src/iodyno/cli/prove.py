"""The options that ask for a proof of what limits."""

from __future__ import annotations

from typing import Any, Literal

import click


def asked_proof(prove: str | None) -> bool | Literal["foreign"]:
    """Return the proof that the options ask for, as an experiment has it."""
    return "foreign" if prove == "foreign" else prove is not None


def proof_options(function: Any) -> Any:
    """The options that ask for a proof: `prove` is `on`, `foreign` or None, as an experiment file has it."""
    foreign = "--prove, and change what others have set on the hosts too (queues with a rate, limits of TCP, CPU and disks)."
    of_foreign = click.option(
        "--prove-foreign", "prove", flag_value="foreign", help=f"{foreign} Restored after each trial."
    )
    return click.option("--prove", flag_value="on", help="Test what limits the rate by extra trials.")(
        of_foreign(function)
    )
