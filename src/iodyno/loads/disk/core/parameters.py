"""Parameters of a load on a disk: its target, its pattern, its calls, its rate. Any of them can be a factor."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping

from iodyno.core import distribution, quantity
from iodyno.core.invalid import invalid
from iodyno.core.mount import checked_options
from iodyno.core.parameter import Level, Parameter
from iodyno.core.volume import CREATE_FILES, FILE_SYSTEMS, MOUNT_OPTIONS, VOLUMES
from iodyno.loads.disk.core import replay

NULL_TARGET = "null"
"""A target without a system call: what the loop itself costs."""
DEVICES = "/dev/"
_IN_MEMORY = "/dev/shm/"  # a file system that stands among the devices
HOST_MARK = "{host}"
"""Placeholder in a target for the name of the host, so that each client has a file of its own."""
MILLISECOND_NS = 1_000_000
SECTOR_BYTES = 512
"""The least that a device reads or writes (chosen: that of the block layer, `SECTOR_SIZE`; many have 4096)."""
WHOLE_PPM = 10**6
_MOST_BYTES = 8 << 30  # of blocks in flight, `MAX_MEMORY_BYTES` in agent/core/src/disk.rs
_MANY_AT_A_TIME = ("io_uring", "aio")
_WITH_FLAGS = ("preadv2", "io_uring")
SYSCALLS = ("pread", "preadv2", "io_uring", "aio", "mmap")
SYNCS = ("none", "o_dsync", "o_sync", "fsync", "fdatasync")


def is_device(target: str) -> bool:
    """Tell whether a target is a raw device: a path in /dev, but for files in /dev/shm.

    >>> is_device("/dev/loop3"), is_device("/dev/shm/file"), is_device("/srv/file")
    (True, False, False)
    """
    return target.startswith(DEVICES) and not target.startswith(_IN_MEMORY)


def kind_of(target: str) -> str:
    """The agent's word for what a target is: `file`, `device` or `null`."""
    return "null" if target == NULL_TARGET else "device" if is_device(target) else "file"


def target_of(target: str, host: str) -> str:
    """The path of the target on one host; of several, as they are written."""
    return target.replace(HOST_MARK, host)


def paths_of(target: str, host: str = "") -> list[str]:
    """The paths of a target on one host: one, or several with a comma and a space between them.

    >>> paths_of("/srv/{host}-a, /srv/{host}-b", "client")
    ['/srv/client-a', '/srv/client-b']
    """
    return [path for part in target_of(target, host).split(", ") if (path := part.strip())]


def checked_target(written: str) -> str:
    """A path as it is. Raises ValueError with what is allowed."""
    path = written.strip()
    each = [part.strip() for part in path.split(", ")]
    if not all(each) or any(p.endswith("/") for p in each) or not path.isprintable() or len(path) > 4000:
        raise ValueError(invalid(written, f"the path of a file or of a device, or {NULL_TARGET}"))
    kinds = {kind_of(part) for part in each}
    if len(kinds) > 1 or len(set(each)) < len(each) or (len(each) > 1 and NULL_TARGET in each):
        raise ValueError(invalid(written, "files only, or devices only, each once"))
    return ", ".join(each)


def checked_folder(written: str) -> str:
    """A folder in which servers find what they serve. Raises ValueError with what is allowed.

    It stands in their configurations, which have no word for every character.
    """
    path = written.strip()
    if not path or not path.isprintable() or len(path) > 4000 or set(path) & set("\"'\\{}#"):
        raise ValueError(invalid(written, "the path of a folder, without quotes, braces, \\\\ and #"))
    return path


def checked_theta(written: str) -> str:
    """A skew as text. Raises ValueError with what is allowed."""
    if not re.fullmatch(r"\d(\.\d{1,6})?", written.strip()) or not 0 < float(written) < 5:
        raise ValueError(invalid(written, "a number above 0 and below 5, such as 0.9"))
    return written.strip()


def checked_pattern(written: str) -> str:
    """`zones(...)` or `normal(...)` in its usual form. Raises ValueError with what is allowed."""
    if normal := re.fullmatch(r"normal\(\s*(\S+)\s*\)", written.strip()):
        share = Parameter("", "share", "", low=0, high=10**6)
        return f"normal({share.show(share.parse(normal[1]))})"
    if not written.strip().startswith("zones"):
        raise ValueError(
            invalid(written, "the words of a pattern, normal(50%), or zones(20%: 80%, 80%: 20%)")
        )
    return distribution.checked_zones(written)


def checked_content(written: str) -> str:
    """`compressible(50%)` in its usual form. Raises ValueError with what is allowed."""
    match = re.fullmatch(r"compressible\(\s*(\S+)\s*\)", written.strip())
    if match is None:
        raise ValueError(invalid(written, "random, zero, compressible(50%)"))
    share = Parameter("", "share", "", low=0, high=10**6)
    return f"compressible({share.show(share.parse(match[1]))})"


PARAMETERS = (
    Parameter(
        "target",
        "path",
        "A file (made where it is not there), a device in /dev, or null, which makes no system call; several, after comma and"
        " space, are used in turn. {host}: the host's name.",
        form=checked_target,
    ),
    Parameter(
        "volume",
        "word",
        "What iodyno makes as the target, on its own machine, and removes (`iodyno paths`).",
        words=tuple(VOLUMES),
    ),
    Parameter(
        "volume_folder", "path", "Where the files of volumes are made.", default="/var/tmp", form=checked_folder
    ),
    Parameter("working_set", "size", "Working set: bytes of the target that are used.", low=512, high=2**50),
    Parameter("offset", "size", "Where in the target the working set begins.", low=0, high=2**50, default=0),
    Parameter(
        "cached",
        "word",
        "Whether the working set is in the page cache when the load begins, made so and proved; any: as it is; each_pass:"
        " dropped then, and whenever the pattern begins anew.",
        words=("any", "yes", "no", "each_pass"),
        default="any",
    ),
    Parameter(
        "precondition",
        "count",
        "How often the working set is written over in order before the first trial (SNIA PTS).",
        low=0,
        high=100,
        default=0,
    ),
    Parameter(
        "advised",
        "switch",
        "Tell the kernel whether places are in order or random (posix_fadvise).",
        default=False,
    ),
    Parameter(
        "server_cached",
        "word",
        "Whether the bytes are in the page cache of the volume's server, made so and proved; any: as it is.",
        words=("any", "yes", "no"),
        default="any",
    ),
    Parameter(
        "work",
        "word",
        "What an operation is: a block, or on a volume a file of one block that is made, written, closed and removed"
        " (create_files).",
        words=("blocks", CREATE_FILES),
        default="blocks",
    ),
    Parameter(
        "file_system",
        "word",
        "Each host's file system on the volume.",
        words=tuple(FILE_SYSTEMS),
        default="ext4",
    ),
    Parameter(
        "mount_options",
        "word",
        "Its options (mount(8)).",
        default=MOUNT_OPTIONS,
        form=checked_options,
    ),
    Parameter("read", "share", "Share of the operations that read.", low=0, high=10**6, default=10**6),
    Parameter(
        "pattern",
        "word",
        "Which block comes next; shuffled: every block once, in a random order, then in another; normal(50%): a bell curve;"
        " zones(5%: 50%, 95%: 50%): shares of the space, then of the operations.",
        words=("sequential", "random", "shuffled", "strided", "zipf", "hot_spot", "self_similar", "append"),
        default="random",
        form=checked_pattern,
        like="zones(5%: 50%, 95%: 50%)",
    ),
    Parameter(
        "random",
        "share",
        "Share of the operations at a random place, of a pattern sequential or strided.",
        low=0,
        high=10**6,
    ),
    Parameter("in_order", "count", "Operations in order from each drawn place on.", high=10**9, default=1),
    Parameter(
        "sequence",
        "word",
        "How workers share a target in order: a part each (split), one cursor (shared), or all of it each (each).",
        words=("split", "shared", "each"),
        default="split",
    ),
    Parameter("stride", "size", "Distance of two blocks of the strided pattern.", low=512, high=2**40),
    Parameter("theta", "word", "Skew of the zipf pattern.", form=checked_theta),
    Parameter("hot_space", "share", "Share of the working set that is hot (hot_spot, self_similar).", low=1,
              high=10**6, default=200_000),
    Parameter("hot_operations", "share", "Share of the operations that go there.", low=0, high=10**6,
              default=800_000),
    Parameter(
        "block",
        "size",
        "Bytes of one operation; or drawn: uniform(4KiB, 64KiB), mix(4KiB: 7, 64KiB: 1), trace(file).",
        high=2**30,
        default=4096,
        form=distribution.checked_sizes,
    ),
    Parameter("align", "size", "Offsets are multiples of it; left out: of the block.", high=2**30),
    Parameter("workers", "count", "Threads of each host.", high=4096, default=1),
    Parameter("queue_depth", "count", "Operations in flight of each worker at a time (io_uring, aio).", high=32_768, default=1),
    Parameter(
        "syscalls",
        "word",
        "Which calls read and write.",
        words=SYSCALLS,
        default="pread",
    ),
    Parameter("direct", "switch", "Bypass the page cache (O_DIRECT).", default=False),
    Parameter("sync", "word", "How writes are made durable.", words=SYNCS, default="none"),
    Parameter("sync_every", "count", "Writes from one fsync or fdatasync to the next.", high=10**9, default=1),
    Parameter("hipri", "switch", "Each call polls for completion (RWF_HIPRI; preadv2, io_uring)."),
    Parameter("nowait", "switch", "No call waits (RWF_NOWAIT; preadv2, io_uring)."),
    Parameter("registered", "switch", "io_uring with registered files and buffers.", default=True),
    Parameter("sqpoll", "switch", "io_uring with a thread of the kernel that polls for submissions."),
    Parameter("iopoll", "switch", "io_uring polls for completion."),
    Parameter("batch", "count", "Completions that a worker waits for at a time (io_uring, aio).", high=32_768, default=1),
    Parameter(
        "content",
        "word",
        "What is written: random, zero, or compressible(50%), of which that share can be saved.",
        words=("random", "zero"),
        default="random",
        form=checked_content,
        like="compressible(50%)",
    ),
    Parameter(
        "verify",
        "word",
        "Checks in every block: written (write), or read and checked (read).",
        words=("off", "write", "read"),
        default="off",
    ),
    Parameter("rate", "rate", "Operations per second that begin on each host.", high=10**9),
    Parameter(
        "arrivals",
        "word",
        "When operations begin: when the last one is complete (closed), or by a law at `rate`; trace(file): a time between"
        " arrivals a line.",
        words=("closed", "constant", "poisson", "bursty"),
        form=distribution.checked_arrivals,
        like="trace(file)",
    ),
    Parameter("burst_on", "duration", "Time with arrivals of bursty ones.", high=10**12, default=10_000_000),
    Parameter("burst_off", "duration", "Time without arrivals of bursty ones.", high=10**12, default=90_000_000),
    Parameter("burst", "count", "Operations that begin together at an arrival.", high=10**6, default=1),
    Parameter("operations", "count", "Operations of each host after which its load ends.", high=2**50),
    Parameter("think", "duration", "Pause of a worker of a closed loop, with none in flight.",
              low=0, high=10**12, default=0),
    Parameter("think_every", "count", "Operations of a worker from one pause to the next.", high=10**9, default=1),
    *replay.PARAMETERS,
    Parameter(
        "device_limit",
        "rate",
        "Reads, and writes, per second to which the device is throttled for the load (a control group).",
        high=10**9,
    ),
    Parameter(
        "device_delay",
        "duration",
        "Time that a volume's server takes longer for each read and write, in whole milliseconds (nbd).",
        low=0,
        high=10_000_000_000,
    ),
    Parameter("quota", "count", "CPU time of the agent of each host, in percent of one CPU.", high=100_000),
    Parameter("clients", "count", "Hosts that take part, from the first on; left out: all.", high=1000),
    Parameter(
        "on_client_loss",
        "word",
        "Whether a trial that loses a client fails or goes on.",
        words=("fail", "go_on"),
        default="fail",
    ),
)  # fmt: skip
"""Every parameter of the workload `disk`."""

OF_ANOTHER: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "stride": ("pattern", ("strided",)),
    "theta": ("pattern", ("zipf",)),
    "random": ("pattern", ("sequential", "strided")),
    "hot_space": ("pattern", ("hot_spot", "self_similar")),
    "hot_operations": ("pattern", ("hot_spot", "self_similar")),
    "sync_every": ("sync", ("fsync", "fdatasync")),
    "file_system": ("work", (CREATE_FILES,)),
    "mount_options": ("work", (CREATE_FILES,)),
}
"""Parameters that count only at some levels of another one: which, and at which levels."""


def mistakes_of(settings: Mapping[str, object], varied: Container[str] = ()) -> list[tuple[str, str]]:
    """List single settings that contradict each other, as far as they are known, as (key, sentence).

    What belongs to some levels of a parameter that is `varied` stands beside its others too.

    >>> mistakes_of({"pattern": "random", "theta": "0.9"})
    [('theta', 'can only be used with pattern zipf, not with random')]
    >>> mistakes_of({"theta": "0.9"}, varied={"pattern"})
    []
    """
    found = []
    defaults = {p.name: p.default for p in PARAMETERS}
    for name, (other, levels) in OF_ANOTHER.items():
        # At its default nobody asked for it.
        if other in varied or settings.get(name, defaults[name]) == defaults[name]:
            continue
        level = settings.get(other, defaults[other])
        if level not in levels:
            text = f"can only be used with {other} {' or '.join(levels)}, not with {level}"
            found.append((name, text))
    if "rate" in settings and settings.get("arrivals") == "closed" and "arrivals" not in varied:
        text = "invalid value: closed with a rate, where nothing comes at one; expected a law, or no rate"
        found.append(("arrivals", text))
    if settings.get("think") and "rate" in settings:
        found.append(("think", "cannot be used with rate, which says when operations begin"))
    if settings.get("precondition") and settings.get("verify", "off") != "off":
        found.append(("precondition", "cannot be used with verify, whose blocks carry checks that stay"))
    delay = settings.get("device_delay")
    if isinstance(delay, int) and delay % MILLISECOND_NS:
        found.append(
            ("device_delay", f"invalid value: {delay / MILLISECOND_NS:g} ms; expected whole milliseconds")
        )
    if settings.get("direct") is True and settings.get("syscalls") == "mmap":
        found.append(
            ("direct", "invalid value: on with syscalls mmap, which is the page cache; expected off")
        )
    if settings.get("direct") is True and settings.get("cached") == "yes":
        found.append(
            ("cached", "invalid value: yes with direct: on, which bypasses the page cache; expected any, no")
        )
    return found


CONCERNED = (
    "target", "working_set", "offset", "cached", "read", "pattern", "random", "in_order", "sequence", "stride", "theta",
    "hot_space", "hot_operations", "block", "align", "workers", "queue_depth", "syscalls", "direct", "hipri", "nowait", "iopoll",
    "batch", "sync", "sync_every", "verify", "rate", "arrivals", "think", "replay",
)  # fmt: skip
"""The parameters that `mistakes_of` and `mistakes_of_point` look at."""

Mistakes = list[tuple[tuple[str, ...], str]]
"""Mistakes, each as the parameters that are to blame, the first one first, and a sentence."""


def mistakes_of_point(settings: Mapping[str, Level]) -> Mistakes:
    """List contradictions among all settings of one host at one point, beside those of `mistakes_of`. A setting that is not
    among them is at its default: nothing more is known than the agent will be told.

    >>> mistakes_of_point({"queue_depth": 8, "syscalls": "pread"})[0][0]
    ('queue_depth', 'syscalls')
    >>> mistakes_of_point({"queue_depth": 8, "syscalls": "aio", "working_set": 65536})
    []
    """
    point = {p.name: p.default for p in PARAMETERS if p.default is not None} | dict(settings)
    return [*_of_calls(point), *_of_blocks(point), *_of_pattern(point)]


def _of_calls(point: Mapping[str, Level]) -> Mistakes:
    """List mistakes in how and when operations are called for."""
    found: Mistakes = []
    syscalls, depth, batch = str(point["syscalls"]), int(point["queue_depth"]), int(point["batch"])
    if depth > 1 and syscalls not in _MANY_AT_A_TIME:
        found.append(
            (
                ("queue_depth", "syscalls"),
                f"invalid value: {depth} with syscalls {syscalls}, which has one operation in flight "
                f"a worker; expected 1, or syscalls {' or '.join(_MANY_AT_A_TIME)}",
            )
        )
    if batch > depth:
        found.append(
            (("batch", "queue_depth"), f"invalid value: {batch} with queue_depth {depth}; expected 1 to that")
        )
    for flag in ("nowait", "hipri"):
        if point.get(flag) is True and syscalls not in _WITH_FLAGS:
            found.append(
                (
                    (flag, "syscalls"),
                    f"invalid value: on with syscalls {syscalls}, which has no such flag; expected "
                    f"syscalls {' or '.join(_WITH_FLAGS)}, or off",
                )
            )
    if point.get("iopoll") is True and syscalls == "io_uring" and point["direct"] is not True:
        found.append(
            (("iopoll", "direct"), "invalid value: on through the page cache; expected direct: on with it")
        )
    if point["sync"] != "none" and point.get("target") == NULL_TARGET:
        text = (
            f"invalid value: {point['sync']} on {NULL_TARGET}, where nothing is to be made "
            "durable; expected none"
        )
        found.append((("sync", "target"), text))
    law = str(point.get("arrivals", "closed"))
    if law in ("constant", "poisson", "bursty") and "rate" not in point:
        found.append(
            (
                ("arrivals",),
                f"{law} needs rate, in operations per second",
            )
        )
    return found


def _of_blocks(point: Mapping[str, Level]) -> Mistakes:
    """List mistakes in the lengths of blocks and in the room for them."""
    block = point["block"]
    greatest = distribution.parse_sizes(block).greatest if isinstance(block, str) else int(block)
    if greatest is None or "replay" in point:
        return []  # the file of the trace says it
    shown = quantity.show("size", greatest)
    drawn = isinstance(block, str)
    unit = int(point.get("align", min(SECTOR_BYTES, greatest) if drawn else greatest))
    if drawn and "align" not in point and greatest % unit:
        # Nobody named the unit: the block is what can be mended.
        text = (
            f"invalid value: lengths of up to {shown}, which are drawn at multiples of "
            f"{quantity.show('size', unit)} where no `align` says otherwise; expected a greatest "
            "length that is such a multiple, or an `align` that it is a multiple of"
        )
        return [(("block",), text)]
    if unit > greatest or greatest % unit:
        return [
            (("align", "block"), invalid(quantity.show('size', unit), f"what the block, {shown}, is a multiple of"))
        ]  # fmt: skip
    found: Mistakes = []
    workers = int(point["workers"])
    if workers * int(point["queue_depth"]) * greatest > _MOST_BYTES:
        found.append(
            (
                ("workers", "queue_depth", "block"),
                f"invalid value: {workers} x queue_depth {point['queue_depth']} x block {shown}, "
                f"which are in flight at a time; expected {quantity.show('size', _MOST_BYTES)} in all",
            )
        )
    on_null = point.get("target") == NULL_TARGET
    if point["direct"] is True and not on_null:
        offset = int(point["offset"])
        lengths = (
            ("block", greatest),
            ("align", greatest if drawn and "align" not in point else unit),
            ("offset", offset),
        )
        for name, length in lengths:
            if length % SECTOR_BYTES and (name == "block" or name in point):
                found.append(
                    (
                        (name, "direct"),
                        f"invalid value: {quantity.show('size', length)} with direct: on; expected multiples "
                        f"of {SECTOR_BYTES} bytes",
                    )
                )
    if point["verify"] != "off" and unit < SECTOR_BYTES:
        found.append(
            (
                ("align", "block", "verify"),
                f"invalid value: {quantity.show('size', unit)} with verify; expected {SECTOR_BYTES} "
                "bytes or more, of which each carries its check",
            )
        )
    if isinstance(size := point.get("working_set"), int):
        found += _without_room(point, size, unit, greatest)
    return found


def _without_room(point: Mapping[str, Level], size: int, unit: int, greatest: int) -> Mistakes:
    """A working set of `size` bytes that is shorter than a block, or whose parts are."""
    units, needed, workers = size // unit, -(-greatest // unit), int(point["workers"])
    shown = quantity.show("size", greatest)
    if units < needed:
        text = (
            f"invalid value: a block of {shown} in a working set of "
            f"{quantity.show('size', size)}, which has no room for it"
        )
        return [(("block", "working_set"), f"{text}; expected a shorter block, or a longer working set")]
    if (
        point["pattern"] in ("sequential", "strided", "shuffled")
        and point["sequence"] == "split"
        and units // workers < needed
    ):
        text = (
            f"invalid value {workers}: each has a part of {quantity.show('size', size)} in order, "
            "and no room for a block"
        )
        return [
            (("workers", "working_set"), f"{text} of {shown}; expected fewer, or sequence: each or shared")
        ]
    return []


def _of_pattern(point: Mapping[str, Level]) -> Mistakes:
    """Which block comes next."""
    pattern = str(point["pattern"])
    found: Mistakes = []
    if pattern == "append":
        wrong = {
            "with reads": int(point["read"]) > 0,
            "by several workers": int(point["workers"]) != 1,
            "to several files": ", " in str(point.get("target", "")),
            "with syscalls mmap": point["syscalls"] == "mmap",
        }
        found += [(("pattern",), f"append cannot be used {what}") for what, so in wrong.items() if so]
    for name, of in (("stride", "strided"), ("theta", "zipf")):
        if pattern == of and name not in point:
            like = "its skew, such as 0.9" if name == "theta" else "the distance of two blocks, such as 64KiB"
            found.append((("pattern",), f"{pattern} needs {name}, {like}"))
    block, stride = point["block"], point.get("stride")
    if pattern == "strided" and isinstance(block, int) and isinstance(stride, int) and stride < block:
        found.append(
            (
                ("stride", "block"),
                invalid(
                    quantity.show("size", stride),
                    f"{quantity.show('size', block)} or more, as long as a block is",
                ),
            )
        )
    if pattern == "strided" and isinstance(block, int) and isinstance(stride, int):
        unit = int(point.get("align", block))
        if stride % unit:
            text = (
                f"invalid value {quantity.show('size', stride)!r}: it is no multiple of "
                f"{quantity.show('size', unit)}; expected such a multiple, or an `align` that block "
                "and stride are multiples of"
            )
            found.append((("stride", "align", "block"), text))
    size = point.get("working_set")
    if pattern == "strided" and isinstance(block, int) and isinstance(stride, int) and isinstance(size, int):
        part = size // int(point["workers"]) if point["sequence"] == "split" else size
        if stride >= block and stride + block > part:
            its_part = f"a worker has {quantity.show('size', part)}: only one block of them"
            text = f"invalid value {quantity.show('size', stride)!r}: {its_part}"
            found.append(
                (
                    ("stride", "working_set"),
                    f"{text}; expected {quantity.show('size', part - block)} at most, or a longer working set",
                )
            )
    drawn = pattern not in ("sequential", "strided", "append")
    if int(point["in_order"]) > 1 and not drawn:
        found.append(
            (
                ("in_order", "pattern"),
                f"invalid value: {point['in_order']} with pattern {pattern}; expected 1, or a drawn one",
            )
        )
    if pattern == "hot_spot" and point["hot_space"] == WHOLE_PPM:
        found.append(
            (("hot_space",), "invalid value: 100%, a hot spot that is all of the working set; expected less")
        )
    for name in ("hot_space", "hot_operations"):
        share = int(point[name])
        if pattern == "self_similar" and not 0 < share < WHOLE_PPM:
            found.append(
                ((name,), invalid(quantity.show("share", share), "more than none and less than all"))
            )
    return found
