"""Builds the agent and the reducer of traces and puts them into the package, for `pip install .` and `pip install -e .` alike.

They are linked statically, so that they run on any host of their architecture. `crt-static` is passed to the
final crate only: given to all of them, without a target, it breaks every procedural macro.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("iodyno-agent", "iodyno-heat")


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
        folder = Path(self.root) / "src" / "iodyno" / "_bin"
        folder.mkdir(exist_ok=True)
        for program in PROGRAMS:
            # Written beside and renamed: an agent that is running keeps its file.
            fresh = folder / f".{program}.new"
            build = f"cargo rustc --release --locked -p {program} --bin {program} -- -C target-feature=+crt-static"
            build += f' && cp "${{CARGO_TARGET_DIR:-target}}/release/{program}" "$0"'
            command = ["sh", "-c", build, str(fresh)]
            if version == "editable":
                command = [sys.executable, "in_cache.py", *command]
            subprocess.run(command, cwd=Path(self.root) / "agent", check=True)
            fresh.replace(folder / program)
        # What the lab holds a program against before it starts it: the build that the agent says, and every byte.
        said = subprocess.run(
            [folder / "iodyno-agent", "--version"], capture_output=True, text=True, check=True
        )
        digests = (
            f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in PROGRAMS
        )
        (folder / "BUILD").write_text(f"{said.stdout.split()[-1]}\n{''.join(digests)}", encoding="utf-8")
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"].append("src/iodyno/_bin/*")
