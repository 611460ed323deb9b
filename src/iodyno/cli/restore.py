"""`iodyno restore`: brings a host back to where it was, after a lab that could not do so itself."""

from __future__ import annotations

import os
from errno import EACCES
from os import strerror

import click

from iodyno.cli.form import format_option, show
from iodyno.core.errors import AccessError
from iodyno.report.form import Form, Shown, flat

_FAILED = "see what the kernel said, and try again; a restart of the machine forgets it all"


@click.command(name="restore")
@click.option("--host", default="local", show_default=True, help="local, or [USER@]HOST[:PORT].")
@format_option()
def command(host: str, form: Form) -> None:
    """Restore what a run that is gone has left set on a host, and remove what it has left on this one.

    Seldom needed: a guard on the host restores when its run ends, however it ends; and if the guard is killed too, the
    next agent that starts there does it. What a run that goes on has set is left alone. Volumes and network namespaces
    are on iodyno's own machine, and are removed there; the next run that makes any does it, too.

    \b
    Examples:
      iodyno restore
      iodyno restore --host root@server --json
    """
    import asyncio

    from iodyno.hosts.guard import JOURNALS_OF_ROOT

    removed: list[str] = []
    left: list[str] = []
    wrong: list[str] = []
    advice = _FAILED
    # First, as it needs no agent: where none starts, this is done at least.
    try:
        if host == "local":
            from iodyno.campaign import leftovers

            removed, left = leftovers.remove()
    except AccessError as error:
        # Settings are noted elsewhere.
        wrong, advice = [f"{error.where} {error.what}"], error.advice
    found, hidden = asyncio.run(_restore(host))
    nothing = "nothing that this account had set was left" if hidden else "nothing was left"
    said = [f"restored on {host}: {', '.join(found['done']) or nothing}"]
    said += [f"removed: {', '.join(removed)}"] if removed else []
    values = {
        "host": host,
        **found,
        "only_root_can_tell": hidden,
        "removed": removed,
        "not_removed": left,
    }
    show(Shown(lambda: said, lambda: values, lambda: [flat(values)]), form)
    if found["failed"]:
        wrong.append(f"cannot be restored: {'; '.join(found['failed'])}")
    if left:
        wrong.append(f"cannot be removed: {', '.join(left)}")
    if hidden:
        wrong.append(f"what root has set, noted in {JOURNALS_OF_ROOT}, only root can see and restore")
    if hidden or (left and os.geteuid() != 0):
        place = host.removeprefix("ssh:").rpartition("@")[2]
        advice = "sudo iodyno restore" if host == "local" else f"iodyno restore --host root@{place}"
    if wrong:
        raise AccessError("; ".join(wrong), where=f"host {host}", advice=advice)


async def _restore(host: str) -> tuple[dict[str, list[str]], bool]:
    """Restore settings; return what was and what was not, and whether root may have set more, unknown to this account."""
    from iodyno.cli.host_argument import access_of
    from iodyno.hosts.guard import JOURNALS_OF_ROOT, Guard, GuardLostError
    from iodyno.session.locate import find_agent

    access = access_of(host)
    try:
        guard = await Guard.start(access, find_agent())
        try:
            found = await guard.claim("iodyno restore")
            (seen,) = await guard.look([{"file": JOURNALS_OF_ROOT}])
            return found, strerror(EACCES) in (seen.error or "")
        except GuardLostError as error:
            raise AccessError(f"the guard ended: {error}", where=f"host {host}") from error
        finally:
            await guard.close()
    finally:
        await access.close()
