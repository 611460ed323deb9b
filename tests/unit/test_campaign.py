"""A campaign over simulated hosts: what is stored, what a resume does, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from places import PROGRAM, Meanwhile, Notes, Stopped, experiment, run

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.summary import analyse
from iodyno.campaign import preflight
from iodyno.campaign.ledger import FILE, Ledger, manifests
from iodyno.campaign.testbed import together
from iodyno.core.errors import AccessError, StoreError, TrialError
from iodyno.core.experiment import DesignSpec, HostSpec
from iodyno.core.factor import Factor
from iodyno.core.warnings import WarningCode
from iodyno.store.documents import json_schema
from iodyno.store.reader import read_campaign
from iodyno.store.writer import TrialWriter, write_document

ASKED = experiment(factors=(Factor("connections", (1, 8)), Factor("size", (1024, 65536))))
ASKED = replace(ASKED, design=DesignSpec(replicates=2, seed=7))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Notes]:
    notes = Notes()
    into = tmp_path_factory.mktemp("campaigns")
    outcome = asyncio.run(run(ASKED, into, notes=notes, program=PROGRAM))
    assert outcome.finished == 8 and not outcome.failed
    return outcome.folder, notes


def test_the_folder_says_what_was_asked_and_what_was_found(campaign: tuple[Path, Notes]) -> None:
    folder, notes = campaign
    content = json.loads((folder / "campaign.json").read_text())
    assert (folder / "experiment.yaml").read_text() == ASKED.text
    assert content["finished"] is True and content["build_hash"] == PROGRAM.build_hash
    assert len(content["design"]["points"]) == 4 and len(content["design"]["trials"]) == 8
    assert [factor["levels"] for factor in content["experiment"]["factors"]] == [[1, 8], [1024, 65536]]
    assert {line["check"] for line in content["preflight"]} >= {
        "descriptors",
        "memory",
        "clock",
        "data",
        "idle",
    }
    assert content["calibration"]["client"]["control"]["rtt_min_ns"] >= 0
    assert content["hosts"]["server"]["hello"]["host"]["kernel"] == "simulated"
    # How long a trial takes is known after the first ones: from then on the time left shrinks, whatever else runs here.
    assert notes.left_ns[-1] == min(notes.left_ns) < notes.left_ns[0]
    # A trial that is over is no part of what its own line says is left.
    assert notes.left_ns[-1] == ASKED.limits.background_ns
    for when in ("before", "after"):
        background = json.loads((folder / "background" / when / "manifest.json").read_text())
        assert {host["role"] for host in background["hosts"].values()} == {"idle"}


def test_every_manifest_fits_the_published_schema(campaign: tuple[Path, Notes]) -> None:
    folder, _ = campaign
    written = [
        *manifests(folder),
        *(json.loads(p.read_text()) for p in folder.glob("background/*/manifest.json")),
    ]
    assert len(written) == 10
    for manifest in written:
        jsonschema.validate(manifest, json_schema("manifest"))


def test_the_ledger_can_be_made_again_from_the_manifests(campaign: tuple[Path, Notes]) -> None:
    folder, _ = campaign
    ledger = Ledger(folder)
    before = ledger.entries()
    ledger.close()
    again = Ledger.rebuild_from(folder)
    assert again.entries() == before
    again.close()
    with contextlib.closing(sqlite3.connect(folder / FILE)) as base, base:
        assert base.execute("select count(*) from trial join point on point.id = trial.point").fetchone() == (
            8,
        )
    base.close()


def test_a_resume_of_a_finished_campaign_changes_nothing(campaign: tuple[Path, Notes]) -> None:
    folder, _ = campaign
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*")}
    notes = Notes()
    outcome = asyncio.run(run(ASKED, folder.parent, resume=folder, notes=notes, program=PROGRAM))
    assert outcome.finished == 8 and not notes.stages
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/*/*")} == before


def test_a_stopped_campaign_goes_on_in_the_same_order(campaign: tuple[Path, Notes], tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run(ASKED, tmp_path, notes=Stopped(35), program=PROGRAM))
    (folder,) = tmp_path.iterdir()
    done = [manifest["order"] for manifest in manifests(folder)]
    assert 0 < len(done) < 8
    ledger = Ledger(folder)
    assert {entry.status for entry in ledger.entries().values()} == {"finished", "planned"}
    ledger.close()
    notes = Notes()
    outcome = asyncio.run(run(ASKED, tmp_path, resume=folder, notes=notes, program=PROGRAM))
    assert outcome.finished == 8
    assert [manifest["order"] for manifest in notes.manifests] == [n for n in range(8) if n not in done]
    whole = [manifest["point"] for manifest in manifests(campaign[0])]
    assert [manifest["point"] for manifest in manifests(folder)] == whole


def test_a_campaign_that_is_being_run_is_left_alone(tmp_path: Path) -> None:
    refused: list[StoreError] = []

    def resume_too() -> None:
        (folder,) = tmp_path.iterdir()
        before = {path for path in folder.rglob("*") if "feed" not in path.parts}
        # As another lab would, which has an event loop of its own.
        with ThreadPoolExecutor(1) as other, pytest.raises(StoreError) as error:
            other.submit(asyncio.run, run(ASKED, tmp_path, resume=folder, program=PROGRAM)).result()
        refused.append(error.value)
        assert {path for path in folder.rglob("*") if "feed" not in path.parts} == before

    outcome = asyncio.run(run(ASKED, tmp_path, notes=Meanwhile(resume_too), program=PROGRAM))
    assert outcome.finished == 8 and not outcome.failed
    (error,) = refused
    assert f"is being run by process {os.getpid()}" in str(error) and str(outcome.folder) in error.where
    # Whoever ended, also by a crash, locks nobody out.
    assert asyncio.run(run(ASKED, tmp_path, resume=outcome.folder, program=PROGRAM)).finished == 8


def test_a_step_of_the_wall_clock_is_said_once_of_the_trial_that_it_fell_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    # The machine's own clock is also that of whoever else uses it.
    notes = Meanwhile(lambda: monkeypatch.setattr(time, "time_ns", lambda: now() - 3_600_000_000_000))
    folder = asyncio.run(run(ASKED, tmp_path, notes=notes, program=PROGRAM)).folder
    told = [
        (manifest["order"], warning["text"])
        for manifest in manifests(folder)
        for warning in manifest["warnings"]
        if warning["code"] == WarningCode.CLOCK_STEPPED
    ]
    ((order, text),) = told
    assert order == min(manifest["order"] for manifest in manifests(folder))
    assert "iodyno's wall clock was set back by 3600.0 s" in text
    begun = [datetime.fromisoformat(manifest["started_wall"]) for manifest in manifests(folder)]
    assert begun == sorted(begun) and begun[-1] - begun[0] < timedelta(minutes=30)


def test_agents_hear_of_the_lab_while_a_trial_is_put_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops: list[asyncio.AbstractEventLoop] = []
    heard: list[bool] = []
    seal = TrialWriter.seal

    class Begun(Notes):
        def on_trial_start(self, planned: object, attempt: int) -> None:
            loops.append(asyncio.get_running_loop())

    def slow(writer: TrialWriter, manifest: dict[str, Any]) -> Path:
        if loops:
            beat = threading.Event()
            loops[-1].call_soon_threadsafe(beat.set)
            heard.append(beat.wait(5))
        return seal(writer, manifest)

    monkeypatch.setattr(TrialWriter, "seal", slow)
    asked = replace(ASKED, factors=(), design=DesignSpec(replicates=1, seed=7))
    outcome = asyncio.run(run(asked, tmp_path, notes=Begun(), program=PROGRAM))
    assert outcome.finished == 1 and heard and all(heard)


@pytest.mark.parametrize("wrong", [b"", b"\xff\x00", b"{}", b"[]", b'{"schema_version": 1}', b"[" * 100_000])
def test_a_damaged_trial_is_made_again_and_set_aside(
    campaign: tuple[Path, Notes], tmp_path: Path, wrong: bytes
) -> None:
    folder = Path(shutil.copytree(campaign[0], tmp_path / "c"))
    part, manifest = folder / "trials/00001-1/records.parquet", folder / "trials/00003-1/manifest.json"
    part.write_bytes(part.read_bytes()[:100])
    manifest.write_bytes(wrong)
    # What somebody put beside a trial is not one more.
    shutil.copytree(folder / "trials/00000-1", folder / "trials/00000-1.bak")
    notes = Notes()
    assert {trial.name for trial in read_campaign(folder).trials if trial.counts} == {
        f"{order:05d}-1" for order in range(8) if order not in (1, 3)
    }
    outcome = asyncio.run(run(ASKED, tmp_path, resume=folder, notes=notes, program=PROGRAM))
    assert outcome.finished == 8 and not outcome.failed
    assert [made["trial"] for made in notes.manifests] == ["00001-2", "00003-2"]
    assert {warning.where for warning in notes.warnings if warning.code is WarningCode.RETRIED} == {
        "trial 00001-1",
        "trial 00003-1",
    }
    assert (folder / "damaged/00001-1/records.parquet").stat().st_size == 100
    assert len([trial for trial in read_campaign(folder).trials if trial.counts]) == 8


def test_a_trial_whose_manifest_is_gone_is_made_again_and_set_aside(
    campaign: tuple[Path, Notes], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(campaign[0], tmp_path / "c"))
    (folder / "trials/00001-1/manifest.json").unlink()
    # What was set aside earlier is kept too.
    (folder / "damaged/00001-1").mkdir(parents=True)
    notes = Notes()
    outcome = asyncio.run(run(ASKED, tmp_path, resume=folder, notes=notes, program=PROGRAM))
    assert outcome.finished == 8 and not outcome.failed
    assert [made["trial"] for made in notes.manifests] == ["00001-2"]
    (warning,) = [warning for warning in notes.warnings if warning.code is WarningCode.RETRIED]
    assert warning.where == "trial 00001-1" and "damaged/00001-1.2" in warning.text
    assert (folder / "damaged/00001-1.2/records.parquet").is_file()
    assert len([trial for trial in read_campaign(folder).trials if trial.counts]) == 8


@pytest.mark.parametrize("file", ["series.parquet", "manifest.json"])
def test_a_damaged_background_is_measured_again_and_set_aside(
    campaign: tuple[Path, Notes], tmp_path: Path, file: str
) -> None:
    folder = Path(shutil.copytree(campaign[0], tmp_path / "c"))
    for when in ("before", "after"):
        part = folder / "background" / when / file
        part.write_bytes(part.read_bytes()[:100])
        notes = Notes()
        outcome = asyncio.run(run(ASKED, tmp_path, resume=folder, notes=notes, program=PROGRAM))
        assert outcome.complete and not notes.manifests
        ((where, text),) = [
            (each.where, each.text) for each in notes.warnings if each.code is WarningCode.RETRIED
        ]
        assert where == f"background {when}" and str(part) in text and f"damaged/background-{when}" in text
        assert (folder / f"damaged/background-{when}" / file).stat().st_size == 100
        assert all(each.counts for each in read_campaign(folder).background.values())
        assert set(read_campaign(folder).background) == {"before", "after"}


def test_a_trial_of_a_newer_release_is_not_made_again(campaign: tuple[Path, Notes], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(campaign[0], tmp_path / "c"))
    manifest = folder / "trials/00003-1/manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema_version": 99}))
    with pytest.raises(StoreError, match="newer iodyno"):
        asyncio.run(run(ASKED, tmp_path, resume=folder, program=PROGRAM))
    assert manifest.is_file()


@pytest.mark.parametrize(
    "wrong", [b"", b"[]", b"{}", b"null", b'"x"', b"\xff", b'{"schema_version": 1}', b"[" * 100_000]
)
def test_a_broken_header_is_said_and_nothing_is_changed(
    campaign: tuple[Path, Notes], tmp_path: Path, wrong: bytes
) -> None:
    folder = Path(shutil.copytree(campaign[0], tmp_path / "c"))
    header = json.loads((folder / "campaign.json").read_text())
    for content in (wrong, json.dumps(header | {"schema_version": 99}).encode()):
        (folder / "campaign.json").write_bytes(content)
        for use in (
            lambda: asyncio.run(run(ASKED, tmp_path, resume=folder, program=PROGRAM)),
            lambda: read_campaign(folder),
        ):
            with pytest.raises(StoreError, match=r"campaign\.json"):
                use()
        assert (folder / "campaign.json").read_bytes() == content and len(list(manifests(folder))) == 8


def test_a_resume_with_another_experiment_or_form_is_refused(campaign: tuple[Path, Notes]) -> None:
    folder, _ = campaign
    for other, said in (
        (replace(ASKED, text="name: other\n"), "has changed since the campaign began"),
        (replace(ASKED, quick=True), "begun in the full form"),
    ):
        with pytest.raises(StoreError, match=said):
            asyncio.run(run(other, folder.parent, resume=folder, program=PROGRAM))
    with pytest.raises(StoreError, match="is no campaign"):
        asyncio.run(run(ASKED, folder.parent, resume=folder.parent, program=PROGRAM))


def test_a_host_that_is_another_machine_at_resume_is_warned_of(tmp_path: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run(ASKED, tmp_path, notes=Stopped(20), program=PROGRAM))
    (folder,) = tmp_path.iterdir()
    content = json.loads((folder / "campaign.json").read_text())
    content["hosts"]["client"]["hello"]["host"]["kernel"] = "5.10.0"
    write_document(folder / "campaign.json", content)
    notes = Notes()
    asyncio.run(run(ASKED, tmp_path, resume=folder, notes=notes, program=PROGRAM))
    (warning,) = [warning for warning in notes.warnings if warning.code is WarningCode.HOST_CHANGED]
    assert warning.where == "host client" and "kernel: 5.10.0, now simulated" in warning.text


def test_a_busy_machine_is_warned_of_and_not_refused(tmp_path: Path) -> None:
    hosts = {
        n: HostSpec(n, "simulated", {"truth": {"background_ratio": 0.3, "exact": True}})
        for n in ("client", "server")
    }
    asked = experiment(hosts=hosts)
    asked = replace(asked, limits=replace(asked.limits, background_ratio=0.05))
    notes = Notes()
    outcome = asyncio.run(run(asked, tmp_path, notes=notes, program=PROGRAM))
    assert outcome.finished == 2
    busy = [warning for warning in notes.warnings if warning.code is WarningCode.HOST_BUSY]
    assert {warning.where for warning in busy} == {"host client", "host server"}
    # As what ran beside is subtracted, or left out, costs do not carry it.
    assert all("costs are less what runs beside" in warning.text for warning in busy)
    lines = json.loads((outcome.folder / "campaign.json").read_text())["preflight"]
    assert [line["ok"] for line in lines if line["check"] == "idle"] == [False]
    # A report says it once, too.
    told = [one for one in analyse(read_dataset(outcome.folder)).warnings if "busy, " in one.text]
    assert [one.code for one in told] == [WarningCode.HOST_BUSY] * 2


def test_an_option_that_a_simulated_host_does_not_know_is_named(tmp_path: Path) -> None:
    hosts = {n: HostSpec(n, "simulated", {"truth": {"per_kilo": 1}}) for n in ("client", "server")}
    with pytest.raises(AccessError, match="per_kilo"):
        asyncio.run(run(experiment(hosts=hosts), tmp_path, program=PROGRAM))


def test_the_failure_nearest_to_the_cause_is_told() -> None:
    async def fails(after_s: float, code: str) -> None:
        await asyncio.sleep(after_s)
        raise TrialError(code, code=code)

    async def scenario() -> None:
        with pytest.raises(TrialError, match="agent_lost"):
            await together([fails(0.0, "transport"), fails(0.8, "agent_lost")])
        assert await together([asyncio.sleep(0, 1), asyncio.sleep(0, 2)]) == [1, 2]

    asyncio.run(scenario())


def test_memory_counts_hosts_of_one_machine_together() -> None:
    class Testbed:
        def __init__(self, boot_ids: dict[str, str]) -> None:
            self.experiment = experiment()
            facts = {"memory_available_bytes": 600 << 20}
            self.sessions: Any = {
                name: type("S", (), {"hello": {"host": facts | {"boot_id": boot_id}}})
                for name, boot_id in boot_ids.items()
            }

    settings: Any = [{"connections": 1000, "window": 64 << 10}]
    apart = list(preflight._memory(Testbed({"client": "a", "server": "b"}), settings))  # type: ignore[arg-type]
    assert [line["ok"] for line, _ in apart] == [True, True]
    ((line, _),) = preflight._memory(Testbed({"client": "a", "server": "a"}), settings)  # type: ignore[arg-type]
    assert not line["ok"], "2 x (1000 x (128 KiB + 128 KiB) + 64 MiB) = 628 MiB"
    assert "may take 628 MiB, 600 MiB are available" in line["text"]
    # Small requests fill no buffer, and epoll needs no stack for each.
    few = {"connections": 10_000, "engine": "epoll", "size": 64, "response_size": 64, "queue_depth": 1}
    ((line, _),) = preflight._memory(Testbed({"client": "a", "server": "a"}), [few])  # type: ignore[arg-type]
    assert line["ok"], line["text"]
