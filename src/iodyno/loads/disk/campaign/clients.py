"""Loads that need no other end, on one host or on many: roles, readiness, one start for all, and clients that are lost.

Every host is armed for one instant on its own clock. How far apart they really began is measured by when the first worker
of each was on a CPU and began, brought onto the lab's clock; the limit is that of two ends of a network.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from iodyno.campaign import skew
from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed, together
from iodyno.core.errors import WRONG_DATA, TrialError
from iodyno.core.experiment import Experiment, Windows
from iodyno.core.quantity import counted
from iodyno.core.warnings import WarningCode
from iodyno.core.workload import Level
from iodyno.loads.disk.core.parameters import paths_of
from iodyno.loads.files.campaign import flowops
from iodyno.session.clock import ClockFit
from iodyno.session.session import Message

_SAID_OF_IT = "wrong data at offset "
"""Prefix of the agent's own words for it (`agent/storage/src/block/mod.rs`), under its code for any target."""
_GOES_ON = ("agent_lost", "transport", "timeout", "target")
"""Codes of failures of a client alone. Other failures are about the job, which all clients have."""


def roles_of(experiment: Experiment, settings: Mapping[str, Level]) -> dict[str, str]:
    """Return the role of each host: it works for itself, or idles and is looked at."""
    workload = experiment.workload
    clients = workload.hosts[: int(settings.get("clients", len(workload.hosts)))]
    others = [host for host in experiment.hosts if host not in clients]
    return dict.fromkeys(clients, "alone") | dict.fromkeys(others, "idle")


def targets_of(testbed: Testbed, settings: Mapping[str, Level]) -> dict[str, Any]:
    """Describe the target of each client: the device under it, and its kind. Of several targets the first stands for all, and
    `each` has them in order.
    """
    found = {}
    for host in testbed.experiment.workload.hosts:
        own = testbed.experiment.workload.settings_of(host, settings)
        made = None if testbed.volume is None else str(testbed.volume.target_of(host))
        paths = [made] if made else paths_of(str(own.get("target", "")), host)
        places = [testbed.place_of(host, path) for path in paths]
        each = [
            {key: known[key] for key in ("path", "kind", "device", "file_system", "in_memory")}
            if (known := testbed.targets.get(place))
            else {"path": path}
            for place, path in zip(places, paths, strict=True)
        ]
        if first := next((known for known in each if len(known) > 1), None):
            found[host] = {**first, **({"each": each} if len(each) > 1 else {})}
    return found


def may_go_on(settings: Mapping[str, Level]) -> bool:
    """Tell whether a trial goes on without the clients that it loses."""
    return settings.get("on_client_loss") == "go_on"


async def going_on(result: Coroutine[Any, Any, Message], host: str, account: Account) -> Message | None:
    """The result of a host; None: it was lost, which is noted. Raises TrialError when it was the last client."""
    try:
        return await result
    except TrialError as error:
        lost = {loss["host"] for loss in account.losses} | {host}
        left = [
            name for name, facts in account.hosts.items() if facts["role"] == "alone" and name not in lost
        ]
        if error.code not in _GOES_ON or account.hosts[host]["role"] != "alone" or not left:
            raise
        account.losses.append({"host": host, "code": error.code, "what": error.what})
        text = f"the client was lost ({error.what}); the trial went on with the other {len(left)}"
        account.warning(WarningCode.CLIENT_LOST, text, f"host {host}")
        return None


def classified(error: TrialError) -> TrialError:
    """The failure, by a code of its own where it is wrong data."""
    if error.code == "target" and error.what.startswith(_SAID_OF_IT):
        error.code = WRONG_DATA
    return error


async def get_ready(testbed: Testbed, account: Account, timeout_s: float) -> None:
    """Has every host open its target. Raises TrialError."""
    hosts = list(account.hosts)
    for host in hosts:
        await testbed.sessions[host].prepare(account.hosts[host]["job"])
    ready = await together(testbed.sessions[host].ready(timeout_s) for host in hosts)
    for host, said in zip(hosts, ready, strict=True):
        account.hosts[host]["ready"] = {key: value for key, value in said.items() if key != "type"}


def check(testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows) -> None:
    """Notes how far apart the clients began, and what went wrong with their targets. Raises TrialError."""
    _check_start(testbed, account, clocks, windows)
    done = 0
    for host, facts in account.hosts.items():
        result = facts["result"]
        if facts["role"] != "alone" or result is None:
            continue
        done += result["operations"]
        disk = result.get("disk") or {}
        if disk.get("verify_failures"):
            raise _wrong_data(testbed, host, disk)
        for part in disk.get("degraded") or ():
            text = f"asked for {part['name']}, which is not in force: {part['reason']}"
            account.warning(WarningCode.OPTION_NOT_OBTAINED, text, f"host {host}")
        for target in disk.get("targets") or ():
            if target.get("lost"):
                text = f"{target['lost']}; what was measured is the file that was open, which is gone"
                account.warning(WarningCode.TARGET_LOST, text, f"{target['path']} on host {host}")
        if disk.get("errors"):
            first = disk.get("first_error") or {}
            count = counted(disk["errors"], "operation")
            text = f"{count} failed, the first at offset {first.get('offset_bytes')}: {first.get('what')}"
            account.warning(WarningCode.DISK_ERRORS, text, f"host {host}")
        files = result.get("files") or {}
        if wrong := flowops.failed(files):
            raise testbed.sessions[host].failure("flowop_failed", *wrong)
        for text in flowops.short_reads(facts["job"]["load"].get("files") or {}, files):
            account.warning(WarningCode.SHORT_READS, text, f"host {host}")
        if failed := [flowop for flowop in files.get("flowops", ()) if flowop["errors"]]:
            first, count = failed[0], sum(flowop["errors"] for flowop in failed)
            text = f"{counted(count, 'flowop')} failed, the first of {first['name']}: {first['first_error']}"
            account.warning(WarningCode.DISK_ERRORS, text, f"host {host}")
    if not done:
        clients = [host for host, facts in account.hosts.items() if facts["role"] == "alone"]
        programs = ((facts["result"] or {}).get("files") or {} for facts in account.hosts.values())
        raise testbed.sessions[clients[0]].failure(
            "nothing_done",
            f"not one operation was completed in the trial{_why_nothing(account)}",
            "give its fileset files to take (prealloc), or have a flowop make them (createfile)"
            if any(flowops.took_no_file(program) for program in programs)
            else "give it a longer window, or look whether the target answers at all",
        )


def _why_nothing(account: Account) -> str:
    """Return the first error of a file program, or of a disk's operations, where none of them came to an end."""
    for facts in account.hosts.values():
        result = facts["result"] or {}
        program, disk = result.get("files") or {}, result.get("disk") or {}
        if program.get("first_error"):
            return f": the first failed with {program['first_error']}"
        if no_file := flowops.took_no_file(program):
            return f": no file was there to take ({no_file})"
        if disk.get("first_error"):
            return f": the first failed with {disk['first_error'].get('what')}"
    return ""


def _wrong_data(testbed: Testbed, host: str, disk: Mapping[str, Any]) -> TrialError:
    first = disk.get("first_verify_failure") or {}
    return testbed.sessions[host].failure(
        WRONG_DATA,
        f"{disk['verify_failures']} of {disk['verified_units']} checked blocks hold wrong data, the first at offset"
        f" {first.get('offset_bytes')}: expected {first.get('expected')}, found {first.get('found')}",
        "do not trust this target; look at the log of its kernel",
    )


def _check_start(
    testbed: Testbed, account: Account, clocks: Mapping[str, ClockFit], windows: Windows
) -> None:
    """Check how far apart the clients began. A worker notes that before its first operation: in an open loop, which waits for
    its first arrival then, too.
    """
    began = {
        host: result["first_operation_ns"]
        for host, facts in account.hosts.items()
        if facts["role"] == "alone"
        and (result := facts["result"])
        and result["first_operation_ns"] is not None
    }
    skew.note(account, clocks, began, testbed.experiment.limits.start_skew_ns, windows)
