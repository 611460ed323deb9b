"""Proof that the page cache was what the experiment asked for: by pages in it before the start, and by the block layer.

`cached: no` holds when nearly nothing of the working set was in the page cache at the start, and the device gave (at least)
the bytes that the load read. `cached: yes` holds when nearly all of it was there, and the device gave nearly nothing.
A trial in which it does not hold is void. Where neither can be seen, a warning says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iodyno.core.volume import SERVER
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.files.core.attributes import READS

if TYPE_CHECKING:
    from iodyno.analysis.host_data import HostData
    from iodyno.analysis.trial import Trial

SHARE = 0.02
"""Part of the bytes that may come from the wrong place (chosen: a read of the page cache is some 20 times as fast as one of
a device, so that 2 % of them change a mean by as much)."""
_DISKS = "disks"
_DRAIN = "drain"


def share_from_cache(trial: Trial) -> float | None:
    """Share of the bytes read in the measured window that no device gave; None: not known.

    Over the machines: clients on one of them share its devices. Below 0: something read ahead, or something else read.
    """
    read = given = 0
    for host in trial.hosts.values():
        mine = [c for c in trial.clients.values() if c.machine == host.machine]
        if not mine or host.role != "alone":
            continue
        label = _device(trial, host)
        got = None if label is None else host.growth(_DISKS, "disk.read_bytes", label)
        if got is None:
            return None
        given += got
        read += sum(
            counts.bytes
            for client in mine
            for record in client.measured
            if (counts := client.classes.get("read", {}).get(record.index)) is not None
        )
    return 1 - given / read if read else None


def share_from_server_cache(trial: Trial) -> float | None:
    """Share of the bytes that the clients read until the end of the measured window and the disk of their volume's server did
    not give; None: there is no such server, or nothing was read. Below 0: it read ahead.

    From the start of the load: of a stream a server reads megabytes ahead, and those of the warm-up are for the measured
    window.
    """
    given = _given_by_server(trial)
    read = sum(
        counts.bytes
        for client in trial.clients.values()
        for name in _read_classes(client)
        for record in client.records
        if record.window != _DRAIN and (counts := client.classes.get(name, {}).get(record.index)) is not None
    )
    return None if given is None or not read else 1 - given / read


def _read_classes(client: HostData) -> list[str]:
    """Classes of operations that read: of a file program those of its flowops."""
    files = (client.manifest.get("result") or {}).get("files") or {}
    return ["read", *(flowop["class"] for flowop in files.get("flowops", ()) if flowop["call"] in READS)]


def _given_by_server(trial: Trial) -> int | None:
    """Bytes that its disk gave the server from the start of the load until the end of the measured window."""
    key = ("role.read_bytes", f"role={SERVER}")
    found = [
        reading.values[key]
        for host in trial.hosts.values()
        for record in host.records
        if record.window != _DRAIN
        and (reading := host.readings.get("roles", {}).get(record.index)) is not None
        and key in reading.values
    ]
    return int(sum(found)) if found else None


def _violations_of_server(trial: Trial) -> Iterator[str]:
    """Why the page cache of the volume's server was not what `server_cached` asks for."""
    asked = trial.settings.get("server_cached")
    if asked not in ("yes", "no"):
        return
    targets: Mapping[str, Mapping[str, Any]] = trial.manifest.get("targets") or {}
    known: Mapping[str, int] = next(
        (facts["server"] for facts in targets.values() if facts.get("server")), {}
    )
    if known.get("size_bytes"):
        resident = known["resident_before_bytes"] / known["size_bytes"]
        if (asked == "no" and resident > SHARE) or (asked == "yes" and resident < 1 - SHARE):
            wanted = "uncached" if asked == "no" else "cached: it may be larger than the memory"
            yield (
                f"{resident:.0%} of what the server serves was in its page cache when the load began, in a test that was to be"
                f" {wanted}"
            )
    share = share_from_server_cache(trial)
    if share is not None and asked == "no" and share > SHARE:
        yield (
            f"{share:.0%} of the bytes read came from the page cache of the server, in a test that was to be uncached: its disk"
            " gave fewer than were read"
        )
    if share is not None and asked == "yes" and share < 1 - SHARE:
        yield (
            f"{1 - share:.0%} as many bytes came from the disk of the server as were read, in a test that was to be cached"
        )


def violations(trial: Trial) -> Iterator[str]:
    """Why the page cache was not what was asked for; nothing when it was, or when that cannot be seen."""
    yield from _violations_of_server(trial)
    asked = trial.settings.get("cached")
    if asked not in ("yes", "no"):
        return
    for client in trial.clients.values():
        resident = _resident_ratio(client)
        if resident is not None and asked == "no" and resident > SHARE:
            yield (
                f"{resident:.0%} of the working set of {client.name} was in the page cache when the load began, in a test"
                " that was to be uncached"
            )
        if resident is not None and asked == "yes" and resident < 1 - SHARE:
            yield (
                f"only {resident:.0%} of the working set of {client.name} was in the page cache when the load began, in a"
                " test that was to be cached: it may be larger than the memory"
            )
    share = share_from_cache(trial)
    if share is None:
        return
    if asked == "no" and share > SHARE:
        yield (
            f"{share:.0%} of the bytes read came from the page cache, in a test that was to be uncached: the device gave"
            " fewer than were read; take a larger working set, a shorter window or direct: on"
        )
    if asked == "yes" and share < 1 - SHARE:
        yield (
            f"{1 - share:.0%} as many bytes came from the device as were read, in a test that was to be cached;"
            " the working set does not stay in memory, or something else reads from the device"
        )


def voided(trials: Iterable[Trial]) -> list[Trial]:
    """The trials; those whose page cache was not what was asked for are void, and do not count."""
    return [_void(trial) if trial.finished and trial.clients else trial for trial in trials]


def _void(trial: Trial) -> Trial:
    why = "; ".join(violations(trial))
    if not why:
        return trial
    text = f"{why}; the trial counts as failed"
    warning = Warning(WarningCode.READ_FROM_CACHE, text, trial.name)
    return replace(trial, status="void", reason=text, warnings=(*trial.warnings, warning))


def unproved(trial: Trial) -> Iterator[Warning]:
    """A warning where the state of the page cache was asked for, and can be seen neither in it nor at a device."""
    reads = int(trial.settings.get("read", 1)) > 0
    if (
        trial.settings.get("server_cached") in ("yes", "no")
        and reads
        and share_from_server_cache(trial) is None
    ):
        text = "whether the server read from its page cache cannot be seen: what its disk gave is not known"
        yield Warning(WarningCode.READ_FROM_CACHE, text, trial.name)
    if trial.settings.get("cached") not in ("yes", "no") or not trial.clients:
        return
    blind = [c.name for c in trial.clients.values() if _resident_ratio(c) is None]
    if blind and share_from_cache(trial) is None:
        text = f"whether {', '.join(blind)} read from the page cache cannot be seen: {_why(trial.clients[blind[0]])}"
        yield Warning(WarningCode.READ_FROM_CACHE, text, trial.name)


def _targets(client: HostData) -> list[Mapping[str, Any]]:
    result = client.manifest.get("result") or {}
    return list((result.get("disk") or {}).get("targets") or ())


def _resident_ratio(client: HostData) -> float | None:
    """Share of the region that was in the page cache when the load began."""
    disk = client.job.get("disk") or {}
    region = (disk.get("region") or {}).get("length_bytes")
    known = [(t["resident_before_bytes"], region or t["size_bytes"]) for t in _targets(client)]
    if not known or any(held is None or not size for held, size in known):
        return None
    return float(sum(held for held, _ in known) / sum(size for _, size in known))


def _device(trial: Trial, host: HostData) -> str | None:
    target = (trial.manifest.get("targets") or {}).get(host.name) or {}
    if target.get("device"):
        return f"dev={target['device']}"
    labels = host.labels(_DISKS, "disk.read_bytes")
    # With one device there is no question which one it is.
    return labels[0] if len(labels) == 1 and not target.get("in_memory") else None


def _why(client: HostData) -> str:
    said = [str(t["resident_missing"]) for t in _targets(client) if t.get("resident_missing")]
    return "; ".join(said) or "neither the pages in it nor the device under the target are known"
