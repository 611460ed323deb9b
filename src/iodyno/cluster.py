"""Parts of one work on the workers of Dask (extra `cluster`), or in this process: the same parts, so the same result.

Dask is imported when workers are asked for.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeVar

from iodyno.core.errors import AccessError, ExperimentError, StoreError
from iodyno.core.invalid import invalid

Item = TypeVar("Item")
Found = TypeVar("Found")

Done = Callable[[int, int], None]
"""Told how many parts are done, of how many."""
_ANSWERS_WITHIN_S = 10
"""Time for a scheduler to answer and for a worker to be there. Chosen: a network's worst, and a person's patience."""


class Each(Protocol):
    """Yields what a function finds of each item, in the order of the items."""

    def __call__(self, function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
        """Do it. The function is one of a module, or a `partial` of one."""


def check(place: str) -> None:
    """Raise ExperimentError where `place` is neither `local`, `local:N` nor an address, or where Dask is not installed."""
    if not re.fullmatch(r"local(:[1-9]\d{0,3})?|[a-z]+://\S+", place):
        raise ExperimentError(
            invalid(place, "local, local:N or an address"),
            where="--cluster",
            advice="--cluster local, or --cluster tcp://HOST:8786 as `dask scheduler` prints it",
        )
    if find_spec("distributed") is None:
        raise ExperimentError(
            "workers are those of Dask, which is not installed",
            where="--cluster",
            advice="pip install 'iodyno[cluster]'",
        )


@contextmanager
def opened(place: str | None, done: Done = lambda done, of: None) -> Iterator[Each]:
    """Give `each` on the workers at `place`, until the end of the context; None: in this process.

    `local`: a worker a CPU of this machine, `local:N`: so many; else the address of a scheduler. A part whose worker dies is
    done again by another one. Errors: those of `check`; AccessError where no worker can be had, or where workers die of a part.
    """
    if place is None:
        yield partial(_here, done)
        return
    check(place)
    _quiet()
    with ExitStack() as stack:
        local = None if "://" in place else place.partition(":")[2]
        client = _client(stack, place) if local is None else _local(stack, int(local or 0))
        yield partial(_there, client, done)


def _here(done: Done, function: Callable[[Item], Found], items: Sequence[Item]) -> Iterator[Found]:
    for number, item in enumerate(items):
        done(number, len(items))
        yield function(item)


def _there(
    client: Any, done: Done, function: Callable[[Item], Found], items: Sequence[Item]
) -> Iterator[Found]:
    from distributed import CancelledError, KilledWorker, as_completed

    # Not pure: what a file holds may be another thing next time.
    futures = client.map(partial(_in_folder, str(Path.cwd()), function), list(items), pure=False)
    try:
        first = 0
        done(0, len(items))
        for ended, _ in enumerate(as_completed(futures), 1):
            done(ended, len(items))
            while first < len(futures) and futures[first].done():
                yield futures[first].result()
                futures[first].release()
                first += 1
        # What was done and then lost with its worker, and is being done again.
        for future in futures[first:]:
            yield future.result()
    except KilledWorker as error:
        raise AccessError(
            "its worker died, and so did those that tried again",
            where=f"part {_number(futures, error) + 1} of {len(items)}",
            advice="look at the memory of the workers, and at their logs",
        ) from None
    except (CancelledError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise
        raise AccessError(
            "the scheduler is gone", where=_address(client), advice="start it again, and look at its log"
        ) from None
    finally:
        if client.status == "running":
            client.cancel(futures, force=True)


def _in_folder(folder: str, function: Callable[[Item], Found], item: Item) -> Found:
    """Do a part where the command was called, so that names of files mean the same."""
    try:
        os.chdir(folder)
    except OSError as error:
        raise AccessError(
            f"a worker on {os.uname().nodename} cannot enter it: {error.strerror}",
            where=folder,
            advice="a file system that all workers share",
        ) from None
    return function(item)


def _quiet() -> None:
    """Keep Dask's own log out of stderr: what goes wrong is told as an error."""
    import distributed

    for name in [distributed.__name__, *logging.root.manager.loggerDict]:
        if name.partition(".")[0] == distributed.__name__:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _number(futures: Sequence[Any], error: Any) -> int:
    return next((at for at, future in enumerate(futures) if future.key == error.task), 0)


def _local(stack: ExitStack, workers: int) -> Any:
    from distributed import Client, LocalCluster

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="iodyno-cluster-"))
    cluster = LocalCluster(
        n_workers=workers or len(os.sched_getaffinity(0)),
        threads_per_worker=1,
        # Any port: a second cluster would complain of the first one's.
        dashboard_address="127.0.0.1:0",
        local_directory=folder,
        silence_logs=logging.CRITICAL,
    )
    stack.enter_context(cluster)
    return stack.enter_context(Client(cluster))


def _client(stack: ExitStack, address: str) -> Any:
    from distributed import Client

    try:
        client = stack.enter_context(Client(address, timeout=_ANSWERS_WITHIN_S))
        client.wait_for_workers(1, timeout=_ANSWERS_WITHIN_S)
    except (OSError, ValueError, TimeoutError) as error:
        raise AccessError(
            f"no scheduler with a worker answers: {str(error).splitlines()[0]}",
            where=address,
            advice="dask scheduler, dask worker ADDRESS; or --cluster local",
        ) from None
    mine = version()
    try:
        others = client.run(version)
    except ImportError as error:
        raise AccessError(
            f"a worker cannot do it: {error}", where=address, advice=f"install iodyno {mine} there"
        ) from None
    for worker, its in others.items():
        if its != mine:
            raise StoreError(
                f"the worker {worker} has iodyno {its}, this is {mine}",
                where=address,
                advice="install the same on both",
            )
    return client


def _address(client: Any) -> str:
    return str(client.scheduler.address) if client.scheduler else "--cluster"


def version() -> str:
    """Return the version of iodyno in this process."""
    from importlib import metadata

    try:
        return metadata.version("iodyno")
    except metadata.PackageNotFoundError:
        return "of sources"
