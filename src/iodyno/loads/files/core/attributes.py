"""Vocabulary of personalities: statements, flowops and the attributes of everything that has some.

The grammar is that of Filebench 1.5-alpha3 (its manual, "Workload Model Language"), with the words of version 1.4 beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NO_EFFECT = "without effect"
STATEMENTS: Mapping[str, str] = {
    "set": "a variable; `set mode quit` says how the run ends",
    "define": "a file, a fileset, a process, a composite flowop or a random variable",
    "create": "`create processes` begins a run that `sleep` ends; files are made before each run",
    "run": "the run, and for how many seconds; of several the last one counts",
    "psrun": "as `run`; its period is without effect, as every interval has its record",
    "eventgen": "`rate`: the events per second that limits wait for",
    "enable": "`multi`: `count` of the host, one trial on all; `lathist`: without effect",
    "domultisync": "all hosts start at one instant",
    "echo": NO_EFFECT,
    "system": "never carried out: [tunables](tunables.md) set up hosts",
    "sleep": "after `create processes` the measured time; else not carried out, as windows are exact",
    "load": "reads another file",
    **dict.fromkeys(
        (
            *("list", "debug", "version", "quit", "usage", "stats", "shutdown"),
            *("vars", "warmup", "log", "help", "abort"),
        ),
        NO_EFFECT,
    ),
}
"""Every statement and what becomes of it; the last ones are of version 1.4. `foreach` is refused."""

AttributeKind = Literal["size", "count", "switch", "name", "path", "index", "seconds"]


@dataclass(frozen=True)
class FlowopKind:
    """A flowop: what class of work it is, and what it cannot do without."""

    work: Literal["data", "namespace", "think", "synchronisation", "rate", "end"]
    help: str
    needs: tuple[str, ...] = ()
    may_be_random: tuple[str, ...] = ("iosize", "value", "indexed", "workingset", "iters")


FLOWOPS: Mapping[str, FlowopKind] = {
    "read": FlowopKind("data", "one read of iosize at the next, or a random, place", ("iosize",)),
    "write": FlowopKind("data", "one write of iosize at the next, or a random, place", ("iosize",)),
    "appendfile": FlowopKind("data", "one write of iosize at the end", ("iosize",)),
    "appendfilerand": FlowopKind("data", "one write of 1 to iosize bytes at the end", ("iosize",)),
    "readwholefile": FlowopKind("data", "reads of iosize from the begin to the end"),
    "writewholefile": FlowopKind("data", "writes of iosize, as many bytes as the file of srcfd has"),
    "aiowrite": FlowopKind("data", "a write that is not waited for", ("iosize",)),
    "aiowait": FlowopKind("data", "waits for half of the writes in flight"),
    "openfile": FlowopKind("namespace", "opens a file that is there"),
    "createfile": FlowopKind("namespace", "makes and opens a file that is not there"),
    "closefile": FlowopKind("namespace", "closes fd"),
    "deletefile": FlowopKind("namespace", "removes a file"),
    "renamefile": FlowopKind("namespace", "gives a file the name of one that is not there"),
    "statfile": FlowopKind("namespace", "asks for the attributes of a file"),
    "makedir": FlowopKind("namespace", "makes a leaf directory"),
    "removedir": FlowopKind("namespace", "removes a leaf directory"),
    "listdir": FlowopKind("namespace", "reads a directory"),
    "fsync": FlowopKind("namespace", "writes one file back"),
    "fsyncset": FlowopKind("namespace", "writes back all open files of a set"),
    "hog": FlowopKind("think", "computes: value rounds"),
    "delay": FlowopKind("think", "pauses for value seconds", ("value",)),
    "block": FlowopKind("synchronisation", "waits until it is woken up"),
    "wakeup": FlowopKind("synchronisation", "wakes up the target", ("target",)),
    "semblock": FlowopKind("synchronisation", "takes value from its semaphore, or waits"),
    "sempost": FlowopKind("synchronisation", "adds value to the target's semaphore", ("target",)),
    "eventlimit": FlowopKind("rate", "takes one event, or waits for one"),
    "opslimit": FlowopKind("rate", "takes an event for each operation since the last time"),
    "iopslimit": FlowopKind("rate", "takes an event for each read and write since the last time"),
    "bwlimit": FlowopKind("rate", "takes an event for each megabyte since the last time"),
    "finishoncount": FlowopKind("end", "ends its process after value operations", ("value",)),
    "finishonbytes": FlowopKind("end", "ends its process after value bytes", ("value",)),
}
"""Every flowop of Filebench 1.5-alpha3, and renamefile, which it has not."""

READS = ("read", "readwholefile")
WRITES = ("write", "appendfile", "appendfilerand", "writewholefile", "aiowrite")
"""Flowops that read, and that write."""

OLDER_FLOWOPS: Mapping[str, str] = {"limit": "eventlimit", "semwait": "semblock", "flush": "fsyncset"}
"""Names that flowops had before."""

FLOWOP: Mapping[str, AttributeKind] = {
    "name": "name",
    "filename": "name",
    "fd": "count",
    "srcfd": "count",
    "opennext": "switch",
    "indexed": "index",
    "iosize": "size",
    "iters": "count",
    "workingset": "size",
    "random": "switch",
    "directio": "switch",
    "dsync": "switch",
    "noreadahead": "switch",
    "target": "name",
    "value": "count",
    "highwater": "count",
    "blocking": "switch",
}

FILE: Mapping[str, AttributeKind] = {
    "name": "name",
    "path": "path",
    "size": "size",
    "prealloc": "count",
    "paralloc": "switch",
    "reuse": "switch",
    "trusttree": "switch",
    "readonly": "switch",
    "writeonly": "switch",
    "cached": "switch",
}

FILESET: Mapping[str, AttributeKind] = {
    **FILE,
    "entries": "count",
    "dirwidth": "count",
    "dirdepthrv": "index",
    "dirgamma": "count",
    "leafdirs": "count",
    "filesizegamma": "count",
}

PROCESS: Mapping[str, AttributeKind] = {"name": "name", "instances": "count", "nice": "count"}

THREAD: Mapping[str, AttributeKind] = {
    "name": "name",
    "instances": "count",
    "memsize": "size",
    "useism": "switch",
    "ioprio": "count",
}

COMPOSITE: Mapping[str, AttributeKind] = {"name": "name", "iters": "count"}

RANDVAR: Mapping[str, AttributeKind] = {
    "name": "name",
    "type": "name",
    "seed": "count",
    "min": "size",
    "max": "size",
    "mean": "size",
    "gamma": "count",
    "round": "size",
    "randsrc": "name",
}

CUSTOM: Mapping[str, AttributeKind] = {
    "type": "name",
    "parameters": "name",
    "min": "size",
    "max": "size",
    "round": "size",
    "seed": "count",
}

EVENTGEN: Mapping[str, AttributeKind] = {"rate": "count"}
MULTI: Mapping[str, AttributeKind] = {"master": "name", "client": "name"}

OTHER_NAMES: Mapping[str, str] = {
    "filesetname": "filename",
    "filesize": "size",
    "wss": "workingset",
    "randseed": "seed",
    "randmean": "mean",
    "randgamma": "gamma",
    "randround": "round",
    "randmin": "min",
    "srcfdnum": "srcfd",
    "fdnum": "fd",
    "rotatefd": "opennext",
    "syncdata": "dsync",
    "preallocate": "prealloc",
    "preallocated": "prealloc",
    "dirdepth": "dirdepthrv",
}
"""Second names of attributes, some from older versions."""

CUSTOM_KINDS: Mapping[str, tuple[str, ...]] = {
    "uniform": ("lower", "upper"),
    "normal": ("mean", "sigma"),
    "lognormal": ("shape", "scale"),
    "exponential": ("mean",),
    "gamma": ("mean", "gamma"),
    "erlang": ("shape", "rate"),
    "weibull": ("shape", "scale"),
    "triangular": ("lower", "upper", "mode"),
}
"""Laws of `cvar(type=cvar-...)`, with their parameters."""

RANDVAR_KINDS = ("uniform", "gamma", "tabular")
"""Laws of `randvar(type=...)`."""

QUIT_MODES = ("timeout", "alldone", "firstdone")
