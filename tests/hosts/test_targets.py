"""Targets made ready by an agent where they are: on this machine and over ssh, interrupted, refused, on real devices."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_devices import asked
from made_targets import stamp_of
from places import HUNG_S, SshPlace, own_agent, processes_of, run, ssh_place

from iodyno.analysis.dataset import read_dataset
from iodyno.cli import main as command_line
from iodyno.core.errors import PreflightError
from iodyno.formats.experiment_file import experiment_text, parse_experiment
from iodyno.hosts.access import LAB_CPUS, Access, AgentProgram
from iodyno.hosts.local import LocalAccess
from iodyno.hosts.ssh import SshAccess
from iodyno.hosts.target import Ready, TargetKeeper, Wanted

MIB = 1 << 20
GIB = 1 << 30
needs_sshd = pytest.mark.skipif(
    not Path("/usr/sbin/sshd").exists(), reason="needs sshd (Debian: openssh-server)"
)


@pytest.fixture
def program(tmp_path: Path) -> AgentProgram:
    return own_agent(tmp_path)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshPlace]:
    with ssh_place(tmp_path_factory.mktemp("ssh") / "place", 7) as made:
        yield made


@contextlib.asynccontextmanager
async def keeper_of(access: Access, program: AgentProgram) -> AsyncIterator[TargetKeeper]:
    try:
        async with await TargetKeeper.start(access, program) as keeper:
            yield keeper
    finally:
        await access.close()


def here() -> LocalAccess:
    return LocalAccess("local", sorted(LAB_CPUS))


def ready(program: AgentProgram, path: object, size: int = MIB, **more: bool) -> Ready:
    async def asked() -> Ready:
        async with keeper_of(here(), program) as keeper:
            return await keeper.make_ready(Wanted(str(path), size, **more))

    return asyncio.run(asked())


def remove(program: AgentProgram, path: Path) -> bool:
    async def asked() -> bool:
        async with keeper_of(here(), program) as keeper:
            return await keeper.remove(str(path))

    return asyncio.run(asked())


def over_ssh(place: SshPlace, target: Path) -> dict[str, Any]:
    return {
        "name": "far",
        "hosts": {"client": {"access": "ssh", **place.options}},
        "workload": {
            "kind": "disk",
            "hosts": "client",
            "target": str(target),
            "working_set": "4MiB",
        },
        "design": {"replicates": 1},
        "windows": {"warm_up": "0s", "measured": "300ms", "interval": "100ms"},
        "limits": {"retries": 0, "background_window": "100ms", "background": 1.0},
        "profile": "off",
    }


@pytest.mark.root
@needs_sshd
def test_a_file_of_a_host_over_ssh_is_laid_out_there_used_again_and_removed(
    place: SshPlace, program: AgentProgram, tmp_path: Path
) -> None:
    target = place.home / "work.dat"

    def kept(asked: Wanted) -> Ready:
        async def there() -> Ready:
            async with keeper_of(SshAccess("client", place.options), program) as keeper:
                return await keeper.make_ready(asked)

        return asyncio.run(there())

    told = kept(Wanted(str(target), 4 * MIB))
    assert told.action == "made"
    stamp = stamp_of(target)
    assert stamp is not None and (stamp["size_bytes"], stamp["state"]) == (4 * MIB, "complete")
    experiment = parse_experiment(experiment_text(over_ssh(place, target)), environment={})
    outcome = asyncio.run(run(experiment, tmp_path, program=program, remove_targets=True))
    (trial,) = read_dataset(outcome.folder).trials
    assert trial.finished, trial.reason
    header = json.loads((outcome.folder / "campaign.json").read_text())
    ((where, known),) = header["targets"].items()
    assert (where, known["action"]) == (f"client:{target}", "reused")
    # What lies under it is known as it is on the lab's machine.
    found = trial.manifest["targets"]["client"]
    assert (found["file_system"], found["device"]) == (told.file_system, told.device)
    assert not target.exists()
    # What somebody else has there is neither written nor removed.
    target.write_bytes(b"a letter" * MIB)
    with pytest.raises(PreflightError, match="holds bytes that iodyno did not write") as refused:
        kept(Wanted(str(target), 4 * MIB, writes=True))
    assert refused.value.where == f"client: {target}" and "--destroy" in refused.value.advice
    assert target.read_bytes() == b"a letter" * MIB
    target.unlink()


@pytest.mark.root
@needs_sshd
def test_the_typed_word_removes_what_was_laid_out_over_ssh_and_nothing_else(
    place: SshPlace,
    program: AgentProgram,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    # A person's account knows the host by its own configuration: this client has one, too.
    config = tmp_path / "config"
    config.write_text(
        f"Host *\n  IdentityFile {place.options['identity_file']}\n"
        f"  UserKnownHostsFile {place.options['known_hosts_file']}\n"
    )
    client = tmp_path / "ssh"
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("IODYNO_AGENT", str(program.path))

    def remove(target: Path | str, *more: str) -> tuple[int, str, str]:
        on = f"ssh:{place.options['to']}"
        status = command_line.run(["disk", "--on", on, "--target", str(target), "--remove-target", *more])
        return status, *capfd.readouterr()

    laid_out = [place.home / f"client-{number}.dat" for number in (1, 2)]

    async def laid() -> None:
        async with keeper_of(SshAccess("far", place.options), program) as keeper:
            for path in laid_out:
                await keeper.make_ready(Wanted(str(path), MIB))

    asyncio.run(laid())
    letter = place.home / "letter.dat"
    letter.write_bytes(b"a letter" * MIB)
    status, _, why = remove(letter)
    assert status == 4 and str(letter) in why, why
    assert letter.read_bytes() == b"a letter" * MIB
    letter.unlink()
    status, shown, why = remove(place.home / "{host}.dat", "--clients", "2", "--json")
    assert status == 0, why
    assert json.loads(shown) == {"removed": {str(path): True for path in laid_out}}
    assert not any(path.exists() for path in laid_out)
    assert remove(laid_out[0])[:2] == (0, f"{laid_out[0]} is not there\n")


@pytest.mark.root
@needs_sshd
def test_an_agent_killed_over_ssh_in_the_middle_is_one_error_and_the_next_one_repairs(
    place: SshPlace, program: AgentProgram
) -> None:
    target = place.home / "large.dat"

    async def killed(size: int) -> bool:
        """Whether it was killed before it was done."""
        access = SshAccess("far", place.options)
        cached = place.home / f".cache/iodyno/agent-{program.sha256[:16]}"
        async with keeper_of(access, program) as keeper:
            asking = asyncio.ensure_future(keeper.make_ready(Wanted(str(target), size)))
            while not (asking.done() or (target.exists() and stamp_of(target))):
                await asyncio.sleep(0.002)
            for process in processes_of(cached):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, 9)
            outcome = (await asyncio.gather(asking, return_exceptions=True))[0]
        if isinstance(outcome, Ready):
            return False
        assert "host far" in str(outcome), outcome
        return True

    async def repaired() -> Ready:
        async with keeper_of(SshAccess("far", place.options), program) as keeper:
            found = await keeper.make_ready(Wanted(str(target), MIB))
            assert await keeper.remove(str(target))
            return found

    try:
        # A machine that stands still for the length of a layout does not see the middle of it.
        assert any(asyncio.run(killed(size)) for size in (GIB, GIB + MIB, 2 * GIB, 4 * GIB))
        stamp = stamp_of(target)
        assert stamp is not None and stamp["state"] == "building"
        found = asyncio.run(repaired())
        assert (found.action, found.why) == ("rebuilt", "its layout was interrupted")
        assert not target.exists()
    finally:
        target.unlink(missing_ok=True)


def test_a_layout_whose_lab_is_gone_leaves_nothing(program: AgentProgram, tmp_path: Path) -> None:
    target = tmp_path / "work.dat"
    wanted = {"path": str(target), "kind": "file", "size_bytes": 4 * GIB}
    wanted |= dict.fromkeys(("writes", "appends", "destroy"), False)
    agent = subprocess.Popen(
        [program.path, "target"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert agent.stdin is not None and agent.stdout is not None
    try:
        agent.stdin.write(json.dumps({"do": "make_ready", "wanted": wanted}) + "\n")
        agent.stdin.flush()
        while not target.exists() and agent.poll() is None:
            time.sleep(0.005)
        agent.stdin.close()
        said = [json.loads(line) for line in agent.stdout]
        assert agent.wait(HUNG_S) == 0
        # It may have been done before it heard.
        assert (said[-1]["said"] == "ready") == target.exists(), said[-1]
        assert said[-1]["said"] == "ready" or said[-1]["stopped"]
    finally:
        agent.kill()
        agent.wait()
        agent.stdout.close()
        target.unlink(missing_ok=True)


@pytest.mark.parametrize("line", ["", "{", '{"do": "dance"}', '{"do": "remove"}', '{"do": "see", "path": 5}'])
def test_a_question_that_is_not_understood_is_answered(program: AgentProgram, line: str) -> None:
    shown = subprocess.run([program.path, "target"], input=line + "\n", capture_output=True, text=True)
    answer = json.loads(shown.stdout)
    assert answer["said"] == "refused" and "not understood" in answer["what"] and shown.returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "iodyno-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.root
def test_a_disk_that_is_full_or_read_only_is_told_and_left_as_it_was(
    small_disk: Path, program: AgentProgram
) -> None:
    path = small_disk / "work.dat"
    with pytest.raises(
        PreflightError, match=r"a working set of 8\.0 MiB does not fit: .* takes 9\.1 MiB, and 4\.0"
    ):
        ready(program, path, 8 * MIB)
    assert not path.exists()
    found = ready(program, path)
    assert found.in_memory and found.device is None and found.file_system == "tmpfs"
    # As much as there is: what does not fit is what the file system needs beside it.
    with pytest.raises(
        PreflightError, match=r"set of 4\.0 MiB does not fit: .* it takes 5\.1 MiB, and 4\.0 MiB are free"
    ):
        ready(program, path, 4 * MIB)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(PreflightError, match="cannot be laid out: Read-only file system"):
        ready(program, small_disk / "other.dat")
    assert ready(program, path).action == "reused"
    with pytest.raises(PreflightError, match="cannot be written: Read-only file system"):
        ready(program, path, writes=True)
    with pytest.raises(PreflightError, match="cannot be removed: Read-only file system") as refused:
        remove(program, path)
    assert refused.value.advice == "mount its file system for writing first"


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    image = tmp_path / "image"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    made = subprocess.run(["losetup", "-f", "--show", image], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no loop device: {made.stderr.strip()}")
    device = made.stdout.strip()
    yield device, tmp_path
    subprocess.run(["losetup", "-d", device], check=True)


@pytest.mark.root
def test_a_device_with_content_needs_the_word_and_one_in_use_is_refused(
    loop: tuple[str, Path], program: AgentProgram
) -> None:
    device, folder = loop
    found = ready(program, device, 8 * MIB, writes=True)
    assert (found.kind, found.device, found.action) == ("device", Path(device).name, "none")
    with pytest.raises(PreflightError, match="has 67108864 bytes, fewer than"):
        ready(program, device, 65 * MIB)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    before = Path(device).read_bytes()
    for writes in (True, False):
        with pytest.raises(PreflightError, match="holds an ext2, ext3 or ext4 file system") as refused:
            ready(program, device, 8 * MIB, writes=writes)
        assert f"--destroy {device}" in refused.value.advice
    assert Path(device).read_bytes() == before, "looking changes nothing"
    place = folder / "mounted here"
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    try:
        with pytest.raises(PreflightError, match=f"is mounted at {place}"):
            ready(program, device, 8 * MIB, writes=True, destroy=True)
    finally:
        subprocess.run(["umount", place], check=True)
    # The kernel lets go of a device a moment after its last user.
    end = time.monotonic() + HUNG_S
    while True:
        try:
            assert ready(program, device, 8 * MIB, writes=True, destroy=True).action == "none"
            return
        except PreflightError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


@pytest.mark.root
def test_a_file_that_a_device_is_made_of_is_refused_whatever_is_said(
    loop: tuple[str, Path], program: AgentProgram
) -> None:
    device, folder = loop
    image, other = folder / "image", folder / "other name"
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    before = image.read_bytes()
    os.link(image, other)
    for path in (image, other):
        for wanted in (
            {"writes": True},
            {"writes": True, "destroy": True},
            {"appends": True, "writes": True},
        ):
            with pytest.raises(PreflightError, match=f"is what {device} is made of"):
                ready(program, path, **wanted)
    assert image.read_bytes() == before
    place = folder / "mounted here"
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    try:
        with pytest.raises(PreflightError, match=f"is what {device} is made of, mounted at {place}"):
            ready(program, image, writes=True, destroy=True)
        # A file on it is one like all others.
        assert ready(program, place / "work.dat", writes=True).action == "made"
    finally:
        subprocess.run(["umount", place], check=True)
    assert ready(program, image).action == "foreign", "it may be read"


@pytest.mark.root
@pytest.mark.parametrize(
    ("make", "named"),
    [
        (("mkfs.minix",), "a minix file system"),
        (("mkfs.minix", "-3"), "a minix file system"),
        (("mkfs.cramfs",), "a cramfs file system"),
        (("mkswap", "-p", "8192"), "swap space"),
    ],
)
def test_what_the_tools_of_this_machine_write_is_seen(
    loop: tuple[str, Path], program: AgentProgram, make: tuple[str, ...], named: str
) -> None:
    device, folder = loop
    if shutil.which(make[0]) is None:
        pytest.skip(f"{make[0]} is not here")
    if make[0] == "mkfs.cramfs":
        (folder / "content").mkdir()
        subprocess.run([*make, folder / "content", device], check=True, capture_output=True)
    else:
        subprocess.run([*make, device], check=True, capture_output=True)
    with pytest.raises(PreflightError, match=f"holds {named}"):
        ready(program, device, 8 * MIB, writes=True)
    assert ready(program, device, 8 * MIB, writes=True, destroy=True).action == "none"


@pytest.mark.root
def test_a_device_with_data_of_no_known_kind_needs_the_word(
    loop: tuple[str, Path], program: AgentProgram
) -> None:
    device, _ = loop
    letter = b"a letter"

    def wrote(at: int) -> None:
        with Path(device).open("r+b") as file:
            file.seek(at)
            file.write(letter)

    found = ready(program, device, 8 * MIB, writes=True)
    assert found.why == "nobody's data in the first and the last MiB of the device and the working set"
    for size, at in ((8 * MIB, 5 * MIB + 7), (8 * MIB, 64 * MIB - 8), (64 * MIB, 0)):
        wrote(at)
        with pytest.raises(PreflightError, match=rf"holds data of no known kind \(byte {at}\)") as refused:
            ready(program, device, size, writes=True)
        assert f"--destroy {device}" in refused.value.advice
        assert ready(program, device, size).action == "none", "it may be read"
        assert ready(program, device, size, writes=True, destroy=True).action == "none"
        with Path(device).open("r+b") as file:
            file.seek(at)
            assert file.read(len(letter)) == letter, "looking changes nothing"
            file.seek(at)
            file.write(bytes(len(letter)))
    # Of a long working set, places all over it are looked at.
    with Path(device).open("r+b") as file:
        file.seek(20 * MIB)
        file.write(b"x" * 2 * MIB)
    with pytest.raises(PreflightError, match="holds data of no known kind"):
        ready(program, device, 64 * MIB, writes=True)


@pytest.mark.root
@pytest.mark.parametrize(
    "asked",
    [
        {"content": "random", "pattern": "sequential"},
        {"content": "compressible(50%)", "pattern": "sequential"},
        {"verify": "write", "align": 512},
    ],
)
def test_a_device_that_only_loads_have_written_to_may_be_used_again(
    loop: tuple[str, Path], program: AgentProgram, asked: dict[str, Any], tmp_path: Path
) -> None:
    device, _ = loop
    text = experiment_text(
        {
            "name": "again",
            "hosts": {"client": {"access": "local"}},
            "workload": {
                **{"kind": "disk", "hosts": "client", "target": device, "working_set": "8MiB"},
                **{"read": "0%", "block": "12KiB", **asked},
            },
            "design": {"replicates": 1},
            "windows": {"warm_up": "0s", "measured": "300ms", "interval": "100ms"},
            "limits": {"retries": 0, "background_window": "100ms", "background": 1.0},
            "profile": "off",
        }
    )
    for _ in range(2):
        outcome = asyncio.run(run(parse_experiment(text, environment={}), tmp_path, program=program))
        assert outcome.finished == 1
    assert any(Path(device).read_bytes()[: 8 * MIB])


def test_a_working_set_is_written_over_before_the_first_trial_and_trials_rest(tmp_path: Path) -> None:
    """All of it, also for a load that only reads; and somebody else's file is refused as one that would be written."""
    hosts = {"client": {"access": "local"}}
    target, theirs = tmp_path / "work.dat", tmp_path / "theirs.dat"
    theirs.write_bytes(bytes(9 * MIB))
    first = asked(hosts, {"block": ["4KiB"]}, target=str(target), measured="100ms")
    asyncio.run(run(first, tmp_path))
    before = target.read_bytes()[: 8 * MIB]
    again = asked(hosts, {"block": ["4KiB", "8KiB"]}, target=str(target), measured="100ms", precondition=1)
    again = replace(again, limits=replace(again.limits, rest_ns=500_000_000))
    outcome = asyncio.run(run(again, tmp_path))
    after = target.read_bytes()[: 8 * MIB]
    blocks = range(0, 8 * MIB, 4096)
    assert all(before[at : at + 4096] != after[at : at + 4096] for at in blocks)
    trials = read_dataset(outcome.folder).trials
    assert [trial.finished for trial in trials] == [True, True]
    ends, begins = (
        trials[0].manifest["hosts"]["client"]["result"],
        trials[1].manifest["hosts"]["client"]["result"],
    )
    assert begins["start_ns"] - ends["start_ns"] >= 700_000_000
    refused = asked(hosts, {"block": ["4KiB"]}, target=str(theirs), measured="100ms", precondition=1)
    with pytest.raises(PreflightError, match="destroy"):
        asyncio.run(run(refused, tmp_path))
