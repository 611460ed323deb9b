"""A recording: the sensors of a host, read on and on with no load on, into a campaign whose trials are its segments.

One job of the agent runs through all of them, so that nothing is left out between two; its records are cut into segments here.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from iodyno.campaign.account import Account
from iodyno.campaign.feed import Feed, fed
from iodyno.campaign.folder import CampaignFile
from iodyno.campaign.lock import held
from iodyno.campaign.sealed import sealed
from iodyno.campaign.sensors import OPTIONAL, recorded
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.time_of_day import TimeOfDay
from iodyno.campaign.trial import OPERATIONS, start_idle
from iodyno.core.design import Design, Point
from iodyno.core.errors import StoreError, TrialError
from iodyno.core.experiment import Experiment, HostSpec, SensorLevel, Windows, WorkloadSpec
from iodyno.core.warnings import WarningCode
from iodyno.hosts.access import AgentProgram
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.session.locate import find_agent
from iodyno.session.sent import SentRecord
from iodyno.store.manifest import read_header, read_manifest, trial_folders
from iodyno.store.schema import CAMPAIGN, PARTIAL, TRIALS
from iodyno.store.writer import TrialWriter, recover, remove_partials

POINT = "recording"
"""The point of every segment."""
_JOB_NS = 86_400 * 10**9
"""Longest job of the agent (chosen: its records are planned ahead, 86 400 of a second each); the next one begins after it."""
_JOURNAL_SHARE = 8
"""A segment ends when its journal is one such part of what is to be kept. Half is for segments, three parts for the journal of
the one that is being put away, that of the one under way, and the feed of that, each of which has one record more.
"""


@dataclass(frozen=True)
class RecordingSpec:
    """Lengths in nanoseconds of intervals, segments and the whole (None: until it is stopped), and how much is kept: bytes, or
    how far back. `devices`: those that are shown where nobody says; empty: all. `syscalls`: system calls are recorded too.
    """

    every_ns: int
    segment_ns: int
    length_ns: int | None = None
    keep_bytes: int | None = None
    keep_ns: int | None = None
    devices: tuple[str, ...] = ()
    sensors: SensorLevel = "light"
    syscalls: bool = False

    @property
    def wanted(self) -> tuple[str, ...]:
        """Sensors that are read."""
        return recorded(self.sensors, syscalls=self.syscalls)

    @property
    def records(self) -> int:
        """Records of a segment."""
        return max(1, round(self.segment_ns / self.every_ns))


@dataclass
class Progress:
    """State of a recording: segments put away and removed, intervals, bytes in the folder."""

    segments: int = 0
    removed: int = 0
    recovered: int = 0
    intervals: int = 0
    stored_bytes: int = 0


async def record(
    spec: RecordingSpec,
    host: HostSpec,
    folder: Path,
    progress: Progress,
    tell: Callable[[str], None],
    program: AgentProgram | None = None,
) -> None:
    """Records `host` into `folder`, which is there, until the length is over; a recording that is there goes on.

    When it is cancelled, what was recorded is put away. An agent that is lost is started anew. Raises AccessError, TrialError and
    StoreError.
    """
    program = program or find_agent()
    workload = WorkloadSpec(WORKLOAD.name, hosts=(host.name,))
    experiment = Experiment(
        name=folder.resolve().name,
        question="What did this host do while nobody looked?",
        hosts={host.name: host},
        workload=workload,
        factors=(),
        windows=Windows(0, spec.segment_ns, 0, spec.every_ns),
        sensors=spec.sensors,
        text="# A recording without a load: `iodyno record` goes on with it.\n",
    )
    with held(folder):
        file = _campaign(spec, experiment, folder, program)
        progress.recovered = len(recover(folder / TRIALS, _whole))
        remove_partials(folder / TRIALS)
        clock = TimeOfDay()
        with fed(folder, experiment.name, 0, clock) as feed:
            segments = _Segments(spec, folder, clock, feed, progress)
            segments.prune()
            if spec.length_ns == 0:
                return
            try:
                async with Testbed(experiment, program) as testbed:
                    testbed.tell = tell
                    file.add_hosts(testbed)
                    file.save()
                    for name, reason in _lacking(testbed, host.name, spec).items():
                        if name not in OPTIONAL:
                            tell(f"not recorded: {name}: {reason}")
                    await _keep_on(spec, testbed, segments, tell)
            finally:
                # However it ends from here on, what was recorded is put away.
                file.content["finished"] = True
                file.save()


def _campaign(
    spec: RecordingSpec, experiment: Experiment, folder: Path, program: AgentProgram
) -> CampaignFile:
    """`campaign.json` of a new recording, or that of the one that is there. Raises StoreError where it is another one."""
    about: dict[str, Any] = {
        "every_ns": spec.every_ns,
        "segment_ns": spec.segment_ns,
        "devices": list(spec.devices),
    }
    host = next(iter(experiment.hosts.values()))
    about["host"] = str(host.options.get("to", host.access))
    if not (folder / CAMPAIGN).exists():
        design = Design("full_factorial", 1, (Point(POINT, {}),), ())
        file = CampaignFile.create(folder, experiment, design, program.build_hash)
        file.content["recording"] = about
        file.save()
        return file
    header = read_header(folder)
    before = header.get("recording")
    if before is None:
        raise StoreError("holds a campaign", where=str(folder), advice="name another folder with --into")
    for key, option in (("every_ns", "--every"), ("host", "--on")):
        if before[key] != about[key]:
            shown = [f"{one / 1e9:g} s" if key == "every_ns" else one for one in (before[key], about[key])]
            raise StoreError(
                f"was recorded with {option} {shown[0]}, not {shown[1]}",
                where=str(folder),
                advice="name another folder with --into",
            )
    header |= {"recording": about, "finished": False}
    file = CampaignFile(folder, header)
    file.save()
    return file


def _lacking(testbed: Testbed, host: str, spec: RecordingSpec) -> dict[str, str]:
    """Sensors of a recording that the host has not got, with the reason."""
    return {
        each["name"].removeprefix("sensor."): each["reason"] or "no reason known"
        for each in testbed.sessions[host].hello["capabilities"]
        if not each["available"] and each["name"].removeprefix("sensor.") in spec.wanted
    }


async def _keep_on(
    spec: RecordingSpec, testbed: Testbed, segments: _Segments, tell: Callable[[str], None]
) -> None:
    """One job after the other until the length is over."""
    host = next(iter(testbed.sessions))
    began_ns = time.monotonic_ns()
    lacking = _lacking(testbed, host, spec)
    wanted = [name for name in spec.wanted if name not in lacking]
    while True:
        left_ns = _JOB_NS
        if spec.length_ns is not None:
            left_ns = min(_JOB_NS, spec.length_ns - (time.monotonic_ns() - began_ns))
            # Less than an interval is none.
            if segments.progress.intervals and left_ns < spec.every_ns:
                return
            left_ns = max(left_ns, spec.every_ns)
        windows = Windows(0, left_ns, 0, spec.every_ns)
        account = Account()
        try:
            start_ns = await start_idle(testbed, "recording", windows, account, wanted)
            # A recording is of the whole machine.
            account.hosts[host]["cpus"] = list(testbed.sessions[host].hello["host"]["cpus_online"] or ())
            segments.begin(host, account, start_ns)
            await testbed.sessions[host].result(
                start_ns - time.monotonic_ns() + left_ns, segments.take, stalls=False
            )
            await segments.end()
        except TrialError as error:
            await segments.end()
            tell(f"begun anew: {error}")
            await testbed.recover(error)
            segments.gap(str(error))
        except BaseException:
            with contextlib.suppress(TrialError):
                await testbed.abort("the recording ends")
            await segments.end()
            raise


class _Segments:
    """Cuts records into segments and puts each away, the oldest out of the folder where there is more than is to be kept."""

    def __init__(
        self, spec: RecordingSpec, folder: Path, clock: TimeOfDay, feed: Feed, progress: Progress
    ) -> None:
        self.progress = progress
        self._spec = spec
        self._parent = folder / TRIALS
        self._clock = clock
        self._feed = feed
        self._host, self._account = "", Account()
        self._wall_ns = 0
        self._first_ns: int | None = None
        self._writer: TrialWriter | None = None
        self._manifest: dict[str, Any] = {}
        self._records = self._journal_bytes = 0
        self._sealing: asyncio.Task[None] | None = None
        self._next = 1 + max((_order(each) for each in trial_folders(folder)), default=-1)
        self._reasons: list[str] = []

    def begin(self, host: str, account: Account, start_ns: int) -> None:
        """A job begins at an instant of the lab's clock."""
        self._host, self._account, self._first_ns = host, account, None
        self._wall_ns = self._clock.now_ns() + start_ns - time.monotonic_ns()

    def gap(self, why: str) -> None:
        """Notes with the next segment why some time before it is missing: what came first, and what came last."""
        if why not in self._reasons:
            self._reasons[1:] = [why]

    def take(self, sent: SentRecord) -> None:
        """Takes a record. Raises StoreError where one before it cannot be put away."""
        if self._sealing is not None and self._sealing.done():
            self._sealing.result()
        if self._writer is None:
            self._open(sent.progress["begin_ns"])
        assert self._writer is not None
        name = self._manifest["trial"]
        self._writer.add_record(self._host, OPERATIONS["idle"], sent.payload)
        place = {
            "role": "idle",
            "operation": OPERATIONS["idle"],
            "cpus": self._account.hosts[self._host]["cpus"],
        }
        self._feed.record(name, self._host, place, sent.payload)
        self._records += 1
        self.progress.intervals += 1
        self._journal_bytes += len(sent.payload)
        keep = self._spec.keep_bytes
        full = self._records >= self._spec.records or (keep and self._journal_bytes * _JOURNAL_SHARE >= keep)
        # Where the disk is slower than segments are short, they become longer: none waits behind another.
        if full and (self._sealing is None or self._sealing.done()):
            self._close()

    async def end(self) -> None:
        """Puts away what there is. Raises StoreError."""
        self._close()
        if self._sealing is not None:
            await self._sealing

    def prune(self, coming: int = 0) -> None:
        """Removes the oldest segments where there is more than is to be kept, with the bytes of one to come; the newest stays."""
        there = [
            (each, sum(f.stat().st_size for f in each.iterdir()))
            for each in trial_folders(self._parent.parent)
        ]
        total = sum(size for _, size in there) + coming
        keep = self._spec.keep_bytes
        most = None if keep is None else keep // 2
        for each, size in there[:-1]:
            if not ((most is not None and total > most) or self._is_old(each)):
                break
            # Out of sight at once: nobody sees a half of it.
            gone = each.rename(each.with_name(f"{PARTIAL}{each.name}.old"))
            shutil.rmtree(gone, ignore_errors=True)
            total -= size
            self.progress.removed += 1
        self.progress.stored_bytes = total - coming

    def _is_old(self, segment: Path) -> bool:
        if self._spec.keep_ns is None:
            return False
        try:
            manifest = read_manifest(segment)
        except StoreError:
            return False
        began_ns = round(datetime.fromisoformat(manifest["started_wall"]).timestamp() * 1e9)
        length_ns = int(manifest["windows"]["measured_ns"])
        return began_ns + length_ns < self._clock.now_ns() - self._spec.keep_ns

    def _open(self, begin_ns: int) -> None:
        if self._first_ns is None:
            self._first_ns = begin_ns
        order, wall_ns = self._next, self._wall_ns + begin_ns - self._first_ns
        self._next += 1
        name = f"{order:05d}-1"
        if self._reasons:
            why = "; then ".join(self._reasons)
            self._account.warning(WarningCode.RETRIED, f"some time before it is missing: {why}")
        self._manifest = {
            "trial": name,
            **{"order": order, "attempt": 1, "block": 0, "replicate": order, "point": POINT},
            **{"levels": {}, "settings": {}, "status": "finished", "reason": None},
            "started_wall": datetime.fromtimestamp(wall_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
            "windows": vars(Windows(0, 0, 0, self._spec.every_ns)),
            "start": self._account.start,
            "hosts": copy.deepcopy(self._account.hosts),
            "warnings": [
                {"code": str(w.code), "text": w.text, "where": w.where} for w in self._account.warnings
            ],
            "overhead_ns": None,
        }
        self._account.warnings, self._reasons = [], []
        self._records = self._journal_bytes = 0
        self._writer = TrialWriter(self._parent, name, self._manifest)
        self._feed.begin_trial(name, order=order, attempt=1, point=POINT, levels={}, proof=False)

    def _close(self) -> None:
        """The segment goes to the disk while the next one is recorded."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        before, manifest, coming = self._sealing, _whole(self._manifest, self._records), self._journal_bytes

        async def seal() -> None:
            if before is not None:
                await before
            await asyncio.to_thread(self.prune, coming)
            await sealed(writer, manifest)
            self._feed.end_trial(manifest["trial"], status="finished", reason=None)
            self.progress.segments += 1
            await asyncio.to_thread(self.prune)

        self._sealing = asyncio.ensure_future(seal())


def _whole(begun: Mapping[str, Any], records: int) -> dict[str, Any]:
    """The manifest of a segment with so many records."""
    windows = {**begun["windows"], "measured_ns": records * begun["windows"]["interval_ns"]}
    return {**begun, "windows": windows}


def _order(segment: Path) -> int:
    return int(segment.name.partition("-")[0])
