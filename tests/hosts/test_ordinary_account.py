"""`iodyno tunables` and `iodyno restore` as an account that is not root: what it can do, and what it says that only root can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import HUNG_S, ssh_place

import iodyno
from iodyno.cli.tunables import command as tunables
from iodyno.hosts.ssh import SshAccess

pytestmark = pytest.mark.root
NOBODY = 65534
LEFT = "iodyno-999999999-1-client"
_BECOME = f'exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups "$@"'


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files that every account may write to."""
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv to become another account")
    source = Path(iodyno.__file__)
    if subprocess.run(["sh", "-c", _BECOME, "sh", "test", "-r", source], check=False).returncode:
        pytest.skip(f"other accounts may not read {source}")
    folder = Path(tempfile.mkdtemp(prefix="iodyno-test-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_nobody(folder: Path, run: str, *words: str) -> subprocess.CompletedProcess[str]:
    """The command, where `run` has made what is in /run, which nobody else sees."""
    return subprocess.run(
        [
            *("unshare", "--mount", "sh", "-c", f"mount -t tmpfs tmpfs /run; {run}; {_BECOME}", "sh"),
            *(sys.executable, "-c", "from iodyno.cli.main import main; main()", *words),
        ],
        capture_output=True,
        text=True,
        timeout=HUNG_S,
        cwd=folder,
        env=os.environ | {"TMPDIR": str(folder), "HOME": str(folder), "XDG_RUNTIME_DIR": ""},
        check=False,
    )


@pytest.mark.parametrize(
    ("run", "status", "said"),
    [
        ("true", 0, "nothing was left"),
        (
            "mkdir -p -m 755 /run/iodyno; mkdir -m 700 /run/iodyno/tunables",
            3,
            "only root can see and restore",
        ),
        (f"mkdir /run/netns; : > /run/netns/{LEFT}", 3, f"cannot be removed: namespace {LEFT}"),
    ],
)
def test_restore_fails_where_only_root_could_have_restored(
    run: str, status: int, said: str, temporary: Path
) -> None:
    shown = as_nobody(temporary, run, "restore")
    assert shown.returncode == status, shown
    assert said in shown.stdout + shown.stderr
    assert "removed:" not in shown.stdout
    assert ("try: sudo iodyno restore" in shown.stderr) == (status != 0)
    assert not list(temporary.glob("iodyno-tunables-*")), "the folder of its journal is left"


def test_tunables_say_that_only_root_can_set_them(temporary: Path) -> None:
    shown = as_nobody(temporary, "true", "tunables", "--device", "lo")
    assert shown.returncode == 0, shown.stderr
    assert "tunables of local, device lo; only root can set them" in shown.stdout
    told = json.loads(as_nobody(temporary, "true", "tunables", "--device", "lo", "--json").stdout)
    assert told["needs_root"] is True


@pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="needs sshd (Debian: openssh-server)")
def test_the_device_of_a_host_without_a_default_route_is_that_of_the_way_to_the_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ssh_place(tmp_path / "place", 1) as place:
        monkeypatch.setattr(
            "iodyno.cli.host_argument.access_of", lambda host: SshAccess("far", place.options)
        )
        shown = CliRunner().invoke(tunables, ["--host", "ssh:far", "--json"])
    told = json.loads(shown.stdout)
    assert told["device"] == "eth0" and told["needs_root"] is False
    assert next(tunable for tunable in told["tunables"] if tunable["name"] == "mtu")["level"] == 1500
