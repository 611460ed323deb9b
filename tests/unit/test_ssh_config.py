"""The ssh_config of an experiment, which somebody may have sent: it has nothing run on the lab's machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iodyno.cli.main import run
from iodyno.core.errors import ExperimentError
from iodyno.formats.experiment_file import parse_experiment

FILE = """name: sent
question: What?
hosts:
  client: {access: local}
  server: {access: ssh, to: far, config_file: CONFIG}
workload: {kind: stream, sender: client, receiver: server}
factors: {size: [64KiB]}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    own = tmp_path / "home" / ".ssh"
    own.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(own.parent))
    (own / "mine").write_text("Host gate\n  ProxyCommand my own\n")
    return own


RUNNING = {
    "  ProxyCommand touch /tmp/x": "ProxyCommand",
    "PROXYCOMMAND=touch /tmp/x": "ProxyCommand",
    '\t"ProxyCommand" touch /tmp/x': "ProxyCommand",
    "= ProxyCommand touch /tmp/x": "ProxyCommand",
    "Host *\r\n  LocalCommand touch /tmp/x": "LocalCommand",
    "PermitLocalCommand yes": "PermitLocalCommand",
    "KnownHostsCommand /tmp/x": "KnownHostsCommand",
    "PKCS11Provider /tmp/x.so": "PKCS11Provider",
    "SecurityKeyProvider /tmp/x.so": "SecurityKeyProvider",
    'Match exec "touch /tmp/x"': "Match exec",
    'Match all !"ex"ec "touch /tmp/x"': "Match exec",
}


@pytest.mark.parametrize("line", RUNNING)
@pytest.mark.parametrize("included", [False, True], ids=["itself", "included"])
def test_a_file_that_has_something_run_is_refused(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, included: bool
) -> None:
    config, file = tmp_path / "config", tmp_path / "sent.yaml"
    config.write_bytes(b"Host far\n" + line.encode() + b"\n")
    named = config
    if included:
        named = tmp_path / "first"
        named.write_text(f"Include {home}/mine {tmp_path}/conf*\n")
    file.write_text(FILE.replace("CONFIG", str(named)))
    assert run(["check", str(file)]) == 2
    said = capsys.readouterr().err
    assert "hosts.server.config_file: " in said and f"{file}:5:" in said
    assert f"{config}:" in said and f": {RUNNING[line]}; expected" in said


def test_what_runs_nothing_is_taken_and_what_is_the_users_own_is_not_looked_into(
    home: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(
        f"# ProxyCommand no\nInclude mine {home}/m* /etc/ssh/none ~/.ssh/mine\nMatch originalhost far\n"
        "  ProxyJump gate\n  HostName proxycommand\n  ControlPath /tmp/c-%C\n"
    )
    for name in (str(config), "/dev/null", "none", str(tmp_path / "not_there")):
        parse_experiment(FILE.replace("CONFIG", name), file="f.yaml", environment={})


def test_what_cannot_be_looked_into_is_refused(home: Path, tmp_path: Path) -> None:
    fifo, itself, variable, link = (tmp_path / name for name in ("fifo", "itself", "variable", "link"))
    os.mkfifo(fifo)
    itself.write_text(f"Include {itself}\n")
    variable.write_text("Include ${TMP}/x\n")
    (home / "away").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_text("ProxyCommand touch /tmp/x\n")
    link.write_text("Include away\n")
    cases = {
        fifo: "it is no regular file",
        itself: "includes more than 64 files",
        variable: "variable:1: Include of a name with a variable",
        tmp_path: "it is a folder",
        link: "home/.ssh/away:1: ProxyCommand",
    }
    # ssh ends a line at a zero byte.
    cases[tmp_path / "ends_early"] = "elsewhere:1: ProxyCommand"
    (tmp_path / "ends_early").write_text(f"Include {tmp_path}/elsewhere\0x\n")
    for config, said in cases.items():
        with pytest.raises(ExperimentError, match=said):
            parse_experiment(FILE.replace("CONFIG", str(config)), file="f.yaml", environment={})
