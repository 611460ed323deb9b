"""Tunables of what others have set: a shaper that is there is scaled, a CPU quota changed, and both are as before afterwards."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest
from places import gone_within, own_agent

from iodyno.hosts.guard import Guard, Seen, Step
from iodyno.hosts.netns import NamespaceAccess
from iodyno.hosts.tunables import TURNED
from iodyno.hosts.tunables.host import HostTunables
from iodyno.hosts.tunables.tunable import Place, State
from iodyno.paths import veth
from iodyno.paths.veth import VethPath

pytestmark = pytest.mark.root

SHAPED = {
    "tbf": ("tc qdisc add dev veth0 root tbf rate 33333kbit burst 33kb latency 7ms", 33_333_000),
    "htb": (
        "tc qdisc add dev veth0 root handle 1: htb default 11 r2q 1000\n"
        "tc class add dev veth0 parent 1: classid 1:1 htb rate 900mbit quantum 60000\n"
        "tc class add dev veth0 parent 1:1 classid 1:10 htb rate 13mbit ceil 113mbit prio 2 quantum 60000\n"
        "tc class add dev veth0 parent 1:1 classid 1:11 htb rate 5mbit ceil 40mbit burst 15k quantum 9000",
        40_000_000,
    ),
    "ifb": (
        "ip link add ifb0 type ifb; ip link set ifb0 up\n"
        "tc qdisc add dev ifb0 root tbf rate 1gbit burst 128kb limit 300kb",
        1_000_000_000,
    ),
}


@pytest.mark.parametrize("shaped", SHAPED)
def test_a_shaper_of_somebody_else_is_scaled_and_brought_back_to_the_tick(
    shaped: str, tmp_path: Path
) -> None:
    commands, rate = SHAPED[shaped]
    program = own_agent(tmp_path)
    show = "for d in veth0 $(ls /sys/class/net | grep ifb); do tc -r qdisc show dev $d; tc -d -r class show dev $d; done"

    async def scenario() -> None:
        path = await VethPath.make({"client": [0], "server": [max(os.sched_getaffinity(0))]})
        end = path.ends["server"]
        guard = await Guard.start(NamespaceAccess("server", end.namespace, end.address, end.cpus), program)
        try:
            await guard.claim("a test")
            tunables = HostTunables(guard, cpus=end.cpus, peer=veth.ADDRESSES[0])
            inside = ["ip", "netns", "exec", end.namespace, "sh", "-ec"]
            subprocess.run([*inside, commands], check=True)
            before = subprocess.check_output([*inside, show], text=True)
            (setting,) = (await tunables.set({"shaper_rate": rate * 6 // 5 // 1000 * 1000})).values()
            assert (setting.before, setting.obtained, setting.why) == (rate, setting.asked, None)
            assert subprocess.check_output([*inside, show], text=True) != before
            settings, wrong = await tunables.restore()
            assert settings["shaper_rate"].restored == rate and not wrong
            assert subprocess.check_output([*inside, show], text=True) == before
        finally:
            await guard.close()
            path.remove()

    asyncio.run(scenario())
    assert gone_within(60, program.path), "guards are left"


def test_a_limit_of_cpu_time_is_that_of_the_nearest_control_group_which_has_one() -> None:
    above = Path("/sys/fs/cgroup/cpu") / f"iodyno-test-{os.getpid()}"
    if not above.parent.is_dir():
        pytest.skip("control groups of version 1 are not there: cpu")
    group, tunable, place = above / "inner", TURNED["cpu_limit"], Place("lo")
    group.mkdir(parents=True)
    file = above / "cpu.cfs_quota_us"

    def state() -> State:
        (look,) = tunable.looks(place)
        words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *look["run"]]
        return tunable.state(place, [Seen(subprocess.check_output(words, text=True), None)])

    def take(steps: list[Step]) -> None:
        for step in steps:
            Path(step["write"]["file"]).write_text(step["write"]["text"], encoding="ascii")

    try:
        assert "no control group limits" in (state().unsupported or "")
        file.write_text("40000", encoding="ascii")
        found = state()
        assert found.level == 40
        take(tunable.steps(place, found, 50))
        assert (state().level, file.read_text(encoding="ascii").strip()) == (50, "50000")
        take(tunable.undo(place, found))
        assert file.read_text(encoding="ascii").strip() == "40000"
    finally:
        group.rmdir()
        above.rmdir()


def test_limits_of_disks_are_changed_by_the_same_and_those_that_are_none_stay_so() -> None:
    tunable, place = TURNED["disk_limit"], Place("lo")
    above = "/sys/fs/cgroup/io.max 8:0 rbps=1 wbps=max riops=max wiops=max"
    lines = "\n".join(f"/sys/fs/cgroup/a/io.max {line}" for line in (
        "8:0 rbps=max wbps=1000000 riops=200 wiops=max", "8:16 rbps=max wbps=max riops=max wiops=100"))  # fmt: skip
    found = tunable.state(place, [Seen(f"{lines}\n{above}\n", None)])
    assert found.level == 100
    written = [step["write"] for step in tunable.steps(place, found, 125)]
    assert {each["file"] for each in written} == {"/sys/fs/cgroup/a/io.max"}
    assert [each["text"] for each in written] == ["8:0 wbps=1250000", "8:0 riops=250", "8:16 wiops=125"]
    back = [step["write"]["text"] for step in tunable.undo(place, found)]
    assert back == ["8:0 wbps=1000000", "8:0 riops=200", "8:16 wiops=100"]
    assert "no control group limits" in (tunable.state(place, [Seen("", None)]).unsupported or "")
