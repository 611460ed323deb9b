"""`iodyno tunables`: what of a host can be set, where it is at, and why something cannot be set there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from iodyno.cli.form import format_option, show
from iodyno.core.errors import AccessError
from iodyno.core.tunable import TUNABLES
from iodyno.report.form import Form, Shown, flat
from iodyno.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from iodyno.hosts.tunables.tunable import Place, State

_UNLIMITED = (2**31 - 1, 2**32 - 1)
"""Numbers of bytes that the kernel has where nothing is limited."""
_SOMEWHERE = "192.0.2.1"
"""An address of the block for documentation (RFC 5737): the way to it is the default route. Of a host that is reached over a
network, the way to the lab says more: it may have no default route.
"""


@click.command(name="tunables")
@click.option("--host", default="local", show_default=True, help="local, or [USER@]HOST[:PORT].")
@click.option(
    "--device",
    metavar="NAME",
    help="Network device (default: that of the default route; elsewhere that of the way to iodyno).",
)
@click.option(
    "--disk",
    metavar="NAME",
    help="Disk, or part of one, such as sda (default: none; tunables of disks are left out).",
)
@format_option()
def command(host: str, device: str | None, disk: str | None, form: Form) -> None:
    """Show the tunables of a host: value, range, and why one cannot be set there. Changes nothing. To set them needs root.

    Tunables are set by an experiment: `tunables: {server: {mtu: 9000}}`, or as factors such as `server.mtu: [1500, 9000]`.

    \b
    Examples:
      iodyno tunables
      iodyno tunables --device lo
      iodyno tunables --disk nvme0n1
      iodyno tunables --host root@server --device eth1
      iodyno tunables --json | jq '.tunables[] | select(.unsupported)'
    """
    import asyncio

    place, states, may_set = asyncio.run(_read(host, device, disk))
    tunables = [_values(name, state) for name, state in states.items()]
    columns = tuple(map(Column, ("tunable", "of", "value", "range", "remark")))
    cells = tuple(tuple(map(Cell, _cells(name, state))) for name, state in states.items())
    title = f"tunables of {host}, device {place.device}{'' if may_set else '; only root can set them'}"
    shown = Shown(
        blocks=lambda: [Table(title, columns, cells)],
        values=lambda: {
            "host": host, "device": place.device, "needs_root": not may_set, "tunables": tunables,
        },
        rows=lambda: map(flat, tunables),
    )  # fmt: skip
    show(shown, form)


async def _read(host: str, device: str | None, disk: str | None) -> tuple[Place, dict[str, State], bool]:
    """The place, the tunables there, and whether the account there may set them."""
    from iodyno.cli.host_argument import access_of
    from iodyno.hosts.guard import Guard, GuardLostError
    from iodyno.hosts.tunables import TURNED
    from iodyno.hosts.tunables.host import HostTunables
    from iodyno.session.locate import find_agent

    access = access_of(host)
    try:
        guard = await Guard.start(access, find_agent())
        try:
            peer, disks = access.reached.lab_address or _SOMEWHERE, (disk,) if disk else ()
            tunables = HostTunables(guard, peer=peer, device=device, disks=lambda: disks)
            place = await tunables.place()
            left_out = ("mount",) if disk else ("mount", "disk")
            names = [name for name, tunable in TURNED.items() if tunable.scope not in left_out]
            return place, await tunables.read(names, place), await guard.may_set()
        except GuardLostError as error:
            raise AccessError(f"the guard ended: {error}", where=f"host {host}") from error
        finally:
            await guard.close()
    finally:
        await access.close()


def _cells(name: str, state: State) -> tuple[str, str, str, str, str]:
    from iodyno.hosts.tunables import TURNED
    from iodyno.hosts.tunables.host import shown

    scope = TURNED[name].scope
    if state.unsupported:
        return name, scope, "-", "-", f"unsupported: {state.unsupported}"
    level = "no limit" if state.level in _UNLIMITED else shown(name, state.level)
    return name, scope, level, _range(name, state), state.needs or TUNABLES[name].help


def _range(name: str, state: State) -> str:
    from iodyno.hosts.tunables.host import shown

    parameter = TUNABLES[name]
    if parameter.kind == "switch":
        return "on, off"
    if parameter.kind == "word":
        return ", ".join(parameter.words) or "a word"
    low = parameter.low if state.low is None else max(state.low, parameter.low)
    high = parameter.high if state.high is None else min(state.high, parameter.high)
    return (
        f"{shown(name, low)} or more" if high in _UNLIMITED else f"{shown(name, low)} to {shown(name, high)}"
    )


def _values(name: str, state: State) -> dict[str, Any]:
    from iodyno.hosts.tunables import TURNED

    parameter = TUNABLES[name]
    return {
        "name": name,
        "of": TURNED[name].scope,
        "kind": parameter.kind,
        "level": state.level,
        "low": state.low,
        "high": state.high,
        "words": list(parameter.words),
        "unsupported": state.unsupported,
        "needs": state.needs,
        "help": parameter.help,
    }
