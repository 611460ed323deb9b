"""Files and devices that loads use: laid out once, known again, never anybody else's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.core.errors import Interrupted, PreflightError
from iodyno.targets import block_device, care, layout, signatures
from iodyno.targets.signatures import MAGICS, signature_of

MIB = 1 << 20


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "work.dat")


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


def test_a_layout_is_made_once_and_used_again(target: str) -> None:
    told: list[tuple[int, int]] = []
    made = layout.lay_out(
        target, 3 * MIB, writes=False, progress=lambda done, whole: told.append((done, whole))
    )
    assert made.action == "made"
    assert told[-1] == (3 * MIB, 3 * MIB) and told == sorted(told)
    held = content_of(target)
    assert held[: 3 * MIB] == b"".join(layout.unit_content(unit) for unit in range(3 * 256))
    assert layout.stamp_of(target) == layout.Stamp(3 * MIB, "complete", pristine=True)
    before = Path(target).stat()
    assert layout.lay_out(target, 3 * MIB, writes=False).action == "reused"
    assert layout.lay_out(target, 2 * MIB, writes=False).action == "reused", "a larger one will do"
    assert Path(target).stat().st_mtime_ns == before.st_mtime_ns
    # No two blocks are alike, or a device below might keep one for all.
    assert len({held[at : at + 4096] for at in range(0, 3 * MIB, 4096)}) == 3 * 256


def test_a_load_that_writes_makes_the_content_unknown_and_keeps_the_layout(target: str) -> None:
    layout.lay_out(target, MIB, writes=True)
    with Path(target).open("r+b") as file:
        file.write(b"overwritten by a load")
    assert layout.lay_out(target, MIB, writes=False).action == "reused"
    layout.lay_out(target, 2 * MIB, writes=False)
    with Path(target).open("r+b") as file:
        file.write(os.urandom(2 * MIB))
    again = layout.lay_out(target, 2 * MIB, writes=False)
    assert again.action == "rebuilt" and "does not hold what was laid out" in again.why


def test_a_layout_that_lost_something_is_made_anew(target: str) -> None:
    layout.lay_out(target, MIB, writes=False)
    assert (
        layout.lay_out(target, 2 * MIB, writes=False).why
        == "it was laid out for 1048576 bytes, 2097152 are needed"
    )
    os.truncate(target, MIB)
    assert layout.lay_out(target, MIB, writes=False).why == "it has lost its stamp"
    with Path(target).open("r+b") as file:
        stamp = content_of(target)[-4096:]
        file.truncate(0)
        file.seek(MIB)
        file.write(stamp)
    assert "holes are read from nowhere" in layout.lay_out(target, MIB, writes=False).why
    assert layout.lay_out(target, MIB, writes=False).action == "reused"


def test_a_layout_that_is_killed_is_known_and_made_anew(target: str) -> None:
    said = (
        "import sys, time\nfrom iodyno.targets import layout\n"
        "def slow(done, whole):\n    print(done, flush=True)\n    time.sleep(60)\n"
        f"layout.lay_out({target!r}, {8 * MIB}, writes=False, progress=slow)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", said], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert int(process.stdout.readline()) == MIB  # in the middle of it
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    stamp = layout.stamp_of(target)
    assert stamp is not None and stamp.state == "building"
    again = layout.lay_out(target, 8 * MIB, writes=True)
    assert (again.action, again.why) == ("rebuilt", "its layout was interrupted")
    assert layout.lay_out(target, 8 * MIB, writes=True).action == "reused"


def test_a_layout_that_is_stopped_leaves_nothing(target: str) -> None:
    asked = iter((False, True))
    with pytest.raises(Interrupted):
        layout.lay_out(target, 8 * MIB, writes=False, stopped=lambda: next(asked))
    assert not Path(target).exists()


def test_what_others_wrote_is_read_and_never_written(target: str) -> None:
    mine = os.urandom(2 * MIB)
    Path(target).write_bytes(mine)
    assert layout.lay_out(target, 2 * MIB, writes=False).action == "foreign"
    with pytest.raises(PreflightError, match="holds bytes that iodyno did not write") as refused:
        layout.lay_out(target, MIB, writes=True)
    assert f"--destroy {target}" in refused.value.advice
    with pytest.raises(PreflightError, match="2097152 bytes long, fewer than the 3145728"):
        layout.lay_out(target, 3 * MIB, writes=False)
    with pytest.raises(PreflightError, match="left alone"):
        layout.remove(target)
    assert content_of(target) == mine
    assert layout.lay_out(target, MIB, writes=True, destroy=True).action == "rebuilt"
    assert layout.remove(target) and not Path(target).exists()
    assert not layout.remove(target)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("{tmp}/no/folder", "the folder of the target is not there"),
        ("{tmp}", "is a folder"),
        ("/dev/null", "is no block device"),
        ("/dev/no-such-device", "cannot be opened: No such file or directory"),
    ],
)
def test_what_cannot_be_a_target_is_told(tmp_path: Path, path: str, said: str) -> None:
    with pytest.raises(PreflightError) as refused:
        care.make_ready(path.format(tmp=tmp_path), MIB, writes=True)
    assert refused.value.what == said and refused.value.advice


def test_a_working_set_without_room_is_refused_before_anything_is_written(target: str) -> None:
    with pytest.raises(PreflightError, match=r"does not fit: .* MiB are free there"):
        layout.lay_out(target, 1 << 50, writes=False)
    assert not Path(target).exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("a file system of 4 MiB is mounted for this: needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "iodyno-test", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.root
def test_a_disk_that_is_full_or_read_only_is_told_and_left_as_it_was(small_disk: Path) -> None:
    path = str(small_disk / "work.dat")
    with pytest.raises(PreflightError, match=r"a working set of 8 MiB does not fit: 4 MiB are free"):
        layout.lay_out(path, 8 * MIB, writes=False)
    ready = care.make_ready(path, MIB, writes=False)
    assert ready.in_memory and ready.device is None and ready.file_system == "tmpfs"
    layout.remove(path)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(PreflightError, match="cannot be laid out: Read-only file system"):
        layout.lay_out(path, MIB, writes=False)


def test_a_disk_that_fills_up_meanwhile_is_told(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(PreflightError, match="the disk is full"):
        layout.lay_out(target, MIB, writes=False)
    assert not Path(target).exists()


def test_what_a_file_lies_on_is_found(target: str) -> None:
    Path(target).write_bytes(b"x")
    below = block_device.under(target)
    number = Path(target).stat().st_dev
    if os.major(number):
        assert below.device == Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve().name
        assert not below.in_memory
    assert below.file_system


# Devices


def on_a_device(length: int, *pieces: tuple[int, bytes]) -> str | None:
    held = bytearray(length)
    for offset, piece in pieces:
        held[offset : offset + len(piece)] = piece
    return signature_of(lambda offset, count: bytes(held[offset : offset + count]), length)


@pytest.mark.parametrize("magic", MAGICS, ids=lambda magic: f"{magic.name}@{magic.offset}")
def test_every_magic_number_is_seen(magic: signatures.Magic) -> None:
    length = 4 * MIB
    offset = magic.offset if magic.offset >= 0 else length + magic.offset
    assert on_a_device(length, (offset, magic.bytes)) == magic.name


def test_an_old_raid_member_is_seen_and_an_empty_device_is_not() -> None:
    length = 4 * MIB + 12_288
    assert on_a_device(length, (4 * MIB - 65_536, b"\xfc\x4e\x2b\xa9")) == "a member of a RAID"
    assert on_a_device(length) is None
    assert on_a_device(0) is None and on_a_device(100) is None


@given(length=st.integers(0, 400_000), piece=st.binary(max_size=64), at=st.integers(0, 400_000))
def test_whatever_is_on_a_device_is_read_without_complaint(length: int, piece: bytes, at: int) -> None:
    assert on_a_device(length, (min(at, length), piece[: max(0, length - at)])) in {
        None,
        *(m.name for m in MAGICS),
    }


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    if os.geteuid() != 0:
        pytest.skip("a loop device is attached for this: needs root")
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
def test_a_device_with_content_needs_the_word_and_one_in_use_is_refused(loop: tuple[str, Path]) -> None:
    device, folder = loop
    ready = care.make_ready(device, 8 * MIB, writes=True)
    assert (ready.kind, ready.device) == ("device", Path(device).name)
    with pytest.raises(PreflightError, match="has 67108864 bytes, fewer than"):
        care.make_ready(device, 65 * MIB, writes=True)
    subprocess.run(["mkfs.ext4", "-q", device], check=True)
    before = Path(device).read_bytes()
    for writes in (True, False):
        with pytest.raises(PreflightError, match="holds an ext2, ext3 or ext4 file system") as refused:
            care.make_ready(device, 8 * MIB, writes=writes)
        assert f"--destroy {device}" in refused.value.advice
    assert Path(device).read_bytes() == before, "looking changes nothing"
    place = folder / "mounted"
    place.mkdir()
    subprocess.run(["mount", device, place], check=True)
    try:
        with pytest.raises(PreflightError, match=f"is mounted at {place}"):
            care.make_ready(device, 8 * MIB, writes=True, destroy=True)
    finally:
        subprocess.run(["umount", place], check=True)
    assert wait_for(lambda: not block_device.users(device))
    assert care.make_ready(device, 8 * MIB, writes=True, destroy=True).action == "none"


def wait_for(holds: object, most_s: float = 60.0) -> bool:
    """Whether it holds within that time: the kernel lets go of a device a moment after its last user."""
    end = time.monotonic() + most_s
    while time.monotonic() < end:
        if holds():  # type: ignore[operator]
            return True
        time.sleep(0.05)
    return False
