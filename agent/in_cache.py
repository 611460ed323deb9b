"""Runs a command on a copy of the agent and its tools in the cache: `python3 agent/in_cache.py cargo test`.

All clones on a machine share the copy, and with it all that cargo built there, as long as lockfile and compiler are the
same. Cargo compares times, and those of another clone's files say nothing of what they contain; a file of the copy
keeps its time until its content changes. While one clone uses the copy, another one builds in its own `agent/target`.
"""

import fcntl
import filecmp
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("agent", "schema", "tools")
_NO_SOURCES = {"target", "__pycache__"}
KEPT = 2
"""Copies, of the last lockfiles and compilers that were used."""


def files_of(root: Path) -> set[Path]:
    """The files that are copied, relative to `root`."""
    found = (path for folder in COPIED for path in (root / folder).rglob("*") if path.is_file())
    return {path.relative_to(root) for path in found if path.relative_to(root).parts[1] not in _NO_SOURCES}


def mirror(copy: Path) -> None:
    """Makes the copy equal to the checkout, and touches nothing that is equal already."""
    wanted = files_of(ROOT)
    for name in files_of(copy) - wanted:
        (copy / name).unlink()
    for name in wanted:
        source, target = ROOT / name, copy / name
        if not target.is_file() or not filecmp.cmp(source, target, shallow=False):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


def forget_old(cache: Path) -> None:
    """Removes copies that were not used for longest, but none that is in use."""
    for lock in sorted(cache.glob("*.lock"), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            lock.unlink()


def main() -> int:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iodyno-build"
    cache.mkdir(parents=True, exist_ok=True)
    compiler = subprocess.run(["rustc", "-vV"], cwd=ROOT / "agent", capture_output=True, check=True).stdout
    key = hashlib.sha256((ROOT / "agent" / "Cargo.lock").read_bytes() + compiler).hexdigest()[:12]
    copy = cache / key
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    with (cache / f"{key}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return subprocess.run(sys.argv[1:], check=False, cwd=ROOT / "agent", env=environment).returncode
        os.utime(lock.name)
        forget_old(cache)
        mirror(copy)
        return subprocess.run(sys.argv[1:], check=False, cwd=copy / "agent", env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
