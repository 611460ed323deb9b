"""`iodyno disk`: reads and writes of a file or a device, right now and without a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from iodyno import quick
from iodyno.cli import right_now
from iodyno.cli.form import show, verbose_option
from iodyno.cli.given import given
from iodyno.cli.options import Option
from iodyno.cli.prove import proof_options
from iodyno.cli.right_now import level
from iodyno.cli.stderr import to_stderr
from iodyno.core.expectation import Expectation
from iodyno.core.experiment import SensorLevel
from iodyno.loads.disk.core.load import WORKLOAD
from iodyno.loads.disk.core.parameters import kind_of, paths_of
from iodyno.report.form import Form, Shown

if TYPE_CHECKING:
    from iodyno.hosts.access import Access


@click.command(name="disk")
@level(WORKLOAD, "--target", "target")
@level(WORKLOAD, "--size", "working_set")
@level(WORKLOAD, "--pattern", "pattern", "random")
@level(WORKLOAD, "--random", "random")
@level(WORKLOAD, "--read", "read", "100%")
@level(WORKLOAD, "--block", "block", "4KiB")
@level(WORKLOAD, "--queue-depth", "queue_depth", "1")
@level(WORKLOAD, "--batch", "batch")
@level(WORKLOAD, "--workers", "workers", "1")
@level(WORKLOAD, "--syscalls", "syscalls")
@click.option("--direct", is_flag=True, help="Bypass the page cache (O_DIRECT).")
@level(WORKLOAD, "--cached", "cached")
@level(WORKLOAD, "--sync", "sync")
@level(WORKLOAD, "--sync-every", "sync_every")
@level(WORKLOAD, "--stride", "stride")
@level(WORKLOAD, "--theta", "theta")
@level(WORKLOAD, "--verify", "verify")
@level(WORKLOAD, "--rate", "rate")
@level(WORKLOAD, "--arrivals", "arrivals")
@right_now.seconds
@right_now.repeat
@verbose_option
@right_now.gate
@click.option(
    "--clients",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Clients that are started together on this machine; {host} in the target is the name of each.",
)
@click.option("--on", "to", metavar="[USER@]HOST", help="The host that does it; without it, this machine.")
@click.option(
    "--destroy", metavar="PATH", multiple=True, help="The target, when whatever it holds may be lost."
)
@click.option(
    "--remove",
    "remove_target",
    cls=Option,
    older=("--remove-target",),
    is_flag=True,
    help="Remove the file that was laid out; alone: do nothing else.",
)
@proof_options
@right_now.alone
@click.pass_context
def command(
    ctx: click.Context,
    /,
    prove: str | None,
    seconds: float,
    repeat: int | None,
    clients: int,
    to: str | None,
    destroy: tuple[str, ...],
    remove_target: bool,
    profile: bool,
    sensors: SensorLevel,
    background_window: str | None,
    form: Form,
    verbose: bool,
    expect: tuple[Expectation, ...],
    junit: Path | None,
    into: Path,
    direct: bool,
    **levels: Any,
) -> None:
    """Measure reads and writes of a file or a device right now, without a file.

    A file that is not there is laid out first, with --size bytes of known content (1 GiB without it), and used again the
    next time, as large as it is without --size. One that iodyno did not make is read as it is and never written, and a
    device that holds anything is refused, without --destroy PATH. With --rate, operations are due at their own times
    whether or not others are complete (an open loop), and the response time counts from when an operation was due. In a
    closed loop with --direct and a queue depth of 16 and more, --batch is a quarter of that, if not asked for. Prints rate,
    times and cost with their 95 % intervals. Names what limits the rate; with --prove it changes that a little in extra
    trials, and says by how much the rate follows.

    \b
    Examples:
      iodyno disk --target work.dat --size 1GiB
      iodyno disk --target work.dat --size 1GiB --read 70% --queue-depth 16 \\
        --syscalls io_uring --direct --seconds 5
      iodyno disk --target work.dat --rate 4000/s --arrivals poisson --json
      iodyno disk --target /dev/loop3 --destroy /dev/loop3 --read 0% \\
        --block 1MiB --pattern sequential --direct
      iodyno disk --target work.dat --queue-depth 32 --direct --prove
      iodyno disk --target '{host}.dat' --size 64MiB --clients 4
      iodyno disk --target work.dat --remove
      iodyno disk --on root@filer --target /srv/work.dat --size 1GiB
      iodyno disk --on root@filer --target /srv/work.dat --remove
    """
    written = {name: value for name, value in levels.items() if value is not None}
    if "target" not in written:
        raise click.UsageError("missing option --target: expected a file, a device in /dev, or null")
    written["target"] = quick.absolute(str(written["target"])) if to is None else written["target"]
    asked = given(ctx)
    if remove_target and not asked - {"target", "to", "clients", "remove_target", "form"}:
        _remove(str(written["target"]), to, hosts=quick.clients_named(clients), form=form)
        return
    unasked = quick.unasked_of_target(written, to=to, clients=clients)
    if "working_set" in unasked:
        to_stderr(f"iodyno: note: --size {unasked['working_set']}")
    if "syscalls" in unasked:
        to_stderr(f"iodyno: note: --syscalls {unasked['syscalls']}, as one call at a time has no queue_depth")
    keys = quick.disk(
        {**written, **unasked, **({"direct": True} if direct else {})},
        seconds=seconds,
        repeat=repeat,
        clients=clients,
        to=to,
        prove=prove,
        profile=profile,
        sensors=sensors,
        background_window=background_window,
    )
    named = [quick.absolute(path) if to is None else path for path in destroy]
    right_now.measure_and_show(
        keys,
        into,
        form=form,
        verbose=verbose,
        expect=expect,
        junit=junit,
        destroy=named,
        remove_targets=remove_target,
    )


def _remove(target: str, to: str | None, *, hosts: Sequence[str], form: Form) -> None:
    import asyncio

    from iodyno.cli.host_argument import access_of

    if kind_of(target) != "file":
        raise click.UsageError("--remove removes a file that was laid out, and no device")
    paths = list(dict.fromkeys(path for host in hosts for path in paths_of(target, host)))
    asyncio.run(_remove_on(access_of(to or "local", "--on"), paths, form))


async def _remove_on(access: Access, paths: Sequence[str], form: Form) -> None:
    from iodyno.hosts.target import TargetKeeper
    from iodyno.session.locate import find_agent

    there: dict[str, bool] = {}
    try:
        async with await TargetKeeper.start(access, find_agent()) as keeper:
            for each in paths:
                there[each] = await keeper.remove(each)
    finally:
        await access.close()
    shown = Shown(
        blocks=lambda: (
            f"removed {each}" if removed else f"{each} is not there" for each, removed in there.items()
        ),
        values=lambda: {"removed": there},
        rows=lambda: ({"file": each, "removed": removed} for each, removed in there.items()),
    )
    show(shown, form)
