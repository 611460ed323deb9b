"""The device under a load's target, throttled for a trial that asks for it (`device_limit`)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.core.errors import TrialError
from iodyno.core.workload import Level
from iodyno.targets import throttle


@contextlib.contextmanager
def throttled(testbed: Testbed, account: Account, settings: Mapping[str, Level]) -> Iterator[None]:
    """Holds the agents of the clients to `device_limit`, if it is set; notes what is in force. Raises TrialError."""
    limit = settings.get("device_limit")
    if limit is None:
        yield
        return
    clients = [host for host, facts in account.hosts.items() if facts["role"] == "alone"]
    by_device: dict[str, list[str]] = {}
    for host in clients:
        device = (account.targets.get(host) or {}).get("device")
        if device is None or not testbed.on_this_machine(host):
            raise _refused(f"the device under the target of {host} is not one of iodyno's machine")
        by_device.setdefault(str(device), []).append(host)
    if why := throttle.unavailable():
        raise _refused(why)
    with contextlib.ExitStack() as held:
        for device, hosts in by_device.items():
            ids = [testbed.sessions[host].process_id for host in hosts]
            processes = [process for process in ids if process is not None]
            try:
                facts = held.enter_context(throttle.throttled(device, int(limit), processes))
            except OSError as error:
                raise _refused(f"{device} cannot be throttled: {error}") from error
            for host in hosts:
                account.targets[host] = {**account.targets[host], "limit": facts}
        yield


def _refused(what: str) -> TrialError:
    return TrialError(
        what,
        where="device_limit",
        advice="leave device_limit out, or take a file or device of this machine, as root",
        code="unsupported",
    )
