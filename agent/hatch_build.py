"""Builds the agent and the reducer of traces and puts them into the package, for `pip install .` and `pip install -e .` alike.

They are linked statically, so that they run on any host of their architecture. IODYNO_ARCHITECTURES, words of `uname -m` of which
one is this machine's, is which ones they are built for: a wheel with several is installed on each, and its lab has an agent for
hosts of the others.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("iodyno-agent", "iodyno-heat")
HERE = platform.machine()


class AgentBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if version == "editable" and "IODYNO_AGENT" in os.environ:
            return  # who names an agent does not want another one
        if shutil.which("cargo") is None:
            raise SystemExit(
                "iodyno: building needs the Rust tool chain, but there is no `cargo` on the PATH.\n"
                "Install Rust 1.85 or newer (Debian 12: apt-get install cargo-web; Debian 13: cargo; "
                "elsewhere https://rustup.rs), then run this again."
            )
        asked = os.environ.get("IODYNO_ARCHITECTURES", "").split()
        architectures = [HERE, *(word for word in asked if word != HERE)]
        folder = Path(self.root) / "src" / "iodyno" / "_bin"
        folder.mkdir(exist_ok=True)
        names = []
        for architecture in architectures:
            triple, environment = _target(architecture)
            target = f"--target {triple}" if triple else ""
            for program in PROGRAMS:
                names.append(f"{program}-{architecture}")
                # Written beside and renamed: an agent that is running keeps its file.
                fresh = folder / f".{names[-1]}.new"
                # To the final crate only: given to all of them, without a target, it breaks every procedural macro.
                build = f"cargo rustc --release --locked {target} -p {program} --bin {program} -- -C target-feature=+crt-static"
                build += f' && cp "${{CARGO_TARGET_DIR:-target}}/{triple}/release/{program}" "$0"'
                command = ["sh", "-c", build, str(fresh)]
                if version == "editable" or asked:
                    command = [sys.executable, "in_cache.py", *command]
                subprocess.run(command, cwd=Path(self.root) / "agent", check=True, env=environment)
                fresh.replace(folder / names[-1])
        for other in set(folder.iterdir()) - {folder / name for name in names}:
            other.unlink()  # of other sources
        # What the lab holds a program against before it starts it: the build that the agent says, and every byte.
        said = subprocess.run([folder / names[0], "--version"], capture_output=True, text=True, check=True)
        digests = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)
        (folder / "BUILD").write_text(f"{said.stdout.split()[-1]}\n{''.join(digests)}", encoding="utf-8")
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag(architectures)
        build_data["artifacts"].append("src/iodyno/_bin/*")
        # Man pages and completion scripts, where `make man` has written them.
        if (share := Path(self.root) / "build" / "share").is_dir():
            build_data["shared_data"][str(share)] = "share"


def wheel_tag(architectures: list[str]) -> str:
    # Static programs need no C library, and what else is here is Python. Of what is required, DuckDB has wheels for glibc 2.28
    # alone: on others pip builds it, which takes a compiler.
    libraries = ("manylinux2014", "musllinux_1_1")
    return "py3-none-" + ".".join(f"{lib}_{arch}" for arch in architectures for lib in libraries)


def _target(architecture: str) -> tuple[str, dict[str, str]]:
    """Return the target that cargo is told, none for this machine, and an environment with a tool chain that has it."""
    environment = dict(os.environ)
    if architecture == HERE:
        return "", environment
    triple, linker = f"{architecture}-unknown-linux-gnu", f"{architecture}-linux-gnu-gcc"
    environment[f"CARGO_TARGET_{triple.upper().replace('-', '_')}_LINKER"] = linker
    for path in (environment["PATH"], f"/usr/bin:{environment['PATH']}"):
        rustc = shutil.which("rustc", path=path) or "rustc"
        asked = [rustc, "--print", "target-libdir", "--target", triple]
        found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        if found and Path(found).is_dir() and shutil.which(linker):
            return triple, {**environment, "PATH": path}
    debian = {"aarch64": "arm64", "x86_64": "amd64"}.get(architecture, architecture)
    raise SystemExit(
        f"iodyno: building for {architecture} needs its Rust library and {linker}.\n"
        f"Install both, Debian 12: dpkg --add-architecture {debian}; apt-get update; apt-get install cargo-web rustc-web "
        f"libstd-rust-web-dev:{debian} gcc-{architecture.replace('_', '-')}-linux-gnu libc6-dev-{debian}-cross;\n"
        f"elsewhere rustup target add {triple}, and the cross compiler. Or leave IODYNO_ARCHITECTURES away."
    )
