"""Start skew of the hosts of a trial, measured on the lab's clock and held against its windows or the experiment's limit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from iodyno.core.experiment import Windows
from iodyno.core.warnings import WarningCode
from iodyno.session.clock import ClockFit

if TYPE_CHECKING:
    from iodyno.campaign.account import Account


_SHARE = 0.01
"""Of the measured window: what a host that begins later makes of a rate is less than a point."""


def note(
    account: Account,
    clocks: Mapping[str, ClockFit],
    began_ns: Mapping[str, int],
    limit_ns: int | None,
    windows: Windows,
) -> None:
    """Note when each host began after the first one, and the warning where the last did too late: after `limit_ns`, or where
    there is none when more than 1 % of the measured window was over. `began_ns`: when each did, on its own clock.
    """
    if account.start is None or not began_ns:
        return
    began = {host: clocks[host].to_lab(at_ns) for host, at_ns in began_ns.items()}
    first, last = min(began, key=lambda h: began[h]), max(began, key=lambda h: began[h])
    account.start["offset_ns"] = {host: round(at - began[first]) for host, at in began.items()}
    if len(began) < 2:
        return
    skew_ns = round(began[last] - began[first])
    error_ns = clocks[first].error_ns + clocks[last].error_ns
    account.start |= {"skew_ns": skew_ns, "skew_error_ns": error_ns}
    text = f"{last} started {skew_ns / 1e3:.0f} us after {first}, give or take {error_ns / 1e3:.0f} us"
    if limit_ns is not None:
        if skew_ns + error_ns > limit_ns:
            account.warning(WarningCode.START_SKEW, f"{text}; the limit is {limit_ns / 1e3:.0f} us")
        return
    without = (skew_ns + error_ns - windows.warm_up_ns) / windows.measured_ns
    if without > _SHARE:
        account.warning(
            WarningCode.START_SKEW,
            f"{text}: up to {min(without, 1):.0%} of the measured window was without {last}",
        )
