"""Scripts beside the plain load that a profile means, and uperf where it is in the path: rate, and what it costs.

Each profile is a script as `iodyno convert` makes it, which is held against uperf, and with the calls of the plain load, which
is held against that; where several connections carry a stream, the reader of that one takes what there is. They run by turns
between the same two agents, which read no sensors meanwhile. The rate is that of the load's own time; the cost is the CPU time
of both agents, which other programs on the machine do not add to. Of streams both are per KiB; of exchanges per exchange.
"""

from __future__ import annotations

import asyncio
import re
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bench.ratio import middle
from bench.testbed import Pair, open_testbed
from iodyno.campaign.account import Account
from iodyno.campaign.testbed import Testbed
from iodyno.campaign.trial import carry_out
from iodyno.core.experiment import Experiment, Windows
from iodyno.formats.experiment_file import parse_experiment
from iodyno.loads.script.uperf import converted, parse_profile

SECONDS = 2


@dataclass(frozen=True)
class Case:
    """A profile: what each of its threads does over and over."""

    name: str
    threads: int
    flowops: tuple[str, ...]
    size: int
    options: str = ""

    def profile(self, address: str = "h", calls: Mapping[str, str] | None = None) -> str:
        """As uperf reads it, with `calls` in the place of its own."""
        names = [(calls or {}).get(call, call) for call in self.flowops]
        flowops = "\n".join(f'<flowop type="{call}" options="size={self.size}"/>' for call in names)
        return f"""<?xml version="1.0"?>
<profile name="{self.name.replace(" ", "-")}">
<group nthreads="{self.threads}">
<transaction iterations="1">
<flowop type="connect" options="remotehost={address} protocol=tcp{self.options}"/>
</transaction>
<transaction duration="{SECONDS}s">
{flowops}
</transaction>
<transaction iterations="1">
<flowop type="disconnect"/>
</transaction>
</group>
</profile>
"""


CASES = (
    Case("stream 10000 B", 1, ("write",), 10_000, " cc=cubic"),
    Case("stream 64 KiB", 1, ("write",), 65_536),
    Case("stream 8 KiB x 8", 8, ("write",), 8_192),
    Case("exchange 64 B", 1, ("write", "read"), 64, " tcp_nodelay"),
    Case("exchange 64 B x 16", 16, ("write", "read"), 64, " tcp_nodelay"),
)

OF_SOCKETS = {"write": "send", "read": "recv"}
"""The calls of the plain load, which cost less on a socket than those of files."""


@dataclass(frozen=True)
class _Done:
    """What one run moved: KiB or exchanges a second, and CPU seconds for each."""

    rate: float
    cost: float


def _forms(case: Case) -> dict[str, Experiment]:
    own, sockets = parse_profile(case.profile()), parse_profile(case.profile(calls=OF_SOCKETS))
    texts = {
        "script": converted(own, {}, plain=False).text,
        "by send": converted(sockets, {}, plain=False).text,
        "plain": converted(own, {}).text,
    }
    parsed = {name: parse_experiment(text, environment={}) for name, text in texts.items()}
    if case.threads == len(case.flowops) == 1:
        # The engine whose reader takes one message a call, as a script does; that of `threads` takes up to 128 KiB.
        workload = parsed["plain"].workload
        same_calls = replace(workload, settings={**workload.settings, "engine": "round_robin"})
        parsed["plain"] = replace(parsed["plain"], workload=same_calls)
    return {name: replace(form, sensors="off", profile_hz=0) for name, form in parsed.items()}


async def _once(testbed: Testbed, case: Case, form: Experiment) -> _Done:
    is_script = form.workload.script is not None
    # A script ends by itself.
    windows = Windows(
        warm_up_ns=0, measured_ns=(20 if is_script else 1) * SECONDS * 10**9, drain_ns=0, interval_ns=10**9
    )
    testbed.experiment, account = form, Account()
    levels = {factor.name: factor.levels[0] for factor in form.factors}
    name = f"bench-{id(account)}"
    await carry_out(testbed, name, form.settings(levels), windows, account, lambda host, record: None)
    results: dict[str, Mapping[str, int]] = {host: end["result"] for host, end in account.hosts.items()}
    if len(case.flowops) == 1:
        units = results["server"]["bytes"] / 1024
    else:
        # A script counts the write and the read.
        units = results["client"]["operations"] / (len(case.flowops) if is_script else 1)
    return _Done(units / SECONDS, sum(result["agent_cpu_ns"] for result in results.values()) / units / 1e9)


def _uperf(pair: Pair, case: Case) -> _Done:
    """The same profile by uperf: the rate as it counts itself, the CPU time of its processes at both ends."""
    inside = {end: pair.inside(end) for end in ("client", "server")}
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile.xml"
        profile.write_text(case.profile(pair.address))
        before = _children_cpu_s()
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen([*inside["server"], "uperf", "-s"], **quiet) as server:  # type: ignore[call-overload]
            try:
                time.sleep(0.4)
                client = [*inside["client"], "uperf", "-m", str(profile)]
                said = subprocess.run(client, capture_output=True, text=True, check=True, timeout=60).stdout
            finally:
                server.terminate()
    found = re.findall(r"^Txn2\b.*?([\d.]+)op/s\s*$", said.replace("\r", "\n"), re.MULTILINE)
    if not found:
        raise RuntimeError(f"uperf said: {said[-300:]}")
    operations = float(found[-1])
    rate = operations * case.size / 1024 if len(case.flowops) == 1 else operations / len(case.flowops)
    return _Done(rate, (_children_cpu_s() - before) / rate / SECONDS)


def _children_cpu_s() -> float:
    """CPU time of all processes that this one has waited for, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def run(pairs: int) -> list[dict[str, object]]:
    """Five profiles as scripts and as the plain load that they mean: ratio of rate and of CPU time, with its interval."""
    rows: list[dict[str, object]] = []
    async with open_testbed() as (testbed, pair):
        for case in CASES:
            forms = _forms(case)
            done: dict[str, list[_Done]] = {"script": [], "by send": [], "plain": [], "uperf": []}
            for number in range(pairs):
                for name in forms if number % 2 else reversed(forms):
                    done[name].append(await _once(testbed, case, forms[name]))
                if shutil.which("uperf"):
                    done["uperf"].append(await asyncio.to_thread(_uperf, pair, case))
            rows.append(_row(case, done))
    return rows


def _row(case: Case, done: Mapping[str, list[_Done]]) -> dict[str, object]:
    def ratio(of: str, form: str, other: str) -> str:
        pairs = [[getattr(each, of) for each in done[name]] for name in (form, other)]
        return "{:.2f} [{:.2f}, {:.2f}]".format(*middle(*pairs)) if pairs[1] else "not installed"

    return {
        "profile": case.name,
        "rate_ratio": ratio("rate", "by send", "plain"),
        "cpu_ratio": ratio("cost", "by send", "plain"),
        "uperf_rate_ratio": ratio("rate", "script", "uperf"),
        "uperf_cpu_ratio": ratio("cost", "script", "uperf"),
    }
