"""What a lab that is gone has left is removed; what others have by the same name or number is not, whoever put it there."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import HUNG_S, PROGRAM, experiment
from places import run as campaign

from iodyno import run_folder
from iodyno.core.errors import AccessError
from iodyno.hosts import sandbox
from iodyno.paths.volumes import volume
from iodyno.targets import throttle

pytestmark = pytest.mark.root
NOBODY = 65534
GONE = "999999999-1-x"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for notes of the test's own."""
    monkeypatch.setattr(run_folder, "RUN", tmp_path / "run" / "iodyno")
    return tmp_path / "run" / "iodyno"


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file system that somebody else has mounted."""
    place = tmp_path / "victim"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "iodyno-test", place], check=True)
    (place / "letter").write_text("kept")
    yield place
    subprocess.run(["umount", place], check=False)


def killed(program: str, **environment: str) -> None:
    """Runs a lab that kills itself."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program) + "\nimport os; os.kill(os.getpid(), 9)"],
        env=os.environ | environment,
        capture_output=True,
        timeout=HUNG_S,
        check=False,
    )
    assert ended.returncode == -9, ended.stderr


def restore(temporary: Path, run: str) -> subprocess.CompletedProcess[str]:
    """`iodyno restore` of root, where `run` has made what is in /run."""
    main = "from iodyno.cli.main import main; main()"
    return subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs /run && {run}; exec "$@"', "sh"),
            *(sys.executable, "-c", main, "restore"),
        ],
        env=os.environ | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        check=False,
    )


def test_what_any_account_names_in_a_folder_for_temporary_files_is_left_alone(victim: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix="iodyno-test-"))
    temporary.chmod(0o1777)
    names = [temporary / f"iodyno-{kind}-999999999-x" for kind in ("sandbox", "guest")]
    try:
        for name in names:
            (name / "state").mkdir(parents=True)
            (name / "state" / "null-netns").symlink_to(victim)
            subprocess.run(["chown", "-hR", str(NOBODY), name], check=True)
        main = "from iodyno.cli.main import main; main()"
        subprocess.run(
            [sys.executable, "-c", main, "restore"],
            env=os.environ | {"TMPDIR": str(temporary)},
            capture_output=True,
            timeout=HUNG_S,
            check=False,
        )
        assert os.path.ismount(victim) and (victim / "letter").read_text() == "kept"
        assert all(os.path.lexists(name / "state" / "null-netns") for name in names)
    finally:
        shutil.rmtree(temporary)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("mkdir /run/iodyno; ln -s {folder} /run/iodyno/volumes", "is no folder"),
        (
            "mkdir /run/iodyno; cp -a {folder} /run/iodyno/volumes; chown 65534 /run/iodyno",
            "belongs to another account (65534)",
        ),
        (
            "mkdir /run/iodyno; cp -a {folder} /run/iodyno/volumes; chmod 777 /run/iodyno/volumes",
            "can be written by other accounts",
        ),
    ],
)
def test_notes_where_others_may_write_are_not_followed(made: str, said: str, tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    (folder := tmp_path / "folder").mkdir()
    note = folder / f"{GONE}.json"
    note.write_text(json.dumps({"folder": [run_folder.identity(kept)]}))
    shown = restore(tmp_path, made.format(folder=folder))
    assert kept.exists() and note.exists()
    assert shown.returncode == 3 and said in shown.stderr and "Traceback" not in shown.stderr, shown.stderr
    assert "restored on local" in shown.stdout, "settings are restored all the same"


def test_a_note_of_a_lab_that_is_gone_is_carried_out(run: Path, tmp_path: Path) -> None:
    (made := tmp_path / "made").mkdir()
    (run_folder.folder(volume.NOTES) / f"{GONE}.json").write_text(
        json.dumps({"folder": [run_folder.identity(made)]})
    )
    assert run.stat().st_mode & 0o777 == 0o755 and (run / volume.NOTES).stat().st_mode & 0o777 == 0o700
    assert volume.remove_leftovers() == [GONE]
    assert not made.exists()


def test_the_folder_of_a_volume_that_another_took_the_place_of_is_left(
    run: Path, victim: Path, tmp_path: Path
) -> None:
    """A folder for temporary files is cleaned after some days; then anybody may make one of that name."""
    note = volume.Note("nbd", "t")
    folder = note.make_folder(tmp_path)
    assert folder.stat().st_mode & 0o777 == 0o700
    (target := folder / "clients" / "a" / "target").parent.mkdir(parents=True)
    note.add("mount", target)
    note.add("file_system", folder / "clients" / "a" / "files")
    folder.rename(tmp_path / "as it was")
    target.parent.mkdir(parents=True)
    for name in ("target", "files"):
        (target.parent / name).symlink_to(victim)
    note.undo()
    assert os.path.ismount(victim) and (target.parent / "files").is_symlink()
    assert not list((run / volume.NOTES).iterdir()), "there is nothing of it any more"


def test_a_folder_that_somebody_made_before_is_not_used(run: Path, tmp_path: Path) -> None:
    note = volume.Note("file", "t")
    (there := tmp_path / note.name).mkdir()
    with pytest.raises(FileExistsError):
        note.make_folder(tmp_path)
    note.undo()
    assert there.exists()


@pytest.mark.alone  # Another lab may take the number of the device in between.
def test_a_loop_device_whose_number_another_has_by_now_stays(run: Path, tmp_path: Path) -> None:
    device = ""
    try:
        killed(
            f"""
            import asyncio, pathlib
            from iodyno import run_folder
            from iodyno.paths.volumes import block
            from iodyno.paths.volumes.volume import Place
            run_folder.RUN = pathlib.Path({str(run)!r})
            asyncio.run(block.make_loop(Place(pathlib.Path({str(tmp_path)!r}), 1 << 20)))
            """
        )
        (note,) = (run / volume.NOTES).glob("*.json")
        device = json.loads(note.read_text())["loop"][0].split(" ")[0]
        subprocess.run(["losetup", "-d", device], check=True)
        other = tmp_path / "disk of somebody else"
        other.write_bytes(bytes(1 << 20))
        subprocess.run(["losetup", device, other], check=True)
        assert volume.remove_leftovers() == [note.stem]
        attached = Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text().strip()
        assert attached == str(other)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["disk of somebody else", "run"]
    finally:
        subprocess.run(["losetup", "-d", device], check=False, capture_output=True)


def test_a_campaign_with_nothing_left_to_do_removes_what_a_killed_lab_left(tmp_path: Path) -> None:
    """As when the lab was killed after its last trial."""
    asked = experiment()
    done = asyncio.run(campaign(asked, tmp_path, program=PROGRAM))
    namespace = f"iodyno-{GONE}"
    subprocess.run(["ip", "netns", "add", namespace], check=True)
    try:
        again = asyncio.run(campaign(asked, tmp_path, resume=done.folder, program=PROGRAM))
        assert again.finished == done.finished
        assert not (Path("/run/netns") / namespace).exists()
    finally:
        subprocess.run(["ip", "netns", "delete", namespace], check=False, capture_output=True)


def test_a_process_that_has_the_number_of_an_earlier_one_lives_on(run: Path) -> None:
    later = subprocess.Popen(["sleep", "60"])
    try:
        started = run_folder.start_ticks(later.pid)
        assert started is not None
        volume.undo({"process": [f"{later.pid}:{started - 1}", f"{later.pid}:0"]})
        assert later.poll() is None
        volume.undo({"process": [f"{later.pid}:{started}"]})
        assert later.wait(HUNG_S) == -9
    finally:
        later.kill()
        later.wait()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
def test_the_bundle_of_a_sandbox_goes_with_its_note_and_no_other(
    run: Path, victim: Path, tmp_path: Path
) -> None:
    def left_by_a_killed_lab() -> tuple[Path, Path]:
        killed(
            f"""
            import asyncio, pathlib
            from iodyno import run_folder
            from iodyno.hosts.access import AgentProgram
            from iodyno.hosts.sandbox import SandboxAccess
            run_folder.RUN = pathlib.Path({str(run)!r})
            async def main():
                async def nothing(): pass
                access = SandboxAccess("far", "ns", "198.18.0.1", (), pathlib.Path("/bin/true"), nothing)
                await access.start(AgentProgram(pathlib.Path("/bin/true"), "", ""))
            asyncio.run(main())
            """,
            TMPDIR=str(tmp_path),
        )
        (note,) = run_folder.left("sandboxes")
        (bundle,) = tmp_path.glob("iodyno-sandbox-*")
        return note, bundle

    note, bundle = left_by_a_killed_lab()
    held = note / "state" / "null-netns"
    held.parent.mkdir()
    held.touch()
    subprocess.run(["mount", "--bind", "/proc/self/ns/net", held], check=True)
    sandbox.remove_leftovers()
    assert not note.exists() and not bundle.exists()

    note, bundle = left_by_a_killed_lab()
    bundle.rename(tmp_path / "as it was")
    bundle.symlink_to(victim)
    sandbox.remove_leftovers()
    assert not note.exists() and (victim / "letter").exists() and bundle.is_symlink()


def test_a_throttle_of_a_lab_that_lives_is_not_removed_by_another() -> None:
    version = throttle._version()
    if version is None:
        pytest.skip("no control group throttles devices here")
    parent = throttle.GROUPS / "blkio" if version == 1 else throttle.GROUPS
    groups = [parent / f"iodyno-throttle-{maker}" for maker in (f"{run_folder.maker()}-loop0", GONE)]
    try:
        for group in groups:
            group.mkdir()
        throttle.remove_leftovers()
        assert [group.exists() for group in groups] == [True, False]
    finally:
        for group in groups:
            if group.exists():
                group.rmdir()


def test_a_folder_for_notes_that_is_a_link_is_refused(run: Path, tmp_path: Path) -> None:
    run.parent.mkdir()
    run.symlink_to(tmp_path)
    with pytest.raises(AccessError, match="is no folder") as refused:
        run_folder.folder("volumes")
    assert refused.value.where == str(run) and refused.value.advice
