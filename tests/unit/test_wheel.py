"""The wheel: for which systems it says that it is, and what lies in it. Programs stand in for cargo, rustc and the linker."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = os.uname().machine
OTHER = "aarch64" if OURS == "x86_64" else "x86_64"
TOOLS = {
    # Which program, and for which target, is what the program says that cargo makes.
    "cargo": """target= ; previous=
for word; do
    case $previous in --target) target=$word/ ;; --bin) program=$word ;; esac
    previous=$word
done
mkdir -p "target/${target}release"
printf '#!/bin/sh\\necho %s %s 0123456789abcdef\\n' "$program" "$target" >"target/${target}release/$program"
chmod 755 "target/${target}release/$program"
""",
    "rustc": 'case $1 in -vV) echo rustc 1.85 ;; *) echo "${0%/*}" ;; esac\n',
    f"{OTHER}-linux-gnu-gcc": "",
}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy, tools = tmp_path / "checkout", tmp_path / "tools"
    for folder in ("src", "studies", "docs/examples"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("_bin", "__pycache__"))
    (copy / "agent").mkdir()
    for file in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "agent/Cargo.lock",
        "agent/hatch_build.py",
        "agent/in_cache.py",
    ):
        shutil.copy2(ROOT / file, copy / file)
    tools.mkdir()
    for name, script in TOOLS.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("CARGO_TARGET_DIR", "IODYNO_ARCHITECTURES"):
        monkeypatch.delenv(name, raising=False)
    return copy


def built(checkout: Path) -> zipfile.ZipFile:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=checkout, check=True, capture_output=True)
    (wheel,) = (checkout / "dist").iterdir()
    return zipfile.ZipFile(wheel)


def test_a_wheel_is_for_every_linux_of_the_architectures_it_has_programs_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = checkout / "build" / "share" / "man" / "man1"
    share.mkdir(parents=True)
    (share / "iodyno.1").write_text(".TH IODYNO 1\n")
    monkeypatch.setenv("IODYNO_ARCHITECTURES", f"{OURS} {OTHER}")
    wheel = built(checkout)
    said = wheel.read("iodyno-0.1.0.dist-info/WHEEL").decode()
    tags = {line.split()[1] for line in said.splitlines() if line.startswith("Tag:")}
    libraries = ("manylinux2014", "musllinux_1_1")
    assert tags == {f"py3-none-{library}_{machine}" for library in libraries for machine in (OURS, OTHER)}
    programs = {info.filename: info for info in wheel.infolist() if "/_bin/" in info.filename}
    names = [f"{name}-{machine}" for machine in (OURS, OTHER) for name in ("iodyno-agent", "iodyno-heat")]
    assert set(programs) == {f"iodyno/_bin/{name}" for name in (*names, "BUILD")}
    contents = {name: wheel.read(f"iodyno/_bin/{name}") for name in names}
    for name, content in contents.items():
        assert programs[f"iodyno/_bin/{name}"].external_attr >> 16 & 0o111, name
        assert name.removesuffix(f"-{OURS}").removesuffix(f"-{OTHER}").encode() in content
        assert (f"{OTHER}-unknown-linux-gnu".encode() in content) == name.endswith(OTHER)
    noted = wheel.read("iodyno/_bin/BUILD").decode().splitlines()
    assert noted == [
        "0123456789abcdef",
        *(f"{hashlib.sha256(contents[name]).hexdigest()}  {name}" for name in names),
    ]
    inside = wheel.namelist()
    assert "iodyno-0.1.0.data/data/share/man/man1/iodyno.1" in inside
    for shelf, folder in (("_studies", "studies"), ("_examples", "docs/examples")):
        assert {f"iodyno/{shelf}/{path.name}" for path in (ROOT / folder).iterdir()} <= set(inside)


def test_what_is_installed_here_is_built_for_this_machine_alone(checkout: Path) -> None:
    old = checkout / "src" / "iodyno" / "_bin" / f"iodyno-agent-{OTHER}"
    old.parent.mkdir()
    old.write_text("of other sources\n")
    wheel = built(checkout)
    assert wheel.filename is not None and wheel.filename.endswith(
        f"-py3-none-manylinux2014_{OURS}.musllinux_1_1_{OURS}.whl"
    )
    assert not [name for name in wheel.namelist() if OTHER in name]
