"""`iodyno paths`: what the lab can make between hosts and under loads on this machine, and why it cannot make the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from iodyno.core.path import PATHS
from iodyno.core.volume import VOLUMES


@click.command(name="paths")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(as_json: bool) -> None:
    """Show the levels of `path` and of `volume`, and which of them this machine can have.

    An experiment that asks for another one skips its points and says so.

    \b
    Examples:
      iodyno paths
      iodyno paths --json
    """
    from iodyno.paths.volumes import table
    from iodyno.session.path_levels import unavailable

    paths = {level: unavailable(level) for level in PATHS}
    volumes = {level: table.unavailable(level) for level in VOLUMES}
    if as_json:
        listed = {
            "paths": _listed("path", PATHS, paths),
            "volumes": _listed("volume", VOLUMES, volumes),
        }
        click.echo(json.dumps(listed, indent=2))
        return
    click.echo("path: between two hosts")
    _show(PATHS, paths)
    click.echo("\nvolume: under a load on storage")
    _show(VOLUMES, volumes)


Reasons = Mapping[str, str | None]


def _listed(kind: str, levels: Mapping[str, str], reasons: Reasons) -> list[dict[str, object]]:
    return [
        {kind: level, "help": text, "available": reasons[level] is None, "reason": reasons[level]}
        for level, text in levels.items()
    ]


def _show(levels: Mapping[str, str], reasons: Reasons) -> None:
    width = max(map(len, levels))
    for level, text in levels.items():
        click.echo(f"{level:<{width}}  {'yes' if reasons[level] is None else 'no '}  {text}")
        if why := reasons[level]:
            click.echo(f"{'':<{width}}       because {why}")
