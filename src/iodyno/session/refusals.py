"""Asks agents which jobs they would refuse, without carrying any out (`agent/cli/src/check.rs`)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iodyno.core.errors import INSTALL_AGAIN, AccessError
from iodyno.hosts import logins
from iodyno.hosts.access import Access, AgentProgram
from iodyno.session.locate import program_path

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Refusal:
    """Reason against a job: the key of the job, a sentence, and what to try."""

    key: str
    what: str
    advice: str


def anywhere(jobs: Sequence[Json]) -> list[Refusal | None]:
    """Return why no agent carries the jobs out, whatever its kernel has; None where some would. Raises AccessError."""
    command = [str(program_path()), "check", "--elsewhere"]
    try:
        done = subprocess.run(command, input=_lines(jobs), capture_output=True, check=False)
    except OSError as error:
        raise AccessError(f"the agent does not start: {error.strerror}", where=command[0]) from error
    return _read(done.stdout, jobs, command[0])


async def there(access: Access, program: AgentProgram, jobs: Sequence[Json]) -> list[Refusal | None]:
    """Return why the agent of a host would refuse the jobs. Raises AccessError."""
    async with logins.turn(access.reached.server):
        streams = await access.start(program, "check")
    streams.writer.write(_lines(jobs))
    streams.writer.close()
    said = await streams.reader.read()
    await streams.process.wait()
    return _read(said, jobs, f"host {access.name}")


def _lines(jobs: Sequence[Json]) -> bytes:
    return b"".join(json.dumps(job).encode() + b"\n" for job in jobs)


def _read(said: bytes, jobs: Sequence[Json], where: str) -> list[Refusal | None]:
    # A shell of the account may print something first.
    lines = said.splitlines()[-len(jobs) :] if jobs else []
    try:
        answers = [json.loads(line) for line in lines]
        found = [each and Refusal(each["where"], each["what"], each["try"]) for each in answers]
    except (ValueError, KeyError, TypeError):
        found = []
    if len(found) != len(jobs):
        raise AccessError(
            f"the agent does not say which of {len(jobs)} jobs it would refuse",
            where=where,
            advice=INSTALL_AGAIN,
        )
    return found
